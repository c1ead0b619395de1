// Patches of an image, by pieces of its rows; see PatchKernel.h.
//
// A line of the matrix of patches is one position's window. Where its columns lie, from the line's
// own place in the image on, is the same for all lines: so it is found out here, column by column,
// and each vector of a panel is put together from the few pieces of memory that its lanes lie in,
// by loads under masks. Some lines are cut into all their panels before the next are begun, so that
// memory is read as a few streams.
#include "compiler/targets/cpu/templates/PatchKernel.h"

#include "compiler/kernel/FlatElements.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Lines of the innermost dimension in a work item.
static constexpr Choice itemLines{"item_lines", 1, kAny};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::itemLines};

constexpr int64_t kMostPanels = 256;   // each is code of its own
constexpr int64_t kLinesTogether = 16; // unasked
constexpr int64_t kMostPieces = 4;     // of a vector, on average

/// Where the elements of some dimensions lie, row-major.
SmallVector<int64_t> placesOf(ArrayRef<StridedMatrices::Dim> dims, int64_t offset) {
  SmallVector<int64_t> places{offset};
  for (auto [size, stride] : dims) {
    SmallVector<int64_t> next;
    for (int64_t place : places)
      for (int64_t i = 0; i < size; ++i)
        next.push_back(place + i * stride);
    places = std::move(next);
  }
  return places;
}

/// Ends of the pieces of memory that elements one after the other come from.
SmallVector<int64_t> pieceEnds(ArrayRef<int64_t> places) {
  SmallVector<int64_t> ends;
  for (size_t i = 1; i <= places.size(); ++i)
    if (i == places.size() || places[i] != places[i - 1] + 1)
      ends.push_back(int64_t(i));
  return ends;
}

bool areSame(ArrayRef<StridedMatrices::Dim> a, ArrayRef<StridedMatrices::Dim> b) {
  return llvm::equal(
      a, b, [](const auto &x, const auto &y) { return x.size == y.size && x.stride == y.stride; });
}

int64_t extentOf(ArrayRef<StridedMatrices::Dim> dims) {
  int64_t product = 1;
  for (auto [size, stride] : dims)
    product *= size;
  return product;
}

/// The innermost lines.
StridedMatrices::Dim innerLines(const Patches &patches) {
  return patches.lines.empty() ? StridedMatrices::Dim{1, 0} : patches.lines.back();
}
int64_t partsOfInner(const Patches &patches, int64_t together) {
  return llvm::divideCeil(innerLines(patches).size, together);
}

/// What stands between the value and its source.
void collect(Value value, Value source, llvm::SetVector<Operation *> &ops) {
  Operation *op = value.getDefiningOp();
  if (value == source || !op || !ops.insert(op))
    return;
  collect(op->getOperand(0), source, ops);
}

class PatchEmitter {
public:
  PatchEmitter(ElementEmitter &emitter, const Patches &patches, int64_t lanes, int64_t together,
               Value result)
      : emitter_(emitter), math_(emitter.math), patches_(patches), lanes_(lanes),
        together_(together), width_(graph::PackOp(patches.pack).getWidth()),
        height_(extentOf(patches.lines)),
        panels_((int64_t(patches.columns.size()) + width_ - 1) / width_), result_(result) {}

  /// One item: some lines of the innermost dimension.
  void emit(Value item) {
    StridedMatrices::Dim inner = innerLines(patches_);
    SmallVector<StridedMatrices::Dim> outer(patches_.stack);
    llvm::append_range(outer, ArrayRef(patches_.lines).drop_back(!patches_.lines.empty()));
    SmallVector<Value> extents;
    for (const StridedMatrices::Dim &dim : outer)
      extents.push_back(math_.constant(dim.size));
    extents.push_back(math_.constant(partsOfInner(patches_, together_)));
    SmallVector<Value> at = math_.delinear(item, extents);
    Value begin = math_.mul(at.pop_back_val(), together_);
    Value end = math_.min(math_.add(begin, together_), math_.constant(inner.size));
    extents.pop_back();
    Value from = math_.constant(0);
    for (auto [dim, index] : llvm::zip_equal(outer, at))
      from = math_.add(from, math_.mul(index, dim.stride));
    size_t stack = patches_.stack.size();
    Value number =
        math_.linear(ArrayRef(at).take_front(stack), ArrayRef(extents).take_front(stack));
    Value row = math_.linear(ArrayRef(at).drop_front(stack), ArrayRef(extents).drop_front(stack));
    // Of the first panel.
    Value line = math_.add(math_.mul(number, panels_ * height_), math_.mul(row, inner.size));
    for (int64_t panel = 0; panel < panels_; ++panel)
      emitFor(math_, begin, end, math_.constant(1), [&](Value index) {
        Value to = math_.mul(math_.add(math_.add(line, index), panel * height_), width_);
        emitLine(panel, math_.add(from, math_.mul(index, inner.stride)), to);
      });
  }

private:
  void emitLine(int64_t panel, Value from, Value to) {
    for (int64_t lane = 0; lane < width_; lane += lanes_) {
      int64_t first = panel * width_ + lane, all = patches_.columns.size();
      auto columns = first < all ? ArrayRef(patches_.columns)
                                       .slice(size_t(first), size_t(std::min(lanes_, all - first)))
                                 : ArrayRef<int64_t>();
      emitter_.store(result_, emitter_.builder().getF32Type(), math_.add(to, lane),
                     vectorOf(columns, from));
    }
  }

