// What a schedule is made of, for the files of this folder.
#pragma once

#include "compiler/nest/Dependences.h"
#include "compiler/nest/Schedule.h"

namespace tensmith::nest {

struct ScheduleState {
  std::shared_ptr<IslContext> isl;
  Nest nest;
  std::unique_ptr<Relations> relations;
  Node tree;
  std::vector<Dependence> dependences;
  Unchecked unchecked = {}; // by tests
  TileIntrinsics intrinsics = {};
  std::vector<Memory> memories = {}; // of the target, and the size of its vectors
  int64_t vectorBytes = 0;

  /// Of the tree as it stands: after the nest has changed.
  void renew();
};

/// Operations of isl for one primitive or one walk: a few seconds.
inline constexpr unsigned long kMostOperations = 20'000'000;

/// Changes a copy of the tree; returns why it can't be, or nothing.
using TreeChange = std::function<std::string(Node &tree)>;
/// What the tree breaks of a nest that has these dependences and relations, in words; empty: it is
/// legal.
std::string illegality(const ScheduleState &state, const std::vector<Dependence> &dependences,
                       const Nest &nest, const Node &tree, const Relations &relations,
                       Changes changes = Changes::Order);
/// Of a nest that has the state's.
std::string illegality(const ScheduleState &state, const Nest &nest, const Node &tree,
                       Changes changes = Changes::Order);
/// Makes the change, if the result is legal.
Status changeTree(ScheduleState &state, const std::string &primitive, const TreeChange &change,
                  Changes changes = Changes::Order);
/// Runs what uses isl: its exceptions become ResourceExhausted or Internal.
Status guarded(ScheduleState &state, const std::string &what, const std::function<Status()> &run);

/// Tensors that don't fit the memory that they are in, in words; empty: there are none.
std::string memoryProblem(const Nest &nest, const std::vector<Memory> &memories);

/// Loops from the root to the one of that name, itself included; empty: there is none.
std::vector<Node *> loopsTo(Node &root, const std::string &loop);
/// "there is no loop 'x'; there are i, j, k"
std::string noLoop(const Node &tree, const std::string &name);
/// Of a loop's values the least and the greatest, where they are known.
struct Extent {
  std::optional<int64_t> least, most;
  std::optional<int64_t> points() const {
    return least && most ? std::optional(*most - *least + 1) : std::nullopt;
  }
};
/// Says how the loop's iterations run, if it may; returns why not.
std::string setExecution(Node &tree, const Relations &relations, const std::string &loop,
                         Execution execution);
Extent extentOf(const Node &loop, const Relations &relations);

} // namespace tensmith::nest
