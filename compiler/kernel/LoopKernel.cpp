// Element-wise chains, movement, reductions and windows: each element of the results by itself,
// fused at its index.
//
// The loop over the last dimension is left to LLVM's vectoriser; the other dimensions, and blocks
// of the last, are the parallel items. Where other dimensions than the last are reduced, that loop
// has others in it, which LLVM leaves as they are: it is one over vectors of elements, then, whose
// lanes are reduced side by side. A last dimension of a few elements, as the channels of a picture,
// is no loop: all of them are an iteration of the one over the dimension before it.
#include "compiler/kernel/LoopKernel.h"

#include "compiler/kernel/RowSweep.h"
#include "compiler/kernel/Schedule.h"
#include "compiler/kernel/WindowElement.h"

#include <numeric>

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Elements of the last dimension in a work item.
static constexpr Choice itemElements{"item_elements", 1, kAny};
/// Of panels: rows that are cut into all of theirs before the next are begun.
static constexpr Choice rowsTogether{"rows_together", 1, 64, 1, /*bounded=*/false};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::itemElements, &choice::rowsTogether,
                                      &choice::vectors, &choice::asNest};

constexpr int64_t kBlock = 4096;             // elements of the last dimension in an item, at most
constexpr int64_t kReducedInBlock = 1 << 14; // elements that one item reduces, about
/// Rows that are packed side by side, and the fewest that are worth it: as many streams as the
/// machine follows.
constexpr int64_t kRowsTogether = 16, kFewRows = 4;
/// Elements of the last dimension that are an iteration together, and how long their code may be:
/// each has its own, which LLVM orders and vectorises in more than linear time.
constexpr int64_t kFewElements = 4, kFewIterations = 16;
constexpr double kMostAdditions = 128;

/// Of a matrix whose panels are the result: 1 where it is something else, or their number is open.
int64_t rowsOfPanels(graph::KernelOp kernel) {
  auto yield = cast<graph::YieldOp>(kernel.getBody().front().getTerminator());
  auto pack = yield.getValues().front().getDefiningOp<graph::PackOp>();
  auto type = pack ? dyn_cast<RankedTensorType>(pack.getType()) : RankedTensorType();
  if (!type || pack.getTransposed() || yield.getValues().size() > 1)
    return 1;
  int64_t rows = type.getDimSize(type.getRank() - 2);
  return ShapedType::isDynamic(rows) ? 1 : rows;
}

/// A panel has a short piece of each row of the matrix: made one after the other, panels read a
/// page for each piece, which nothing prefetches. So many rows are cut into all their panels
/// instead, before the next.
int64_t rowsTogether(graph::KernelOp kernel) {
  int64_t together = std::gcd(rowsOfPanels(kernel), kRowsTogether);
  return together < kFewRows ? 1 : together;
}

/// Elements of the last dimension that are an iteration together: 1 but for few of them that are
/// computed or moved each by itself, in little code.
int64_t elementsTogether(graph::KernelOp kernel) {
  auto type = cast<RankedTensorType>(kernel.getResult(0).getType());
  if (kernel->getNumResults() > 1 || type.getRank() < 2 || type.getShape().back() > kFewElements ||
      type.getShape().back() < 2)
    return 1;
  // Of a window's weights the dimension before is as short.
  int64_t before = type.getDimSize(type.getRank() - 2);
  if (!ShapedType::isDynamic(before) && before < kFewIterations)
    return 1;
  double additions = 0;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    auto indexed = dyn_cast<graph::Indexed>(op);
    if (isa<graph::ConstantOp, graph::NoneOp>(op))
      continue;
    if (!isa<graph::Elementwise>(op) && !(indexed && indexed.isMovement()))
      return 1;
    auto elementwise = dyn_cast<graph::Elementwise>(op);
    additions += elementwise ? double(elementwise.additions()) : 1;
  }
  int64_t elements = type.getShape().back();
  return additions * double(elements) > kMostAdditions ? 1 : elements;
}

/// The shape that is looped over, with at least one dimension.
struct IterationSpace {
  SmallVector<Value> outer;
  Value inner, block, blocks, items;
  int64_t together; // rows of panels

