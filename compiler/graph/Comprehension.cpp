// Tensor comprehensions: shape function, cost, and the way to single statements.
#include "compiler/graph/ComprehensionSizes.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphCode.h"
#include "compiler/graph/UpperBounds.h"
#include "reference/comprehension/Schedules.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/ComprehensionOps.cpp.inc"

namespace tensmith::graph {

using comprehension::Expr;
using comprehension::Function;
using comprehension::Requirement;
using comprehension::Statement;
using comprehension::Tensor;

std::optional<unsigned> ComprehensionView::operandOf(size_t tensor) const {
  auto found = llvm::find(operands, tensor);
  if (found == operands.end())
    return std::nullopt;
  return unsigned(found - operands.begin());
}

const Statement *ComprehensionView::single() const {
  if (statement)
    return &function->statements[*statement];
  return function->statements.size() == 1 ? &function->statements[0] : nullptr;
}

ComprehensionView viewOf(ComprehensionOp op) {
  ComprehensionView view;
  auto function = comprehension::functionOf(op.getText().str(), op.getFunction().str());
  if (!function.ok()) {
    view.refusal = function.status().message();
    return view;
  }
  int64_t number = op.getStatement();
  if (number >= int64_t((*function)->statements.size())) {
    view.refusal = "the comprehension has no statement " + std::to_string(number);
    return view;
  }
  if (number >= 0)
    view.statement = size_t(number);
  auto named = (*function)->result(op.getOutput().str());
  if (!op.getOutput().empty() && !named) {
    view.refusal = "the comprehension has no result '" + op.getOutput().str() + "'";
    return view;
  }
  view.result = view.statement ? (*function)->statements[*view.statement].target
                               : named.value_or((*function)->results[0]);
  view.operands = comprehension::operandsOf(**function, view.statement);
  view.function = *function;
  return view;
}

// ---- schedules

/// Where the op's function is defined; a place of no statement.
static tensmith::Place definitionOf(const comprehension::Module &module, StringRef name) {
  for (const comprehension::Definition &each : module.definitions)
    if (name.empty() || each.name == name)
      return each.place;
  return {};
}

OwnSchedule scheduleOf(ComprehensionOp op) {
  if (!op.getText().contains("# schedule:"))
    return {};
  ComprehensionView view = viewOf(op);
  if (!view)
    return {};
  std::vector<Message> messages;
  std::vector<Comment> comments;
  comprehension::Module module = comprehension::parse(op.getText().str(), messages, &comments);
  tensmith::Place definition = definitionOf(module, op.getFunction());
  OwnSchedule result;
  for (const auto &each : comprehension::schedulesOf(module, comments, messages)) {
    bool isOwn = each.isWhole ? !view.statement && each.isOf(definition)
                              : view.single() && each.isOf(view.single()->place);
    if (!isOwn)
      continue;
    result.isWhole = each.isWhole;
    result.text += each.text + "\n";
  }
  return result;
}

// ---- sizes

AffineExpr ComprehensionSizes::of(const Expr &expr) {
  switch (expr.kind) {
  case Expr::Kind::Integer:
    return shapes_.constant(expr.integer);
  case Expr::Kind::Size: {
    const comprehension::SizeVariable &size = view_.function->sizes[size_t(expr.integer)];
    auto operand = view_.operandOf(size.tensor);
    auto type = operand ? dyn_cast<RankedTensorType>(op_->getOperand(*operand).getType()) : nullptr;
    return type ? shapes_.dims(type)[size.dim] : AffineExpr();
  }
  case Expr::Kind::Read: {
    auto operand = view_.operandOf(size_t(expr.integer));
    auto known =
        operand && expr.parts.empty() ? shapes_.constants(op_->getOperand(*operand)) : std::nullopt;
    return known ? shapes_.constant(known->front()) : AffineExpr();
  }
  case Expr::Kind::Cast:
    return isInteger(expr.type) ? of(*expr.parts[0]) : AffineExpr();
  case Expr::Kind::Unary: {
    AffineExpr inner = of(*expr.parts[0]);
    return inner ? -inner : inner;
  }
  case Expr::Kind::Binary:
    return binary(expr);
  default:
    return {};
  }
}

AffineExpr ComprehensionSizes::binary(const Expr &expr) {
  AffineExpr a = of(*expr.parts[0]), b = of(*expr.parts[1]);
  if (!a || !b)
    return {};
  StringRef sign = expr.text;
  if (sign == "+")
    return a + b;
  if (sign == "-")
    return a - b;
  if (sign == "*")
    return a * b;
  auto divisor = constantOf(shapes_.simplify(b));
  if (sign == "/" || sign == "%")
    return !divisor || *divisor <= 0 ? AffineExpr() : sign == "/" ? a.floorDiv(b) : a % b;
  bool isLeast = sign == "min";
  if (!isLeast && sign != "max")
    return {};
  a = shapes_.simplify(a);
  b = shapes_.simplify(b);
  SizeFacts facts;
  if (facts.decide(Condition::Relation::AtMost, a, b) == true)
    return isLeast ? a : b;
  if (facts.decide(Condition::Relation::AtMost, b, a) == true)
    return isLeast ? b : a;
  return {};
}

std::optional<Condition> ComprehensionSizes::conditionOf(const Requirement &requirement) {
  Condition condition;
  condition.relation =
      requirement.isEqual ? Condition::Relation::Equal : Condition::Relation::AtMost;
  condition.a = of(*requirement.a);
  condition.b = of(*requirement.b);
  if (!condition.a || !condition.b)
    return std::nullopt;
  condition.message = "(C2) " + requirement.message;
  Dims extents;
  for (const comprehension::ExprRef &extent : requirement.extents) {
    extents.push_back(of(*extent));
    if (!extents.back())
      return std::nullopt;
  }
  if (!extents.empty())
    condition.unlessZero = shapes_.product(extents);
  return condition;
}

// ---- the shape function

namespace {
LogicalResult requireOperand(Inference &infer, unsigned operand, const Tensor &tensor,
                             ComprehensionSizes &sizes) {
  Type element = elementType(infer.op->getContext(), tensor.type);
  if (infer.element(operand) != element)
    return infer.error() << "(C1) input '" << tensor.name << "' is of " << infer.element(operand)
                         << ", not of " << element;
  if (!isa<RankedTensorType>(infer.op->getOperand(operand).getType()))
    return success();
  int64_t rank = int64_t(tensor.extents.size());
  if (failed(infer.requireRank(operand, rank, rank, tensor.name)))
    return failure();
  Dims dims = infer.dims(operand);
  for (auto [dim, extent] : llvm::enumerate(tensor.extents)) {
    AffineExpr wanted = sizes.of(*extent);
    if (wanted && failed(infer.requireEqual(dims[dim], wanted, "(C1)",
                                            "sizes of '" + tensor.name + "' along dimension " +
                                                std::to_string(dim) + " and of " + print(*extent))))
      return failure();
  }
  return success();
}
} // namespace

LogicalResult ComprehensionOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  ComprehensionView view = viewOf(*this);
  if (!view)
    return infer.error() << view.refusal;
  const Function &function = *view.function;
  if (view.operands.size() != getNumOperands())
    return infer.error() << "(C1) '" << function.name << "' takes " << view.operands.size()
                         << " inputs, not " << getNumOperands();
  ComprehensionSizes sizes(view, *this, shapes);
  for (auto [operand, tensor] : llvm::enumerate(view.operands))
    if (failed(requireOperand(infer, unsigned(operand), function.tensors[tensor], sizes)))
      return failure();
  const Tensor &result = function.tensors[view.result];
  Type element = elementType(getContext(), result.type);
  if (infer.unranked())
    return infer.giveUnranked(element);
  for (const Requirement &requirement : function.requirements)
    if (sizes.concerns(requirement))
      if (auto condition = sizes.conditionOf(requirement);
          condition && failed(infer.require(*condition)))
        return failure();
  Dims dims;
  for (const comprehension::ExprRef &extent : result.extents) {
    AffineExpr size = sizes.of(*extent);
    dims.push_back(size ? size : infer.fresh(result.name));
  }
  return infer.give(element, dims);
}

