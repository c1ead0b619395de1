// The loop is cut at a multiple of the vectors' elements, and its first part annotated; see
// InterleaveLoops.h.
#include "compiler/targets/cpu/codegen/InterleaveLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

constexpr int64_t kVectors = 4;
constexpr int64_t kLongChain = 16;        // operations that wait for one another
constexpr int64_t kMostOperations = 4096; // of a body, which is written so many times

/// The longest chain of arithmetic in the body; nothing where that is not a line of scalar
/// operations.
std::optional<int64_t> chainLength(scf::ForOp loop) {
  llvm::DenseMap<Value, int64_t> depths;
  int64_t longest = 0, count = 0;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (op.getNumRegions() || ++count > kMostOperations)
      return std::nullopt;
    int64_t depth = 0;
    for (Value operand : op.getOperands())
      depth = std::max(depth, depths.lookup(operand));
    depth += isa<arith::ArithDialect, math::MathDialect>(op.getDialect());
    for (Value result : op.getResults()) {
      if (isa<VectorType>(result.getType()))
        return std::nullopt;
      depths[result] = depth;
    }
    longest = std::max(longest, depth);
  }
  return longest;
}

bool isWorthIt(scf::ForOp loop) {
  if (loop.getNumRegionIterArgs() || getConstantIntValue(loop.getStep()) != 1)
    return false;
  auto length = chainLength(loop);
  return length && *length >= kLongChain;
}

/// The loop's location keeps the annotation until its branches are LLVM's: nothing else of a loop
/// gets there.
void annotate(scf::ForOp loop) {
  MLIRContext *context = loop.getContext();
  auto count = IntegerAttr::get(IntegerType::get(context, 32), kVectors);
  auto annotation =
      LLVM::LoopAnnotationAttr::get(context, {}, {}, LLVM::LoopInterleaveAttr::get(context, count),
                                    {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {});
  loop->setLoc(FusedLoc::get(context, loop.getLoc(), annotation));
}

/// Leaves the loop the elements of whole rounds, and gives the others to a copy behind it.
void cut(scf::ForOp loop, int64_t round) {
  OpBuilder builder(loop);
  Location location = loop.getLoc();
  auto constant = [&](int64_t value) {
    return builder.create<arith::ConstantIndexOp>(location, value);
  };
  Value lower = loop.getLowerBound();
  Value count = builder.create<arith::SubIOp>(location, loop.getUpperBound(), lower);
  count = builder.create<arith::MaxSIOp>(location, count, constant(0));
  Value whole = builder.create<arith::AndIOp>(location, count, constant(-round));
  Value middle = builder.create<arith::AddIOp>(location, lower, whole);
  builder.setInsertionPointAfter(loop);
  auto rest = cast<scf::ForOp>(builder.clone(*loop));
  rest.setLowerBound(middle);
  loop.setUpperBound(middle);
}

} // namespace

void interleaveLoops(ModuleOp module, const Cpu &machine) {
  int64_t round = kVectors * machine.vectorBits / 32;
  SmallVector<scf::ForOp> loops;
  module.walk([&](scf::ForOp loop) {
    if (isWorthIt(loop))
      loops.push_back(loop);
  });
  for (scf::ForOp loop : loops) {
    auto lower = getConstantIntValue(loop.getLowerBound()),
         upper = getConstantIntValue(loop.getUpperBound());
    bool known = lower && upper;
    if (known && *upper - *lower < round)
      continue;
    if (!known || (*upper - *lower) % round)
      cut(loop, round);
    annotate(loop);
  }
}

void annotateBranches(ModuleOp module) {
  module.walk([](LLVM::BrOp branch) {
    if (auto annotated = dyn_cast<FusedLocWith<LLVM::LoopAnnotationAttr>>(branch->getLoc()))
      branch.setLoopAnnotationAttr(annotated.getMetadata());
  });
}

} // namespace tensmith::targets::cpu
