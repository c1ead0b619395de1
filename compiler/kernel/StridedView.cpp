// Movements as strides; see StridedView.h.
#include "compiler/kernel/StridedView.h"

#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;

namespace tensmith::kernel {
namespace {

using Dim = StridedView::Dim;
/// The parts of each dimension, row-major.
using Dims = SmallVector<SmallVector<Dim>>;

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Appends a part behind the others: as one with the last, if they go through memory as one.
void append(SmallVectorImpl<Dim> &parts, Dim part) {
  if (part.size == 1)
    return;
  if (!parts.empty() && parts.back().stride == part.size * part.stride) {
    parts.back() = {parts.back().size * part.size, part.stride};
    return;
  }
  parts.push_back(part);
}

SmallVector<Dim> flattened(ArrayRef<SmallVector<Dim>> dims) {
  SmallVector<Dim> parts;
  for (ArrayRef<Dim> dim : dims)
    for (Dim part : dim)
      append(parts, part);
  return parts;
}

class ViewBuilder {
public:
  /// False where the value can't be told as strides.
  bool follow(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !type.hasStaticShape() || type.getNumElements() == 0)
      return false;
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<graph::ReshapeOp, graph::TransposeOp, graph::ReverseOp, graph::SliceOp,
                         graph::PackOp>(op))
      return begin(value);
    if (!follow(op->getOperand(0)) || view.columns)
      return false;
    return llvm::TypeSwitch<Operation *, bool>(op)
        .Case([&](graph::ReshapeOp) { return regroup(type.getShape()); })
        .Case([&](graph::TransposeOp transpose) { return permute(transpose.getPermutation()); })
        .Case([&](graph::ReverseOp reverse) { return flip(reverse.getAxes()); })
        .Case([&](graph::SliceOp slice) { return cut(slice); })
        .Case([&](graph::PackOp pack) { return split(pack); });
  }

  StridedView finish() {
    if (!view.columns) {
      view.dims = flattened(dims_);
      return view;
    }
    // The number of a column is of panel and lane alone.
    for (auto [number, dim] : llvm::enumerate(dims_)) {
      bool isPanel = number + 3 == dims_.size(), isLane = number + 1 == dims_.size();
      if (isPanel)
        view.panelDim = view.dims.size();
      llvm::append_range(view.dims, isPanel || isLane ? dim : flattened({dim}));
    }
    return view;
  }

  StridedMatrices matrices() const {
    auto dims = ArrayRef(dims_);
    return {view.source, view.offset, flattened(dims.drop_back(2)),
            flattened(dims.take_back(2).take_front()), flattened(dims.take_back())};
  }

  StridedView view;

private:
  bool begin(Value value) {
    view.source = value;
    int64_t stride = 1;
    for (int64_t size : llvm::reverse(shapeOf(value))) {
      dims_.insert(dims_.begin(), SmallVector<Dim>{{size, stride}});
      stride *= size;
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

  bool flip(ArrayRef<int64_t> axes) {
    for (int64_t axis : axes)
      for (Dim &part : dims_[axis]) {
        view.offset += part.stride * (part.size - 1);
        part.stride = -part.stride;
      }
    return true;
  }

  /// A part of a dimension that is whole in memory.
  bool cut(graph::SliceOp slice) {
    for (auto [dim, size] : llvm::enumerate(shapeOf(slice.getY()))) {
      int64_t start = slice.getStarts()[dim], step = slice.getSteps()[dim];
      if (size == shapeOf(slice.getX())[dim] && start == 0 && step == 1)
        continue;
      SmallVector<Dim> whole = flattened({dims_[dim]});
      if (whole.size() > 1)
        return false;
      int64_t stride = whole.empty() ? 0 : whole[0].stride;
      view.offset += start * stride;
      dims_[dim] = {{size, step * stride}};
    }
    return true;
  }

  /// The parts of all dimensions are shared out anew.
  bool regroup(ArrayRef<int64_t> shape) {
    SmallVector<Dim> parts = flattened(dims_);
    dims_.clear();
    for (int64_t size : llvm::reverse(shape)) {
      SmallVector<Dim> own;
      while (size > 1) {
        Dim &last = parts.back();
        int64_t taken = std::gcd(size, last.size);
        // What is taken are the last elements of it: the rest steps over them.
        if (taken == 1 || (taken != size && taken != last.size))
          return false;
        own.insert(own.begin(), {taken, last.stride});
        size /= taken;
        last = {last.size / taken, last.stride * taken};
        if (last.size == 1)
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
    int64_t width = pack.getWidth(), panels = shapeOf(pack.getResult())[rank - 2], columns = 1;
    SmallVector<Dim> whole = flattened({dims_.pop_back_val()}), panel, lane;
    for (Dim part : whole)
      columns *= part.size;
    if (panels * width == columns) {
      Dims lines = std::move(dims_);
      dims_ = {whole};
      if (!regroup({panels, width}))
        return false;
      panel = dims_[0];
      lane = dims_[1];
      dims_ = std::move(lines);
    } else if (whole.size() <= 1) {
      int64_t stride = whole.empty() ? 1 : whole[0].stride;
      view.columns = columns;
      panel = {{panels, width * stride}};
      lane = {{width, stride}};
    } else {
      return false;
    }
    dims_.push_back(lane);
    dims_.insert(dims_.end() - 2, panel);
    return true;
  }

  Dims dims_;
};

} // namespace

std::optional<StridedView> stridedView(Value value) {
  ViewBuilder builder;
  return builder.follow(value) ? std::optional(builder.finish()) : std::nullopt;
}

std::optional<StridedMatrices> stridedMatrices(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  ViewBuilder builder;
  if (!type || type.getRank() < 2 || !builder.follow(value) || builder.view.columns)
    return std::nullopt;
  return builder.matrices();
}

} // namespace tensmith::kernel
