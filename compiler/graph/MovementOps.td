// Operators that place elements elsewhere and compute nothing. The static forms carry their parameters as attributes and
// their sizes in the result type (which may be symbolic); the `dynamic_` forms take them as operands, as ONNX
// does, and become static where the contents of those are known.
#ifndef TENSMITH_GRAPH_MOVEMENT
#define TENSMITH_GRAPH_MOVEMENT
include "compiler/graph/GraphBase.td"

class Graph_MovementOp<string mnemonic, list<Trait> traits = []>
    : Graph_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<Graph_Indexed>], traits)> {
  let results = (outs Graph_Tensor:$y);
}

def Graph_ReshapeOp : Graph_MovementOp<"reshape", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "the same elements, row-major, under the result type's shape";
  let description = "(M1) operand and result have the same number of elements. The result type is given, not inferred.";
  let arguments = (ins Graph_Tensor:$x);
}
def Graph_TransposeOp : Graph_MovementOp<"transpose", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "y[i_perm[0], ...] : dimension k of the result is dimension permutation[k] of x";
  let description = "`permutation` has each dimension of x once.";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$permutation);
}
def Graph_BroadcastOp : Graph_MovementOp<"broadcast", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "x repeated, as NumPy does, to the result type's shape (given, not inferred)";
  let description = "A dimension of x is that of the result or 1, counted from the last.";
  let arguments = (ins Graph_Tensor:$x);
}
def Graph_SliceOp : Graph_MovementOp<"slice", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "y[i] = x[starts + i * steps]; one start and step for each dimension, sizes in the result type (given)";
  let description = "(M2) 0 <= starts, steps != 0, and the last element read lies within x. A negative step walks down.";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$steps);
}
def Graph_ConcatOp : Graph_MovementOp<"concat", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "inputs one after the other along `axis`";
  let description = [{
    (M3) the inputs agree in rank, element type and every other dimension. `in_place`: they are computed where they lie in
    the result, so that nothing is left to do (compiler/rewrite/JoinInPlace.cpp).
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$inputs, I64Attr:$axis, UnitAttr:$in_place);
}
def Graph_PadOp : Graph_MovementOp<"pad"> {
  let summary = "x with `low` and `high` more elements on each side of each dimension (negative: fewer)";
  let description = "`mode`: constant (of `value`, a scalar tensor; zero if none), reflect, edge or wrap, as ONNX Pad.";
  let arguments = (ins Graph_Tensor:$x, Graph_MaybeTensor:$value, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                   DefaultValuedAttr<StrAttr, "\"constant\"">:$mode);
}
def Graph_ReverseOp : Graph_MovementOp<"reverse"> {
  let summary = "x with the order along `axes` reversed";
  let description = "`axes` are in [0, rank), each once.";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$axes);
}
def Graph_TriluOp : Graph_MovementOp<"trilu"> {
  let summary = "the upper (or lower) triangle of the last two dimensions, shifted by k; zero elsewhere";
  let description = "`k` is a scalar of i64: diagonals above the main one, below where negative; 0 if absent.";
  let arguments = (ins Graph_Tensor:$x, Graph_MaybeTensor:$k, DefaultValuedAttr<BoolAttr, "true">:$upper);
}
def Graph_PackOp : Graph_MovementOp<"pack"> {
  let summary = "a matrix stack [..., K, N] as panels [..., ceil(N/width), K, width], zero-padded: the right operand of a contraction kernel";
  let description = "With `transposed` the operand is [..., N, K].";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$width, DefaultValuedAttr<BoolAttr, "false">:$transposed);
}

def Graph_UnpackOp : Graph_MovementOp<"unpack"> {
  let summary = "the inverse of `pack`: panels [..., P, K, width] as the matrix stack [..., K, columns]";
  let description = [{
    Inside a kernel, `unpack` of an operand says that this operand lies packed in memory; the contraction template reads
    the panels where they lie.
  }];
  let arguments = (ins Graph_Tensor:$x, I64Attr:$columns);
}

class Graph_DynamicOp<string mnemonic, list<Trait> traits = []> : Graph_Op<mnemonic, traits> {
  let results = (outs Graph_Tensor:$y);
}
def Graph_DynamicReshapeOp : Graph_DynamicOp<"dynamic_reshape", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "reshape to the contents of `shape`; -1 is what remains, 0 (unless `allowzero`) the operand's dimension";
  let description = [{
    At most one of the sizes is -1. The numbers of elements are compared in the run where they are not known before.
    With `allowzero` a 0 is a size of nothing.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$shape, DefaultValuedAttr<BoolAttr, "false">:$allowzero);
}
def Graph_DynamicBroadcastOp : Graph_DynamicOp<"dynamic_broadcast", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "ONNX Expand: x broadcast together with the shape that `shape` holds";
  let description = "A 1 in `shape` leaves a dimension as it is; `shape` may have more dimensions than x, or fewer.";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$shape);
}
def Graph_DynamicSliceOp : Graph_DynamicOp<"dynamic_slice", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "ONNX Slice (opset 10 and later): starts, ends, axes, steps as operands, clamped to the dimensions";
  let description = [{
    starts, ends, axes and steps are vectors of one length, of i32 or i64. Negative starts and ends count from the end
    of the dimension, and what lies beyond it is cut. No axes: the first ones; no steps: 1. A step of 0 is an error.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$starts, Graph_Tensor:$ends, Graph_MaybeTensor:$axes, Graph_MaybeTensor:$steps);
}
def Graph_DynamicPadOp : Graph_DynamicOp<"dynamic_pad", [DeclareOpInterfaceMethods<Graph_Indexed>]> {
  let summary = "ONNX Pad (opset 18 and later): pads, value and axes as operands";
  let description = "Code of an element reads the pads; the sizes must be known before, from the contents of those.";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$pads, Graph_MaybeTensor:$value, Graph_MaybeTensor:$axes,
                   DefaultValuedAttr<StrAttr, "\"constant\"">:$mode);
}
def Graph_DynamicTileOp : Graph_DynamicOp<"dynamic_tile"> {
  let summary = "x repeated `repeats[d]` times along dimension d";
  let description = "`repeats` has an element >= 0 for each dimension of x.";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$repeats);
}
def Graph_CenterCropPadOp : Graph_DynamicOp<"center_crop_pad"> {
  let summary = "ONNX CenterCropPad: x cropped or zero-padded, centred, to `shape` along `axes`";
  let description = "Where one side gets more than the other it is the end. No `axes`: all.";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$shape, OptionalAttr<DenseI64ArrayAttr>:$axes);
}
def Graph_ShapeOp : Graph_DynamicOp<"shape", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "dimensions start to end (exclusive) of x as a vector of i64";
  let description = [{
    `start` and `end` may be negative, counted from the last, and are cut to the rank. Of a sequence, it is that of its
    elements.
  }];
  let arguments = (ins Graph_Value:$x, DefaultValuedAttr<I64Attr, "0">:$start, OptionalAttr<I64Attr>:$end);
}
def Graph_SizeOp : Graph_DynamicOp<"size", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "number of elements of x as a scalar of i64";
  let description = "1 of a scalar.";
  let arguments = (ins Graph_Tensor:$x);
}
def Graph_ReverseSequenceOp : Graph_DynamicOp<"reverse_sequence"> {
  let summary = "the first lengths[b] entries along `time_axis` reversed, for each b of `batch_axis`";
  let description = [{
    `lengths` is a vector of i64 as long as `batch_axis`, of 0 to the size of `time_axis`. The rest stays where it is.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$lengths, I64Attr:$batch_axis, I64Attr:$time_axis);
}
#endif