  /// `elements` of the last dimension are an iteration.
  IterationSpace(IndexMath &math, const SizeValues &sizes, Type type, int64_t most,
                 int64_t together, int64_t elements)
      : together(together) {
    outer = dimValues(math, sizes, type);
    if (elements > 1)
      outer.pop_back();
    inner = outer.empty() ? math.constant(1) : outer.pop_back_val();
    block = math.constant(most);
    if (auto size = constantIndex(inner); size && *size < most)
      block = math.constant(std::max<int64_t>(*size, 1));
    blocks = math.ceilDiv(inner, block);
    items = math.mul(math.product(outer), blocks);
  }

  /// Indices of the outer dimensions, and the block's.
  SmallVector<Value> indices(IndexMath &math, Value item) const {
    SmallVector<Value> extents(outer);
    extents.push_back(blocks);
    if (together == 1)
      return math.delinear(item, extents);
    size_t panel = outer.size() - 2, row = outer.size() - 1;
    extents[panel] = math.div(outer[row], math.constant(together));
    extents[row] = outer[panel];
    extents.insert(extents.begin() + row + 1, math.constant(together));
    SmallVector<Value> at = math.delinear(item, extents);
    Value first = math.mul(at[panel], together);
    at[panel] = at[row];
    at[row] = math.add(first, at[row + 1]);
    at.erase(at.begin() + row + 1);
    return at;
  }
};

/// Scalar operations for one element of the region's results, roughly: operators, times the extents
/// that they reduce.
Value workPerElement(IndexMath &math, const SizeValues &sizes, graph::KernelOp kernel) {
  Value work = math.constant(1);
  Value out = math.max(math.product(dimValues(math, sizes, kernel.getResult(0).getType())),
                       math.constant(1));
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (isa<graph::ConstantOp>(op) || op.getNumOperands() == 0)
      continue;
    Value in = math.product(dimValues(math, sizes, op.getOperand(0).getType()));
    work = math.add(work, math.ceilDiv(in, out));
  }
  return work;
}

/// Whether elements along the last dimension are reduced side by side: by vectors of `lanes`.
bool reducesSideBySide(graph::KernelOp kernel, int64_t lanes) {
  bool reduces = false;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (isa<graph::ConstantOp>(op) || op.getNumOperands() == 0 || isa<graph::Elementwise>(op) ||
        keepsLanes(&op))
      continue;
    if (!reducesLanesApart(&op))
      return false;
    reduces = true;
  }
  return reduces && llvm::all_of(kernel.getResultTypes(), [&](Type type) {
           auto shape = cast<RankedTensorType>(type).getShape();
           return !shape.empty() && shape.back() >= lanes;
         });
}

/// Elements of a block: fewer, where each is reduced from many.
int64_t blockOf(graph::KernelOp kernel, bool sideBySide, int64_t lanes) {
  if (!sideBySide)
    return kBlock;
  auto elements = [](Type type) {
    auto shape = cast<RankedTensorType>(type);
    return shape.hasStaticShape() ? std::max<int64_t>(shape.getNumElements(), 1) : 1;
  };
  int64_t most = 1, out = elements(kernel.getResult(0).getType());
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (reducesLanesApart(&op))
      most = std::max(most, elements(op.getOperand(0).getType()) / out);
  int64_t line = 8 * lanes;
  return std::clamp(kReducedInBlock / most / line * line, line, kBlock);
}

} // namespace

