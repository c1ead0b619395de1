// Walks a function and evaluates each operator by its reference; see Evaluate.h.
#include "compiler/graph/Evaluate.h"

#include "base/SizeText.h"
#include "compiler/graph/Checks.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "reference/Sequences.h"
#include "reference/Transforms.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

/// What the types say of the results; symbolic shapes say nothing here.
std::vector<reference::ResultType> resultTypes(Operation *op) {
  std::vector<reference::ResultType> types;
  for (Type type : op->getResultTypes()) {
    reference::ResultType result{dataType(getElementTypeOrSelf(type)), std::nullopt};
    if (auto ranked = dyn_cast<RankedTensorType>(type); ranked && ranked.hasStaticShape())
      result.shape = Shape(ranked.getShape());
    types.push_back(std::move(result));
  }
  return types;
}

struct ValueAccess {
  using Value = RuntimeValue;
  using Kind = RuntimeValue::Kind;

  static reference::ValueKind kind(const RuntimeValue &value) {
    return value.kind == Kind::None     ? reference::ValueKind::None
           : value.kind == Kind::Tensor ? reference::ValueKind::Tensor
           : value.kind == Kind::Map    ? reference::ValueKind::Map
                                        : reference::ValueKind::Sequence;
  }
  static HostTensor tensor(const RuntimeValue &value) { return value.tensor; }
  static const std::vector<RuntimeValue> &elements(const RuntimeValue &value) {
    return *value.elements;
  }
  static Result<RuntimeValue> ofTensor(HostTensor tensor) {
    return RuntimeValue(std::move(tensor));
  }
  static RuntimeValue ofElements(std::vector<RuntimeValue> elements) {
    return RuntimeValue::sequence(std::move(elements));
  }
  static RuntimeValue ofMap(RuntimeValue keys, RuntimeValue values) {
    return RuntimeValue::map(std::move(keys), std::move(values));
  }
  static RuntimeValue none() { return {}; }
};
using SequenceOperators = reference::SequenceOperators<ValueAccess>;

/// One integer or boolean.
Result<int64_t> integerOf(const RuntimeValue &value, const char *what) {
  const HostTensor &tensor = value.tensor;
  bool isInteger = value.kind == RuntimeValue::Kind::Tensor && tensor.size() == 1 &&
                   (tensmith::isInteger(tensor.type()) || tensor.type() == DataType::Bool);
  if (!isInteger)
    return invalidArgument(
        std::string("the ") + what + " must be one integer or boolean, not " +
        (value.kind == RuntimeValue::Kind::Tensor
             ? toString(tensor.shape()) + " of " + std::string(name(tensor.type()))
             : "no tensor"));
  return tensor.getInt(0);
}

/// The same of an operand that may be absent.
Result<int64_t> integerOr(int64_t otherwise, const RuntimeValue &value, const char *what) {
  return value.kind == RuntimeValue::Kind::None ? otherwise : integerOf(value, what);
}

class Evaluator {
public:
  Evaluator(const Observer &observer, uint64_t runKey) : observer_(observer), runKey_(runKey) {}

  /// Whether what a caller gives is what the function's types say; a sequence's elements are seen
  /// to by the operators that take them.
  Status checkArguments(Block &block, std::span<const RuntimeValue> arguments) {
    for (auto [argument, value] : llvm::zip_equal(block.getArguments(), arguments))
      if (Status status = checkArgument(argument.getType(), value); !status.ok())
        return status.within("input " + std::to_string(argument.getArgNumber()));
    for (auto [argument, value] : llvm::zip_equal(block.getArguments(), arguments))
      if (auto shape = evaluatedShape(argument.getType()); shape && *shape != value.tensor.shape())
        return invalidArgument("input " + std::to_string(argument.getArgNumber()) + ": has shape " +
                               toString(value.tensor.shape()) + ", where it must be " +
                               toString(*shape) + " as the other inputs are");
    return {};
  }

  Status runBlock(Block &block, std::vector<RuntimeValue> arguments,
                  std::vector<RuntimeValue> &results) {
    for (auto [argument, value] : llvm::zip_equal(block.getArguments(), arguments)) {
      if (Status status = bindSymbols(argument.getType(), value); !status.ok())
        return status;
      values_[argument] = std::move(value);
    }
    arguments.clear();
    for (Operation &op : block.without_terminator()) {
      Status status = run(&op);
      if (!status.ok())
        return status.within(describe(op.getLoc()));
      releaseAfter(&op, block);
    }
    for (Value value : block.getTerminator()->getOperands())
      results.push_back(values_[value]);
    return {};
  }

private:
  Status checkArgument(Type type, const RuntimeValue &value) {
    using Kind = RuntimeValue::Kind;
    if (isa<SequenceType>(type))
      return value.kind == Kind::Sequence ? Status() : invalidArgument("must be a sequence");
    if (auto optional = dyn_cast<OptionalType>(type))
      return value.kind == Kind::None ? Status() : checkArgument(optional.getElement(), value);
    if (auto map = dyn_cast<MapType>(type))
      return checkMap(map, value);
    auto tensor = dyn_cast<TensorType>(type);
    if (!tensor)
      return {};
    if (value.kind != Kind::Tensor)
      return invalidArgument("must be a tensor");
    DataType element = dataType(tensor.getElementType());
    if (value.tensor.type() != element)
      return invalidArgument("has element type " + std::string(name(value.tensor.type())) +
                             ", where it must be " + std::string(name(element)));
    return checkShape(type, value.tensor.shape());
  }

