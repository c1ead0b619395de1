// Kernels of differences: rows of the last dimension, in vectors of the machine's width.
//
// As an element of loops, each result would be a load of two single elements, and what follows
// would be computed of single elements, too, wherever LLVM's vectoriser gives up. Here both loads
// are of vectors, and so is all that is fused before and behind. A row is a work item. The choice
// is how many vectors lie side by side, so that a core has loads to begin while others are under
// way.
#include "compiler/graph/ScalarCode.h"
#include "compiler/kernel/RowSweep.h"

#include "Example.h"

using namespace mlir;
using namespace tensmith;
using namespace tensmith::kernel;

namespace example {
namespace {

constexpr Choice kVectors{"difference_vectors", 1, 8};
constexpr const Choice *kChoices[] = {&kVectors};
constexpr int64_t kUnasked = 2;

bool isRoot(Operation *op) {
  auto difference = dyn_cast<DifferenceOp>(op);
  auto type = difference ? dyn_cast<RankedTensorType>(difference.getType()) : RankedTensorType();
  return type && type.getElementType().isF32() && type.getRank() > 0;
}

/// All results have the root's shape, so that one sweep over its rows stores them.
bool takes(graph::KernelOp kernel, Operation *main, const Machine &) {
  return isRoot(main) && llvm::all_of(kernel.getResultTypes(), [&](Type type) {
           auto own = cast<RankedTensorType>(main->getResult(0).getType());
           auto other = cast<RankedTensorType>(type);
           return own.getShape() == other.getShape() && own.getEncoding() == other.getEncoding();
         });
}

/// Elements side by side, of the two places in the operand.
ElementEmitter::Definition definitionOf(ElementEmitter &emitter, DifferenceOp op) {
  return [&emitter, op](const Position &at) mutable {
    Position ahead = at;
    Value &along = ahead.indices[size_t(graph::axisOf(op, int64_t(ahead.indices.size())))];
    along = emitter.math.add(along, int64_t(op.getShift()));
    graph::ScalarCode code(emitter.builder(), emitter.math.location);
    return code.sub(emitter.element(op.getX(), ahead), emitter.element(op.getX(), at));
  };
}

KernelParts partsOf(graph::KernelOp kernel, DifferenceOp op, const Machine &machine,
                    const Point &asked) {
  int64_t lanes = machine.lanes(sizeof(float));
  int64_t vectors = asked[kVectors].value_or(kUnasked);
  Point chosen;
  chosen.set(kVectors, vectors);
  Type shape = op.getType();
  KernelParts parts;
  parts.summary = "differences, " + std::to_string(vectors) + " vectors of " +
                  std::to_string(lanes) + " side by side";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    SmallVector<Value> rows = dimValues(math, sizes, shape);
    Value columns = rows.pop_back_val();
    return {math.product(rows), grainOf(math, columns), chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) mutable {
    IndexMath &math = emitter.math;
    emitter.define(op.getResult(), definitionOf(emitter, op));
    SmallVector<Value> extents = dimValues(math, emitter.sizes, shape);
    Value columns = extents.pop_back_val();
    Point sweep;
    sweep.set(choice::vectors, vectors);
    emitFor(math, begin, end, math.constant(1), [&](Value row) {
      SmallVector<Value> indices = math.delinear(row, extents);
      RowSweep(emitter, columns, lanes, sweep).each([&](const RowSweep::Columns &at) {
        Position position{indices, at.lanes, at.mask};
        position.indices.push_back(at.first);
        storeResults(emitter, kernel, results, position, row);
      });
    });
  };
  return parts;
}

} // namespace

const Template kDifferences = {
    .name = "differences",
    .mayBeRoot = isRoot,
    .isRoot = isRoot,
    .takes = takes,
    .parts =
        [](graph::KernelOp kernel, Operation *main, const Machine &machine, const Point &asked) {
          return partsOf(kernel, cast<DifferenceOp>(main), machine, asked);
        },
    .choices = kChoices,
    .space = [](graph::KernelOp, Operation *, const Machine &,
                Space &space) { space.addDoubling(kVectors, kVectors.most); },
    .computesOperands = true,
};

} // namespace example
