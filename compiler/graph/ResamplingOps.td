// Reading an image at positions between its elements.
#ifndef TENSMITH_GRAPH_RESAMPLING
#define TENSMITH_GRAPH_RESAMPLING
include "compiler/graph/GraphBase.td"

def Graph_ResizeOp : Graph_Op<"resize", [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let operations = "elements(shapes, getY()) * 8";
  let summary = "ONNX Resize (newest opset): x scaled by `scales` or to `sizes`";
  let description = [{
    One of `scales` and `sizes` is given, with an element for each of `axes` (all dimensions if absent). `mode`:
    nearest, linear, cubic, of as many dimensions as change. Where an output pixel lies is said by
    `coordinate_transformation_mode`: half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric,
    tf_crop_and_resize (of the part `roi`, with `extrapolation_value` outside). `antialias` widens linear and cubic
    filters when the image shrinks.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_MaybeTensor:$roi, Graph_MaybeTensor:$scales, Graph_MaybeTensor:$sizes,
                   DefaultValuedAttr<StrAttr, "\"nearest\"">:$mode,
                   DefaultValuedAttr<StrAttr, "\"half_pixel\"">:$coordinate_transformation_mode,
                   DefaultValuedAttr<StrAttr, "\"round_prefer_floor\"">:$nearest_mode, DefaultValuedAttr<F64Attr, "-0.75">:$cubic_coeff_a,
                   DefaultValuedAttr<BoolAttr, "false">:$exclude_outside, DefaultValuedAttr<F64Attr, "0.0">:$extrapolation_value,
                   DefaultValuedAttr<BoolAttr, "false">:$antialias, OptionalAttr<DenseI64ArrayAttr>:$axes,
                   DefaultValuedAttr<StrAttr, "\"stretch\"">:$keep_aspect_ratio_policy);
  let results = (outs Graph_Tensor:$y);
}
def Graph_GridSampleOp : Graph_Op<"grid_sample"> {
  let operations = "elements(shapes, getY()) * 8";
  let summary = "ONNX GridSample: x read at the positions of `grid` ([-1, 1] over the image); `mode` linear, nearest or cubic";
  let description = [{
    x [N, C, spatial...], grid [N, out..., coordinates], the last dimension's first. `padding_mode`: zeros, border or
    reflection. -1 and 1 are the middle of the outer pixels where `align_corners`, else their outer edges.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$grid, DefaultValuedAttr<StrAttr, "\"linear\"">:$mode,
                   DefaultValuedAttr<StrAttr, "\"zeros\"">:$padding_mode, DefaultValuedAttr<BoolAttr, "false">:$align_corners);
  let results = (outs Graph_Tensor:$y);
}
def Graph_AffineGridOp : Graph_Op<"affine_grid"> {
  let summary = "ONNX AffineGrid: the positions that a batch of affine maps `theta` sends an image of `size` to";
  let description = [{
    theta [N, 2, 3] and size [N, C, H, W] give [N, H, W, 2]; theta [N, 3, 4] and size [N, C, D, H, W] give [N, D, H, W,
    3].
  }];
  let arguments = (ins Graph_Tensor:$theta, Graph_Tensor:$size, DefaultValuedAttr<BoolAttr, "false">:$align_corners);
  let results = (outs Graph_Tensor:$grid);
}
def Graph_RoiAlignOp : Graph_Op<"roi_align"> {
  let operations = "elements(shapes, getY()) * 8";
  let summary = "ONNX RoiAlign (opset 16 and later)";
  let description = [{
    x [N, C, H, W], rois [R, 4] as x1, y1, x2, y2, times `spatial_scale`; batch_indices [R] of i64 say of which image.
    Each of output_height x output_width bins is the mean (`avg`) or the largest (`max`) of sampling_ratio^2 points, or
    of as many as a bin has pixels where that is 0. `coordinate_transformation_mode`: half_pixel or output_half_pixel.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$rois, Graph_Tensor:$batch_indices, DefaultValuedAttr<StrAttr, "\"avg\"">:$mode,
                   DefaultValuedAttr<I64Attr, "1">:$output_height, DefaultValuedAttr<I64Attr, "1">:$output_width,
                   DefaultValuedAttr<I64Attr, "0">:$sampling_ratio, DefaultValuedAttr<F64Attr, "1.0">:$spatial_scale,
                   DefaultValuedAttr<StrAttr, "\"half_pixel\"">:$coordinate_transformation_mode);
  let results = (outs Graph_Tensor:$y);
}
def Graph_MaxRoiPoolOp : Graph_Op<"max_roi_pool"> {
  let operations = "elements(shapes, getY()) * 16";
  let summary = "ONNX MaxRoiPool";
  let description = [{
    x [N, C, H, W], rois [R, 5] as image, x1, y1, x2, y2, times `spatial_scale` and rounded; the result is [R, C,
    pooled...]. 0 of an empty bin.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$rois, DenseI64ArrayAttr:$pooled_shape, DefaultValuedAttr<F64Attr, "1.0">:$spatial_scale);
  let results = (outs Graph_Tensor:$y);
}
#endif
