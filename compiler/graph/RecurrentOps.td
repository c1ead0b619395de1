// Recurrent layers over a sequence, as ONNX defines them (gate order, peepholes, sequence lengths).
#ifndef TENSMITH_GRAPH_RECURRENT
#define TENSMITH_GRAPH_RECURRENT
include "compiler/graph/GraphBase.td"

// x [seq, batch, input] ([batch, seq, input] where `batch_first`, ONNX's layout 1); w [dirs, gates*hidden, input];
// r [dirs, gates*hidden, hidden]; bias [dirs, 2*gates*hidden]; results y [seq, dirs, batch, hidden] and the last state(s) [dirs, batch, hidden].
// `activations`, `activation_alpha`, `activation_beta`: as ONNX, one list over the directions.
class Graph_RecurrentOp<string mnemonic, string text> : Graph_Op<mnemonic, [DeclareOpInterfaceMethods<Graph_Decomposable>]> {
  let operations = "rows(shapes, getX()) * (elements(shapes, getW()) + elements(shapes, getR())) * 2";
  let summary = text;
  dag common = (ins I64Attr:$hidden_size, DefaultValuedAttr<StrAttr, "\"forward\"">:$direction,
                ArrayAttr:$activations, OptionalAttr<DenseF64ArrayAttr>:$activation_alpha,
                OptionalAttr<DenseF64ArrayAttr>:$activation_beta, OptionalAttr<F64Attr>:$clip, DefaultValuedAttr<BoolAttr, "false">:$batch_first);
}
def Graph_RnnOp : Graph_RecurrentOp<"rnn", "ONNX RNN"> {
  let description = "h = f(x w + h r + both biases), f by default tanh.";
  let arguments = !con((ins Graph_Tensor:$x, Graph_Tensor:$w, Graph_Tensor:$r, Graph_MaybeTensor:$bias, Graph_MaybeTensor:$sequence_lens,
                        Graph_MaybeTensor:$initial_h), common);
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$y_h);
}
def Graph_GruOp : Graph_RecurrentOp<"gru", "ONNX GRU; gates z, r, h"> {
  let description = [{
    z = f(.), r = f(.), h' = g(x w + r * h times its weights + biases), h = (1 - z) h' + z h; f by default the sigmoid,
    g tanh. Where `linear_before_reset`, r multiplies the product (with its bias) instead of h.
  }];
  let arguments = !con((ins Graph_Tensor:$x, Graph_Tensor:$w, Graph_Tensor:$r, Graph_MaybeTensor:$bias, Graph_MaybeTensor:$sequence_lens,
                        Graph_MaybeTensor:$initial_h), common, (ins DefaultValuedAttr<BoolAttr, "false">:$linear_before_reset));
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$y_h);
}
def Graph_LstmOp : Graph_RecurrentOp<"lstm", "ONNX LSTM; gates i, o, f, c; peepholes p [dirs, 3*hidden]"> {
  let description = [{
    i, f, o by f (the sigmoid), c' by g (tanh), c = f c + i c', h = o h(c), the last by default tanh. `input_forget`: f
    is 1 - i. The results are y, the last h and the last c.
  }];
  let arguments = !con((ins Graph_Tensor:$x, Graph_Tensor:$w, Graph_Tensor:$r, Graph_MaybeTensor:$bias, Graph_MaybeTensor:$sequence_lens,
                        Graph_MaybeTensor:$initial_h, Graph_MaybeTensor:$initial_c, Graph_MaybeTensor:$p), common,
                       (ins DefaultValuedAttr<BoolAttr, "false">:$input_forget));
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$y_h, Graph_Tensor:$y_c);
}
#endif
