// Derivatives of values of a graph that is being built, as more of it.
//
// What lies between `by` and `of` becomes a function of its own, with what it uses from outside as
// further arguments. That is differentiated (compiler/autodiff), and its body is put at the end of
// the graph, or of the region that is open. So a derivative may be by any value, also one in the
// middle, be used by what is built next, and be differentiated again. What is computed twice by
// this is one before it is compiled. Within a region what was made outside of it is constant,
// unless the derivative is by it.
#include "compiler/api/ModelBuilder.h"
#include "compiler/autodiff/Differentiate.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/States.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

#include <functional>

using namespace mlir;

namespace tensmith {
namespace {

/// What the operator and those in its regions use from outside of it. A region that is open is part
/// of no operator yet.
SmallVector<Value> usedBy(Operation &op) {
  SetVector<Value> used;
  op.walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (Operation *around = operand.getParentBlock()->getParentOp();
          !around || !op.isAncestor(around))
        used.insert(operand);
  });
  return used.takeVector();
}

/// The operators of a block that depend on `by` and that `of` depends on, in order.
SmallVector<Operation *> operatorsBetween(Block &block, ArrayRef<Value> by, ArrayRef<Value> of) {
  llvm::DenseSet<Value> reached(by.begin(), by.end()), needed(of.begin(), of.end());
  llvm::DenseSet<Operation *> depends;
  auto isIn = [](const llvm::DenseSet<Value> &set) {
    return [&set](Value value) { return set.contains(value); };
  };
  for (Operation &op : block)
    if (llvm::any_of(usedBy(op), isIn(reached))) {
      depends.insert(&op);
      reached.insert(op.result_begin(), op.result_end());
    }
  SmallVector<Operation *> between;
  for (Operation &op : llvm::reverse(block)) {
    bool isWanted = llvm::any_of(op.getResults(), [&](Value result) {
      return needed.contains(result) && !llvm::is_contained(by, result);
    });
    if (!isWanted || !depends.contains(&op))
      continue;
    between.push_back(&op);
    for (Value used : usedBy(op))
      needed.insert(used);
  }
  std::reverse(between.begin(), between.end());
  return between;
}

std::vector<std::string> numbered(const char *stem, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i)
    names.push_back(stem + std::to_string(i));
  return names;
}

/// The operator that gives a constant, or one that is laid out otherwise; else null.
Operation *constantBehind(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && isa<graph::ReshapeOp, graph::BroadcastOp, graph::CastOp>(op))
    return constantBehind(op->getOperand(0)) ? op : nullptr;
  return isa_and_nonnull<graph::ConstantOp>(op) ? op : nullptr;
}

/// A function of `by` and whatever else its operators use, which gives `of`.
struct Between {
  func::FuncOp function;
  SmallVector<Value> arguments; // what stands for them outside
};

Between functionBetween(ModuleOp module, ArrayRef<Value> by, ArrayRef<Value> of,
                        ArrayRef<Operation *> operators) {
  OpBuilder builder(module.getContext());
  Between result;
  result.function =
      func::FuncOp::create(module.getLoc(), "between", builder.getFunctionType({}, {}));
  module.push_back(result.function);
  Block *block = result.function.addEntryBlock();
  IRMapping mapping;
  std::function<void(Value)> take = [&](Value value) {
    if (mapping.contains(value))
      return;
    if (Operation *op = constantBehind(value)) { // rules look at constants, as at relu's zero
      llvm::for_each(op->getOperands(), take);
      builder.clone(*op, mapping);
    } else {
      mapping.map(value, block->addArgument(value.getType(), value.getLoc()));
      result.arguments.push_back(value);
    }
  };
  builder.setInsertionPointToEnd(block);
  for (Value value : by) {
    mapping.map(value, block->addArgument(value.getType(), value.getLoc()));
    result.arguments.push_back(value);
  }
  for (Operation *op : operators) {
    llvm::for_each(usedBy(*op), take);
    Operation *clone = builder.clone(*op, mapping);
    for (auto [value, given] : llvm::enumerate(op->getResults()))
      if (llvm::is_contained(by, given))
        mapping.map(given, block->getArgument(unsigned(llvm::find(by, given) - by.begin())));
    (void)clone;
  }
  llvm::for_each(of, take);
  SmallVector<Value> results;
  for (Value value : of)
    results.push_back(mapping.lookup(value));
  builder.create<func::ReturnOp>(module.getLoc(), results);
  result.function.setType(
      builder.getFunctionType(block->getArgumentTypes(), ValueRange(results).getTypes()));
  for (auto [i, name] : llvm::enumerate(numbered("x", result.arguments.size())))
    result.function.setArgAttr(unsigned(i), "graph.name", builder.getStringAttr(name));
  for (auto [i, name] : llvm::enumerate(numbered("y", of.size())))
    result.function.setResultAttr(unsigned(i), "graph.name", builder.getStringAttr(name));
  return result;
}

} // namespace

