// Normalisation and attention: operators that exist whole so that one kernel may take them, with a decomposition.
#ifndef TENSMITH_GRAPH_NORMALIZATION
#define TENSMITH_GRAPH_NORMALIZATION
include "compiler/graph/GraphBase.td"

class Graph_WholeOp<string mnemonic, string text> : Graph_Op<mnemonic, [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let summary = text;
}
def Graph_SoftmaxOp : Graph_WholeOp<"softmax", "exp(x - max) / sum along `axis` (>= 0)"> {
  let description = "NaN where all are -inf. Nothing overflows: the largest is subtracted first.";
  let operations = "elements(shapes, getY()) * 5";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_LogSoftmaxOp : Graph_WholeOp<"log_softmax", "log of softmax along `axis` (>= 0)"> {
  let description = "x - max - log(sum of exp(x - max)).";
  let operations = "elements(shapes, getY()) * 5";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_HardmaxOp : Graph_Op<"hardmax"> {
  let operations = "elements(shapes, getX())";
  let summary = "1 at the first largest along `axis` (>= 0), 0 elsewhere";
  let description = "NaN counts as the largest.";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$axis);
  let results = (outs Graph_Tensor:$y);
}
def Graph_LayerNormOp : Graph_WholeOp<"layer_norm",
    "(x - mean) / sqrt(variance + epsilon) over dimensions `axis` (>= 0) to the last, times scale plus bias; also the mean and 1/sqrt (ONNX LayerNormalization)"> {
  let description = [{
    scale and bias broadcast to x. The variance divides by the number of elements. Results: y, the mean, 1 /
    sqrt(variance + epsilon), the latter with dimensions of 1.
  }];
  let operations = "elements(shapes, getY()) * 7";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$scale, Graph_MaybeTensor:$bias, I64Attr:$axis,
                   DefaultValuedAttr<F64Attr, "1e-5">:$epsilon);
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$mean, Graph_Tensor:$inverse_deviation);
}
def Graph_RmsNormOp : Graph_WholeOp<"rms_norm", "x / sqrt(mean(x^2) + epsilon) over dimensions `axis` (>= 0) to the last, times scale"> {
  let description = "scale broadcasts to x.";
  let operations = "elements(shapes, getY()) * 4";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$scale, I64Attr:$axis, DefaultValuedAttr<F64Attr, "1e-5">:$epsilon);
  let results = (outs Graph_Tensor:$y);
}
def Graph_BatchNormOp : Graph_WholeOp<"batch_norm", "(x - mean) / sqrt(variance + epsilon) * scale + bias for each channel (dimension 1); inference form"> {
  let description = "x [N, C, ...]; scale, bias, mean and variance [C].";
  let operations = "elements(shapes, getY()) * 2";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$scale, Graph_Tensor:$bias, Graph_Tensor:$mean, Graph_Tensor:$variance,
                   DefaultValuedAttr<F64Attr, "1e-5">:$epsilon);
  let results = (outs Graph_Tensor:$y);
}
def Graph_InstanceNormOp : Graph_WholeOp<"instance_norm", "ONNX InstanceNormalization: mean and variance of each image and channel"> {
  let description = "x [N, C, spatial...]; scale and bias [C].";
  let operations = "elements(shapes, getY()) * 7";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$scale, Graph_Tensor:$bias, DefaultValuedAttr<F64Attr, "1e-5">:$epsilon);
  let results = (outs Graph_Tensor:$y);
}
def Graph_GroupNormOp : Graph_WholeOp<"group_norm", "ONNX GroupNormalization (opset 21): `groups` groups of channels; scale and bias for each channel"> {
  let description = "x [N, C, spatial...]; scale and bias [C]; `groups` divides C.";
  let operations = "elements(shapes, getY()) * 7";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$scale, Graph_Tensor:$bias, I64Attr:$groups, DefaultValuedAttr<F64Attr, "1e-5">:$epsilon);
  let results = (outs Graph_Tensor:$y);
}
def Graph_LrnOp : Graph_WholeOp<"lrn", "ONNX LRN: x / (bias + alpha / size * sum of squares over `size` channels) ^ beta"> {
  let description = [{
    x [N, C, spatial...]; the channels from (size - 1) / 2 before, rounded down, to as many behind, rounded up, where
    they exist.
  }];
  let operations = "elements(shapes, getY()) * product({int64_t(getSize()), 2})";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$size, DefaultValuedAttr<F64Attr, "1e-4">:$alpha, DefaultValuedAttr<F64Attr, "0.75">:$beta,
                   DefaultValuedAttr<F64Attr, "1.0">:$bias);
  let results = (outs Graph_Tensor:$y);
}
def Graph_AttentionOp : Graph_WholeOp<"attention",
    "ONNX Attention (opset 23 and later): softmax(q k^T * scale + mask) v, grouped queries, past keys and values, softcap, sliding windows"> {
  let description = "Operands, attributes and results in the order and meaning of ONNX Attention; `scale` absent: 1/sqrt(head size); windows of -1 have no end.";
  // Scores and values: two products of each query with each key, of the past, too.
  let operations = [{elements(shapes, getQ()) * 4 *
        (shapes.dims(getK().getType()).end()[-2] +
         (::llvm::isa<::mlir::NoneType>(getPastKey().getType()) ? shapes.constant(0)
                                                                : shapes.dims(getPastKey().getType())[2]))}];
  let arguments = (ins Graph_Tensor:$q, Graph_Tensor:$k, Graph_Tensor:$v, Graph_MaybeTensor:$mask, Graph_MaybeTensor:$past_key,
                   Graph_MaybeTensor:$past_value, Graph_MaybeTensor:$nonpad_kv_seqlen, DefaultValuedAttr<BoolAttr, "false">:$is_causal,
                   DefaultValuedAttr<I64Attr, "0">:$q_num_heads, DefaultValuedAttr<I64Attr, "0">:$kv_num_heads,
                   OptionalAttr<F64Attr>:$scale, DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                   DefaultValuedAttr<I64Attr, "0">:$qk_matmul_output_mode, OptionalAttr<I64Attr>:$softmax_precision,
                   DefaultValuedAttr<I64Attr, "-1">:$left_window, DefaultValuedAttr<I64Attr, "-1">:$right_window);
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$present_key, Graph_Tensor:$present_value, Graph_Tensor:$qk_matmul_output);
}
#endif
