// The least set of procedures that need an input of main's for its size, with their callers; then
// a parameter in front for each; see Sizes.h.
#include "compiler/program/Sizes.h"

#include "compiler/graph/Graph.h"
#include "compiler/graph/Shape.h"
#include "compiler/program/Knowledge.h"
#include "compiler/program/Program.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::program {
namespace {

class Passing {
public:
  explicit Passing(ModuleOp module) : module_(module) {}

  void run() {
    for (auto function : module_.getOps<func::FuncOp>())
      if (isProcedure(function))
        procedures_[function.getName()] = function;
    module_.walk([&](EnterOp enter) { first_ = procedures_.lookup(enter.getProcedure()); });
    if (!first_)
      return;
    for (auto &[name, procedure] : procedures_)
      findNeeds(procedure);
    while (!waiting_.empty())
      passOn(waiting_.pop_back_val());
    for (auto &[procedure, inputs] : needed_)
      addParameters(procedure, inputs.getArrayRef());
    addOperands();
  }

private:
  /// Which of the first procedure's inputs tells the size; none: -1.
  int64_t inputThatTells(StringAttr size) {
    for (auto [index, type] : llvm::enumerate(first_.getArgumentTypes()))
      if (tells(type, size))
        return int64_t(index);
    return -1;
  }

  void need(func::FuncOp procedure, unsigned input) {
    if (procedure != first_ && needed_[procedure].insert(input))
      waiting_.push_back({procedure, input});
  }

  void findNeeds(func::FuncOp procedure) {
    procedure.walk([&](Operation *op) {
      if (!isa_and_nonnull<graph::GraphDialect>(op->getDialect()))
        return;
      for (Type type : op->getResultTypes())
        if (auto ranked = dyn_cast<RankedTensorType>(type))
          for (StringAttr size : graph::symbolNames(ranked)) {
            bool told = isLocalSize(size) || llvm::any_of(op->getOperandTypes(), [&](Type operand) {
                          auto known = dyn_cast<RankedTensorType>(operand);
                          return known && llvm::is_contained(graph::symbolNames(known), size);
                        });
            int64_t input = told || findTelling(op, size) ? -1 : inputThatTells(size);
            if (input >= 0)
              need(procedure, unsigned(input));
          }
    });
  }

  void passOn(std::pair<func::FuncOp, unsigned> need) {
    module_.walk([&](Operation *op) {
      if (calleeOf(op) == need.first)
        this->need(op->getParentOfType<func::FuncOp>(), need.second);
    });
  }

  func::FuncOp calleeOf(Operation *op) {
    if (auto call = dyn_cast<CallOp>(op))
      return procedures_.lookup(call.getProcedure());
    if (auto closure = dyn_cast<ClosureOp>(op))
      return procedures_.lookup(closure.getProcedure());
    return {};
  }

  void addParameters(func::FuncOp procedure, ArrayRef<unsigned> inputs) {
    SmallVector<Type> types;
    for (auto [index, input] : llvm::enumerate(inputs)) {
      types.push_back(first_.getArgumentTypes()[input]);
      procedure.getBody().front().insertArgument(unsigned(index), types.back(), procedure.getLoc());
    }
    llvm::append_range(types, procedure.getArgumentTypes());
    procedure.setType(FunctionType::get(procedure.getContext(), types, procedure.getResultTypes()));
  }

  /// What a procedure has of the input: its own parameter, or the first one's.
  Value inputIn(func::FuncOp procedure, unsigned input) {
    if (procedure == first_)
      return first_.getArgument(input);
    auto own = needed_[procedure].getArrayRef();
    return procedure.getArgument(unsigned(llvm::find(own, input) - own.begin()));
  }

  void addOperands() {
    module_.walk([&](Operation *op) {
      func::FuncOp callee = calleeOf(op);
      auto found = callee ? needed_.find(callee) : needed_.end();
      if (found == needed_.end())
        return;
      SmallVector<Value> operands;
      for (unsigned input : found->second)
        operands.push_back(inputIn(op->getParentOfType<func::FuncOp>(), input));
      llvm::append_range(operands, op->getOperands());
      op->setOperands(operands);
    });
  }

  ModuleOp module_;
  func::FuncOp first_;
  llvm::MapVector<StringRef, func::FuncOp> procedures_;
  llvm::MapVector<func::FuncOp, llvm::SetVector<unsigned>> needed_;
  SmallVector<std::pair<func::FuncOp, unsigned>> waiting_;
};

} // namespace

bool tells(Type type, StringAttr size) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return false;
  for (unsigned dim = 0; dim < ranked.getRank(); ++dim)
    if (auto own = dyn_cast_or_null<AffineSymbolExpr>(graph::dimExpression(ranked, dim));
        own && graph::symbolNames(ranked)[own.getPosition()] == size)
      return true;
  return false;
}

Value findTelling(Operation *op, StringAttr size) {
  auto telling = [&](Value value) { return tells(value.getType(), size); };
  for (Operation *around = op; around && !isa<ModuleOp>(around); around = around->getParentOp()) {
    Block *block = around->getBlock();
    if (auto *found = llvm::find_if(block->getArguments(), telling);
        found != block->getArguments().end())
      return *found;
    for (Operation &other : *block) {
      // Those beside the operator itself are not in their places yet.
      if (around == op || &other == around)
        break;
      for (Value result : other.getResults())
        if (telling(result))
          return result;
    }
  }
  return {};
}

void passSizes(ModuleOp module) { Passing(module).run(); }

} // namespace tensmith::program
