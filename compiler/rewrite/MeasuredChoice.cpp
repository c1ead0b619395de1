// Functions to be timed, and the fastest of them; see MeasuredChoice.h.
#include "compiler/rewrite/MeasuredChoice.h"

#include "compiler/graph/Graph.h"
#include "compiler/graph/Outputs.h"
#include "compiler/kernel/Contraction.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using libraries::Pattern;

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
llvm::SetVector<Operation *> surrounded(const libraries::Pattern &pattern) {
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

} // namespace

OwningOpRef<ModuleOp> functionAround(const libraries::Pattern &pattern) {
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
  SmallVector<Operation *> all;
  for (Value constant : constants)
    all.push_back(constant.getDefiningOp());
  llvm::append_range(all, ops);
  return graph::moduleOf(all, inputs.getArrayRef(), ops.back()->getResult(0));
}

static bool isOfAttention(Operation *root) {
  for (Operation &op : *root->getBlock())
    if (auto scores = kernel::matchScores(&op))
      if (llvm::is_contained({&op, scores->softmax.getOperation(), scores->product.getOperation()},
                             root))
        return true;
  return false;
}

bool canBeMeasured(const libraries::Pattern &pattern, const Options &options) {
  auto isFixed = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return !type || type.hasStaticShape();
  };
  auto areFixed = [&](Operation *op) {
    return llvm::all_of(op->getOperands(), isFixed) && llvm::all_of(op->getResults(), isFixed);
  };
  return options.measure && llvm::all_of(pattern.operators(), areFixed) &&
         !isa<graph::LoopOp>(pattern.root->getParentOp()) && !isOfAttention(pattern.root);
}

/// As a file that asks for the choice.
static std::string askingFor(Operation *root, const Candidate &candidate) {
  llvm::json::Object entry{{"kernel", kernel::structureOf(root)},
                           {candidate.choice, candidate.value}};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(
      llvm::json::Object{{"schedules", llvm::json::Array{std::move(entry)}}});
  return text;
}

std::optional<size_t> fastestOf(Operation *root, ArrayRef<Candidate> candidates,
                                const Options &options) {
  auto pattern = options.libraries.measured ? libraries::matchPattern(root) : std::nullopt;
  if (!pattern || !canBeMeasured(*pattern, options))
    return std::nullopt;
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate &candidate : candidates)
    least = std::min(least, candidate.cycles);
  auto isWorthIt = [&](const Candidate &candidate) {
    return candidate.cycles <= least * kWorthATry;
  };
  if (llvm::count_if(candidates, isWorthIt) < 2)
    return std::nullopt;
  OwningOpRef<ModuleOp> module = functionAround(*pattern);
  SmallVector<kernel::Measured> times;
  std::optional<size_t> best;
  double shortest = std::numeric_limits<double>::infinity();
  for (auto [number, candidate] : llvm::enumerate(candidates)) {
    if (!isWorthIt(candidate))
      continue;
    auto seconds =
        options.measure(*module, libraries::kGenerated.str(), askingFor(root, candidate));
    if (!seconds.ok())
      continue;
    times.push_back({candidate.choice, candidate.value, *seconds});
    if (*seconds < shortest) {
      shortest = *seconds;
      best = number;
    }
  }
  if (options.schedules)
    options.schedules->measured(root, times);
  return best;
}

} // namespace tensmith::rewrite
