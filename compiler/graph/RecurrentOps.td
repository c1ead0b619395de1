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
  let arguments = !con((ins Graph_Tensor:$x, Graph_Tensor:$w, Graph_Tensor:$r, Graph_MaybeTensor:$bias, Graph_MaybeTensor:$sequence_lens,
                        Graph_MaybeTensor:$initial_h), common);
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$y_h);
}
def Graph_GruOp : Graph_RecurrentOp<"gru", "ONNX GRU; gates z, r, h"> {
  let arguments = !con((ins Graph_Tensor:$x, Graph_Tensor:$w, Graph_Tensor:$r, Graph_MaybeTensor:$bias, Graph_MaybeTensor:$sequence_lens,
                        Graph_MaybeTensor:$initial_h), common, (ins DefaultValuedAttr<BoolAttr, "false">:$linear_before_reset));
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$y_h);
}
def Graph_LstmOp : Graph_RecurrentOp<"lstm", "ONNX LSTM; gates i, o, f, c; peepholes p [dirs, 3*hidden]"> {
  let arguments = !con((ins Graph_Tensor:$x, Graph_Tensor:$w, Graph_Tensor:$r, Graph_MaybeTensor:$bias, Graph_MaybeTensor:$sequence_lens,
                        Graph_MaybeTensor:$initial_h, Graph_MaybeTensor:$initial_c, Graph_MaybeTensor:$p), common,
                       (ins DefaultValuedAttr<BoolAttr, "false">:$input_forget));
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$y_h, Graph_Tensor:$y_c);
}
#endif