AffineExpr operationsOfComprehension(ComprehensionOp op, ShapeContext &shapes) {
  AffineExpr sum = shapes.constant(0);
  ComprehensionView view = viewOf(op);
  if (!view)
    return sum;
  ComprehensionSizes sizes(view, op, shapes);
  for (const Statement &statement : view.function->statements) {
    if (view.statement && &statement != view.single())
      continue;
    int64_t operations = statement.assignment == comprehension::Assignment::Set ? 0 : 1;
    visit(*statement.value, [&](const Expr &part) {
      operations += part.kind == Expr::Kind::Binary || part.kind == Expr::Kind::Function;
    });
    AffineExpr points = shapes.constant(std::max<int64_t>(operations, 1));
    for (const comprehension::Index &index : statement.indices) {
      AffineExpr low = sizes.of(*index.low), high = sizes.of(*index.high);
      points = low && high ? points * (high - low) : points;
    }
    sum = sum + points;
  }
  return shapes.simplify(sum);
}

// ---- one statement after the other

LogicalResult ComprehensionOp::decompose(GraphBuilder &builder, SmallVectorImpl<Value> &results) {
  ComprehensionView view = viewOf(*this);
  if (!view || view.single())
    return failure();
  const Function &function = *view.function;
  // Statements that the result needs, from the last to the first.
  SmallVector<bool> isNeeded(function.tensors.size(), false),
      runs(function.statements.size(), false);
  isNeeded[view.result] = true;
  for (size_t i = function.statements.size(); i-- > 0;) {
    const Statement &statement = function.statements[i];
    if (!isNeeded[statement.target])
      continue;
    runs[i] = true;
    isNeeded[statement.target] = false;
    for (size_t operand : comprehension::operandsOf(function, i))
      isNeeded[operand] = true;
  }
  SmallVector<Value> tensors(function.tensors.size());
  llvm::copy(getInputs(), tensors.begin());
  for (auto [number, statement] : llvm::enumerate(function.statements)) {
    if (!runs[number])
      continue;
    SmallVector<Value> operands;
    for (size_t operand : comprehension::operandsOf(function, number))
      operands.push_back(tensors[operand]);
    auto made = builder.create<ComprehensionOp>(
        operands,
        {builder.named("text", getTextAttr()), builder.named("function", getFunctionAttr()),
         builder.named("statement", builder.builder.getI64IntegerAttr(int64_t(number)))});
    if (!made)
      return failure();
    tensors[statement.target] = made.getResult();
  }
  return finish(tensors[view.result], results);
}

} // namespace tensmith::graph