  Status checkMap(MapType type, const RuntimeValue &value) {
    bool fits = value.kind == RuntimeValue::Kind::Map &&
                (*value.elements)[0].tensor.type() == dataType(type.getKey()) &&
                (*value.elements)[1].tensor.type() == dataType(type.getValue());
    return fits ? Status()
                : invalidArgument("must be a map from " +
                                  std::string(name(dataType(type.getKey()))) + " to " +
                                  std::string(name(dataType(type.getValue()))));
  }

  Status checkShape(Type type, const Shape &shape) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked)
      return {};
    if (int64_t(shape.size()) != ranked.getRank())
      return invalidArgument("has shape " + toString(shape) + ", where it must have " +
                             std::to_string(ranked.getRank()) + " dimensions");
    for (int64_t dim = 0; dim < ranked.getRank(); ++dim) {
      std::optional<int64_t> expected;
      AffineExpr expression = dimExpression(ranked, dim);
      if (auto constant = dyn_cast_or_null<AffineConstantExpr>(expression))
        expected = constant.getValue();
      if (auto symbol = dyn_cast_or_null<AffineSymbolExpr>(expression))
        expected = symbols_.try_emplace(symbolNames(ranked)[symbol.getPosition()], shape[dim])
                       .first->second;
      if (expected && *expected != shape[dim])
        return invalidArgument("has " + std::to_string(shape[dim]) + " in dimension " +
                               std::to_string(dim) + ", where it must be " +
                               std::to_string(*expected));
    }
    return {};
  }

  /// Frees the operands whose last use in their own block this was. Values from outside a region
  /// stay.
  void releaseAfter(Operation *op, Block &block) {
    auto release = [&](Value operand) {
      if (operand.getParentBlock() != &block)
        return;
      for (Operation *user : operand.getUsers()) {
        Operation *here = block.findAncestorOpInBlock(*user);
        if (!here || op->isBeforeInBlock(here))
          return;
      }
      values_.erase(operand);
    };
    for (Value operand : op->getOperands())
      release(operand);
    for (Value result : op->getResults())
      if (result.use_empty())
        values_.erase(result);
  }

  Status run(Operation *op) {
    std::vector<RuntimeValue> results;
    Status status = dispatch(op, results);
    if (!status.ok())
      return status;
    for (auto [value, result] : llvm::zip_equal(op->getResults(), results)) {
      if (Status bound = bindSymbols(value.getType(), result); !bound.ok())
        return bound;
      if (observer_)
        observer_(value, result);
      values_[value] = std::move(result);
    }
    return {};
  }

  Status dispatch(Operation *op, std::vector<RuntimeValue> &results) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto tensor = hostTensor(constant.getValue());
      if (!tensor.ok())
        return tensor.status();
      results.push_back(*tensor);
      return {};
    }
    if (auto check = dyn_cast<CheckOp>(op))
      return runCheck(check);
    if (isa<KeepSizesOp>(op))
      return {};
    if (isa<NoneOp>(op)) {
      results.emplace_back();
      return {};
    }
    if (isa<RunKeyOp>(op)) {
      results.push_back(scalar(DataType::I64, int64_t(runKey_)));
      return {};
    }
    if (auto branch = dyn_cast<IfOp>(op))
      return runIf(branch, results);
    if (auto loop = dyn_cast<LoopOp>(op))
      return runLoop(loop, results);
    if (auto kernel = dyn_cast<KernelOp>(op))
      return runBlock(kernel.getBody().front(), operands(op), results);
    if (auto sequence = SequenceOperators::find(operatorName(op)))
      return runSequenceOperator(sequence, op, results);
    return runTensorOperator(op, results);
  }

  std::vector<RuntimeValue> operands(Operation *op) {
    std::vector<RuntimeValue> result;
    for (Value operand : op->getOperands())
      result.push_back(values_[operand]);
    return result;
  }

  Status runSequenceOperator(SequenceOperators::Evaluator evaluate, Operation *op,
                             std::vector<RuntimeValue> &results) {
    auto result = evaluate(operands(op), attributes(op));
    if (!result.ok())
      return result.status();
    results.push_back(std::move(*result));
    return {};
  }

  Status runTensorOperator(Operation *op, std::vector<RuntimeValue> &results) {
    std::vector<HostTensor> tensors;
    for (Value operand : op->getOperands())
      tensors.push_back(values_[operand].tensor);
    std::vector<reference::ResultType> types = resultTypes(op);
    for (auto [type, value] : llvm::zip_equal(types, op->getResults()))
      if (!type.shape)
        type.shape = evaluatedShape(value.getType());
    Attributes parameters = attributes(op);
    auto computed = reference::evaluateAll({operatorName(op), parameters, tensors, types});
    if (!computed.ok())
      return computed.status();
    for (HostTensor &tensor : *computed)
      results.emplace_back(std::move(tensor));
    results.resize(op->getNumResults());
    return {};
  }

  Status runCheck(CheckOp check) {
    ShapeContext shapes(check.getContext());
    Condition condition = conditionOf(check, shapes);
    llvm::DenseMap<AffineExpr, AffineExpr> values;
    for (StringAttr name : check.getSizes().getSymbols())
      if (auto known = symbols_.find(name); known != symbols_.end())
        values[shapes.symbol(name)] = shapes.constant(known->second);
    for (AffineExpr *size : {&condition.a, &condition.b, &condition.unlessZero})
      if (*size)
        *size = shapes.simplify(size->replace(values));
    auto a = dyn_cast<AffineConstantExpr>(condition.a),
         b = dyn_cast<AffineConstantExpr>(condition.b);
    if (!a || !b || SizeFacts().decide(condition) != false)
      return {}; // of a value that is not computed here
    return invalidArgument(formatSizes(condition.message, a.getValue(), b.getValue()));
  }

  Status runIf(IfOp op, std::vector<RuntimeValue> &results) {
    auto condition = integerOf(values_[op.getCondition()], "condition");
    if (!condition.ok())
      return condition.status();
    Region &region = *condition ? op.getThenRegion() : op.getElseRegion();
    return runBlock(region.front(), {}, results);
  }

  Status runLoop(LoopOp op, std::vector<RuntimeValue> &results) {
    auto limit = integerOr(std::numeric_limits<int64_t>::max(), values_[op.getTripCount()],
                           "loop's trip count");
    auto go = integerOr(1, values_[op.getCondition()], "loop's condition");
    if (!limit.ok() || !go.ok())
      return limit.ok() ? go.status() : limit.status();
    std::vector<RuntimeValue> carried;
    for (Value value : op.getCarried())
      carried.push_back(values_[value]);
    size_t scanned = op->getNumResults() - carried.size();
    std::vector<std::vector<HostTensor>> rows(scanned);
    for (int64_t trip = 0; *go && trip < *limit; ++trip) {
      std::vector<RuntimeValue> arguments{scalar(DataType::I64, trip), scalar(DataType::Bool, 1)},
          next;
      arguments.insert(arguments.end(), carried.begin(), carried.end());
      if (Status status = runBlock(op.getBody().front(), std::move(arguments), next); !status.ok())
        return status;
      go = integerOf(next[0], "loop's condition");
      if (!go.ok())
        return go.status();
      std::copy_n(next.begin() + 1, carried.size(), carried.begin());
      for (size_t i = 0; i < scanned; ++i)
        rows[i].push_back(next[1 + carried.size() + i].tensor);
    }
    results = std::move(carried);
    for (size_t i = 0; i < scanned; ++i) {
      auto stacked = stack(rows[i], op->getResult(results.size()).getType());
      if (!stacked.ok())
        return stacked.status();
      results.emplace_back(std::move(*stacked));
    }
    return {};
  }

  static RuntimeValue scalar(DataType type, int64_t value) {
    HostTensor tensor(type, {});
    tensor.setInt(0, value);
    return tensor;
  }

  Result<HostTensor> stack(const std::vector<HostTensor> &rows, Type type) {
    if (rows.empty()) {
      Shape shape{0};
      if (auto ranked = dyn_cast<RankedTensorType>(type))
        for (int64_t dim = 1; dim < ranked.getRank(); ++dim)
          shape.push_back(ranked.isDynamicDim(dim) ? 0 : ranked.getDimSize(dim));
      return HostTensor(dataType(getElementTypeOrSelf(type)), shape);
    }
    std::vector<HostTensor> expanded;
    for (const HostTensor &row : rows) {
      Shape shape = row.shape();
      shape.insert(shape.begin(), 1);
      expanded.push_back(row.reshaped(shape));
    }
    return concat(expanded, 0);
  }

  Result<HostTensor> concat(const std::vector<HostTensor> &tensors, int64_t axis) {
    Attributes parameters;
    parameters.set("axis", axis);
    reference::ResultType type{tensors.front().type(), std::nullopt};
    auto joined = reference::evaluate({"concat", parameters, tensors, {&type, 1}});
    if (!joined.ok())
      return joined.status();
    return std::move((*joined)[0]);
  }

  /// Takes symbols' values from the sizes that a type names, so that later types can be evaluated.
  Status bindSymbols(Type type, const RuntimeValue &value) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked || value.kind != RuntimeValue::Kind::Tensor)
      return {};
    if (value.tensor.rank() != ranked.getRank())
      return invalidArgument("a value has shape " + toString(value.tensor.shape()) +
                             " where its type has rank " + std::to_string(ranked.getRank()));
    for (int64_t dim = 0; dim < ranked.getRank(); ++dim) {
      AffineExpr expression = dimExpression(ranked, dim);
      if (auto symbol = dyn_cast_or_null<AffineSymbolExpr>(expression))
        symbols_[symbolNames(ranked)[symbol.getPosition()]] = value.tensor.shape()[dim];
    }
    return {};
  }

  std::optional<Shape> evaluatedShape(Type type) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked)
      return std::nullopt;
    SmallVector<AffineExpr> values;
    for (StringAttr name : symbolNames(ranked)) {
      auto it = symbols_.find(name);
      if (it == symbols_.end())
        return std::nullopt;
      values.push_back(getAffineConstantExpr(it->second, type.getContext()));
    }
    ShapeContext shapes(type.getContext());
    Shape shape;
    for (int64_t dim = 0; dim < ranked.getRank(); ++dim) {
      AffineExpr expression = dimExpression(ranked, dim);
      auto constant =
          expression
              ? dyn_cast<AffineConstantExpr>(shapes.simplify(expression.replaceSymbols(values)))
              : AffineConstantExpr();
      if (!constant)
        return std::nullopt;
      shape.push_back(constant.getValue());
    }
    return shape;
  }

  const Observer &observer_;
  uint64_t runKey_;
  llvm::DenseMap<Value, RuntimeValue> values_;
  llvm::DenseMap<StringAttr, int64_t> symbols_;
};

} // namespace

