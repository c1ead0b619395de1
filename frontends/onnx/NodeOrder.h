// The order in which a graph's nodes can be computed.
#pragma once

#include "base/Status.h"
#include "onnx-ml.pb.h"

#include <functional>
#include <unordered_set>
#include <vector>

namespace tensmith::onnx_import {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// Adds the names that a node uses, those that its subgraphs use of their surroundings included.
void addFreeNames(const onnx::NodeProto &node, std::unordered_set<std::string> &names);

/// The nodes' numbers, each after those whose results it (or a subgraph in it) uses, otherwise in
/// the order of the file. `isDefined` tells which names the surroundings define. Fails where a name
/// is used that nothing defines, is defined twice, or nodes depend on themselves, naming the nodes.
Result<std::vector<int>> orderNodes(const Nodes &nodes,
                                    const std::function<bool(const std::string &)> &isDefined);

} // namespace tensmith::onnx_import