static KernelParts loopParts(graph::KernelOp kernel, const Machine &machine, const Point &asked) {
  KernelParts parts;
  int64_t lanes = machine.lanes(sizeof(float));
  bool sideBySide = reducesSideBySide(kernel, lanes);
  int64_t block = asked[choice::itemElements].value_or(blockOf(kernel, sideBySide, lanes));
  // Of panels of few columns the rows alone.
  int64_t together = rowsTogether(kernel);
  if (auto rows = asked[choice::rowsTogether]; rows && rowsOfPanels(kernel) % *rows == 0)
    together = *rows;
  int64_t elements = together > 1 ? 1 : elementsTogether(kernel);
  int64_t vectors = asked[choice::vectors].value_or(kSideBySide);
  parts.summary = sideBySide ? "loops of vectors" : "loops";
  if (together > 1)
    parts.summary += ", " + std::to_string(together) + " rows together";
  if (elements > 1)
    parts.summary += ", " + std::to_string(elements) + " elements together";
  Type shape = kernel.getResult(0).getType();
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    IterationSpace space(math, sizes, shape, block, together, elements);
    Value work = math.mul(math.mul(workPerElement(math, sizes, kernel), elements),
                          math.min(space.block, space.inner));
    Point chosen;
    chosen.set(choice::itemElements, constantIndex(space.block));
    if (rowsOfPanels(kernel) > 1)
      chosen.set(choice::rowsTogether, together);
    if (sideBySide)
      chosen.set(choice::vectors, vectors);
    if (asked[choice::asNest] == 0)
      chosen.set(choice::asNest, 0);
    return {space.items, grainOf(math, work), chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) mutable {
    IndexMath &math = emitter.math;
    IterationSpace space(math, emitter.sizes, shape, block, together, elements);
    Value one = math.constant(1);
    bool scalar = cast<RankedTensorType>(shape).getRank() == 0;
    emitFor(math, begin, end, one, [&](Value item) {
      SmallVector<Value> indices = space.indices(math, item);
      Value first = math.mul(indices.pop_back_val(), space.block);
      Value last = math.min(math.add(first, space.block), space.inner);
      Value row = math.linear(indices, space.outer);
      auto store = [&](Value inner, int64_t lanes, Value mask, int64_t element = 0) {
        Position at{indices, lanes, mask};
        if (!scalar)
          at.indices.push_back(inner);
        if (elements == 1)
          return storeResults(emitter, kernel, results, at, row);
        at.indices.push_back(math.constant(element));
        storeResults(emitter, kernel, results, at, math.add(math.mul(row, space.inner), inner));
      };
      if (!sideBySide)
        return emitFor(math, first, last, one, [&](Value inner) {
          for (int64_t element = 0; element < elements; ++element)
            store(inner, 1, {}, element);
        });
      // Several vectors side by side first: a sum waits for itself, and rows are read in longer
      // pieces.
      Value whole = first;
      for (int64_t wide : {lanes * vectors, lanes}) {
        Value begin = whole, count = math.div(math.sub(last, begin), math.constant(wide));
        whole = math.add(begin, math.mul(count, wide));
        emitFor(math, begin, whole, math.constant(wide),
                [&](Value inner) { store(inner, wide, {}); });
      }
      emitIf(math, math.less(whole, last),
             [&] { store(whole, lanes, emitter.maskBelow(math.sub(last, whole), lanes)); });
    });
  };
  return parts;
}

static void loopSpace(graph::KernelOp kernel, const Machine &machine, Space &space) {
  auto shape = cast<RankedTensorType>(kernel.getResult(0).getType()).getShape();
  int64_t inner = shape.empty() || ShapedType::isDynamic(shape.back()) ? kBlock : shape.back();
  space.addDoubling(choice::itemElements, std::max<int64_t>(inner, 1));
  SmallVector<int64_t> together;
  for (int64_t rows = 1; rows <= choice::rowsTogether.most; rows *= 2)
    if (rowsOfPanels(kernel) % rows == 0)
      together.push_back(rows);
  if (rowsOfPanels(kernel) > 1)
    space.add(choice::rowsTogether, together);
  if (reducesSideBySide(kernel, machine.lanes(sizeof(float))))
    space.addDoubling(choice::vectors, choice::vectors.most);
  auto isSaid = [](Operation &op) {
    return isa<graph::ConstantOp, graph::NoneOp>(op) || saysElement(&op);
  };
  if (llvm::all_of(kernel.getBody().front().without_terminator(), isSaid))
    space.addAll(choice::asNest, 1);
}

const Template kLoops = {
    .name = "loops",
    .takes = [](graph::KernelOp, Operation *, const Machine &) { return true; },
    .parts = [](graph::KernelOp kernel, Operation *, const Machine &machine,
                const Point &asked) { return loopParts(kernel, machine, asked); },
    .choices = kChoices,
    .space = [](graph::KernelOp kernel, Operation *, const Machine &machine,
                Space &space) { loopSpace(kernel, machine, space); },
    .storesAtPitch = [](Operation *) { return true; },
    .storing = graph::Storing::Elements,
};

} // namespace tensmith::kernel