Status ModelBuilder::checkDerivative(bool isForward, ArrayRef<Value> of, ArrayRef<Value> by,
                                     size_t changes) const {
  if (of.empty() || by.empty() || (!isForward && of.size() != 1))
    return invalidArgument("a gradient is of one value by some, a tangent of some by some");
  if (changes != (isForward ? by.size() : of.size()))
    return invalidArgument(isForward ? "each value that tangents are by has a change"
                                     : "the value that a gradient is of has a cotangent");
  llvm::DenseSet<Value> distinct(by.begin(), by.end());
  return distinct.size() == by.size()
             ? Status()
             : invalidArgument("a value is named twice among those to differentiate by");
}

/// The changes as the function's arguments have them; of equal sizes that are named otherwise a
/// reshape, whose sizes the run compares.
Value ModelBuilder::changeAs(Type wanted, Value given) {
  if (given.getType() == wanted)
    return given;
  graph::GraphBuilder graph(builder_, shapes_, UnknownLoc::get(&context_));
  Operation *op = graph.createTyped("graph.reshape", wanted, {given}, {});
  return op ? op->getResult(0) : Value();
}

Result<std::vector<ts_value>> ModelBuilder::differentiate(bool isForward,
                                                          ArrayRef<ts_value> ofNumbers,
                                                          ArrayRef<ts_value> byNumbers,
                                                          ArrayRef<ts_value> changeNumbers) {
  auto of = values(ofNumbers);
  auto by = values(byNumbers);
  if (!of.ok() || !by.ok())
    return of.ok() ? by.status() : of.status();
  if (Status status = checkDerivative(isForward, *of, *by, changeNumbers.size()); !status.ok())
    return status;
  SmallVector<Value> changes;
  for (ts_value number : changeNumbers) {
    auto change = number == TS_NO_VALUE && !isForward ? Result<Value>(Value()) : value(number);
    if (!change.ok())
      return change.status();
    changes.push_back(*change);
  }
  Block &block = *builder_.getInsertionBlock();
  Between between = functionBetween(*module_, *by, *of, operatorsBetween(block, *by, *of));
  autodiff::Derivative derivative;
  derivative.mode = isForward ? autodiff::Mode::Forward : autodiff::Mode::Reverse;
  derivative.of = numbered("y", of->size());
  derivative.withRespectTo = numbered("x", by->size());
  derivative.takesCotangent = !isForward && changes[0];
  Status status = autodiff::differentiate(between.function, derivative);
  StringRef words = status.message();
  if (words.consume_front("loc(unknown): ")) // of an operator that was given no place
    status = Status(status.code(), words.str());
  auto made = status.ok() ? inlined(between.function, between.arguments, changes, of->size())
                          : Result<std::vector<ts_value>>(status);
  between.function.erase();
  if (!isForward && made.ok())
    main_->setAttr(graph::kDifferentiated, builder_.getUnitAttr());
  return made;
}

/// The function's body at the end of the graph; gives its results after the first `skipped`.
Result<std::vector<ts_value>> ModelBuilder::inlined(func::FuncOp function,
                                                    ArrayRef<Value> arguments,
                                                    ArrayRef<Value> changes, size_t skipped) {
  IRMapping mapping;
  Block &body = function.getBody().front();
  for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
    Value given = i < arguments.size() ? arguments[i] : changes[i - arguments.size()];
    given = given ? changeAs(argument.getType(), given) : given;
    if (!given)
      return invalidArgument("the change of a value that is differentiated isn't of its type");
    mapping.map(argument, given);
  }
  for (Operation &op : body.without_terminator()) {
    Operation *clone = builder_.clone(op, mapping);
    clone->walk([&](Operation *inner) {
      for (Value result : inner->getResults())
        if (auto type = dyn_cast<RankedTensorType>(result.getType()))
          for (StringAttr name : graph::symbolNames(type))
            shapes_.symbol(name);
    });
  }
  SmallVector<Value> results;
  for (Value result : llvm::drop_begin(body.getTerminator()->getOperands(), skipped))
    results.push_back(mapping.lookup(result));
  return add(ValueRange(results));
}

} // namespace tensmith
