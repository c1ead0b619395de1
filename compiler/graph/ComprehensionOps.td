// Tensor comprehensions. Their classes are declared by a header of their own (Comprehension.h), since few look for them.
#ifndef TENSMITH_GRAPH_COMPREHENSION
#define TENSMITH_GRAPH_COMPREHENSION
include "compiler/graph/GraphBase.td"

def Graph_ComprehensionOp : Graph_Op<"comprehension", [DeclareOpInterfaceMethods<Graph_Indexed, ["isMovement"]>,
                                                       DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let summary = "a tensor that statements over indices define, whose ranges are inferred (docs/comprehensions.md)";
  let description = [{
    `text` holds definitions, `function` the name of one, which may be left out of a text with one; `output` is one of its
    results, the first where it is empty. Inputs are its parameters, in order. Floats are computed in double precision by the
    reference and rounded at each statement; integers wrap.

    (C1) Inputs are as many as the parameters, of their element types and ranks, and equal in sizes of one name.
    (C2) No element outside of a tensor is read: where sizes tell, before the computation; else where it is read.
    (C3) A range ends where it begins or behind, for indices of the target.

    A `statement` of 0 or more is that statement alone: its operands are the tensors that it is computed from, in the order
    in which they are defined, and its result the new value of its target.
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$inputs, StrAttr:$text, DefaultValuedAttr<StrAttr, "\"\"">:$function,
                   DefaultValuedAttr<StrAttr, "\"\"">:$output, DefaultValuedAttr<I64Attr, "-1">:$statement);
  let results = (outs Graph_Tensor:$y);
  let operations = "::tensmith::graph::operationsOfComprehension(*this, shapes)";
}
#endif
