// Between numbers and their low-precision codes: x = (q - zero_point) * scale.
#ifndef TENSMITH_GRAPH_QUANTIZATION
#define TENSMITH_GRAPH_QUANTIZATION
include "compiler/graph/GraphBase.td"

// `scale` is a scalar, a vector along `axis`, or (block_size > 0) one for each block of that many elements along `axis`.
def Graph_QuantizeOp : Graph_Op<"quantize", [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let summary = "ONNX QuantizeLinear: saturate(round_half_even(x / scale) + zero_point), of element type `to`";
  let description = [{
    x / scale is rounded, not truncated; a type of floats is rounded to nearest even, and `saturate` says what becomes
    of what is too large.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$scale, Graph_MaybeTensor:$zero_point, I64Attr:$axis,
                   DefaultValuedAttr<I64Attr, "0">:$block_size, TypeAttr:$to, DefaultValuedAttr<BoolAttr, "true">:$saturate);
  let results = (outs Graph_Tensor:$y);
}
def Graph_DequantizeOp : Graph_Op<"dequantize", [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let summary = "ONNX DequantizeLinear: (x - zero_point) * scale, of element type `to`";
  let description = "x is of codes of 2 to 8 bits, of i16, ui16 or i32, or of 8-bit and 4-bit floats. No zero point is zero.";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$scale, Graph_MaybeTensor:$zero_point, I64Attr:$axis,
                   DefaultValuedAttr<I64Attr, "0">:$block_size, TypeAttr:$to);
  let results = (outs Graph_Tensor:$y);
}
#endif
