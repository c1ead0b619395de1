// The ONNX model that is being quantised: its main graph with names looked up, and nodes that come
// in between.
//
// The quantiser rewrites the model's own nodes, not a compiled form of it, so that what it doesn't
// touch stays as its author wrote it. Nodes in subgraphs and functions are left alone; tensors that
// they read count as read.
#pragma once

#include "base/HostTensor.h"
#include "onnx-ml.pb.h"

#include <map>
#include <optional>
#include <set>

namespace tensmith::quantize {

class ModelGraph {
public:
  /// InvalidModel, Unsupported: the bytes are no model, or of an opset that has no quantisation.
  static Result<ModelGraph> parse(const std::string &bytes);
  std::string bytes() const;

  onnx::GraphProto &graph() { return *proto_.mutable_graph(); }
  const onnx::GraphProto &graph() const { return proto_.graph(); }
  int64_t opset() const;
  /// Makes the model one of opset 21, of which codes of 4 and 16 bits and groups are. Unsupported
  /// where an operator means something else there.
  Status raiseOpset();

  /// Looks names up again, after nodes have changed.
  void index();
  /// Numbers of the main graph's nodes that read the tensor.
  const std::vector<int> &readers(const std::string &tensor) const;
  /// Of the node that computes it; -1: none does.
  int producer(const std::string &tensor) const;
  /// Whether it's an output, or read in a subgraph.
  bool isReadElsewhere(const std::string &tensor) const;
  /// Whether that one node reads it and nothing else.
  bool hasOneReader(const std::string &tensor) const;
  bool isInput(const std::string &tensor) const;

  /// The constant of that name; nothing where it is none, or has an encoding that isn't read.
  std::optional<HostTensor> constant(const std::string &name) const;
  void setConstant(const std::string &name, const HostTensor &value);
  /// The name that it got.
  std::string addConstant(const std::string &stem, const HostTensor &value);
  std::string freshName(const std::string &stem);
  /// Bytes of all initialisers.
  int64_t constantBytes() const;
  void dropUnreadConstants();

  /// A node that stands before the node of that number, once `insertAll` is called. The reference
  /// is good until then.
  onnx::NodeProto &insertBefore(int node, const std::string &op, const std::string &stem,
                                std::vector<std::string> inputs);
  void insertAll();
  void eraseNodes(const std::set<int> &nodes);

private:
  onnx::ModelProto proto_;
  std::map<std::string, int> constants_, producers_;
  std::map<std::string, std::vector<int>> readers_;
  std::set<std::string> elsewhere_, names_, inputs_;
  std::map<int, std::vector<std::unique_ptr<onnx::NodeProto>>> inserted_;
};

/// What messages and rules call a node: its name, or its first output where it has none.
std::string nameOf(const onnx::NodeProto &node);

const onnx::AttributeProto *findAttribute(const onnx::NodeProto &node, const std::string &name);
int64_t integerAttribute(const onnx::NodeProto &node, const std::string &name, int64_t otherwise);
void setAttribute(onnx::NodeProto &node, const std::string &name, int64_t value);
void setAttribute(onnx::NodeProto &node, const std::string &name,
                  const std::vector<int64_t> &values);
bool isStandard(const onnx::NodeProto &node);

/// Constant nodes become initialisers, and batch normalisations go into the convolutions before
/// them, so that both are rounded as one.
void prepare(ModelGraph &model);

} // namespace tensmith::quantize
