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

// (B5) keys and values are f32, f16, or ui8 in blocks of `format`, in pages of equal sizes, and new ones are as they are kept. (B6)
// there are a list of pages, a length, a first row, a new key and a new value for each query. (B7) heads of q are a multiple of
// those of keys. (B8) `q_bits` is 0 or 8, as `x_bits`; `window` is not negative.
def Graph_CachedAttentionOp : Graph_Op<"cached_attention"> {
  let summary = "attention of single queries [rows, heads, size] to keys and values that are kept in pages, and to those of the same run: "
                "[rows, heads, value size], in f32";
  let description = [{
    Of row i, the keys at positions 0 to lengths[i] - 1 are in pages [pages, positions, key heads, ...]: position p is place p % positions of
    page table[i, p / positions]. Behind them come new_keys [rows, key heads, ...] of rows firsts[i] to i. Of all of them the last `window`
    count, or all where that is 0. y = softmax(cap(scale q k^T)) v, where cap(s) is softcap tanh(s / softcap), or s where softcap is 0. Each
    head of keys serves as many heads of q that follow each other. Keys and values are read once, as they are kept. A length beyond
    the pages of the list, a page or a first row that isn't there is an error of the run.
  }];
  let arguments = (ins Graph_Tensor:$q, Graph_Tensor:$keys, Graph_Tensor:$values, Graph_Tensor:$table, Graph_Tensor:$lengths,
                   Graph_Tensor:$firsts, Graph_Tensor:$new_keys, Graph_Tensor:$new_values, DefaultValuedAttr<StrAttr, "\"\"">:$format,
                   DefaultValuedAttr<F64Attr, "1.0">:$scale, DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                   DefaultValuedAttr<I64Attr, "0">:$window, DefaultValuedAttr<I64Attr, "0">:$q_bits);
  let results = (outs Graph_Tensor:$y);
  let operations = [{elements(shapes, getQ()) * 4 * shapes.dims(getTable().getType())[1] * shapes.dims(getKeys().getType())[1]}];
}
#endif
