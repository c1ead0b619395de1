// Operators that shrink axes to one element, or run along one.
#ifndef TENSMITH_GRAPH_REDUCTION
#define TENSMITH_GRAPH_REDUCTION
include "compiler/graph/GraphBase.td"

// Constraint (R1): axes are in [0, rank), distinct and ascending.
class Graph_ReduceOp<string mnemonic, string text, list<Trait> traits = []>
    : Graph_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<Graph_Indexed, ["isMovement"]>], traits)> {
  let summary = text;
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$axes, DefaultValuedAttr<BoolAttr, "false">:$keepdims);
  let results = (outs Graph_Tensor:$y);
}
def Graph_ReduceSumOp : Graph_ReduceOp<"reduce_sum", "sum over `axes`; 0 of none"> {
  let description = "The result has x's type: integers wrap. Without axes nothing is summed. `keepdims` leaves dimensions of 1.";
}
def Graph_ReduceProdOp : Graph_ReduceOp<"reduce_prod", "product over `axes`; 1 of none", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = "The result has x's type: integers wrap. `keepdims` leaves dimensions of 1.";
}
def Graph_ReduceMaxOp : Graph_ReduceOp<"reduce_max", "largest over `axes`; NaN if any is; the type's lowest (-inf) of none"> {
  let description = "`keepdims` leaves dimensions of 1. Of several that are equal, all share the derivative.";
}
def Graph_ReduceMinOp : Graph_ReduceOp<"reduce_min", "smallest over `axes`; NaN if any is; the type's highest (inf) of none"> {
  let description = "`keepdims` leaves dimensions of 1. Of several that are equal, all share the derivative.";
}

class Graph_ArgReduceOp<string mnemonic, string text>
    : Graph_Op<mnemonic, [DeclareOpInterfaceMethods<Graph_Indexed, ["isMovement"]>]> {
  let summary = text # " along `axis`, as i64; the first of equals, or the last where `last`";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$keepdims,
                   DefaultValuedAttr<BoolAttr, "false">:$last);
  let results = (outs Graph_Tensor:$index);
}
def Graph_ArgMaxOp : Graph_ArgReduceOp<"arg_max", "index of the largest"> {
  let description = "NaN counts as the largest. (R3) There is at least one element; `keepdims` leaves a dimension of 1.";
}
def Graph_ArgMinOp : Graph_ArgReduceOp<"arg_min", "index of the smallest"> {
  let description = "NaN counts as the smallest. (R3) There is at least one element; `keepdims` leaves a dimension of 1.";
}

class Graph_ScanOfOp<string mnemonic, string text> : Graph_Op<mnemonic> {
  let operations = "elements(shapes, getX())";
  let summary = text # " along `axis`";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$exclusive,
                   DefaultValuedAttr<BoolAttr, "false">:$reverse);
  let results = (outs Graph_Tensor:$y);
}
def Graph_CumSumOp : Graph_ScanOfOp<"cumsum", "running sum"> {
  let description = "`exclusive`: of the elements before; `reverse`: from the end. Integers wrap.";
}
def Graph_CumProdOp : Graph_ScanOfOp<"cumprod", "running product"> {
  let description = "`exclusive`: of the elements before; `reverse`: from the end. Integers wrap.";
}
#endif
