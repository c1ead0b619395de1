// Movements as strides; see StridedView.h.
#include "compiler/kernel/StridedView.h"

#include "compiler/graph/Shape.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

using Dim = StridedView::Dim;
/// The parts of each dimension, row-major.
using Dims = SmallVector<SmallVector<Dim>>;

/// Products and quotients of sizes; those of constants, which are nearly all, without polynomials.
class SizeMath {
public:
  explicit SizeMath(MLIRContext *context) : shapes(context) {}

  AffineExpr times(AffineExpr a, AffineExpr b) const {
    auto ca = graph::constantOf(a), cb = graph::constantOf(b);
    if (ca && cb)
      return shapes.constant(*ca * *cb);
    return ca == 1 ? b : cb == 1 ? a : shapes.simplify(a * b);
  }
  AffineExpr plus(AffineExpr a, AffineExpr b) const { return shapes.simplify(a + b); }
  bool equal(AffineExpr a, AffineExpr b) const {
    return a == b || (!(graph::constantOf(a) && graph::constantOf(b)) && shapes.equal(a, b));
  }
  /// a / b, where nothing is left whatever the sizes; else null.
  AffineExpr quotient(AffineExpr a, AffineExpr b) const {
    auto ca = graph::constantOf(a), cb = graph::constantOf(b);
    if (cb == 1 || cb == 0)
      return *cb ? a : AffineExpr();
    if (ca && cb)
      return *ca % *cb == 0 ? shapes.constant(*ca / *cb) : AffineExpr();
    AffineExpr result = shapes.simplify(a.floorDiv(b));
    return equal(times(result, b), a) ? result : AffineExpr();
  }

  graph::ShapeContext shapes;
};

bool isOne(AffineExpr size) { return graph::constantOf(size) == 1; }

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Appends a part behind the others: as one with the last, if they go through memory as one.
void append(const SizeMath &math, SmallVectorImpl<Dim> &parts, Dim part) {
  if (isOne(part.size))
    return;
  if (!parts.empty() && parts.back().isReversed == part.isReversed &&
      math.equal(parts.back().stride, math.times(part.size, part.stride))) {
    parts.back() = {math.times(parts.back().size, part.size), part.stride, part.isReversed};
    return;
  }
  parts.push_back(part);
}

SmallVector<Dim> flattened(const SizeMath &math, ArrayRef<SmallVector<Dim>> dims) {
  SmallVector<Dim> parts;
  for (ArrayRef<Dim> dim : dims)
    for (Dim part : dim)
      append(math, parts, part);
  return parts;
}

/// Null where a size is open.
std::optional<SmallVector<StridedMatrices::Dim>> constantsOf(ArrayRef<Dim> dims) {
  SmallVector<StridedMatrices::Dim> result;
  for (const Dim &dim : dims) {
    auto size = graph::constantOf(dim.size), stride = graph::constantOf(dim.stride);
    if (!size || !stride)
      return std::nullopt;
    result.push_back({*size, dim.isReversed ? -*stride : *stride});
  }
  return result;
}

class ViewBuilder {
public:
  explicit ViewBuilder(MLIRContext *context) : math_(context) {}

  /// False where the value can't be told as strides.
  bool follow(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || (type.hasStaticShape() ? type.getNumElements() == 0 : !type.getEncoding()))
      return false;
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<graph::ReshapeOp, graph::TransposeOp, graph::ReverseOp, graph::SliceOp,
                         graph::PackOp>(op))
      return begin(value);
    if (!follow(op->getOperand(0)) || view.columns)
      return false;
    return llvm::TypeSwitch<Operation *, bool>(op)
        .Case([&](graph::ReshapeOp) { return regroup(math_.shapes.dims(type)); })
        .Case([&](graph::TransposeOp transpose) { return permute(transpose.getPermutation()); })
        .Case([&](graph::ReverseOp reverse) { return flip(reverse.getAxes()); })
        .Case([&](graph::SliceOp slice) { return cut(slice); })
        .Case([&](graph::PackOp pack) { return split(pack); });
  }

  StridedView finish() {
    view.symbols = llvm::to_vector(math_.shapes.symbols());
    if (!view.columns) {
      view.dims = flattened(math_, dims_);
      return view;
    }
    // The number of a column is of panel and lane alone.
    for (auto [number, dim] : llvm::enumerate(dims_)) {
      bool isPanel = number + 3 == dims_.size(), isLane = number + 1 == dims_.size();
      if (isPanel)
        view.panelDim = view.dims.size();
      llvm::append_range(view.dims, isPanel || isLane ? dim : flattened(math_, {dim}));
    }
    return view;
  }

  std::optional<StridedMatrices> matrices() const {
    auto dims = ArrayRef(dims_);
    auto known = [&](ArrayRef<SmallVector<Dim>> some) {
      return constantsOf(flattened(math_, some));
    };
    auto stack = known(dims.drop_back(2)), lines = known(dims.take_back(2).take_front()),
         columns = known(dims.take_back());
    auto offset = graph::constantOf(view.offset);
    if (!stack || !lines || !columns || !offset)
      return std::nullopt;
    return StridedMatrices{view.source, *offset, *stack, *lines, *columns};
  }

  StridedView view;

