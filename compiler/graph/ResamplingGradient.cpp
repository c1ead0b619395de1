// Resampling: resizing is a matrix along each dimension, which is what it makes of the identity.
//
// So it is differentiated as products with those matrices, which constant folding computes where
// the sizes are known. Images that are repeated element by element are so in the gradient too.
#include "compiler/graph/Constants.h"
#include "compiler/graph/ResizeCode.h"
#include "compiler/graph/SamplingGradient.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

std::optional<int64_t> constant(AffineExpr size) {
  auto known = dyn_cast<AffineConstantExpr>(size);
  return known ? std::optional(known.getValue()) : std::nullopt;
}

/// A scale that is known.
std::optional<double> scaleOf(Operation *op, size_t position) {
  auto scales = op->getOperand(2).getDefiningOp<ConstantOp>();
  auto tensor = scales ? hostTensor(scales.getValue())
                       : Result<HostTensor>(Status(StatusCode::Unsupported, "not a constant"));
  if (!tensor.ok() || int64_t(position) >= tensor->size())
    return std::nullopt;
  return tensor->getDouble(int64_t(position));
}

/// How often each element of a dimension is repeated, where that is all that resizing does.
int64_t repeats(Operation *op, AffineExpr from, AffineExpr to) {
  auto size = constant(from), resized = constant(to);
  StringRef transformation = textOf(op, "coordinate_transformation_mode", "half_pixel");
  StringRef rounding = textOf(op, "nearest_mode", "round_prefer_floor");
  // Halfway between elements there is none that half pixels ask for, whichever way halves go.
  bool isCentred = transformation.starts_with("half_pixel") && rounding.starts_with("round");
  bool isFloor = transformation == "asymmetric" && rounding == "floor";
  if (textOf(op, "mode", "nearest") != "nearest" || (!isCentred && !isFloor) || !size || !resized ||
      *size == 0 || *resized % *size != 0 || flagOf(op, "antialias"))
    return 0;
  return *resized / *size;
}

/// x times a matrix along one dimension.
Value multiplied(const GradientCode &code, Value x, int64_t dim, Value matrix) {
  if (!x)
    return x;
  int64_t rank = GraphCode::rank(x);
  auto swap = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(swap[size_t(dim)], swap.back());
  bool isLast = dim == rank - 1;
  if (rank == 1)
    return code.matmul(x, matrix);
  Value turned = isLast ? x : code.transpose(x, swap);
  Value product = code.matmul(turned, matrix);
  return isLast ? product : code.transpose(product, swap);
}

/// What the operator makes of the identity along its second dimension, the only one resized.
Value matrixOf(const GradientCode &code, Operation *op, int64_t dim, size_t position) {
  auto own = [&](unsigned operand) {
    Value vector = op->getOperand(operand);
    return GraphCode::isAbsent(vector) ? vector
                                       : code.slice(vector, int64_t(position), code.size(1));
  };
  Value scale = own(2);
  if (auto known = scaleOf(op, position)) { // for the shape function to see it
    HostTensor one(graph::dataType(GraphCode::element(scale)), {1});
    one.setDouble(0, *known);
    scale = code.graph.constant(one);
  }
  SmallVector<NamedAttribute> attributes{code.integers("axes", {1})};
  for (NamedAttribute attribute : op->getAttrs())
    if (attribute.getName() != "axes")
      attributes.push_back(attribute);
  return code.op("graph.resize",
                 {code.identityOf(op->getOperand(0), dim), code.graph.none(), scale, own(3)},
                 attributes);
}

LogicalResult resizing(const GradientCode &code, Operation *op, SmallVectorImpl<Value> &results) {
  Value x = op->getOperand(0);
  if (!GraphCode::isRanked(x) || !GraphCode::isRanked(op->getResult(0)) ||
      textOf(op, "coordinate_transformation_mode") == "tf_crop_and_resize" ||
      textOf(op, "keep_aspect_ratio_policy", "stretch") != "stretch")
    return failure();
  SmallVector<int64_t> axes(integersOf(op, "axes"));
  if (!op->hasAttr("axes"))
    axes = llvm::to_vector(llvm::seq<int64_t>(0, GraphCode::rank(x)));
  GraphCode::Dims from = code.dims(x), to = code.dims(op->getResult(0));
  for (auto [position, axis] : llvm::enumerate(axes)) {
    int64_t dim = axis < 0 ? axis + int64_t(from.size()) : axis;
    auto scale = scaleOf(op, position);
    if (from[dim] == to[dim] && (scale ? *scale == 1 : GraphCode::isAbsent(op->getOperand(2))))
      continue;
    int64_t times = repeats(op, from[dim], to[dim]);
    if (scale ? *scale != double(times) : !GraphCode::isAbsent(op->getOperand(2)))
      times = 0;
    x = times ? repeated(code, x, dim, times)
              : multiplied(code, x, dim, matrixOf(code, op, dim, position));
  }
  return finish(code.reshapeLike(x, op->getResult(0)), results);
}

/// The grid of the identity, with a coordinate of ones, times the maps.
LogicalResult affine(const GradientCode &code, Operation *op, SmallVectorImpl<Value> &results) {
  Value theta = op->getOperand(0), grid = op->getResult(0);
  if (!GraphCode::isRanked(theta) || !GraphCode::isRanked(grid))
    return failure();
  GraphCode::Dims dims = code.dims(theta), sizes = code.dims(grid);
  auto rows = constant(dims[1]);
  if (!rows)
    return failure();
  GraphCode::Dims square{dims[1], dims[2]};
  Value identity = code.cast(code.op("graph.equal", {code.iota(square, 0), code.iota(square, 1)}),
                             GraphCode::element(theta));
  Value base = code.op("graph.affine_grid", {code.broadcast(identity, dims), op->getOperand(1)},
                       llvm::to_vector(op->getAttrs()));
  AffineExpr positions = code.graph.shapes.product(ArrayRef(sizes).drop_front().drop_back());
  base = code.reshape(base, {sizes[0], positions, sizes.back()});
  Value ones = code.broadcast(code.scalar(theta, 1), {sizes[0], positions, code.size(1)});
  Value product = code.matmul(code.concat({base, ones}, 2), code.transpose(theta, {0, 2, 1}));
  return finish(code.reshapeLike(product, grid), results);
}

} // namespace

std::span<const NamedGradientRule> resamplingGradients() {
  static const NamedGradientRule kRules[] = {
      {"resize", expanded(resizing, 1)},
      {"grid_sample", expanded(sampling::gridSample, 0b11)},
      {"affine_grid", expanded(affine, 1)},
      {"roi_align", expanded(sampling::roiAlign, 0b11)},
      {"max_roi_pool", expanded(sampling::maxRoiPool, 1)},
  };
  return kRules;
}

} // namespace tensmith::graph
