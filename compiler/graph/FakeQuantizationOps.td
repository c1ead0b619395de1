// Rounding to codes and back as one operator of floats, through which a model can be trained. Its classes are declared by a
// header of their own (FakeQuantization.h), since few look for them.
#ifndef TENSMITH_GRAPH_FAKE_QUANTIZATION
#define TENSMITH_GRAPH_FAKE_QUANTIZATION
include "compiler/graph/GraphBase.td"

// dequantize(quantize(x)) with the same scale, zero point and axis. Its derivative by x is 1 where x is within what codes reach,
// and 0 beyond (the straight-through estimator: Bengio et al., "Estimating or Propagating Gradients Through Stochastic
// Neurons for Conditional Computation", 2013).
def Graph_FakeQuantizeOp : Graph_Op<"fake_quantize", [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let summary = "x rounded to codes of the type `to`, and back; with a gradient that passes straight through";
  let description = [{
    dequantize(quantize(x)) in x's type. `to` is an integer type of 2 to 8 bits; scale, zero point, axis and blocks as
    quantize has them.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$scale, Graph_MaybeTensor:$zero_point, I64Attr:$axis,
                   DefaultValuedAttr<I64Attr, "0">:$block_size, TypeAttr:$to);
  let results = (outs Graph_Tensor:$y);
}
#endif
