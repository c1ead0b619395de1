// Between numbers and their low-precision codes: x = (q - zero_point) * scale.
#ifndef TENSMITH_GRAPH_QUANTIZATION
#define TENSMITH_GRAPH_QUANTIZATION
include "compiler/graph/GraphBase.td"

// `scale` is a scalar, a vector along `axis`, or (block_size > 0) one for each block of that many elements along `axis`.
def Graph_QuantizeOp : Graph_Op<"quantize", [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let summary = "ONNX QuantizeLinear: saturate(round_half_even(x / scale) + zero_point), of element type `to`";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$scale, Graph_MaybeTensor:$zero_point, I64Attr:$axis,
                   DefaultValuedAttr<I64Attr, "0">:$block_size, TypeAttr:$to, DefaultValuedAttr<BoolAttr, "true">:$saturate);
  let results = (outs Graph_Tensor:$y);
}
def Graph_DequantizeOp : Graph_Op<"dequantize", [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let summary = "ONNX DequantizeLinear: (x - zero_point) * scale, of element type `to`";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$scale, Graph_MaybeTensor:$zero_point, I64Attr:$axis,
                   DefaultValuedAttr<I64Attr, "0">:$block_size, TypeAttr:$to);
  let results = (outs Graph_Tensor:$y);
}
#endif
