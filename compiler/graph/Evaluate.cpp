// Walks a function and evaluates each operator by its reference; see Evaluate.h.
#include "compiler/graph/Evaluate.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "reference/Reference.h"

#include "mlir/Analysis/Liveness.h"

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

class Evaluator {
public:
  explicit Evaluator(const Observer &observer) : observer_(observer) {}

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
    if (isa<NoneOp>(op)) {
      results.emplace_back();
      return {};
    }
    if (auto branch = dyn_cast<IfOp>(op))
      return runIf(branch, results);
    if (auto loop = dyn_cast<LoopOp>(op))
      return runLoop(loop, results);
    if (auto kernel = dyn_cast<KernelOp>(op))
      return runBlock(kernel.getBody().front(), operands(op), results);
    if (runStructural(op, results))
      return structuralStatus_;
    return runTensorOperator(op, results);
  }

  std::vector<RuntimeValue> operands(Operation *op) {
    std::vector<RuntimeValue> result;
    for (Value operand : op->getOperands())
      result.push_back(values_[operand]);
    return result;
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
    auto computed = reference::evaluate({op->getName().stripDialect(), parameters, tensors, types});
    if (!computed.ok())
      return computed.status();
    for (HostTensor &tensor : *computed)
      results.emplace_back(std::move(tensor));
    results.resize(op->getNumResults());
    return {};
  }

  Status runIf(IfOp op, std::vector<RuntimeValue> &results) {
    const HostTensor &condition = values_[op.getCondition()].tensor;
    if (condition.size() != 1)
      return invalidArgument("the condition has " + std::to_string(condition.size()) +
                             " elements, not 1");
    Region &region = condition.getInt(0) ? op.getThenRegion() : op.getElseRegion();
    return runBlock(region.front(), {}, results);
  }

  Status runLoop(LoopOp op, std::vector<RuntimeValue> &results) {
    const RuntimeValue trips = values_[op.getTripCount()], start = values_[op.getCondition()];
    auto given = [](const RuntimeValue &v) {
      return v.kind == RuntimeValue::Kind::Tensor && v.tensor.size() == 1;
    };
    int64_t limit = given(trips) ? trips.tensor.getInt(0) : std::numeric_limits<int64_t>::max();
    bool go = !given(start) || start.tensor.getInt(0) != 0;
    std::vector<RuntimeValue> carried;
    for (Value value : op.getCarried())
      carried.push_back(values_[value]);
    size_t scanned = op->getNumResults() - carried.size();
    std::vector<std::vector<HostTensor>> rows(scanned);
    for (int64_t trip = 0; go && trip < limit; ++trip) {
      std::vector<RuntimeValue> arguments{scalar(DataType::I64, trip), scalar(DataType::Bool, 1)},
          next;
      arguments.insert(arguments.end(), carried.begin(), carried.end());
      if (Status status = runBlock(op.getBody().front(), std::move(arguments), next); !status.ok())
        return status;
      go = next[0].kind != RuntimeValue::Kind::Tensor || next[0].tensor.getInt(0) != 0;
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

  /// Sequences and optionals. False where the operator is none of them; the status is in
  /// structuralStatus_.
  bool runStructural(Operation *op, std::vector<RuntimeValue> &results) {
    structuralStatus_ = {};
    std::vector<RuntimeValue> in = operands(op);
    using Kind = RuntimeValue::Kind;
    auto elements = [&](size_t i) {
      return in[i].elements ? *in[i].elements : std::vector<RuntimeValue>();
    };
    auto position = [&](const RuntimeValue &at, int64_t count, int64_t otherwise) {
      int64_t index =
          at.kind == Kind::Tensor && at.tensor.size() == 1 ? at.tensor.getInt(0) : otherwise;
      return index < 0 ? index + count : index;
    };
    auto outOfRange = [&](int64_t at, size_t count) {
      structuralStatus_ = invalidArgument("position " + std::to_string(at) +
                                          " is not in a sequence of " + std::to_string(count));
      return true;
    };
    if (isa<SequenceConstructOp>(op)) {
      results.push_back(RuntimeValue::sequence(in));
    } else if (isa<SequenceAtOp>(op)) {
      auto all = elements(0);
      int64_t at = position(in[1], all.size(), 0);
      if (at < 0 || at >= int64_t(all.size()))
        return outOfRange(at, all.size());
      results.push_back(all[at]);
    } else if (isa<SequenceInsertOp>(op)) {
      auto all = elements(0);
      int64_t at = position(in[2], all.size(), all.size());
      if (at < 0 || at > int64_t(all.size()))
        return outOfRange(at, all.size());
      all.insert(all.begin() + at, in[1]);
      results.push_back(RuntimeValue::sequence(std::move(all)));
    } else if (isa<SequenceEraseOp>(op)) {
      auto all = elements(0);
      int64_t at = position(in[1], all.size(), -1);
      if (at < 0 || at >= int64_t(all.size()))
        return outOfRange(at, all.size());
      all.erase(all.begin() + at);
      results.push_back(RuntimeValue::sequence(std::move(all)));
    } else if (isa<SequenceLengthOp>(op)) {
      results.push_back(scalar(DataType::I64, int64_t(elements(0).size())));
    } else if (auto split = dyn_cast<SplitToSequenceOp>(op)) {
      structuralStatus_ = splitToSequence(split, in, results);
    } else if (auto join = dyn_cast<ConcatFromSequenceOp>(op)) {
      structuralStatus_ = concatFromSequence(join, elements(0), results);
    } else if (isa<OptionalOp>(op)) {
      results.push_back(in[0]);
    } else if (isa<OptionalHasElementOp>(op)) {
      results.push_back(scalar(DataType::Bool, in[0].kind != Kind::None));
    } else if (isa<OptionalGetElementOp>(op)) {
      if (in[0].kind == Kind::None)
        structuralStatus_ = invalidArgument("the optional is empty");
      results.push_back(in[0]);
    } else {
      return false;
    }
    return true;
  }

  Status splitToSequence(SplitToSequenceOp op, std::vector<RuntimeValue> &in,
                         std::vector<RuntimeValue> &results) {
    const HostTensor &x = in[0].tensor;
    int64_t axis =
        int64_t(op.getAxis()) < 0 ? int64_t(op.getAxis()) + x.rank() : int64_t(op.getAxis());
    if (axis < 0 || axis >= x.rank())
      return invalidArgument("axis " + std::to_string(axis) + " is not a dimension of the operand");
    int64_t size = x.shape()[axis];
    bool given = in[1].kind == RuntimeValue::Kind::Tensor;
    std::vector<int64_t> sizes;
    if (given && in[1].tensor.rank() > 0) {
      for (int64_t i = 0; i < in[1].tensor.size(); ++i)
        sizes.push_back(in[1].tensor.getInt(i));
    } else {
      int64_t chunk = given ? in[1].tensor.getInt(0) : 1;
      if (chunk <= 0)
        return invalidArgument("splits into pieces of " + std::to_string(chunk));
      for (int64_t at = 0; at < size; at += chunk)
        sizes.push_back(std::min(chunk, size - at));
    }
    std::vector<RuntimeValue> pieces;
    int64_t start = 0;
    for (int64_t piece : sizes) {
      if (piece < 0 || start + piece > size)
        return invalidArgument("the pieces do not add up to the dimension's size of " +
                               std::to_string(size));
      Attributes parameters;
      std::vector<int64_t> starts(x.rank(), 0), steps(x.rank(), 1);
      starts[axis] = start;
      parameters.set("starts", starts);
      parameters.set("steps", steps);
      reference::ResultType type{x.type(), x.shape()};
      (*type.shape)[axis] = piece;
      auto part = reference::evaluate({"slice", parameters, {&x, 1}, {&type, 1}});
      if (!part.ok())
        return part.status();
      HostTensor tensor = (*part)[0];
      if (!given && !op.getKeepdims()) {
        Shape shape = tensor.shape();
        shape.erase(shape.begin() + axis);
        tensor = tensor.reshaped(shape);
      }
      pieces.emplace_back(std::move(tensor));
      start += piece;
    }
    results.push_back(RuntimeValue::sequence(std::move(pieces)));
    return {};
  }

  Status concatFromSequence(ConcatFromSequenceOp op, std::vector<RuntimeValue> elements,
                            std::vector<RuntimeValue> &results) {
    if (elements.empty())
      return invalidArgument("joins an empty sequence");
    std::vector<HostTensor> tensors;
    int64_t axis = op.getAxis();
    if (axis < 0)
      axis += elements[0].tensor.rank() + (op.getNewAxis() ? 1 : 0);
    for (RuntimeValue &element : elements) {
      HostTensor tensor = element.tensor;
      if (op.getNewAxis() && axis >= 0 && axis <= tensor.rank()) {
        Shape shape = tensor.shape();
        shape.insert(shape.begin() + axis, 1);
        tensor = tensor.reshaped(shape);
      }
      tensors.push_back(std::move(tensor));
    }
    auto joined = concat(tensors, axis);
    if (!joined.ok())
      return joined.status();
    results.emplace_back(std::move(*joined));
    return {};
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
  llvm::DenseMap<Value, RuntimeValue> values_;
  llvm::DenseMap<StringAttr, int64_t> symbols_;
  Status structuralStatus_;
};

} // namespace

RuntimeValue RuntimeValue::sequence(std::vector<RuntimeValue> elements) {
  RuntimeValue value;
  value.kind = Kind::Sequence;
  value.elements = std::make_shared<const std::vector<RuntimeValue>>(std::move(elements));
  return value;
}

Result<std::vector<HostTensor>> evaluate(Operation *op, std::span<const HostTensor> operands) {
  std::vector<reference::ResultType> types = resultTypes(op);
  Attributes parameters = attributes(op);
  return reference::evaluate({op->getName().stripDialect(), parameters, operands, types});
}

Result<std::vector<RuntimeValue>>
evaluate(func::FuncOp function, std::vector<RuntimeValue> arguments, const Observer &observer) {
  Block &block = function.getBody().front();
  if (arguments.size() != block.getNumArguments())
    return invalidArgument("the function takes " + std::to_string(block.getNumArguments()) +
                           " inputs, not " + std::to_string(arguments.size()));
  std::vector<RuntimeValue> results;
  Status status = Evaluator(observer).runBlock(block, std::move(arguments), results);
  if (!status.ok())
    return status;
  return results;
}

std::string describe(Location location) {
  std::string names;
  location->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part)) {
      names = "node '" + name.getName().str() + "'";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  if (!names.empty())
    return names;
  std::string text;
  llvm::raw_string_ostream stream(text);
  location.print(stream);
  return text;
}

} // namespace tensmith::graph
