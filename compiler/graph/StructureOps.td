// Control flow, and the regions that the compiler cuts a graph into. Functions are the func dialect's.
#ifndef TENSMITH_GRAPH_STRUCTURE
#define TENSMITH_GRAPH_STRUCTURE
include "compiler/graph/GraphBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/IR/RegionKindInterface.td"

def Graph_YieldOp : Op<Graph_Dialect, "yield", [Pure, ReturnLike, Terminator]> {
  let summary = "the results of a region";
  let description = "The last operation of a region.";
  let arguments = (ins Variadic<Graph_Value>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), [{ (void)$_builder, (void)$_state; }]>];
}
def Graph_IfOp : Op<Graph_Dialect, "if", [RecursiveMemoryEffects, SingleBlockImplicitTerminator<"YieldOp">, DeclareOpInterfaceMethods<Graph_ShapeFunction>]> {
  let summary = "the results of one of two regions; both may use values from outside";
  let description = "`condition` is a scalar boolean. One region runs. Results of both have the same types, but for sizes.";
  let arguments = (ins Graph_Tensor:$condition);
  let results = (outs Variadic<Graph_Value>:$results);
  let regions = (region SizedRegion<1>:$then_region, SizedRegion<1>:$else_region);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results) $then_region `else` $else_region";
}
def Graph_LoopOp : Op<Graph_Dialect, "loop", [RecursiveMemoryEffects, SingleBlockImplicitTerminator<"YieldOp">, DeclareOpInterfaceMethods<Graph_ShapeFunction>]> {
  let summary = "ONNX Loop: at most trip_count times, while the condition holds";
  let description = [{
    The region takes (iteration i64 scalar, condition i1 scalar, carried...) and yields (condition, carried..., scanned...).
    Results: the last carried values, then each scanned value stacked along a new dimension 0. Absent trip_count or
    condition: `graph.none`.
  }];
  let arguments = (ins Graph_MaybeTensor:$trip_count, Graph_MaybeTensor:$condition, Variadic<Graph_Value>:$carried);
  let results = (outs Variadic<Graph_Value>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results) $body";
}