private:
  bool begin(Value value) {
    view.source = value;
    view.offset = math_.shapes.constant(0);
    AffineExpr stride = math_.shapes.constant(1);
    auto sizes = math_.shapes.dims(value.getType());
    for (AffineExpr size : llvm::reverse(sizes)) {
      dims_.insert(dims_.begin(), SmallVector<Dim>{{size, stride}});
      stride = math_.times(stride, size);
    }
    return true;
  }

  bool permute(ArrayRef<int64_t> permutation) {
    Dims before = std::move(dims_);
    dims_.clear();
    for (int64_t dim : permutation)
      dims_.push_back(before[dim]);
    return true;
  }

  void moveBy(AffineExpr steps, const Dim &part) {
    AffineExpr by = math_.times(steps, part.stride);
    view.offset = math_.plus(view.offset, part.isReversed ? -by : by);
  }

  bool flip(ArrayRef<int64_t> axes) {
    for (int64_t axis : axes)
      for (Dim &part : dims_[axis]) {
        moveBy(part.size - 1, part);
        part.isReversed = !part.isReversed;
      }
    return true;
  }

  /// A part of a dimension that is whole in memory.
  bool cut(graph::SliceOp slice) {
    auto before = math_.shapes.dims(slice.getX().getType());
    for (auto [dim, size] : llvm::enumerate(math_.shapes.dims(slice.getY().getType()))) {
      int64_t start = slice.getStarts()[dim], step = slice.getSteps()[dim];
      if (start == 0 && step == 1 && math_.equal(size, before[dim]))
        continue;
      SmallVector<Dim> whole = flattened(math_, {dims_[dim]});
      if (whole.size() > 1)
        return false;
      // Of a dimension of 1, of which nothing is left to step over.
      Dim part = whole.empty() ? Dim{size, math_.shapes.constant(0)} : whole[0];
      moveBy(math_.shapes.constant(start), part);
      AffineExpr stride = math_.times(part.stride, math_.shapes.constant(std::abs(step)));
      dims_[dim] = {{size, stride, part.isReversed != (step < 0)}};
    }
    return true;
  }

  /// The parts of all dimensions are shared out anew.
  bool regroup(ArrayRef<AffineExpr> shape) {
    SmallVector<Dim> parts = flattened(math_, dims_);
    dims_.clear();
    for (AffineExpr size : llvm::reverse(shape)) {
      SmallVector<Dim> own;
      while (!isOne(size)) {
        if (parts.empty())
          return false;
        Dim &last = parts.back();
        // What is taken are the last elements of it: the rest steps over them.
        AffineExpr taken = last.size, others = math_.quotient(size, last.size);
        AffineExpr rest = math_.shapes.constant(1);
        if (!others) {
          taken = size;
          others = math_.shapes.constant(1);
          rest = math_.quotient(last.size, size);
        }
        if (!rest)
          return false;
        own.insert(own.begin(), {taken, last.stride, last.isReversed});
        size = others;
        last = {rest, math_.times(last.stride, taken), last.isReversed};
        if (isOne(rest))
          parts.pop_back();
      }
      dims_.insert(dims_.begin(), own);
    }
    return parts.empty();
  }

  /// [..., k, n]  ->  [..., panel, k, lane]
  bool split(graph::PackOp pack) {
    size_t rank = dims_.size();
    if (rank < 2)
      return false;
    if (pack.getTransposed())
      std::swap(dims_[rank - 2], dims_[rank - 1]);
    AffineExpr panels = math_.shapes.dims(pack.getResult().getType())[rank - 2];
    AffineExpr width = math_.shapes.constant(pack.getWidth()), columns = math_.shapes.constant(1);
    SmallVector<Dim> whole = flattened(math_, {dims_.pop_back_val()}), panel, lane;
    for (const Dim &part : whole)
      columns = math_.times(columns, part.size);
    if (math_.equal(math_.times(panels, width), columns)) {
      Dims lines = std::move(dims_);
      dims_ = {whole};
      if (!regroup({panels, width}))
        return false;
      panel = dims_[0];
      lane = dims_[1];
      dims_ = std::move(lines);
    } else if (whole.size() <= 1) {
      Dim steps = whole.empty() ? Dim{width, math_.shapes.constant(1)} : whole[0];
      view.columns = columns;
      panel = {{panels, math_.times(steps.stride, width), steps.isReversed}};
      lane = {{width, steps.stride, steps.isReversed}};
    } else {
      return false;
    }
    dims_.push_back(lane);
    dims_.insert(dims_.end() - 2, panel);
    return true;
  }

  SizeMath math_;
  Dims dims_;
};

} // namespace

std::optional<StridedView> stridedView(Value value) {
  ViewBuilder builder(value.getContext());
  return builder.follow(value) ? std::optional(builder.finish()) : std::nullopt;
}

std::optional<StridedMatrices> stridedMatrices(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  ViewBuilder builder(value.getContext());
  if (!type || !type.hasStaticShape() || type.getRank() < 2 || !builder.follow(value) ||
      builder.view.columns)
    return std::nullopt;
  return builder.matrices();
}

} // namespace tensmith::kernel
