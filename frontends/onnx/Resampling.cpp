// Reading images between their elements.
#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {
namespace {

/// Upsample, and Resize as of opset 10: positions are i / scale, the nearest is the one below.
LogicalResult legacyResize(NodeImport &n, Value scales) {
  std::string mode = n.stringAttr("mode", "nearest");
  return n.give({n("graph.resize", {n.input(0), n.none(), scales, n.none()},
                   {n.text("mode", mode == "bilinear" ? "linear" : mode),
                    n.text("coordinate_transformation_mode", "asymmetric"),
                    n.text("nearest_mode", "floor")})});
}

LogicalResult upsample(NodeImport &n) {
  if (n.has(1))
    return legacyResize(n, n.input(1));
  SmallVector<double> scales = n.floatsAttr("scales");
  if (scales.empty()) // opset 1
    scales = {1, 1, n.floatAttr("height_scale", 1), n.floatAttr("width_scale", 1)};
  HostTensor tensor(DataType::F32, {int64_t(scales.size())});
  for (auto [i, scale] : llvm::enumerate(scales))
    tensor.setDouble(int64_t(i), scale);
  return legacyResize(n, n.constant(tensor));
}

/// An operand that is there but empty is absent (opset 11 had no other way to leave it out).
Value unlessEmpty(NodeImport &n, size_t number) {
  Value value = n.input(number);
  if (!value || !n.isRanked(value))
    return n.maybe(number);
  bool empty = llvm::any_of(n.dims(value), [](AffineExpr d) { return NodeImport::known(d) == 0; });
  return empty ? n.none() : value;
}

LogicalResult resize(NodeImport &n) {
  if (n.opset < 11)
    return n.has(1) ? legacyResize(n, n.input(1)) : n.error("operand 1, the scales, is missing");
  std::string mode = n.stringAttr("mode", "nearest");
  SmallVector<NamedAttribute> attributes{
      n.text("mode", mode),
      n.text("coordinate_transformation_mode",
             n.stringAttr("coordinate_transformation_mode", "half_pixel")),
      n.text("nearest_mode", n.stringAttr("nearest_mode", "round_prefer_floor")),
      n.real("cubic_coeff_a", n.floatAttr("cubic_coeff_a", -0.75)),
      n.boolean("exclude_outside", n.intAttr("exclude_outside")),
      n.real("extrapolation_value", n.floatAttr("extrapolation_value", 0)),
      n.boolean("antialias", n.intAttr("antialias")),
      n.text("keep_aspect_ratio_policy", n.stringAttr("keep_aspect_ratio_policy", "stretch"))};
  if (n.hasAttribute("axes")) {
    if (failed(n.needRank(0)))
      return failure();
    Ints axes = n.intsAttr("axes");
    for (int64_t &axis : axes) {
      auto dim = n.axis(axis, n.rank(n.input(0)));
      if (failed(dim))
        return failure();
      axis = *dim;
    }
    attributes.push_back(n.integers("axes", axes));
  }
  return n.give(
      {n("graph.resize", {n.input(0), unlessEmpty(n, 1), unlessEmpty(n, 2), unlessEmpty(n, 3)},
         attributes)});
}

LogicalResult gridSample(NodeImport &n) {
  std::string mode = n.stringAttr("mode", n.opset < 20 ? "bilinear" : "linear");
  if (mode == "bilinear")
    mode = "linear";
  if (mode == "bicubic")
    mode = "cubic";
  return n.give(
      {n("graph.grid_sample", {n.input(0), n.input(1)},
         {n.text("mode", mode), n.text("padding_mode", n.stringAttr("padding_mode", "zeros")),
          n.boolean("align_corners", n.intAttr("align_corners"))})});
}

LogicalResult affineGrid(NodeImport &n) {
  return n.give({n("graph.affine_grid", {n.input(0), n.input(1)},
                   {n.boolean("align_corners", n.intAttr("align_corners"))})});
}

LogicalResult roiAlign(NodeImport &n) {
  const char *positions = n.opset < 16 ? "output_half_pixel" : "half_pixel";
  return n.give({n("graph.roi_align", {n.input(0), n.input(1), n.input(2)},
                   {n.text("mode", n.stringAttr("mode", "avg")),
                    n.integer("output_height", n.intAttr("output_height", 1)),
                    n.integer("output_width", n.intAttr("output_width", 1)),
                    n.integer("sampling_ratio", n.intAttr("sampling_ratio", 0)),
                    n.real("spatial_scale", n.floatAttr("spatial_scale", 1)),
                    n.text("coordinate_transformation_mode",
                           n.stringAttr("coordinate_transformation_mode", positions))})});
}

constexpr Operator kOperators[] = {
    {"Upsample", upsample},     {"Resize", resize},     {"GridSample", gridSample},
    {"AffineGrid", affineGrid}, {"RoiAlign", roiAlign},
};

} // namespace

std::span<const Operator> resamplingOperators() { return kOperators; }

} // namespace tensmith::onnx_import
