// The passes of a convolution in training: the gradient of its weights, and the parts of all three passes by Fourier transforms whose
// weights change (base/Fourier.h). Their rules are the convolution's; their classes are declared by a header of their own (ConvolutionPasses.h),
// since few look for them.
//
// With G the planes of the spectra of the result's cotangent, under the tiles of fourier_input, the image's gradient is made of
// G's products with the weights' planes, that of the weights of the products of the image's planes with G, summed over tiles. Images are
// channels-last; `tile` and `window` are those of fourier_input.
#ifndef TENSMITH_GRAPH_CONVOLUTION_PASSES
#define TENSMITH_GRAPH_CONVOLUTION_PASSES
include "compiler/graph/GraphBase.td"

def Graph_ConvWeightsGradientOp : Graph_Op<"conv_weights_gradient", [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let operations = "elements(shapes, getG()) * elements(shapes, getY(), 1) * 2";
  let summary = "the gradient of convolution with respect to its weights [M, C/group, kernel...]: sums over images and positions of x under the window times g";
  let description = [{
    x [N, C, spatial...] is the convolution's image, g [N, M, positions...] the cotangent of its result; attributes are the
    convolution's, `kernel` its window. (V1) x and g have the same images and dimensions. (V2) Group divides C and M. (V3) strides and dilations are
    positive. (V4) g has the positions that the window has on x.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$g, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                   DenseI64ArrayAttr:$dilations, DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs Graph_Tensor:$y);
}
def Graph_FourierChangingWeightsOp : Graph_Op<"fourier_changing_weights"> {
  let summary = "fourier_weights of weights that the run computes, with their outputs last: w [C / group, kernel..., M] to [planes * group, C / group, M / group]";
  let description = "(F2) There is such a tile. (F3) Group divides the outputs.";
  let arguments = (ins Graph_Tensor:$w, DenseI64ArrayAttr:$tile, DenseI64ArrayAttr:$dilations, DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs Graph_Tensor:$y);
}
def Graph_FourierGradientOp : Graph_Op<"fourier_gradient"> {
  let summary = "the cotangent [N, positions..., M] of a convolution's result as planes of its tiles' spectra: [planes * group, tiles, M / group]";
  let description = "(F1) g has one or two dimensions of known size. (F2) There is such a tile. (F3) Group divides the channels. A tile's outputs stand in its first rows and columns, zeros behind them.";
  let arguments = (ins Graph_Tensor:$g, DenseI64ArrayAttr:$tile, DenseI64ArrayAttr:$window, DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs Graph_Tensor:$y);
}
def Graph_FourierImageGradientOp : Graph_Op<"fourier_image_gradient"> {
  let summary = "the gradient [N, image..., C] of a convolution's image from the products [planes * group, tiles, C / group] of its cotangent's planes and its weights'";
  let description = "(F2) There is such a tile. (F4) The tiles are those of whole images. Tiles overlap, and are added up. `pads`: lows, then highs.";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$tile, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$image, DenseI64ArrayAttr:$pads,
                   DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs Graph_Tensor:$y);
}
def Graph_FourierWeightsGradientOp : Graph_Op<"fourier_weights_gradient"> {
  let summary = "the gradient [C / group, kernel..., M] of a convolution's weights from the products [planes * group, C / group, M / group] of its image's planes and its cotangent's, summed over tiles";
  let description = "(F2) There is such a tile. (F4) x has a plane for each number and group.";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$tile, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$kernel,
                   DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs Graph_Tensor:$y);
}
#endif
