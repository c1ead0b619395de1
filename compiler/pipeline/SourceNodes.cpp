// What front ends write into locations, read again; see SourceNodes.h.
//
// ONNX files: a name, and within it the file with the node's number for a line. Programs of the
// language: a name that begins with the place, "12:5 matmul" or "layers.tsm:3:9 matmul". Text of
// the graph dialect: the place alone.
#include "compiler/pipeline/SourceNodes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

using modules::SourceNode;

/// Of one kernel that has the code of many the rest are not told.
constexpr size_t kMostNodes = 512;

/// The place that the name begins with; false where it begins with none.
bool readPlace(StringRef name, SourceNode &node) {
  auto [place, what] = name.split(' ');
  auto [front, column] = place.rsplit(':');
  auto [file, line] = front.contains(':') ? front.rsplit(':') : std::pair(StringRef(), front);
  unsigned ignored;
  if (column.getAsInteger(10, ignored) || line.getAsInteger(10, node.line))
    return false;
  if (!file.empty())
    node.file = llvm::sys::path::filename(file).str();
  return true;
}

void visit(Location location, const std::string &model, std::vector<SourceNode> &nodes) {
  auto add = [&](SourceNode node) {
    if (nodes.size() < kMostNodes && !llvm::is_contained(nodes, node))
      nodes.push_back(std::move(node));
  };
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      visit(part, model, nodes);
  } else if (auto name = dyn_cast<NameLoc>(location)) {
    SourceNode node{name.getName().str(), model, 0};
    if (auto place = dyn_cast<FileLineColLoc>(name.getChildLoc())) {
      node.file = llvm::sys::path::filename(place.getFilename()).str();
      node.line = place.getLine();
    } else {
      readPlace(name.getName(), node);
    }
    add(std::move(node));
  } else if (auto place = dyn_cast<FileLineColLoc>(location)) {
    add({std::to_string(place.getLine()) + ":" + std::to_string(place.getColumn()),
         llvm::sys::path::filename(place.getFilename()).str(), place.getLine()});
  }
}

} // namespace

void addSourceNodes(Location location, const std::string &model, std::vector<SourceNode> &nodes) {
  visit(location, llvm::sys::path::filename(model).str(), nodes);
}

std::string labelWithNodes(const std::string &label, const std::vector<SourceNode> &nodes) {
  constexpr size_t kMostNames = 4;
  std::string text = label;
  for (size_t i = 0; i < std::min(nodes.size(), kMostNames); ++i)
    text += (i ? ", " : " [") + nodes[i].name;
  if (nodes.size() > kMostNames)
    text += " and " + std::to_string(nodes.size() - kMostNames) + " more";
  return nodes.empty() ? text : text + "]";
}

} // namespace tensmith::pipeline
