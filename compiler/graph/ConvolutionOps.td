// Convolution and pooling: windows that slide over spatial dimensions.
//
// Data is [N, C, spatial...] where `layout` is channels_first, [N, spatial..., C] where it is channels_last; any number
// of spatial dimensions.
// `pads`: all lows, then all highs. Output size: floor((in + low + high - dilation * (kernel - 1) - 1) / stride) + 1.
#ifndef TENSMITH_GRAPH_CONVOLUTION
#define TENSMITH_GRAPH_CONVOLUTION
include "compiler/graph/GraphBase.td"

def Graph_ConvOp : Graph_Op<"conv"> {
  let operations = "elements(shapes, getY()) * elements(shapes, getW(), 1) * 2";
  let summary = "cross-correlation (ONNX Conv): y = sum over window and channels of x * w, plus bias [M] if given";
  let description = [{
    w is [M, C/group, kernel...] in either data layout. (V1) C is group * w's second dimension; (V2) M is a multiple of
    group; (V3) strides and dilations are positive. (V4) The window has
    elements, and fits into the image with its pads. (V5) `layout` is one of the two. Integer operands accumulate in i32 where `accumulate_i32`.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$w, Graph_MaybeTensor:$bias, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                   DenseI64ArrayAttr:$dilations, DefaultValuedAttr<I64Attr, "1">:$group,
                   DefaultValuedAttr<StrAttr, "\"channels_first\"">:$layout, DefaultValuedAttr<BoolAttr, "false">:$accumulate_i32);
  let results = (outs Graph_Tensor:$y);
}
def Graph_ConvTransposeOp : Graph_Op<"conv_transpose", [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let operations = "elements(shapes, getX()) * elements(shapes, getW(), 1) * 2";
  let summary = "ONNX ConvTranspose: the gradient of convolution with respect to its input; w is [C, M/group, kernel...]";
  let description = "Output size: stride * (in - 1) + output_padding + dilation * (kernel - 1) + 1 - low - high.";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$w, Graph_MaybeTensor:$bias, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                   DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$output_padding, DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs Graph_Tensor:$y);
}
def Graph_DeformConvOp : Graph_Op<"deform_conv"> {
  let operations = "elements(shapes, getY()) * elements(shapes, getW(), 1) * 2";
  let summary = "ONNX DeformConv: convolution that samples at learned offsets, with an optional mask";
  let description = [{
    x [N, C, H, W], w [M, C / group, kh, kw], offset [N, offset_group * kh * kw * 2, OH, OW] of rows and columns, mask
    [N, offset_group * kh * kw, OH, OW]. Positions between pixels are interpolated linearly, and are 0 outside.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$w, Graph_Tensor:$offset, Graph_MaybeTensor:$bias, Graph_MaybeTensor:$mask,
                   DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, DefaultValuedAttr<I64Attr, "1">:$group,
                   DefaultValuedAttr<I64Attr, "1">:$offset_group);
  let results = (outs Graph_Tensor:$y);
}

// Where `ceil_mode`, the output size rounds up, but a window that starts beyond the padded input is left out (as PyTorch).
// Of an image that is smaller, padded, than the window by less than a stride there is one window then.
class Graph_PoolOp<string mnemonic, list<Trait> traits = []> : Graph_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<Graph_Indexed, ["isMovement"]>], traits)> {
  let operations = "elements(shapes, getY()) * product(getKernel())";
  dag window = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations,
                DefaultValuedAttr<BoolAttr, "false">:$ceil_mode, DefaultValuedAttr<StrAttr, "\"channels_first\"">:$layout);
  let arguments = window;
  let results = (outs Graph_Tensor:$y);
}
def Graph_MaxPoolOp : Graph_PoolOp<"max_pool"> {
  let summary = "largest in each window";
  let description = "Padding never is the largest. NaN is larger than anything.";
}
def Graph_AveragePoolOp : Graph_PoolOp<"average_pool"> {
  let summary = "mean of each window; padding counts as zeros where `count_include_pad`, not at all otherwise";
  let description = "The divisor is the number of elements that count.";
  let arguments = !con(window, (ins DefaultValuedAttr<BoolAttr, "false">:$count_include_pad));
}
def Graph_LpPoolOp : Graph_PoolOp<"lp_pool"> {
  let summary = "p-norm of each window";
  let description = "(sum of |x|^p)^(1/p). Padding counts as 0.";
  let arguments = !con(window, (ins DefaultValuedAttr<I64Attr, "2">:$p));
}
def Graph_MaxPoolIndicesOp : Graph_Op<"max_pool_indices"> {
  let operations = "elements(shapes, getIndices()) * product(getKernel())";
  let summary = "flat index, into the whole x, of the largest in each window (ONNX MaxPool's second result)";
  let description = "`column_major`: of the last two spatial dimensions the indices are numbered column by column (storage_order 1).";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations,
                   DefaultValuedAttr<BoolAttr, "false">:$ceil_mode, DefaultValuedAttr<BoolAttr, "false">:$column_major);
  let results = (outs Graph_Tensor:$indices);
}
def Graph_MaxUnpoolOp : Graph_Op<"max_unpool"> {
  let operations = "elements(shapes, getX())";
  let summary = "ONNX MaxUnpool: x scattered to `indices` of zeros; `output_shape` overrides the inferred one";
  let description = [{
    `indices` count through the whole result, as those of `max_pool_indices` through its operand. Output size: (in - 1)
    * stride + kernel - pads.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$indices, Graph_MaybeTensor:$output_shape, DenseI64ArrayAttr:$kernel,
                   DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads);
  let results = (outs Graph_Tensor:$y);
}
def Graph_Col2ImOp : Graph_Op<"col2im"> {
  let operations = "elements(shapes, getX())";
  let summary = "ONNX Col2Im: overlapping blocks summed into an image";
  let description = [{
    x [N, C * elements of a block, blocks]; the result is [N, C, image...]. The opposite of cutting an image into
    blocks; where they overlap they add up.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$image_shape, Graph_Tensor:$block_shape, DenseI64ArrayAttr:$dilations,
                   DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$strides);
  let results = (outs Graph_Tensor:$y);
}

// A convolution of stride 1 by minimal filtering (base/ToomCook.h): tiles of outputs x outputs pixels, `taps` x `taps`
// weights, size = outputs + taps - 1. Between the transforms it is a matrix product for each of size * size frequencies.
// Images are channels-last; tiles number the images' rows, then columns. Of integers the matrices are whole: the products are
// sums modulo 2^32, and pixels are exact if they fit with as many bits to spare as tensmith::Unscaling tells.
def Graph_WinogradInputOp : Graph_Op<"winograd_input"> {
  let summary = "patches of an image [N, H, W, C] in the frequencies' domain: [size * size, tiles, C]";
  let description = "(W1) x is of rank 4, its H and W are known. (W2) There is a transform for outputs and taps. `pads`: lows of H and W, then highs.";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$outputs, I64Attr:$taps, DenseI64ArrayAttr:$pads);
  let results = (outs Graph_Tensor:$y);
}
def Graph_WinogradWeightsOp : Graph_Op<"winograd_weights"> {
  let summary = "the weights [M, C, taps, taps] of a convolution in the frequencies' domain: [size * size, C, M]";
  let description = "(W2) There is a transform for outputs and taps. (W3) The window of w is taps x taps.";
  let arguments = (ins Graph_Tensor:$w, I64Attr:$outputs, I64Attr:$taps);
  let results = (outs Graph_Tensor:$y);
}
def Graph_WinogradOutputOp : Graph_Op<"winograd_output"> {
  let summary = "images [N, image..., M] from the products [size * size, tiles, M], plus bias [M] if given";
  let description = "(W2) There is a transform for outputs and taps. (W4) The tiles are those of whole images. (W5) The bias has one for each channel.";
  let arguments = (ins Graph_Tensor:$x, Graph_MaybeTensor:$bias, I64Attr:$outputs, I64Attr:$taps, DenseI64ArrayAttr:$image);
  let results = (outs Graph_Tensor:$y);
}

// A convolution of stride 1 by Fourier transforms (base/Fourier.h): `tile` are rows and columns of the transform, `window` sizes
// of the dilated window along the image's one or two dimensions. Between the transforms it is a matrix product for each plane of
// numbers and group, or element by element where each channel is a group of its own. Images are channels-last; tiles number the
// images' rows, then columns.
def Graph_FourierInputOp : Graph_Op<"fourier_input"> {
  let summary = "tiles of an image [N, spatial..., C] as planes of their spectra: [planes * group, tiles, C / group]";
  let description = "(F1) x has one or two dimensions of known size that the window fits into. (F2) There is such a tile. (F3) Group divides the channels. `pads`: lows, then highs.";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$tile, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$pads,
                   DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs Graph_Tensor:$y);
}
def Graph_FourierWeightsOp : Graph_Op<"fourier_weights"> {
  let summary = "the spectra of a convolution's weights [M, C / group, kernel...], conjugated and scaled: [planes * group, C / group, M / group]";
  let description = "(F2) There is such a tile. (F3) Group divides the channels. Where `pairs`, real and imaginary parts: [tile's numbers, M], of w with one channel.";
  let arguments = (ins Graph_Tensor:$w, DenseI64ArrayAttr:$tile, DenseI64ArrayAttr:$dilations, DefaultValuedAttr<I64Attr, "1">:$group,
                   DefaultValuedAttr<BoolAttr, "false">:$pairs);
  let results = (outs Graph_Tensor:$y);
}
def Graph_FourierOutputOp : Graph_Op<"fourier_output"> {
  let summary = "images [N, image..., M] from the products [planes * group, tiles, M / group], plus bias [M] if given";
  let description = "(F2) There is such a tile. (F4) The tiles are those of whole images. (F6) The bias has one for each channel.";
  let arguments = (ins Graph_Tensor:$x, Graph_MaybeTensor:$bias, DenseI64ArrayAttr:$tile, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$image,
                   DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs Graph_Tensor:$y);
}
def Graph_FourierConvOp : Graph_Op<"fourier_conv"> {
  let operations = "elements(shapes, getY()) * product(getWindow()) * 2";
  let summary = "depthwise convolution of an image [N, spatial..., C] by spectra w in pairs [tile's numbers, C], plus bias [C] if given";
  let description = "(F1) x has one or two dimensions of known size that the window fits into. (F2) There is such a tile. (F5) w has all numbers of the tile, for each channel. (F6) The bias has one for each channel.";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$w, Graph_MaybeTensor:$bias, DenseI64ArrayAttr:$tile, DenseI64ArrayAttr:$window,
                   DenseI64ArrayAttr:$pads);
  let results = (outs Graph_Tensor:$y);
}
#endif
