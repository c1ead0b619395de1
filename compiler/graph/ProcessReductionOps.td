// Reductions over processes instead of axes. Their rules are the reductions'; their classes are declared by a header of their
// own (ProcessReduction.h), since few look for them.
#ifndef TENSMITH_GRAPH_PROCESS_REDUCTION
#define TENSMITH_GRAPH_PROCESS_REDUCTION
include "compiler/graph/GraphBase.td"

// Constraint (R2): x is of f32 or f64.
// A function of what all processes have, and so without a side effect: they run one compilation, with one another. Where
// some of them may not come to, in a branch or a loop, it can't be compiled.
def Graph_AllReduceMeanOp : Graph_Op<"all_reduce_mean"> {
  let summary = "mean of each element over the processes that run the program together; in one process x itself";
  let description = "Its derivative is the mean of the derivatives. All processes must come to it.";
  let arguments = (ins Graph_Tensor:$x);
  let results = (outs Graph_Tensor:$y);
}
#endif
