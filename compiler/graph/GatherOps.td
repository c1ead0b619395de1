// Reading and writing at indices that are data, and choosing elements by their values.
#ifndef TENSMITH_GRAPH_GATHER
#define TENSMITH_GRAPH_GATHER
include "compiler/graph/GraphBase.td"

// (G1) indices are in [-dim, dim); negative ones count from the end. Checked at run time.
def Graph_GatherOp : Graph_Op<"gather", [DeclareOpInterfaceMethods<Graph_Indexed>, DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "slices of x along `axis` at `indices` (ONNX Gather)";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$indices, I64Attr:$axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_GatherElementsOp : Graph_Op<"gather_elements", [DeclareOpInterfaceMethods<Graph_Indexed>]> {
  let summary = "y[i,j] = x[indices[i,j], j] for axis 0";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$indices, I64Attr:$axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_GatherNDOp : Graph_Op<"gather_nd", [DeclareOpInterfaceMethods<Graph_Indexed>]> {
  let summary = "slices of x at the tuples in the last dimension of `indices`";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$indices, DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs Graph_Tensor:$y);
}
def Graph_TreeEnsembleOp : Graph_Op<"tree_ensemble"> {
  let operations = "rows(shapes, getX()) * shapes.dims(getTrees().getType())[0] * product({int64_t(getDepth()), 2})";
  let summary = "what the leaves that all trees lead a row to hold, for each target: the sum, the least or the greatest";
  let description = [{
    x is [rows, features] of f32 or f64; `columns` [U] of i32 are the features that are tested. A node of `nodes` [N, 2], of
    integers of x's width, is the bits of a number t and a word. From its lowest bit the word has: `column_bits` bits, which number
    a feature among `columns`; whether NaN passes; whether the test is x == t (else x <= t, or x < t where `strict`); and how many
    nodes further on the one is that follows where the test passes, behind which is the one that follows where it fails. A leaf
    follows itself, 0 nodes further on, and its column is U. In the place of t a leaf has its weight for the target of its tree, or, where there are `weights` [L, targets],
    the number of its row. `trees` [T, 2] of i32 are root and target.
    No way to a leaf is longer than `depth`. `missing`: whether NaN passes in no, some or all of the nodes; `equality`:
    whether any tests are x == t. `aggregate`: sum, min or max; without a tree a target is 0, or the type's largest or
    least number.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$columns, Graph_Tensor:$nodes, Graph_Tensor:$trees, Graph_MaybeTensor:$weights,
                   I64Attr:$targets, I64Attr:$column_bits, I64Attr:$depth, DefaultValuedAttr<BoolAttr, "false">:$strict,
                   DefaultValuedAttr<StrAttr, "\"none\"">:$missing, DefaultValuedAttr<BoolAttr, "false">:$equality,
                   DefaultValuedAttr<StrAttr, "\"sum\"">:$aggregate);
  let results = (outs Graph_Tensor:$y);
}
def Graph_ScatterElementsOp : Graph_Op<"scatter_elements"> {
  let summary = "a copy of x with updates[i,j] combined into it at [indices[i,j], j] for axis 0; `reduction`: none, add, mul, min, max";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$indices, Graph_Tensor:$updates, I64Attr:$axis,
                   DefaultValuedAttr<StrAttr, "\"none\"">:$reduction);
  let results = (outs Graph_Tensor:$y);
}
def Graph_ScatterNDOp : Graph_Op<"scatter_nd"> {
  let summary = "a copy of x with slices of `updates` combined into it at the tuples in `indices`";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$indices, Graph_Tensor:$updates, DefaultValuedAttr<StrAttr, "\"none\"">:$reduction);
  let results = (outs Graph_Tensor:$y);
}
def Graph_TensorScatterOp : Graph_Op<"tensor_scatter"> {
  let summary = "ONNX TensorScatter: a cache with `update` written from write_indices on; `mode`: linear or circular";
  let arguments = (ins Graph_Tensor:$past, Graph_Tensor:$update, Graph_MaybeTensor:$write_indices, I64Attr:$axis,
                   DefaultValuedAttr<StrAttr, "\"linear\"">:$mode);
  let results = (outs Graph_Tensor:$present);
}
def Graph_OneHotOp : Graph_Op<"one_hot"> {
  let summary = "a new dimension `axis` of size depth: values[1] at the index, values[0] elsewhere";
  let arguments = (ins Graph_Tensor:$indices, Graph_Tensor:$depth, Graph_Tensor:$values, DefaultValuedAttr<I64Attr, "-1">:$axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_NonZeroOp : Graph_Op<"nonzero"> {
  let summary = "indices [rank, count] of the elements that are not zero, row-major";
  let arguments = (ins Graph_Tensor:$x);
  let results = (outs Graph_Tensor:$y);
}
def Graph_CompressOp : Graph_Op<"compress"> {
  let summary = "the slices along `axis` (of the flattened x if none) whose condition is true";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$condition, OptionalAttr<I64Attr>:$axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_TopKOp : Graph_Op<"topk"> {
  let summary = "the k largest (or smallest) along `axis` and their indices (i64); equal values by lower index";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$k, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "true">:$largest,
                   DefaultValuedAttr<BoolAttr, "true">:$sorted);
  let results = (outs Graph_Tensor:$values, Graph_Tensor:$indices);
}
def Graph_UniqueOp : Graph_Op<"unique"> {
  let summary = "ONNX Unique: distinct values (or slices along `axis`), first indices, inverse indices and counts";
  let arguments = (ins Graph_Tensor:$x, OptionalAttr<I64Attr>:$axis, DefaultValuedAttr<BoolAttr, "true">:$sorted);
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$indices, Graph_Tensor:$inverse, Graph_Tensor:$counts);
}
def Graph_NonMaxSuppressionOp : Graph_Op<"non_max_suppression"> {
  let summary = "ONNX NonMaxSuppression: selected boxes as [count, 3] of batch, class, box";
  let arguments = (ins Graph_Tensor:$boxes, Graph_Tensor:$scores, Graph_MaybeTensor:$max_output_boxes_per_class,
                   Graph_MaybeTensor:$iou_threshold, Graph_MaybeTensor:$score_threshold, DefaultValuedAttr<BoolAttr, "false">:$center_point_box);
  let results = (outs Graph_Tensor:$selected);
}
#endif
