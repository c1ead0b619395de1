// Sums of products of numbers of one to eight bits, by their bit planes. Their classes are declared by a header of their own
// (Bits.h), since few look for them.
//
// A code is an unsigned number of a few bits. Its plane i holds its bit i, and a word of a plane that bit of so many codes: the
// first has the lowest bit. A code c stands for factor * c - offset: (1, 0) is unipolar, (2, 2^bits - 1) bipolar, which are the
// odd numbers from -(2^bits - 1) on, and (1, z) is a code with a zero point.
#ifndef TENSMITH_GRAPH_BITS
#define TENSMITH_GRAPH_BITS
include "compiler/graph/GraphBase.td"

def Graph_BitPackOp : Graph_Op<"bit_pack", [DeclareOpInterfaceMethods<Graph_Indexed, ["isMovement"]>]> {
  let operations = "elements(shapes, getX()) * getBits()";
  let summary = "the bit planes of codes, as words of `word` bits along `axis`: element k of plane i is a word of bits i";
  let description = [{
    (A1) x is of i8 or ui8, of whose elements the lower bits count. (A2) `bits` is 1 to 8, `word` is 8, 16, 32 or 64. (A3) `axis`
    is a dimension of x; the result has size / word elements there, rounded up, the last filled up with zeros, and a dimension of
    `bits` planes before its dimension `planes`, or behind all.
  }];
  let arguments = (ins Graph_Tensor:$x, I64Attr:$axis, I64Attr:$planes, I64Attr:$bits, DefaultValuedAttr<I64Attr, "64">:$word);
  let results = (outs Graph_Tensor:$y);
}
def Graph_BitConvOp : Graph_Op<"bit_conv", [DeclareOpInterfaceMethods<Graph_Indexed, ["isMovement"]>]> {
  let operations = "elements(shapes, getY()) * macsOfElement() * 2";
  let summary = "cross-correlation, or a matrix product, of numbers of few bits in planes, in i32: exact";
  let description = [{
    x [N, spatial..., group, planes, words] and w [group, blocks, planes, kernel..., words, width] are codes that `bit_pack` packed,
    of `channels` to a group, and of `filters` to a group in blocks of `width`. The result is [N, out..., group * filters]; without
    spatial dimensions it is a product of matrices. Pads are the number 0, whether or not there is a code for it. Factors and
    offsets are as above. (A4) Both have words of one type, one number of groups, and words for the channels. (A5) There is a stride, a
    dilation and two pads for each spatial dimension, positive but for the pads, which are not negative. (A6) The window has elements, and fits into the
    image with its pads. (A7) Factors are 1 or 2, offsets 0 to 255, and no sum can leave i32.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$w, I64Attr:$channels, I64Attr:$filters, DenseI64ArrayAttr:$strides,
                   DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, DefaultValuedAttr<I64Attr, "1">:$x_factor,
                   DefaultValuedAttr<I64Attr, "0">:$x_offset, DefaultValuedAttr<I64Attr, "1">:$w_factor,
                   DefaultValuedAttr<I64Attr, "0">:$w_offset);
  let results = (outs Graph_Tensor:$y);
  let extraClassDeclaration = [{
    /// Multiply-adds of an element of the result; 0 where the window isn't known.
    int64_t macsOfElement();
  }];
}
#endif