def Graph_SequenceConstructOp : Graph_Op<"sequence_construct"> {
  let summary = "a sequence of the inputs";
  let description = "All have the element type `element`; sizes may differ. Without inputs it is empty.";
  let arguments = (ins Variadic<Graph_Value>:$inputs, TypeAttr:$element);
  let results = (outs Graph_Value:$sequence);
}
def Graph_SequenceAtOp : Graph_Op<"sequence_at"> {
  let summary = "the element at `position` (negative: from the end)";
  let description = "`position` is a scalar of i32 or i64 in [-n, n).";
  let arguments = (ins Graph_Value:$sequence, Graph_Tensor:$position);
  let results = (outs Graph_Value:$element);
}
def Graph_SequenceInsertOp : Graph_Op<"sequence_insert"> {
  let summary = "a sequence with `element` inserted before `position` (at the end if absent)";
  let description = "`position` is a scalar of i32 or i64 in [-n, n]; the element has the sequence's element type.";
  let arguments = (ins Graph_Value:$sequence, Graph_Value:$element, Graph_MaybeTensor:$position);
  let results = (outs Graph_Value:$result);
}
def Graph_SequenceEraseOp : Graph_Op<"sequence_erase"> {
  let summary = "a sequence without the element at `position` (the last if absent)";
  let description = "`position` is a scalar of i32 or i64 in [-n, n).";
  let arguments = (ins Graph_Value:$sequence, Graph_MaybeTensor:$position);
  let results = (outs Graph_Value:$result);
}
def Graph_SequenceLengthOp : Graph_Op<"sequence_length"> {
  let summary = "number of elements, as a scalar of i64";
  let description = "0 of an empty one.";
  let arguments = (ins Graph_Value:$sequence);
  let results = (outs Graph_Tensor:$length);
}
def Graph_SplitToSequenceOp : Graph_Op<"split_to_sequence"> {
  let summary = "ONNX SplitToSequence";
  let description = [{
    `split` is a vector of sizes that add up to that of `axis`, or a scalar, the size of each but the last, which may be
    smaller. Without it pieces have the size 1, and lose the dimension unless `keepdims`.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_MaybeTensor:$split, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "true">:$keepdims);
  let results = (outs Graph_Value:$sequence);
}
def Graph_ConcatFromSequenceOp : Graph_Op<"concat_from_sequence"> {
  let summary = "ONNX ConcatFromSequence: along `axis`, which is new where `new_axis`";
  let description = "The elements agree in rank and in all other dimensions, or in all where `new_axis`. There is at least one.";
  let arguments = (ins Graph_Value:$sequence, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$new_axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_OptionalOp : Graph_Op<"optional"> {
  let summary = "an optional that holds the value";
  let description = "An optional's type is that of the value that it may hold.";
  let arguments = (ins Graph_Value:$value);
  let results = (outs Graph_Value:$result);
}
def Graph_OptionalHasElementOp : Graph_Op<"optional_has_element"> {
  let summary = "whether the optional holds a value (true of anything that is no optional), as a scalar boolean";
  let description = "It decides what `if` runs.";
  let arguments = (ins Graph_Value:$value);
  let results = (outs Graph_Tensor:$y);
}
def Graph_OptionalGetElementOp : Graph_Op<"optional_get_element"> {
  let summary = "the value held; itself of anything that is no optional";
  let description = "It is an error in the run where there is none.";
  let arguments = (ins Graph_Value:$value);
  let results = (outs Graph_Value:$result);
}

def Graph_ZipMapOp : Graph_Op<"zip_map"> {
  let summary = "a map from the keys to the elements of a row, for each row of x; a vector is one row";
  let description = [{
    (Z1) keys are a vector of i64 or strings, at least one. (Z2) x has one or two dimensions, and as many columns as there are
    keys. Of equal keys the last one counts. A map's entries are in the order of their keys, whatever it was made of.
  }];
  let arguments = (ins Graph_Tensor:$keys, Graph_Tensor:$x);
  let results = (outs Graph_Value:$maps);
}
def Graph_MapKeysOp : Graph_Op<"map_keys"> {
  let summary = "the keys of a map, in ascending order; `strings` says what keys an empty map has, which can't tell";
  let description = "A vector of i64 or of strings.";
  let arguments = (ins Graph_Value:$map, DefaultValuedAttr<BoolAttr, "false">:$strings);
  let results = (outs Graph_Tensor:$keys);
}
def Graph_MapValuesOp : Graph_Op<"map_values"> {
  let summary = "the values of a map, in the order of its keys";
  let description = "A vector as long as that of the keys.";
  let arguments = (ins Graph_Value:$map);
  let results = (outs Graph_Tensor:$values);
}

def Graph_CheckOp : Op<Graph_Dialect, "check", [MemoryEffects<[MemWrite]>]> {
  let summary = "ends the run with an error unless a relation between two sizes holds";
  let description = [{
    `sizes` has a and b, and where there is a third size nothing is required where that is 0. `relation`: 0: a = b, 1: a <= b,
    2: a is b or 1, 3: one of both is 1, or they are equal. In `message` {a} and {b} stand for their values. It has no
    operands: symbols are known everywhere in a function once a value has them as a whole dimension.
  }];
  let arguments = (ins I64Attr:$relation, Graph_DimsAttr:$sizes, StrAttr:$message);
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}
def Graph_KeepSizesOp : Op<Graph_Dialect, "keep_sizes", [MemoryEffects<[MemWrite]>]> {
  let summary = "keeps a value for its sizes, by which those of others are told, though nothing reads its elements";
  let description = "The compiler puts it where a check needs a size whose value nobody reads.";
  let arguments = (ins AnyType:$x);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}
def Graph_KernelOp : Op<Graph_Dialect, "kernel", [Pure, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "a region that becomes one kernel: its block's arguments are the operands";
  let description = [{
    `kind` names the template that emits it ("loops", "contraction", ...). Two kernels with the same region are compiled once.
    `pitch`: the result is a part of a larger value (`concat` with `in_place`), where so many elements lie from one of its rows,
    the last dimension, to the next.
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$inputs, StrAttr:$label, StrAttr:$kind, OptionalAttr<I64Attr>:$pitch);
  let results = (outs Variadic<Graph_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results) $body";
}
#endif
