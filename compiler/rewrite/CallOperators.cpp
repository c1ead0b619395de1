// Who does an operator: a kernel that is generated, or a library (compiler/kernel/Operators.h).
//
// before: y = max(x @ transpose(w) + b, 0)      after: y = kernel "call.onednn" (x, w, b) { the
// same }
//
// A schedule decides for its kernels; elsewhere the first dialect of the policy's list that takes
// the operator does it, with as much of what follows as it takes; or, where it is measured, whoever
// is fastest. What is measured is a function with the operator and what stands around it, compiled
// for each of them in turn: what a library leaves is generated there too, as is all of it for
// `generated`, with the transforms and fusion of any other model. A library has to be faster by a
// few hundredths, which is what measurements differ by.
//
// Means over processes are libtensmith_mpi.so's, whatever is asked for: nobody else has them.
//
// Policies of fewer bits leave libraries out, which compute in f32. Measured choices leave alone
// what is one kernel with more than libraries have patterns for: attention, and loops.
#include "compiler/graph/Graph.h"
#include "compiler/graph/ProcessReduction.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using kernel::OperatorDialect;
using kernel::OperatorPattern;

constexpr double kFasterBy = 0.97;

constexpr size_t kMostAround = 16; // operators, on each side

bool isPlain(Operation *op) {
  auto isPlainValue = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type ? type.hasStaticShape() &&
                      (type.getElementType().isF32() || type.getElementType().isInteger(1))
                : isa<NoneType>(value.getType());
  };
  return op->getNumResults() == 1 && op->getNumRegions() == 0 &&
         llvm::all_of(op->getOperands(), isPlainValue) && isPlainValue(op->getResult(0));
}

bool isConstant(Value value) {
  return isa_and_nonnull<graph::ConstantOp, graph::NoneOp>(value.getDefiningOp());
}

/// The pattern with what a generated kernel may take in besides: what moves or computes its
/// operands' elements for it alone, and what is computed of its result's. For a library all that
/// is done apart.
llvm::SetVector<Operation *> surrounded(const OperatorPattern &pattern) {
  llvm::SetVector<Operation *> all;
  for (Operation *op : pattern.operators())
    all.insert(op);
  size_t most = all.size() + kMostAround;
  for (size_t next = 0; next < all.size() && all.size() < most; ++next)
    for (Value operand : all[next]->getOperands()) {
      Operation *op = operand.getDefiningOp();
      auto indexed = dyn_cast_or_null<graph::Indexed>(op);
      bool isTakenIn = isa_and_nonnull<graph::Elementwise, graph::ReshapeOp, graph::ConcatOp>(op) ||
                       (indexed && indexed.isMovement());
      if (isTakenIn && !isConstant(operand) && op->hasOneUse() && isPlain(op) &&
          op->getBlock() == pattern.root->getBlock())
        all.insert(op);
    }
  most = all.size() + kMostAround;
  for (Operation *last = pattern.result().getDefiningOp();
       last->hasOneUse() && all.size() < most;) {
    last = *last->user_begin();
    if (!isa<graph::Elementwise>(last) || !isPlain(last) ||
        last->getBlock() != pattern.root->getBlock() ||
        last->getResult(0).getType() != pattern.result().getType())
      break;
    all.insert(last);
  }
  return all;
}

/// A module whose `main` is that. Constants that it uses stay constants.
OwningOpRef<ModuleOp> candidate(const OperatorPattern &pattern) {
  Location location = pattern.root->getLoc();
  llvm::SetVector<Operation *> set = surrounded(pattern);
  SmallVector<Operation *> ops(set.begin(), set.end());
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  llvm::SetVector<Value> inputs, constants;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      if (isConstant(operand))
        constants.insert(operand);
      else if (!set.contains(operand.getDefiningOp()))
        inputs.insert(operand);
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  Value result = ops.back()->getResult(0);
  auto type =
      builder.getFunctionType(ValueRange(inputs.getArrayRef()).getTypes(), result.getType());
  auto function = builder.create<func::FuncOp>(location, "main", type);
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  auto name = [&](std::string text) {
    return builder.getDictionaryAttr(
        builder.getNamedAttr("graph.name", builder.getStringAttr(text)));
  };
  IRMapping map;
  for (auto [number, input] : llvm::enumerate(inputs)) {
    function.setArgAttrs(unsigned(number), name("x" + std::to_string(number)));
    map.map(input, block->getArgument(unsigned(number)));
  }
  function.setResultAttrs(0, name("y"));
  for (Value constant : constants)
    builder.clone(*constant.getDefiningOp(), map);
  for (Operation *op : ops)
    builder.clone(*op, map);
  builder.create<func::ReturnOp>(location, map.lookup(result));
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

/// What runs in every process has to come by each of these, as often as in the others.
LogicalResult callProcesses(func::FuncOp function) {
  SmallVector<graph::AllReduceMeanOp> means;
  function.walk([&](graph::AllReduceMeanOp op) { means.push_back(op); });
  for (graph::AllReduceMeanOp op : means) {
    if (op->getBlock() != &function.front())
      return op.emitError("a mean over processes stands in a branch or a loop, which some of them "
                          "may not come to");
    if (!hasKnownSizes(op))
      return op.emitError("a mean over processes is of unknown sizes");
    kernel::makeCall({op, false, false, {}}, graph::kProcesses);
  }
  return success();
}

} // namespace

LogicalResult callOperators(func::FuncOp function, const Options &options) {
  if (failed(callProcesses(function)))
    return failure();
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
