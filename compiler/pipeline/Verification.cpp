// Drawn inputs, evaluations and their comparison; see Verification.h.
#include "compiler/pipeline/Verification.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"

#include "mlir/IR/Verifier.h"

#include <cmath>
#include <random>

using namespace mlir;

namespace tensmith::pipeline {
namespace {

using graph::RuntimeValue;
using Kind = RuntimeValue::Kind;

/// One try at inputs: the size of each symbol, and the integers to draw from.
struct Draw {
  int64_t size, integers;
};
constexpr Draw kDraws[] = {{3, 4}, {4, 2}, {2, 2}, {8, 1}, {1, 1}};

std::optional<Shape> shapeOf(RankedTensorType type, int64_t size) {
  SmallVector<AffineExpr> sizes(graph::symbolNames(type).size(),
                                getAffineConstantExpr(size, type.getContext()));
  graph::ShapeContext shapes(type.getContext());
  Shape shape;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    AffineExpr expression = graph::dimExpression(type, unsigned(dim));
    auto known =
        expression ? dyn_cast<AffineConstantExpr>(shapes.simplify(expression.replaceSymbols(sizes)))
                   : AffineConstantExpr();
    shape.push_back(known ? known.getValue() : size);
  }
  return elementCount(shape, int64_t(1) << 28) ? std::optional(shape) : std::nullopt;
}

HostTensor drawTensor(DataType type, const Shape &shape, int64_t integers,
                      std::mt19937_64 &random) {
  HostTensor tensor(type, shape);
  for (int64_t i = 0; type != DataType::String && i < tensor.size(); ++i)
    if (isFloat(type))
      tensor.setDouble(i, double(random() >> 11) * 0x1p-52 - 1);
    else
      tensor.setInt(i, int64_t(random() % uint64_t(type == DataType::Bool ? 2 : integers)));
  return tensor;
}

Result<std::vector<RuntimeValue>> drawInputs(func::FuncOp function, Draw draw) {
  std::mt19937_64 random(1);
  std::vector<RuntimeValue> inputs;
  for (Type type : function.getArgumentTypes()) {
    if (isa<graph::OptionalType, NoneType>(type)) {
      inputs.emplace_back();
      continue;
    }
    auto ranked = dyn_cast<RankedTensorType>(type);
    auto shape = ranked ? shapeOf(ranked, draw.size) : std::nullopt;
    if (!shape)
      return unsupported("input " + std::to_string(inputs.size()) +
                         " is of no type and size that can be made up");
    inputs.emplace_back(
        drawTensor(graph::dataType(ranked.getElementType()), *shape, draw.integers, random));
  }
  return inputs;
}

/// What a correct pass may round differently, of the largest element.
double toleranceOf(DataType type) {
  switch (type) {
  case DataType::F64:
    return 1e-9;
  case DataType::F32:
    return 1e-3;
  default:
    return 0.05;
  }
}

double largestOf(const HostTensor &tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (double x = std::abs(tensor.getDouble(i)); std::isfinite(x))
      largest = std::max(largest, x);
  return largest;
}

bool agree(double a, double b, double allowed) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= allowed;
}

std::string differenceOf(const HostTensor &now, const HostTensor &before) {
  if (now.type() != before.type() || now.shape() != before.shape())
    return "is " + toString(now.shape()) + " of " + std::string(name(now.type())) +
           " where it was " + toString(before.shape()) + " of " + std::string(name(before.type()));
  double allowed = isFloat(now.type()) ? toleranceOf(now.type()) * (largestOf(before) + 1e-3) : 0;
  for (int64_t i = 0; i < now.size(); ++i) {
    bool same = now.type() == DataType::String ? now.getString(i) == before.getString(i)
                : isFloat(now.type()) ? agree(now.getDouble(i), before.getDouble(i), allowed)
                                      : now.getInt(i) == before.getInt(i);
    if (!same && now.type() == DataType::String)
      return "has another string as element " + std::to_string(i);
    if (!same)
      return "has " + std::to_string(now.getDouble(i)) + " as element " + std::to_string(i) +
             " of " + toString(now.shape()) + " where it had " +
             std::to_string(before.getDouble(i));
  }
  return {};
}

std::string differenceOf(const RuntimeValue &now, const RuntimeValue &before) {
  if (now.kind != before.kind)
    return "is another kind of value";
  if (now.kind == Kind::Tensor)
    return differenceOf(now.tensor, before.tensor);
  if (now.kind == Kind::None)
    return {};
  if (now.elements->size() != before.elements->size())
    return "is a sequence of another length";
  for (size_t i = 0; i < now.elements->size(); ++i)
    if (auto difference = differenceOf((*now.elements)[i], (*before.elements)[i]);
        !difference.empty())
      return "in its element " + std::to_string(i) + " " + difference;
  return {};
}

std::string resultName(func::FuncOp function, unsigned index) {
  auto name = function.getResultAttrOfType<StringAttr>(index, "graph.name");
  return name ? "output '" + name.getValue().str() + "'" : "result " + std::to_string(index);
}

} // namespace

Status PassVerification::begin(func::FuncOp function) {
  Status last;
  for (Draw draw : kDraws) {
    auto inputs = drawInputs(function, draw);
    if (!inputs.ok())
      return inputs.status();
    auto results = graph::evaluate(function, *inputs);
    last = results.status();
    if (!results.ok())
      continue;
    inputs_ = std::move(*inputs);
    expected_ = std::move(*results);
    return {};
  }
  return unsupported("the passes can't be verified: the reference evaluator takes no inputs that "
                     "were made up for the model: " +
                     last.message());
}

Status PassVerification::check(func::FuncOp function, const std::string &pass) const {
  std::string rule = "rewrite '" + pass + "' ";
  if (failed(verify(function)))
    return {StatusCode::Internal, rule + "left a graph that is not valid"};
  auto results = graph::evaluate(function, inputs_);
  if (!results.ok())
    return {StatusCode::Internal,
            rule + "left a graph that can't be evaluated: " + results.status().message()};
  for (auto [i, now, before] : llvm::enumerate(*results, expected_))
    if (auto difference = differenceOf(now, before); !difference.empty())
      return {StatusCode::Internal,
              rule + "changed " + resultName(function, unsigned(i)) + ": it " + difference};
  return {};
}

} // namespace tensmith::pipeline
