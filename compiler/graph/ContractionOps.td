// Sums of products over a shared dimension.
#ifndef TENSMITH_GRAPH_CONTRACTION
#define TENSMITH_GRAPH_CONTRACTION
include "compiler/graph/GraphBase.td"

def Graph_MatMulOp : Graph_Op<"matmul"> {
  let operations = "elements(shapes, getC()) * shapes.dims(getA().getType()).back() * 2";
  let summary = "matrix product of stacks of matrices, as numpy.matmul (vectors included)";
  let description = [{
    (C1) the last dimension of a equals the last but one of b (the last where b is a vector); (C2) leading dimensions
    broadcast. Integers accumulate in the result type, which is that of the operands, or i32 where `accumulate_i32`.
  }];
  let arguments = (ins Graph_Tensor:$a, Graph_Tensor:$b, DefaultValuedAttr<BoolAttr, "false">:$accumulate_i32);
  let results = (outs Graph_Tensor:$c);
}
def Graph_EinsumOp : Graph_Op<"einsum", [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let summary = "Einstein summation; `equation` as numpy.einsum, ellipsis included";
  let description = [{
    Letters are dimensions; what is not in the result is summed. Without `->` the result has the letters that come once,
    sorted. A letter's sizes are equal, or 1. A letter that comes twice in an operand is its diagonal.
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$inputs, StrAttr:$equation);
  let results = (outs Graph_Tensor:$c);
}
def Graph_DetOp : Graph_Op<"det"> {
  let operations = "elements(shapes, getX()) * shapes.dims(getX().getType()).back()";
  let summary = "determinant of a stack of square matrices";
  let description = "x is [..., n, n]; by elimination with pivots. 1 of an empty matrix.";
  let arguments = (ins Graph_Tensor:$x);
  let results = (outs Graph_Tensor:$y);
}
#endif
