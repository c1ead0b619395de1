// Reading and writing at indices that are data, and choosing elements by their values.
#ifndef TENSMITH_GRAPH_GATHER
#define TENSMITH_GRAPH_GATHER
include "compiler/graph/GraphBase.td"

// (G1) indices are in [-dim, dim); negative ones count from the end. Checked at run time.
def Graph_GatherOp : Graph_Op<"gather", [DeclareOpInterfaceMethods<Graph_Indexed>, DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "slices of x along `axis` at `indices` (ONNX Gather)";
  let description = [{
    The result has the dimensions of x before `axis`, those of `indices`, those of x behind it. Derivatives at equal
    indices add up.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$indices, I64Attr:$axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_GatherElementsOp : Graph_Op<"gather_elements", [DeclareOpInterfaceMethods<Graph_Indexed>]> {
  let summary = "y[i,j] = x[indices[i,j], j] for axis 0";
  let description = "`indices` has x's rank, and no dimension but `axis` is larger than x's. The result has its shape.";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$indices, I64Attr:$axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_GatherNDOp : Graph_Op<"gather_nd", [DeclareOpInterfaceMethods<Graph_Indexed>]> {
  let summary = "slices of x at the tuples in the last dimension of `indices`";
  let description = [{
    indices [batch..., i..., n] with n numbers for dimensions `batch_dims` to batch_dims + n - 1 of x: the result is
    [batch..., i..., what is left of x].
  }];
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
  let description = [{
    updates has the shape of `indices`, no dimension of which but `axis` is larger than x's. Where an index comes twice,
    the last one in row-major order counts (`none`), or all do.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$indices, Graph_Tensor:$updates, I64Attr:$axis,
                   DefaultValuedAttr<StrAttr, "\"none\"">:$reduction);
  let results = (outs Graph_Tensor:$y);
}
def Graph_ScatterNDOp : Graph_Op<"scatter_nd"> {
  let summary = "a copy of x with slices of `updates` combined into it at the tuples in `indices`";
  let description = [{
    indices [i..., n], updates [i..., what is left of x behind n dimensions]. `reduction`: none, add, mul, min, max.
    Where a tuple comes twice, the last one counts (`none`), or all do.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$indices, Graph_Tensor:$updates, DefaultValuedAttr<StrAttr, "\"none\"">:$reduction);
  let results = (outs Graph_Tensor:$y);
}
def Graph_TensorScatterOp : Graph_Op<"tensor_scatter"> {
  let summary = "ONNX TensorScatter: a cache with `update` written from write_indices on; `mode`: linear or circular";
  let description = [{
    past [batch, ...], update the same but for the size s of `axis` (behind the batch). Row b is written at
    write_indices[b] (0 if absent) to write_indices[b] + s, which must lie within (linear) or goes on at the beginning
    (circular).
  }];
  let arguments = (ins Graph_Tensor:$past, Graph_Tensor:$update, Graph_MaybeTensor:$write_indices, I64Attr:$axis,
                   DefaultValuedAttr<StrAttr, "\"linear\"">:$mode);
  let results = (outs Graph_Tensor:$present);
}
def Graph_OneHotOp : Graph_Op<"one_hot"> {
  let summary = "a new dimension `axis` of size depth: values[1] at the index, values[0] elsewhere";
  let description = [{
    `depth` is a scalar, `values` [2] gives the type. Negative indices count from the end; one outside of [-depth,
    depth) gives values[0] everywhere.
  }];
  let arguments = (ins Graph_Tensor:$indices, Graph_Tensor:$depth, Graph_Tensor:$values, DefaultValuedAttr<I64Attr, "-1">:$axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_NonZeroOp : Graph_Op<"nonzero"> {
  let summary = "indices [rank, count] of the elements that are not zero, row-major";
  let description = "A sequence of sizes that only the run tells; NaN is not zero.";
  let arguments = (ins Graph_Tensor:$x);
  let results = (outs Graph_Tensor:$y);
}
def Graph_CompressOp : Graph_Op<"compress"> {
  let summary = "the slices along `axis` (of the flattened x if none) whose condition is true";
  let description = "`condition` is a vector of booleans, at most as long as the axis; what it does not reach is left out.";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$condition, OptionalAttr<I64Attr>:$axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_TopKOp : Graph_Op<"topk"> {
  let summary = "the k largest (or smallest) along `axis` and their indices (i64); equal values by lower index";
  let description = [{
    `k` is one number of i64, from 0 to the size of `axis`. NaN counts as the largest. Not `sorted`: in any order.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$k, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "true">:$largest,
                   DefaultValuedAttr<BoolAttr, "true">:$sorted);
  let results = (outs Graph_Tensor:$values, Graph_Tensor:$indices);
}
def Graph_UniqueOp : Graph_Op<"unique"> {
  let summary = "ONNX Unique: distinct values (or slices along `axis`), first indices, inverse indices and counts";
  let description = [{
    `sorted`: ascending, NaN last and once; otherwise in the order of their first places. y[inverse] is x (flat without
    `axis`), counts are how often each one comes. The size is known in the run alone.
  }];
  let arguments = (ins Graph_Tensor:$x, OptionalAttr<I64Attr>:$axis, DefaultValuedAttr<BoolAttr, "true">:$sorted);
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$indices, Graph_Tensor:$inverse, Graph_Tensor:$counts);
}
def Graph_NonMaxSuppressionOp : Graph_Op<"non_max_suppression"> {
  let summary = "ONNX NonMaxSuppression: selected boxes as [count, 3] of batch, class, box";
  let description = [{
    boxes [batch, n, 4] as corners (any two that are opposite), or as centre and size where `center_point_box`; scores
    [batch, classes, n]. From the best score down, a box is taken unless it overlaps one that was taken for the same
    class by more than `iou_threshold`, or its score is not above `score_threshold`. 0 boxes for each class if their
    number is absent.
  }];
  let arguments = (ins Graph_Tensor:$boxes, Graph_Tensor:$scores, Graph_MaybeTensor:$max_output_boxes_per_class,
                   Graph_MaybeTensor:$iou_threshold, Graph_MaybeTensor:$score_threshold, DefaultValuedAttr<BoolAttr, "false">:$center_point_box);
  let results = (outs Graph_Tensor:$selected);
}
#endif
