// Sorts nodes topologically; see NodeOrder.h. (A. Kahn, "Topological sorting of large networks",
// CACM 1962, with a heap that keeps the file's order.)
#include "frontends/onnx/NodeOrder.h"

#include "frontends/onnx/Model.h"

#include <queue>
#include <unordered_map>

namespace tensmith::onnx_import {

using Names = std::unordered_set<std::string>;

/// What a subgraph uses of its surroundings.
static void addFreeNames(const onnx::GraphProto &graph, Names &names) {
  Names bound, used;
  for (const auto &input : graph.input())
    bound.insert(input.name());
  for (const auto &tensor : graph.initializer())
    bound.insert(tensor.name());
  for (const auto &tensor : graph.sparse_initializer())
    bound.insert(tensor.values().name());
  for (const auto &node : graph.node()) {
    bound.insert(node.output().begin(), node.output().end());
    addFreeNames(node, used);
  }
  for (const auto &output : graph.output())
    used.insert(output.name());
  for (const std::string &name : used)
    if (!bound.contains(name))
      names.insert(name);
}

void addFreeNames(const onnx::NodeProto &node, Names &names) {
  for (const std::string &input : node.input())
    if (!input.empty())
      names.insert(input);
  for (const auto &attribute : node.attribute()) {
    if (attribute.has_g())
      addFreeNames(attribute.g(), names);
    for (const auto &graph : attribute.graphs())
      addFreeNames(graph, names);
  }
}

namespace {

Status undefined(const onnx::NodeProto &node, const std::string &name) {
  std::string place = " uses, in a subgraph,";
  for (int i = 0; i < node.input_size(); ++i)
    if (node.input(i) == name)
      place = " has as input " + std::to_string(i);
  return {StatusCode::InvalidModel,
          describe(node) + place + " '" + name +
              "', which is no input, no initialiser and no node's result"};
}

Status cyclic(const Nodes &nodes, const std::vector<int> &waiting) {
  std::string names;
  constexpr int kNamed = 20;
  int count = 0;
  for (int i = 0; i < nodes.size(); ++i)
    if (waiting[size_t(i)] > 0 && ++count <= kNamed)
      names += (names.empty() ? "" : ", ") + describe(nodes.Get(i));
  if (count > kNamed)
    names += " and " + std::to_string(count - kNamed) + " more";
  return {StatusCode::InvalidModel,
          "has a cycle; these nodes wait for one another's results: " + names};
}

} // namespace

Result<std::vector<int>> orderNodes(const Nodes &nodes,
                                    const std::function<bool(const std::string &)> &isDefined) {
  std::unordered_map<std::string, int> producers;
  for (int i = 0; i < nodes.size(); ++i)
    for (const std::string &output : nodes.Get(i).output())
      if (!output.empty() && !producers.emplace(output, i).second)
        return Status(StatusCode::InvalidModel,
                      describe(nodes.Get(i)) + " defines '" + output + "' a second time");
  std::vector<std::vector<int>> users(size_t(nodes.size()));
  std::vector<int> waiting(size_t(nodes.size()), 0);
  for (int i = 0; i < nodes.size(); ++i) {
    Names names;
    addFreeNames(nodes.Get(i), names);
    for (const std::string &name : names) {
      auto producer = producers.find(name);
      if (producer == producers.end() && !isDefined(name))
        return undefined(nodes.Get(i), name);
      if (producer == producers.end())
        continue;
      users[size_t(producer->second)].push_back(i);
      ++waiting[size_t(i)];
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i)
    if (waiting[size_t(i)] == 0)
      ready.push(i);
  std::vector<int> order;
  while (!ready.empty()) {
    int next = ready.top();
    ready.pop();
    order.push_back(next);
    for (int user : users[size_t(next)])
      if (--waiting[size_t(user)] == 0)
        ready.push(user);
  }
  if (order.size() != size_t(nodes.size()))
    return cyclic(nodes, waiting);
  return order;
}

} // namespace tensmith::onnx_import