  /// Zeros behind the columns.
  Value vectorOf(ArrayRef<int64_t> columns, Value from) {
    auto &builder = emitter_.builder();
    Type type = VectorType::get({lanes_}, builder.getF32Type());
    Value vector = builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(type));
    int64_t begin = 0;
    for (int64_t end : columns.empty() ? SmallVector<int64_t>() : pieceEnds(columns)) {
      Value place = math_.add(from, math_.constant(columns[begin] - begin));
      Value mask = begin == 0 && end == lanes_ ? Value() : lanesIn(begin, end);
      FlatElements elements(emitter_, patches_.image);
      Value piece = elements.at(patches_.image, place, lanes_, mask);
      vector = mask ? builder.create<arith::SelectOp>(math_.location, mask, piece, vector) : piece;
      begin = end;
    }
    return vector;
  }

  Value lanesIn(int64_t begin, int64_t end) {
    SmallVector<bool> lanes;
    for (int64_t lane = 0; lane < lanes_; ++lane)
      lanes.push_back(lane >= begin && lane < end);
    auto type = VectorType::get({lanes_}, emitter_.builder().getI1Type());
    return emitter_.builder().create<arith::ConstantOp>(
        math_.location, DenseElementsAttr::get(type, ArrayRef<bool>(lanes)));
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  const Patches &patches_;
  int64_t lanes_, together_, width_, height_, panels_;
  Value result_;
};

} // namespace

std::optional<Patches> matchPatches(graph::PackOp pack, const Machine &machine) {
  int64_t lanes = machine.lanes(sizeof(float)), width = pack.getWidth();
  auto type = dyn_cast<RankedTensorType>(pack.getX().getType());
  if (!type || !type.hasStaticShape() || !type.getElementType().isF32() || pack.getTransposed() ||
      width % lanes != 0 || type.getShape().back() > kMostPanels * width)
    return std::nullopt;
  Patches patches{pack, {}, {}, {}, {}, {}};
  patches.ops.insert(pack);
  SmallVector<Value> inputs{pack.getX()};
  auto joined = pack.getX().getDefiningOp<graph::ConcatOp>();
  if (joined && int64_t(joined.getAxis()) == type.getRank() - 1) {
    patches.ops.insert(joined);
    inputs = llvm::to_vector(joined.getInputs());
  } else if (type.getShape().back() % width == 0) {
    return std::nullopt; // loops do
  }
  for (Value input : inputs) {
    auto view = stridedMatrices(input);
    if (!view)
      return std::nullopt;
    if (!patches.image)
      patches = {pack, view->source, patches.ops, view->stack, view->lines, {}};
    if (view->source != patches.image || !areSame(view->stack, patches.stack) ||
        !areSame(view->lines, patches.lines))
      return std::nullopt;
    llvm::append_range(patches.columns, placesOf(view->columns, view->offset));
    collect(input, view->source, patches.ops);
  }
  int64_t vectors = (int64_t(patches.columns.size()) + lanes - 1) / lanes;
  bool isScattered = int64_t(pieceEnds(patches.columns).size()) > kMostPieces * vectors;
  return isScattered ? std::nullopt : std::optional(patches);
}

std::optional<Patches> matchPatches(graph::KernelOp kernel, const Machine &machine) {
  Value yielded = kernel.getBody().front().getTerminator()->getOperand(0);
  auto pack = yielded.getDefiningOp<graph::PackOp>();
  auto patches = pack && kernel->getNumResults() == 1 ? matchPatches(pack, machine) : std::nullopt;
  bool isKnown = patches && FlatElements::areKnown(patches->image, patches->image);
  return isKnown ? patches : std::nullopt;
}

static KernelParts patchParts(const Patches &patches, const Machine &machine, const Point &asked) {
  KernelParts parts;
  int64_t together = asked[choice::itemLines].value_or(kLinesTogether);
  int64_t lanes = machine.lanes(sizeof(float)), inner = innerLines(patches).size;
  int64_t lines = extentOf(patches.stack) * extentOf(patches.lines);
  int64_t items = lines / inner * partsOfInner(patches, together);
  int64_t vectors = std::min(inner, together) * (int64_t(patches.columns.size()) / lanes + 1);
  parts.summary = "patches";
  parts.items = [=](IndexMath &math, const SizeValues &) -> WorkItems {
    Point chosen;
    chosen.set(choice::itemLines, together);
    return {math.constant(items), grainOf(math, math.constant(4 * vectors)), chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    emitFor(emitter.math, begin, end, emitter.math.constant(1), [&](Value item) {
      PatchEmitter(emitter, patches, lanes, together, results[0]).emit(item);
    });
  };
  return parts;
}

/// All that makes patches of the image, the concatenation too.
static llvm::SetVector<Operation *> wholePack(Operation *end, const Machine &machine) {
  auto pack = dyn_cast<graph::PackOp>(end);
  bool isJoined = pack && pack.getX().getDefiningOp<graph::ConcatOp>();
  auto patches = isJoined ? matchPatches(pack, machine) : std::nullopt;
  return patches ? patches->ops : llvm::SetVector<Operation *>();
}

const Template kPatches = {
    .name = "patches",
    .takes = [](graph::KernelOp kernel, Operation *,
                const Machine &machine) { return matchPatches(kernel, machine).has_value(); },
    .parts =
        [](graph::KernelOp kernel, Operation *, const Machine &machine, const Point &asked) {
          return patchParts(*matchPatches(kernel, machine), machine, asked);
        },
    .choices = kChoices,
    .space =
        [](graph::KernelOp kernel, Operation *, const Machine &machine, Space &space) {
          space.addDoubling(choice::itemLines, innerLines(*matchPatches(kernel, machine)).size);
        },
    .whole = wholePack,
};

} // namespace tensmith::kernel
