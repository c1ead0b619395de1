// Reading an image at positions between its elements.
#ifndef TENSMITH_GRAPH_RESAMPLING
#define TENSMITH_GRAPH_RESAMPLING
include "compiler/graph/GraphBase.td"

def Graph_ResizeOp : Graph_Op<"resize", [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let operations = "elements(shapes, getY()) * 8";
  let summary = "ONNX Resize (newest opset): x scaled by `scales` or to `sizes`";
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
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$grid, DefaultValuedAttr<StrAttr, "\"linear\"">:$mode,
                   DefaultValuedAttr<StrAttr, "\"zeros\"">:$padding_mode, DefaultValuedAttr<BoolAttr, "false">:$align_corners);
  let results = (outs Graph_Tensor:$y);
}
def Graph_AffineGridOp : Graph_Op<"affine_grid"> {
  let summary = "ONNX AffineGrid: the positions that a batch of affine maps `theta` sends an image of `size` to";
  let arguments = (ins Graph_Tensor:$theta, Graph_Tensor:$size, DefaultValuedAttr<BoolAttr, "false">:$align_corners);
  let results = (outs Graph_Tensor:$grid);
}
def Graph_RoiAlignOp : Graph_Op<"roi_align"> {
  let operations = "elements(shapes, getY()) * 8";
  let summary = "ONNX RoiAlign (opset 16 and later)";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$rois, Graph_Tensor:$batch_indices, DefaultValuedAttr<StrAttr, "\"avg\"">:$mode,
                   DefaultValuedAttr<I64Attr, "1">:$output_height, DefaultValuedAttr<I64Attr, "1">:$output_width,
                   DefaultValuedAttr<I64Attr, "0">:$sampling_ratio, DefaultValuedAttr<F64Attr, "1.0">:$spatial_scale,
                   DefaultValuedAttr<StrAttr, "\"half_pixel\"">:$coordinate_transformation_mode);
  let results = (outs Graph_Tensor:$y);
}
def Graph_MaxRoiPoolOp : Graph_Op<"max_roi_pool"> {
  let operations = "elements(shapes, getY()) * 16";
  let summary = "ONNX MaxRoiPool";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$rois, DenseI64ArrayAttr:$pooled_shape, DefaultValuedAttr<F64Attr, "1.0">:$spatial_scale);
  let results = (outs Graph_Tensor:$y);
}
#endif
