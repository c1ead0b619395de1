// The adjoint of a comprehension is a comprehension.
//
// From the cotangent g of the target, an operand's is a sum over its reads. A read at affine
// indices becomes a reduction: of C(i) +=! A(i + k) * B(k),
//
//     dA(a) += a - k >= 0 && a - k < C.0 ? g(a - k) * B(k) : 0
//
// where an index is solved for from each dimension of the access, with a guard that it is within
// its range (and divides, where its coefficient is not 1); what stays of the access is a guard as
// well. A gather, whose index is data, scatters: its contributions are one comprehension, their
// places another, and scatter_nd adds them up. Of a minimum or a maximum the elements count that
// are equal to the result, in equal shares; of a product each element by the product of the others.
// Several statements are differentiated one after the other, from the last on, since the operator
// is decomposed to them.
#include "compiler/graph/ComprehensionAdjoint.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

using comprehension::Assignment;
using comprehension::Function;
using comprehension::Statement;

bool isWhole(Operation *op) {
  ComprehensionView view = viewOf(cast<ComprehensionOp>(op));
  return view && !view.single();
}

LogicalResult inStatements(const GradientCode &code, Operation *op,
                           SmallVectorImpl<Value> &results) {
  return isWhole(op) ? cast<Decomposable>(op).decompose(code.graph, results) : failure();
}

Value comprehensionOf(const GradientCode &code, ArrayRef<Value> operands, const std::string &text) {
  return code.op("graph.comprehension", operands, {code.text("text", text)});
}

/// Adds what gathered elements get into zeros of the operand's shape.
Value scattered(const Pullback &pull, ArrayRef<Value> operands, unsigned operand,
                const AdjointText::Scatter &scatter) {
  const GradientCode &code = pull.code;
  Value values = comprehensionOf(code, operands, scatter.values);
  Value places = comprehensionOf(code, operands, scatter.places);
  if (!values || !places)
    return {};
  return code.op("graph.scatter_nd", {code.zerosLike(pull.operand(operand)), places, values},
                 {code.text("reduction", "add")});
}

Value pulling(const Pullback &pull, unsigned operand) {
  auto op = cast<ComprehensionOp>(pull.op);
  ComprehensionView view = viewOf(op);
  if (!view || !view.single())
    return {};
  SmallVector<Value> operands(op.getInputs());
  operands.push_back(op.getY());
  operands.push_back(pull.cotangent());
  AdjointText adjoint(view);
  AdjointText::Texts texts = adjoint.of(view.operands[operand]);
  if (!texts.refusal.empty()) {
    op->emitOpError() << texts.refusal;
    return {};
  }
  Value sum = texts.pulls.empty() ? pull.code.zerosLike(pull.operand(operand))
                                  : comprehensionOf(pull.code, operands, texts.pulls);
  for (const AdjointText::Scatter &scatter : texts.scatters)
    sum = pull.code.add(sum, scattered(pull, operands, operand, scatter));
  return sum;
}

constexpr NamedGradientRule kRules[] = {
    {"comprehension", expandedOrPulled(inStatements, pulling, Linear::No)}};

} // namespace

std::span<const NamedGradientRule> comprehensionGradients() { return kRules; }

} // namespace tensmith::graph
