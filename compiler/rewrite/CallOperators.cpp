// Who does an operator: a kernel that is generated, or a library (compiler/kernel/Operators.h).
//
// before: y = max(x @ transpose(w) + b, 0)      after: y = kernel "call.onednn" (x, w, b) { the
// same }
//
// A schedule decides for its kernels; elsewhere the first dialect of the policy's list that takes
// the operator does it, with as much of what follows as it takes; or, where it is measured, whoever
// is fastest. What is measured is a function with the operator and all that any of them takes
// behind it, compiled for each of them in turn: what a library leaves is generated there too, as is
// all of it for `generated`, with the transforms and fusion of any other model. A library has to be
// faster by a few hundredths, which is what measurements differ by.
//
// Policies of fewer bits leave libraries out, which compute in f32. Measured choices leave alone
// what is one kernel with more than libraries have patterns for: attention, and loops.
#include "compiler/graph/Graph.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using kernel::OperatorDialect;
using kernel::OperatorPattern;

constexpr double kFasterBy = 0.97;

/// A module whose `main` is the pattern. Constants that it uses stay constants.
OwningOpRef<ModuleOp> candidate(const OperatorPattern &pattern) {
  MLIRContext *context = pattern.root->getContext();
  Location location = pattern.root->getLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  SmallVector<Type> types;
  auto isConstant = [](OpOperand *operand) {
    return operand->get().getDefiningOp<graph::ConstantOp>() != nullptr;
  };
  for (OpOperand *operand : pattern.inputs())
    if (!isConstant(operand))
      types.push_back(operand->get().getType());
  auto type = FunctionType::get(context, types, pattern.result().getType());
  auto function = builder.create<func::FuncOp>(location, "main", type);
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  auto name = [&](std::string text) {
    return builder.getDictionaryAttr(
        builder.getNamedAttr("graph.name", builder.getStringAttr(text)));
  };
  SmallVector<Value> inputs;
  unsigned argument = 0;
  for (OpOperand *operand : pattern.inputs()) {
    if (isConstant(operand)) {
      inputs.push_back(builder.clone(*operand->get().getDefiningOp())->getResult(0));
      continue;
    }
    function.setArgAttrs(argument, name("x" + std::to_string(argument)));
    inputs.push_back(block->getArgument(argument++));
  }
  function.setResultAttrs(0, name("y"));
  Value result = kernel::cloneOperators(pattern, builder, inputs);
  builder.create<func::ReturnOp>(location, result);
  return module;
}

class Choice {
public:
  Choice(const OperatorPattern &pattern, const Options &options)
      : pattern_(pattern), options_(options) {}

  /// Null: it is generated.
  const OperatorDialect *run() {
    if (auto asked = options_.asked(pattern_.root).dialect) {
      const OperatorDialect *dialect =
          *asked ? kernel::findDialect(kernel::dialectName(*asked)) : nullptr;
      if (!dialect || partTaken(*dialect, pattern_))
        return tell(dialect);
    }
    if (options_.operators.measured)
      return canBeMeasured() ? tell(fastest()) : nullptr;
    for (const OperatorDialect *dialect : options_.operators.order)
      if (partTaken(*dialect, pattern_))
        return tell(dialect);
    return nullptr;
  }

private:
  const OperatorDialect *tell(const OperatorDialect *dialect) {
    kernel::Schedule schedule;
    schedule.dialect = dialect ? kernel::dialectNumber(dialect->name) : 0;
    options_.made(pattern_.root, schedule, 0);
    return dialect;
  }

  bool canBeMeasured() {
    auto isFixed = [](Value value) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      return !type || type.hasStaticShape();
    };
    auto areFixed = [&](Operation *op) {
      return llvm::all_of(op->getOperands(), isFixed) && llvm::all_of(op->getResults(), isFixed);
    };
    return options_.measure && llvm::all_of(pattern_.operators(), areFixed) &&
           !isa<graph::LoopOp>(pattern_.root->getParentOp()) && !isOfAttention();
  }

  /// Whether a product or a softmax is one of attention's.
  bool isOfAttention() {
    for (Operation &op : *pattern_.root->getBlock())
      if (auto scores = kernel::matchScores(&op))
        if (llvm::is_contained(
                {&op, scores->softmax.getOperation(), scores->product.getOperation()},
                pattern_.root))
          return true;
    return false;
  }

  const OperatorDialect *fastest() {
    OwningOpRef<ModuleOp> module = candidate(pattern_);
    auto generated = options_.measure(*module, kernel::kGenerated.str());
    if (!generated.ok())
      return nullptr;
    const OperatorDialect *best = nullptr;
    double least = *generated * kFasterBy;
    for (const OperatorDialect &dialect : kernel::operatorDialects()) {
      if (!partTaken(dialect, pattern_))
        continue;
      auto seconds = options_.measure(*module, dialect.name);
      if (!seconds.ok() || *seconds >= least)
        continue;
      least = *seconds;
      best = &dialect;
    }
    return best;
  }

  const OperatorPattern &pattern_;
  const Options &options_;
};

} // namespace

LogicalResult callOperators(func::FuncOp function, const Options &options) {
  if (options.precision == Precision::Bfloat || options.precision == Precision::Half)
    return success();
  SmallVector<Operation *> roots;
  function.walk([&](Operation *op) {
    if (!op->getParentOfType<graph::KernelOp>())
      roots.push_back(op);
  });
  // A call takes in no other root.
  llvm::erase_if(roots,
                 [](Operation *op) { return !kernel::matchOperator(op) || !hasKnownSizes(op); });
  for (Operation *root : roots) {
    auto pattern = kernel::matchOperator(root);
    if (const OperatorDialect *dialect = Choice(*pattern, options).run())
      kernel::makeCall(*partTaken(*dialect, *pattern), dialect->name);
  }
  return success();
}

} // namespace tensmith::rewrite
