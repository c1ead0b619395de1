// Resampling: shape functions, from scales, sizes and grids.
#include "compiler/graph/Inference.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Fractions.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/ResamplingOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addResampling() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/ResamplingOps.cpp.inc"
      >();
}

namespace {
/// The values of a constant operand.
std::optional<std::vector<double>> constantScales(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant)
    return std::nullopt;
  auto tensor = hostTensor(constant.getValue());
  if (!tensor.ok())
    return std::nullopt;
  std::vector<double> values;
  for (int64_t i = 0; i < tensor->size(); ++i)
    values.push_back(tensor->getDouble(i));
  return values;
}

/// Scales that are known; NaN for one that isn't.
std::optional<std::vector<double>> scalesOf(ShapeContext &shapes, Value value) {
  if (auto constants = constantScales(value))
    return constants;
  auto fractions = fractionsOf(shapes, value);
  if (!fractions)
    return std::nullopt;
  std::vector<double> scales;
  for (const std::optional<Fraction> &element : *fractions) {
    auto numerator = element ? dyn_cast<AffineConstantExpr>(element->numerator) : nullptr;
    auto denominator = element ? dyn_cast<AffineConstantExpr>(element->denominator) : nullptr;
    scales.push_back(numerator && denominator && !element->isRounded
                         ? double(numerator.getValue()) / double(denominator.getValue())
                         : std::numeric_limits<double>::quiet_NaN());
  }
  return scales;
}

/// The scaled size of a dimension that only the run knows, rounded down: an expression where the
/// scale is a fraction by a small power of two, as nearly all are. Then no product of them is
/// rounded, whatever type the scales have.
AffineExpr scaledSize(Inference &infer, AffineExpr size, double scale) {
  constexpr int64_t kLargestDivisor = 64;
  constexpr double kLargestScale = 1024;
  for (int64_t divisor = 1; divisor <= kLargestDivisor && std::abs(scale) < kLargestScale;
       divisor *= 2)
    if (double times = scale * double(divisor); times == std::floor(times))
      return infer.shapes.simplify((size * int64_t(times)).floorDiv(divisor));
  return infer.fresh("resize");
}
} // namespace

LogicalResult ResizeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  Dims x = infer.dims(0);
  SmallVector<int64_t> axes = getAxes() ? SmallVector<int64_t>(*getAxes())
                                        : llvm::to_vector(llvm::seq<int64_t>(0, x.size()));
  auto requireCount = [&](unsigned operand, int64_t each, StringRef what) {
    AffineExpr count = infer.constant(each * int64_t(axes.size()));
    return !infer.present(operand) ||
           succeeded(infer.requireEqual(shapes.product(infer.dims(operand)), count, "(S2)", what));
  };
  bool isCrop = getCoordinateTransformationMode() == "tf_crop_and_resize";
  if (!requireCount(2, 1, "the number of scales and that of the dimensions") ||
      !requireCount(3, 1, "the number of sizes and that of the dimensions") ||
      (isCrop &&
       !requireCount(1, 2, "the number of bounds of a crop and that of the dimensions, twice,")))
    return failure();
  auto scales = infer.present(2) ? scalesOf(shapes, getScales()) : std::nullopt;
  auto sizes = infer.present(3) ? partialContents(shapes, getSizes()) : std::nullopt;
  auto whole = infer.constants(3);
  // The policies other than stretch take one scale for all axes, from the sizes.
  std::optional<double> common;
  bool stretch = getKeepAspectRatioPolicy() == "stretch";
  bool areKnown = llvm::all_of(axes, [&](int64_t number) {
    auto axis = infer.axis(number, x.size());
    return succeeded(axis) && infer.known(x[*axis]);
  });
  if (!stretch && whole && areKnown)
    for (auto [i, number] : llvm::enumerate(axes)) {
      auto size = infer.known(x[*infer.axis(number, x.size())]);
      if (i >= whole->size())
        continue;
      double scale = *size == 0 ? 1 : double((*whole)[i]) / double(*size);
      bool smaller = getKeepAspectRatioPolicy() == "not_larger";
      common = !common ? scale : smaller ? std::min(*common, scale) : std::max(*common, scale);
    }
  for (auto [i, number] : llvm::enumerate(axes)) {
    auto axis = infer.axis(number, x.size());
    if (failed(axis))
      return failure();
    auto size = infer.known(x[*axis]);
    if (common && size)
      x[*axis] = infer.constant(int64_t(std::floor(*common * double(*size) + 0.5)));
    else if (stretch && sizes && i < sizes->size() && (*sizes)[i])
      x[*axis] = (*sizes)[i];
    else if (scales && i < scales->size() && size && !std::isnan((*scales)[i]))
      x[*axis] = infer.constant(int64_t(std::floor(double(*size) * (*scales)[i])));
    else if (scales && i < scales->size())
      x[*axis] = scaledSize(infer, x[*axis], (*scales)[i]);
    else
      x[*axis] = infer.fresh("resize");
  }
  for (auto [from, to] : llvm::zip_equal(infer.dims(0), x))
    if (failed(infer.require({Condition::Relation::AtMost, infer.constant(1), from,
                              "(S1) nothing can be resized that is empty", to})))
      return failure();
  return infer.give(infer.element(0), x);
}

LogicalResult GridSampleOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  Dims x = infer.dims(0), grid = infer.dims(1);
  if (x.size() < 3 || grid.size() != x.size())
    return infer.error() << "operand 'grid' has rank " << grid.size() << " for an image of rank "
                         << x.size();
  for (size_t dim = 2; dim < x.size(); ++dim)
    x[dim] = grid[dim - 1];
  return infer.give(infer.element(0), x);
}

LogicalResult AffineGridOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 3, 3, "theta")) || failed(infer.requireRank(1, 1, 1, "size")))
    return failure();
  auto count = infer.known(infer.dims(1)[0]);
  if (!count)
    return infer.giveUnranked(infer.element(0));
  if (*count < 4 || *count > 5)
    return infer.error() << "operand 'size' has " << *count << " elements, not 4 or 5";
  auto size = infer.contents(1);
  Dims result{size ? (*size)[0] : infer.dims(0)[0]};
  for (int64_t dim = 2; dim < *count; ++dim)
    result.push_back(size ? (*size)[dim] : infer.fresh("grid"));
  result.push_back(infer.constant(*count - 2));
  return infer.give(infer.element(0), result);
}

LogicalResult RoiAlignOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 4, 4, "x")) || failed(infer.requireRank(1, 2, 2, "rois")))
    return failure();
  return infer.give(infer.element(0),
                    {infer.dims(1)[0], infer.dims(0)[1], infer.constant(getOutputHeight()),
                     infer.constant(getOutputWidth())});
}

LogicalResult MaxRoiPoolOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 4, 4, "x")) || failed(infer.requireRank(1, 2, 2, "rois")) ||
      getPooledShape().size() != 2)
    return infer.error() << "pools into a shape of other than 2 dimensions";
  return infer.give(infer.element(0),
                    {infer.dims(1)[0], infer.dims(0)[1], infer.constant(getPooledShape()[0]),
                     infer.constant(getPooledShape()[1])});
}

} // namespace tensmith::graph