RuntimeValue RuntimeValue::sequence(std::vector<RuntimeValue> elements) {
  RuntimeValue value;
  value.kind = Kind::Sequence;
  value.elements = std::make_shared<const std::vector<RuntimeValue>>(std::move(elements));
  return value;
}

RuntimeValue RuntimeValue::map(RuntimeValue keys, RuntimeValue values) {
  RuntimeValue value = sequence({std::move(keys), std::move(values)});
  value.kind = Kind::Map;
  return value;
}

Result<std::vector<HostTensor>> evaluate(Operation *op, std::span<const HostTensor> operands) {
  std::vector<reference::ResultType> types = resultTypes(op);
  Attributes parameters = attributes(op);
  return reference::evaluateAll({operatorName(op), parameters, operands, types});
}

Result<std::vector<RuntimeValue>> evaluate(func::FuncOp function,
                                           std::vector<RuntimeValue> arguments,
                                           const Observer &observer, uint64_t runKey) {
  Block &block = function.getBody().front();
  if (arguments.size() != block.getNumArguments())
    return invalidArgument("the function takes " + std::to_string(block.getNumArguments()) +
                           " inputs, not " + std::to_string(arguments.size()));
  std::vector<RuntimeValue> results;
  Evaluator evaluator(observer, runKey);
  if (Status status = evaluator.checkArguments(block, arguments); !status.ok())
    return status;
  if (Status status = evaluator.runBlock(block, std::move(arguments), results); !status.ok())
    return status;
  return results;
}

static void collectNames(Location location, llvm::SetVector<StringAttr> &names) {
  if (auto name = dyn_cast<NameLoc>(location))
    names.insert(name.getName());
  else if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      collectNames(part, names);
}

llvm::SetVector<StringAttr> nodeNames(Location location) {
  llvm::SetVector<StringAttr> names;
  collectNames(location, names);
  return names;
}

std::string describe(Location location) {
  constexpr size_t kMostNames = 4;
  llvm::SetVector<StringAttr> names = nodeNames(location);
  std::string text;
  if (names.empty()) {
    llvm::raw_string_ostream stream(text);
    location.print(stream);
    return text;
  }
  size_t shown = std::min(names.size(), kMostNames);
  for (StringAttr name : names.getArrayRef().take_front(shown))
    text += (text.empty() ? "'" : ", '") + name.getValue().str() + "'";
  if (names.size() > shown)
    text += " and " + std::to_string(names.size() - shown) + " more";
  return (names.size() == 1 ? "node " : "nodes ") + text;
}

} // namespace tensmith::graph
