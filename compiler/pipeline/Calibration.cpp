// Moments are two more outputs for each layer of a copy of the graph; see Calibration.h.
#include "compiler/pipeline/Calibration.h"

#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/Outputs.h"
#include "compiler/vm/Signature.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::pipeline {
namespace {

using graph::RuntimeValue;

bool isConstant(Value value) {
  while (isa_and_nonnull<graph::TransposeOp, graph::DequantizeOp, graph::QuantizeOp>(
      value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return isa_and_nonnull<graph::ConstantOp>(value.getDefiningOp());
}

/// What may be rounded otherwise: products with weights that are done once in a run. Those in loops
/// and branches are tried on N(0, 1).
SmallVector<Operation *> layersOf(func::FuncOp function) {
  SmallVector<Operation *> layers;
  for (Operation &op : function.getBody().front()) {
    if (!isa<graph::ConvOp, graph::MatMulOp>(op) || !isConstant(op.getOperand(1)))
      continue;
    auto x = dyn_cast<RankedTensorType>(op.getOperand(0).getType());
    if (x && x.getElementType().isF32() && x.getRank() >= 2)
      layers.push_back(&op);
  }
  return layers;
}

int64_t channelOf(Operation *layer) {
  auto conv = dyn_cast<graph::ConvOp>(layer);
  int64_t rank = cast<RankedTensorType>(layer->getOperand(0).getType()).getRank();
  return conv && !graph::isChannelsLast(conv) ? 1 : rank - 1;
}

/// Of each channel the sum, the sum of squares, and how many were added.
void addSums(Operation *layer, std::vector<graph::NamedValue> &outputs) {
  OpBuilder builder(layer);
  graph::ShapeContext shapes(layer->getContext());
  graph::GraphBuilder graph(builder, shapes, layer->getLoc());
  Value narrow = layer->getOperand(0), x = graph.cast(narrow, builder.getF64Type());
  SmallVector<int64_t> axes;
  int64_t rank = cast<RankedTensorType>(narrow.getType()).getRank();
  for (int64_t axis = 0; axis < rank; ++axis)
    if (axis != channelOf(layer))
      axes.push_back(axis);
  Value ones = graph.cast(graph.binary("equal", x, x), builder.getF64Type());
  for (Value each : {x, graph.binary("mul", x, x), ones})
    outputs.push_back({"moments." + std::to_string(outputs.size()),
                       graph.reduce("reduce_sum", each, axes, /*keepdims=*/false)});
}

rewrite::InputMoments momentsOf(ArrayRef<RuntimeValue> sums) {
  rewrite::InputMoments moments;
  for (int64_t channel = 0; channel < sums[0].tensor.size(); ++channel) {
    double count = sums[2].tensor.getDouble(channel);
    double mean = sums[0].tensor.getDouble(channel) / count;
    double square = sums[1].tensor.getDouble(channel) / count;
    if (!std::isfinite(mean) || !std::isfinite(square))
      return {};
    moments.means.push_back(mean);
    moments.deviations.push_back(std::sqrt(std::max(square - mean * mean, 0.0)));
  }
  return moments;
}

HostTensor converted(const HostTensor &tensor, DataType type) {
  HostTensor result(type, tensor.shape());
  for (int64_t i = 0; result.valid() && i < tensor.size(); ++i)
    result.setDouble(i, tensor.getDouble(i));
  return result;
}

/// Whether there is an element that the others' errors are held against.
bool hasScale(const HostTensor &right) {
  for (int64_t i = 0; i < right.size(); ++i)
    if (double value = right.getDouble(i); std::isfinite(value) && value != 0)
      return true;
  return false;
}

double errorOf(const HostTensor &found, const HostTensor &right) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (found.shape() != right.shape())
    return kInfinity;
  double error = 0, largest = 0;
  for (int64_t i = 0; i < right.size(); ++i) {
    double is = found.getDouble(i), should = right.getDouble(i);
    bool same = is == should || (std::isnan(is) && std::isnan(should));
    double difference = same ? 0 : std::abs(is - should);
    error = std::max(error, std::isnan(difference) ? kInfinity : difference);
    if (std::isfinite(should))
      largest = std::max(largest, std::abs(should));
  }
  return error == 0 || error == kInfinity ? error : error / largest;
}

} // namespace

bool hasCodes(ModuleOp module) {
  auto found = module.walk([](Operation *op) {
    return isa<graph::DequantizeOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found.wasInterrupted();
}

Status Calibration::mark(func::FuncOp function,
                         const std::function<Result<std::string>(ModuleOp)> &compile) {
  if (!evaluated_)
    if (Status status = evaluate(function, compile); !status.ok())
      return status;
  evaluated_ = true;
  SmallVector<Operation *> layers = layersOf(function);
  if (layers.size() != moments_.size())
    return {StatusCode::Internal, "the graph is another one than that which was evaluated"};
  for (auto [layer, moments] : llvm::zip_equal(layers, moments_))
    if (moments.channels() > 0)
      rewrite::setInputMoments(layer, moments);
  return {};
}

void Calibration::unmark(ModuleOp module) {
  module.walk([](Operation *op) { rewrite::dropInputMoments(op); });
}

Status Calibration::evaluate(func::FuncOp function,
                             const std::function<Result<std::string>(ModuleOp)> &compile) {
  auto values = calibrationValues(function, inputs_);
  if (!values.ok())
    return values.status();
  values_ = std::move(*values);
  for (const vm::SignaturePort &port : vm::outputsOf(function))
    outputs_.push_back(port.name);
  inDoubles_ = true;
  Status status = evaluate(function, /*inDoubles=*/true, compile);
  if (status.code() != StatusCode::Unsupported && status.code() != StatusCode::Internal)
    return status;
  inDoubles_ = false;
  return evaluate(function, /*inDoubles=*/false, compile);
}

Status Calibration::evaluate(func::FuncOp function, bool inDoubles,
                             const std::function<Result<std::string>(ModuleOp)> &compile) {
  OwningOpRef<ModuleOp> copy = function->getParentOfType<ModuleOp>().clone();
  auto main = copy->lookupSymbol<func::FuncOp>(function.getName());
  SmallVector<Operation *> layers = layersOf(main);
  if (inDoubles && !widenFloats(*copy))
    return unsupported("the graph has no form in doubles");
  std::vector<graph::NamedValue> sums;
  for (Operation *layer : layers)
    addSums(layer, sums);
  graph::addOutputs(main, sums);
  auto bytes = compile(*copy);
  if (!bytes.ok())
    return bytes.status();
  std::vector<RuntimeValue> values;
  for (const RuntimeValue &value : values_) {
    bool widens = inDoubles && value.kind == RuntimeValue::Kind::Tensor &&
                  value.tensor.type() == DataType::F32;
    values.push_back(widens ? RuntimeValue(converted(value.tensor, DataType::F64)) : value);
  }
  auto results = run_(*bytes, values);
  if (!results.ok())
    return results.status();
  ArrayRef<RuntimeValue> all(*results);
  for (auto ofLayer = all.drop_front(outputs_.size()); !ofLayer.empty();
       ofLayer = ofLayer.drop_front(3))
    moments_.push_back(momentsOf(ofLayer.take_front(3)));
  results->resize(outputs_.size());
  expected_ = std::move(*results);
  return {};
}

Result<std::vector<Calibration::Found>> Calibration::check(const std::string &bytes) const {
  auto results = run_(bytes, values_);
  if (!results.ok())
    return results.status();
  std::vector<Found> found;
  for (auto [output, is, should] : llvm::zip_equal(outputs_, *results, expected_))
    if (is.kind == RuntimeValue::Kind::Tensor && should.kind == is.kind &&
        isFloat(is.tensor.type()))
      found.push_back({output, errorOf(is.tensor, should.tensor), hasScale(should.tensor)});
  return found;
}

} // namespace tensmith::pipeline
