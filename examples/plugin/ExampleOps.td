// The operators of the example, in a dialect of their own. What they need is what any operator of Tensmith has: a shape
// function comes with Graph_OperatorOf, and the code of an element with Graph_Elementwise or Graph_Indexed.
include "compiler/graph/GraphBase.td"

def Example_Dialect : Dialect {
  let name = "example";
  let cppNamespace = "::example";
  let dependentDialects = ["::tensmith::graph::GraphDialect"];
}

// Elements near zero become zero, all others come nearer to it: the step of sparse coding and of wavelet denoising.
def Example_SoftThresholdOp
    : Graph_OperatorOf<Example_Dialect, "soft_threshold", [DeclareOpInterfaceMethods<Graph_Elementwise>]> {
  let summary = "sign(x) * max(|x| - threshold, 0); operands are broadcast, so that a threshold may be one for each channel";
  let description = "(S1) both are floats of one type";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$threshold);
  let results = (outs Graph_Tensor:$y);
}

def Example_DifferenceOp
    : Graph_OperatorOf<Example_Dialect, "difference", [DeclareOpInterfaceMethods<Graph_Indexed, ["isMovement"]>]> {
  let summary = "y[i] = x[i + shift] - x[i] along one dimension, which becomes shorter by the shift";
  let description = "(D1) x is of floats; (D2) shift is from 0 to the size of the dimension";
  let arguments = (ins Graph_Tensor:$x, DefaultValuedAttr<I64Attr, "-1">:$axis, DefaultValuedAttr<I64Attr, "1">:$shift);
  let results = (outs Graph_Tensor:$y);
}
