// Weights in blocks of few bits (base/BlockFormats.h), which are multiplied as they lie in the file. Their classes are
// declared by a header of their own (Blocks.h), since few look for them.
#ifndef TENSMITH_GRAPH_BLOCKS
#define TENSMITH_GRAPH_BLOCKS
include "compiler/graph/GraphBase.td"

// Constraints: (B1) `format` is one of base/BlockFormats.h, and bytes are ui8. (B2) the last dimension of the bytes is known,
// and a whole number of blocks. (B3) x is f32, and its last dimension is as long as a row.
def Graph_BlockValuesOp : Graph_Op<"block_values"> {
  let summary = "the numbers, as f32, of rows [..., bytes] of blocks of a format: [..., numbers]";
  let description = [{
    One row of bytes has as many blocks as it holds, one after the other; base/BlockFormats.h says what is in them.
  }];
  let arguments = (ins Graph_Tensor:$blocks, StrAttr:$format);
  let results = (outs Graph_Tensor:$y);
  let operations = "elements(shapes, getY()) * 8";
}
// (B4) `x_bits` is 0 or 8: x may be rounded to 8 bits, each 16 or 32 numbers by a scale of their own, where that is faster.
def Graph_BlockProductOp : Graph_Op<"block_product"> {
  let summary = "x [..., k] times the transpose of a matrix whose rows are blocks of a format, [n, bytes]: [..., n], in f32";
  let description = "The blocks are read once, and are never kept as numbers.";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$blocks, StrAttr:$format, DefaultValuedAttr<I64Attr, "0">:$x_bits);
  let results = (outs Graph_Tensor:$y);
  let operations = "elements(shapes, getY()) * shapes.dims(getX().getType()).back() * 2";
}
#endif
