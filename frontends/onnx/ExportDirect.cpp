// Operators that are one node with the same operands.
#include "compiler/graph/Constants.h"
#include "frontends/onnx/ExportRules.h"

namespace tensmith::onnx_export {
namespace {

Status quantize(NodeExport &n) {
  Fields fields = {{"axis", n.attributes.integer("axis")},
                   {"block_size", n.attributes.integer("block_size")},
                   {"saturate", n.attributes.integer("saturate")}};
  if (n.input(2).empty())
    fields.push_back({"output_dtype", n.attributes.integer("to")});
  return n.giveNode("QuantizeLinear", n.inputs(), fields);
}

/// The result is of the scale's type in ONNX.
Status dequantize(NodeExport &n) {
  if (graph::dataType(n.element(1)) != n.attributes.type("to"))
    return n.error("gives another type than its scale's, which ONNX's does not");
  return n.giveNode(
      "DequantizeLinear", n.inputs(),
      {{"axis", n.attributes.integer("axis")}, {"block_size", n.attributes.integer("block_size")}});
}

Status mod(NodeExport &n) {
  bool truncates = n.attributes.integer("fmod");
  if (!truncates && mlir::isa<mlir::FloatType>(n.element()))
    return n.error("of floats with the divisor's sign is none of ONNX's operators");
  return n.giveNode("Mod", n.inputs(), {{"fmod", int64_t(truncates)}});
}

Status bitShift(NodeExport &n) {
  if (!n.element().isUnsignedInteger())
    return n.error("is of signed integers, which ONNX doesn't shift");
  return n.giveNode("BitShift", n.inputs(),
                    {{"direction", std::string(n.attributes.integer("left") ? "LEFT" : "RIGHT")}});
}

/// Numbers that are drawn in training would be others elsewhere.
Status dropout(NodeExport &n) {
  auto mode = n.op->getOperand(2).getDefiningOp<graph::ConstantOp>();
  auto value = mode ? graph::hostTensor(mode.getValue()) : Result(HostTensor());
  bool drops = !n.input(2).empty() && (!mode || !value.ok() || value->getInt(0) != 0);
  if (drops)
    return n.error("drops elements, which are others wherever it runs");
  return n.giveNode("Dropout", {n.input(0)});
}

Status maxPoolIndices(NodeExport &n) {
  auto integers = [&](const char *name) { return n.attributes.integers(name); };
  auto names = n.nodes("MaxPool", {n.input(0)},
                       {{"kernel_shape", integers("kernel")},
                        {"strides", integers("strides")},
                        {"pads", integers("pads")},
                        {"dilations", integers("dilations")},
                        {"ceil_mode", n.attributes.integer("ceil_mode")},
                        {"storage_order", n.attributes.integer("column_major")}},
                       2);
  return n.give({names[1]});
}

Status window(NodeExport &n) {
  std::string kind = n.attributes.string("kind");
  std::string type = kind == "hann"      ? "HannWindow"
                     : kind == "hamming" ? "HammingWindow"
                                         : "BlackmanWindow";
  return n.giveNode(type, n.inputs(),
                    {{"output_datatype", n.attributes.integer("to")},
                     {"periodic", n.attributes.integer("periodic")}});
}

const Renamed kKernel = {"kernel", "kernel_shape"}, kLayout = {"batch_first", "layout"};

const Record kRecords[] = {
    {"graph.where", "Where"},
    {"graph.pow", "Pow"},
    {"graph.isinf", "IsInf"},
    {"graph.cast", "Cast", {{"round_mode", ""}}},
    {"graph.mod", "Mod", {}, mod},
    {"graph.bit_shift", "BitShift", {}, bitShift},
    {"graph.matmul", "MatMul"},
    {"graph.einsum", "Einsum"},
    {"graph.det", "Det"},
    {"graph.arg_max", "ArgMax", {{"last", "select_last_index"}}},
    {"graph.arg_min", "ArgMin", {{"last", "select_last_index"}}},
    {"graph.transpose", "Transpose", {{"permutation", "perm"}}},
    {"graph.concat", "Concat"},
    {"graph.trilu", "Trilu"},
    {"graph.dynamic_reshape", "Reshape"},
    {"graph.dynamic_broadcast", "Expand"},
    {"graph.dynamic_slice", "Slice"},
    {"graph.dynamic_pad", "Pad"},
    {"graph.dynamic_tile", "Tile"},
    {"graph.center_crop_pad", "CenterCropPad"},
    {"graph.shape", "Shape"},
    {"graph.size", "Size"},
    {"graph.reverse_sequence", "ReverseSequence"},
    {"graph.gather", "Gather"},
    {"graph.gather_elements", "GatherElements"},
    {"graph.gather_nd", "GatherND"},
    {"graph.scatter_elements", "ScatterElements"},
    {"graph.scatter_nd", "ScatterND"},
    {"graph.tensor_scatter", "TensorScatter"},
    {"graph.one_hot", "OneHot"},
    {"graph.nonzero", "NonZero"},
    {"graph.compress", "Compress"},
    {"graph.topk", "TopK"},
    {"graph.unique", "Unique"},
    {"graph.non_max_suppression", "NonMaxSuppression"},
    {"graph.conv", "Conv"},
    {"graph.conv_transpose", "ConvTranspose"},
    {"graph.deform_conv", "DeformConv"},
    {"graph.max_pool", "MaxPool", {kKernel}},
    {"graph.max_pool_indices", "MaxPool", {}, maxPoolIndices},
    {"graph.average_pool", "AveragePool", {kKernel}},
    {"graph.lp_pool", "LpPool", {kKernel}},
    {"graph.max_unpool", "MaxUnpool", {kKernel}},
    {"graph.col2im", "Col2Im"},
    {"graph.resize", "Resize"},
    {"graph.grid_sample", "GridSample"},
    {"graph.affine_grid", "AffineGrid"},
    {"graph.roi_align", "RoiAlign"},
    {"graph.max_roi_pool", "MaxRoiPool"},
    {"graph.softmax", "Softmax"},
    {"graph.log_softmax", "LogSoftmax"},
    {"graph.hardmax", "Hardmax"},
    {"graph.layer_norm", "LayerNormalization"},
    {"graph.rms_norm", "RMSNormalization"},
    {"graph.batch_norm", "BatchNormalization"},
    {"graph.instance_norm", "InstanceNormalization"},
    {"graph.group_norm", "GroupNormalization", {{"groups", "num_groups"}}},
    {"graph.lrn", "LRN"},
    {"graph.rnn", "RNN", {kLayout}},
    {"graph.gru", "GRU", {kLayout}},
    {"graph.lstm", "LSTM", {kLayout}},
    {"graph.quantize", "QuantizeLinear", {}, quantize},
    {"graph.dequantize", "DequantizeLinear", {}, dequantize},
    {"graph.range", "Range"},
    {"graph.dropout", "Dropout", {}, dropout},
    {"graph.dft", "DFT"},
    {"graph.stft", "STFT"},
    {"graph.window", "HannWindow", {}, window},
    {"graph.mel_weight_matrix", "MelWeightMatrix", {{"to", "output_datatype"}}},
};

} // namespace

std::span<const Record> directRecords() { return kRecords; }

} // namespace tensmith::onnx_export
