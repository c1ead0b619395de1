// Strings, tables looked up by value, n-grams, and pictures in files: what the runtime's routines compute.
#ifndef TENSMITH_GRAPH_TEXT
#define TENSMITH_GRAPH_TEXT
include "compiler/graph/GraphBase.td"

def Graph_StringConcatOp : Graph_Op<"string_concat"> {
  let summary = "a's strings followed by b's, broadcast";
  let description = "Shapes broadcast.";
  let arguments = (ins Graph_Tensor:$a, Graph_Tensor:$b);
  let results = (outs Graph_Tensor:$y);
}
def Graph_StringSplitOp : Graph_Op<"string_split"> {
  let summary = "the pieces of each string along a new last dimension, padded with empty ones, and how many there are (i64)";
  let description = [{
    Split at `delimiter`, or at runs of white space where that is empty; at most `maxsplit` times from the left where that
    is not negative.
  }];
  let arguments = (ins Graph_Tensor:$x, DefaultValuedAttr<StrAttr, "\"\"">:$delimiter, DefaultValuedAttr<I64Attr, "-1">:$maxsplit);
  let results = (outs Graph_Tensor:$pieces, Graph_Tensor:$counts);
}
def Graph_StringNormalizeOp : Graph_Op<"string_normalize"> {
  let summary = "ONNX StringNormalizer: strings without the stop words, in upper or lower case";
  let description = [{
    (T1) x has shape [n] or [1, n]. `change`: lower, upper or none, by Unicode's simple mappings. One empty string where
    nothing is left.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_MaybeTensor:$stopwords, DefaultValuedAttr<StrAttr, "\"none\"">:$change,
                   DefaultValuedAttr<BoolAttr, "false">:$case_sensitive);
  let results = (outs Graph_Tensor:$y);
}
def Graph_RegexFullMatchOp : Graph_Op<"regex_full_match"> {
  let summary = "whether the whole string matches `pattern`, in RE2's syntax";
  let description = "By automata: the time is linear in the string, whatever the pattern.";
  let arguments = (ins Graph_Tensor:$x, StrAttr:$pattern);
  let results = (outs Graph_Tensor:$y);
}
def Graph_CountNgramsOp : Graph_Op<"count_ngrams"> {
  let summary = "ONNX TfIdfVectorizer: how often the n-grams of a pool occur in each row";
  let description = [{
    `pool` holds the 1-grams, then the 2-grams, and so on; those of n elements begin at `starts[n - 1]`. The i-th n-gram is
    counted at `columns[i]`. N-grams of `least` to `most` elements, 0 to `skips` elements apart. `mode`: tf (counts), idf
    (the weight where there is one), tfidf (counts times weights). x has shape [n] or [rows, n].
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$pool, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$columns, I64Attr:$least,
                   I64Attr:$most, I64Attr:$skips, StrAttr:$mode, DenseF64ArrayAttr:$weights);
  let results = (outs Graph_Tensor:$y);
}
def Graph_LookUpOp : Graph_Op<"look_up"> {
  let summary = "the value whose key is x[i], the last one of several; `otherwise`, a tensor of one element, where there is none";
  let description = "(T2) keys and values are as many, x has the keys' type and `otherwise` that of the values. NaN is equal to NaN.";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$keys, Graph_Tensor:$values, Graph_Tensor:$otherwise);
  let results = (outs Graph_Tensor:$y);
}
def Graph_DecodeImageOp : Graph_Op<"decode_image"> {
  let summary = "ONNX ImageDecoder: the bytes of a picture's file as [height, width, channels]; `pixels`: rgb, bgr or grayscale";
  let description = [{
    x is a vector of bytes (ui8): BMP, JPEG, JPEG 2000, TIFF, PNG, WebP or a portable map, where the runtime has its
    library.
  }];
  let arguments = (ins Graph_Tensor:$x, DefaultValuedAttr<StrAttr, "\"rgb\"">:$pixels);
  let results = (outs Graph_Tensor:$y);
}
#endif
