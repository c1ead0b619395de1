// The model's nodes by the locations of what became of them.
#pragma once

#include "compiler/module/DebugInfo.h"

#include "mlir/IR/Location.h"

#include <string>
#include <vector>

namespace tensmith::pipeline {

/// Adds the nodes of a kernel's location that are not there yet; the one that it is built around is
/// first. `model`: the file of what names no other.
void addSourceNodes(mlir::Location location, const std::string &model,
                    std::vector<modules::SourceNode> &nodes);

/// "conv+relu [conv1 (Conv), relu1 (Relu)]": the label with the first few nodes.
std::string labelWithNodes(const std::string &label, const std::vector<modules::SourceNode> &nodes);

} // namespace tensmith::pipeline
