// What derivatives of sequences and optionals are made with. Their rules are control flow's family's (Structure.cpp); their
// classes are declared by a header of their own (SequenceChanges.h), since few look for them.
#ifndef TENSMITH_GRAPH_SEQUENCE_CHANGES
#define TENSMITH_GRAPH_SEQUENCE_CHANGES
include "compiler/graph/GraphBase.td"

def Graph_SequenceZerosOp : Graph_Op<"sequence_zeros"> {
  let summary = "zeros in place of all elements of a tensor, of those of a sequence, or of what an optional holds";
  let description = "The start of a sum of derivatives.";
  let arguments = (ins Graph_Value:$value);
  let results = (outs Graph_Value:$zeros);
}
def Graph_SequenceSumOp : Graph_Op<"sequence_sum"> {
  let summary = "the sum of two tensors, of the elements of two sequences of one length, or of what two optionals hold; none adds nothing";
  let description = "Derivatives of two uses of one value meet in it.";
  let arguments = (ins Graph_Value:$a, Graph_Value:$b);
  let results = (outs Graph_Value:$sum);
}
def Graph_SequenceSizesOp : Graph_Op<"sequence_sizes"> {
  let summary = "the size along `axis` of each element of a sequence, as a vector of i64";
  let description = "It takes the derivative of a concatenation apart.";
  let arguments = (ins Graph_Value:$sequence, I64Attr:$axis);
  let results = (outs Graph_Tensor:$sizes);
}
#endif
