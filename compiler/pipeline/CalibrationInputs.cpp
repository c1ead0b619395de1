// Values of inputs, from those that are given or drawn; see Calibration.h.
#include "base/Philox.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Calibration.h"
#include "compiler/vm/Signature.h"

#include <algorithm>

using namespace mlir;

namespace tensmith::pipeline {
namespace {

using graph::RuntimeValue;

constexpr uint64_t kSeed = 1961;

std::string typeText(DataType type, const std::vector<std::string> &dims) {
  std::string text = std::string(name(type)) + " ";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? "x" : "") + dims[i];
  return text + (dims.empty() ? "scalar" : "");
}

std::string typeText(const HostTensor &tensor) {
  return std::string(name(tensor.type())) + " " + toString(tensor.shape());
}

/// What an integer is for: how many numbers there are from 0 on that it may be; 0 where nobody
/// knows.
class Range {
public:
  int64_t of(Value integers) {
    follow(integers);
    if (!known_)
      return 0;
    return least_ != kAny ? least_ : isCondition_ ? kConditions : 0;
  }

private:
  static constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kConditions = 2;

  void limit(int64_t count) {
    known_ &= count > 0; // a table of unknown size
    least_ = std::min(least_, count);
  }

  void follow(Value value) {
    if (!seen_.insert(value).second)
      return;
    for (OpOperand &use : value.getUses())
      follow(use);
  }

  void follow(OpOperand &use) {
    Operation *user = use.getOwner();
    bool isIndex = use.getOperandNumber() == 1;
    if (auto gather = dyn_cast<graph::GatherOp>(user); gather && isIndex)
      return limit(
          cast<ShapedType>(gather.getX().getType()).getDimSize(unsigned(gather.getAxis())));
    if (isa<func::ReturnOp>(user))
      return;
    if (user->getNumResults() != 1 || user->getNumRegions() > 0) {
      known_ = false;
      return;
    }
    Type result = getElementTypeOrSelf(user->getResult(0).getType());
    if (isa<FloatType>(result) || result.isInteger(1)) {
      isCondition_ = true;
      return;
    }
    // Numbers that are moved, or chosen among, are the same ones after it.
    if (isa<graph::CastOp, graph::ReshapeOp, graph::TransposeOp, graph::BroadcastOp, graph::SliceOp,
            graph::ConcatOp, graph::WhereOp>(user))
      return follow(user->getResult(0));
    if (isa<graph::AddOp>(user)) // what makes negative places positive, behind a condition
      return;
    known_ = false;
  }

  bool known_ = true, isCondition_ = false;
  int64_t least_ = kAny;
  llvm::DenseSet<Value> seen_;
};

Result<RuntimeValue> draw(Value input, const vm::SignaturePort &port, uint64_t seed) {
  std::string what = "input '" + port.name + "'", hint = "; give values of all inputs, as a file";
  if (port.kind == plan::ValueKind::None || port.kind == plan::ValueKind::Optional)
    return RuntimeValue();
  if (port.kind != plan::ValueKind::Tensor || !port.ranked)
    return invalidArgument(what + " is of no type that can be drawn" + hint);
  what += " (" + typeText(port.type, port.dims) + ")";
  auto type = cast<RankedTensorType>(input.getType());
  if (!type.hasStaticShape())
    return invalidArgument(what + " has open sizes, and can't be drawn; fix them by a shape" +
                           hint.replace(0, 6, ", or give"));
  HostTensor tensor(port.type, Shape(type.getShape()));
  if (!tensor.valid())
    return Status(StatusCode::ResourceExhausted, what + " needs more memory than there is");
  if (isFloat(port.type)) {
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.setDouble(i, normalAt(seed, uint64_t(i)));
    return RuntimeValue(std::move(tensor));
  }
  int64_t count = port.type == DataType::Bool ? 2 : isInteger(port.type) ? Range().of(input) : 0;
  if (count == 0)
    return invalidArgument(what + " can't be drawn, since nothing tells what it may be" + hint);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setInt(i, int64_t(uniformAt(seed, uint64_t(i)) * double(count)));
  return RuntimeValue(std::move(tensor));
}

Result<RuntimeValue> given(Value input, const vm::SignaturePort &port,
                           const CalibrationInputs &inputs) {
  std::string what = "input '" + port.name + "' (" + typeText(port.type, port.dims) + ")";
  auto found = inputs.given.find(port.name);
  if (found == inputs.given.end()) {
    std::string names;
    for (const auto &[name, tensor] : inputs.given)
      names += (names.empty() ? "'" : ", '") + name + "'";
    return invalidArgument("lacks " + what + "; it has " + names).within(inputs.name);
  }
  const HostTensor &tensor = found->second;
  auto type = dyn_cast<RankedTensorType>(input.getType());
  bool fits =
      port.kind == plan::ValueKind::Tensor &&
      (port.type == DataType::Undefined || tensor.type() == port.type) &&
      (!type || (type.getRank() == tensor.rank() &&
                 llvm::all_of(llvm::zip_equal(type.getShape(), tensor.shape()), [](auto pair) {
                   auto [wanted, size] = pair;
                   return ShapedType::isDynamic(wanted) || wanted == size;
                 })));
  if (!fits)
    return invalidArgument("has " + typeText(tensor) + " for " + what).within(inputs.name);
  return RuntimeValue(tensor);
}

} // namespace

Result<std::vector<RuntimeValue>> calibrationValues(func::FuncOp function,
                                                    const CalibrationInputs &inputs) {
  std::vector<RuntimeValue> values;
  for (auto [number, port] : llvm::enumerate(vm::inputsOf(function))) {
    Value input = function.getArgument(unsigned(number));
    auto value =
        inputs.given.empty() ? draw(input, port, kSeed + number) : given(input, port, inputs);
    if (!value.ok())
      return inputs.given.empty() ? value.status().within(inputs.name) : value.status();
    values.push_back(std::move(*value));
  }
  return values;
}

} // namespace tensmith::pipeline
