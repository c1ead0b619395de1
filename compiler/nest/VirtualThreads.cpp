// `virtual_threads`: points of several iterations side by side.
//
// Problem: one chain of operations waits for its own results, where several that don't concern one
// another keep a core busy; but as a loop outside each of them runs to its end before the next.
// Method: the loop is split by the number of threads, of which each has every so many-th point.
// The threads carry no dependence, by a check as that of a parallel loop; so their loop may stand
// around each statement within, or around its vector, and is unrolled there.
//
// Source: T. Chen et al., TVM, OSDI 2018 (virtual threads).
#include "compiler/nest/ScheduleState.h"

#include <set>

namespace tensmith::nest {
namespace {

class Sinking {
public:
  Sinking(Node thread, const Node &tree) : thread_(std::move(thread)) {
    tree.visit([&](const Node &each) { names_.insert(each.name); });
    names_.erase(thread_.name);
  }

  void sink(Node &node) {
    bool isOne = node.execution == Execution::Vector || node.execution == Execution::Tensorized;
    if (node.kind == Node::Kind::Statement || (node.isLoop() && isOne))
      return wrap(node);
    for (Node &child : node.children)
      sink(child);
  }

private:
  void wrap(Node &node) {
    Node loop{Node::Kind::Loop, nameFor(node)};
    loop.execution = Execution::Unrolled;
    for (const std::string &each : node.statements())
      loop.values[each] = thread_.values.at(each);
    loop.children.push_back(std::move(node));
    node = std::move(loop);
  }

  std::string nameFor(const Node &node) {
    std::string name = thread_.name;
    if (names_.count(name))
      name += "_" + node.statements()[0];
    while (!names_.insert(name).second)
      name += "_";
    return name;
  }

  Node thread_; // without what is within
  std::set<std::string> names_;
};

std::string interleave(Node &tree, const ScheduleState &state, const std::string &name) {
  Node trial = tree;
  loopsTo(trial, name).back()->execution = Execution::Parallel;
  std::string carried = violation(state.dependences, trial, *state.relations, state.unchecked);
  if (!carried.empty())
    return "its threads are not independent: " + carried;
  Node &loop = *loopsTo(tree, name).back();
  Node body = std::move(loop.children[0]);
  loop.children.clear();
  Sinking(loop, tree).sink(body);
  loop = std::move(body);
  return {};
}

} // namespace

Status Schedule::virtualThreads(const std::string &loop, int64_t count, const std::string &outer,
                                const std::string &thread) {
  std::string primitive = "virtual_threads " + loop;
  constexpr int64_t kMost = 16;
  if (count < 2 || count > kMost)
    return invalidArgument(primitive + ": the number of threads must be from 2 to 16");
  Schedule trial = copy();
  if (Status status = trial.split(loop, count, outer, thread); !status.ok()) {
    std::string words = status.message();
    return {status.code(), primitive + words.substr(words.find(": "))};
  }
  Status status = changeTree(*trial.state_, primitive,
                             [&](Node &tree) { return interleave(tree, *trial.state_, thread); });
  if (status.ok())
    *this = std::move(trial);
  return status;
}

} // namespace tensmith::nest
