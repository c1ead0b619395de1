// Loops on units of the target, and copies in its memories: `bind`, and `in` of a copy.
//
// Problem: a schedule that is written for a machine should say which unit runs a loop and where a
// copy lies, and be refused on one that has no room for it.
// Method: `threads` are the runtime's parallel call, `lanes` a vector of the target. A memory is a
// level of the target's caches, of which it says the size: what is in it stays there by being used
// again, if it fits. So all that schedules put into one memory may have that size in all, by what
// is known of extents when the schedule is made.
#include "compiler/nest/ScheduleState.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace tensmith::nest {
namespace {

/// The largest value that sizes allow; nothing where one has no bound that is told.
std::optional<int64_t> mostOf(const Affine &extent, const Nest &nest) {
  __int128 result = extent.constant;
  for (const auto &[name, factor] : extent.terms)
    for (const Parameter &each : nest.parameters) {
      if (each.name != name)
        continue;
      if (factor > 0 && each.most >= Parameter().most)
        return std::nullopt;
      result += __int128(factor) * (factor > 0 ? each.most : each.least);
    }
  constexpr int64_t kMost = int64_t(1) << 40;
  return result > kMost ? std::nullopt : std::optional(std::max<int64_t>(int64_t(result), 0));
}

/// Bytes of a copy, in lines of 64.
std::optional<int64_t> bytesOf(const Tensor &tensor, const Nest &nest) {
  constexpr int64_t kLine = 64, kMost = int64_t(1) << 40;
  __int128 result = byteSize(tensor.type);
  for (size_t dim = tensor.instances; dim < tensor.extents.size(); ++dim) {
    std::optional<int64_t> extent = mostOf(tensor.extents[dim], nest);
    for (const LayoutDimension &part : tensor.layout) // whole blocks
      if (extent && part.dim == dim && part.part == LayoutDimension::Part::Quotient)
        extent = int64_t(llvm::alignTo(*extent, part.block));
    if (!extent || (result *= *extent) > kMost)
      return std::nullopt;
  }
  int64_t whole = int64_t(llvm::alignTo(int64_t(result), kLine));
  return tensor.hasTwoHalves() ? 2 * whole : whole;
}

std::string namesOf(const std::vector<Memory> &memories) {
  std::string result;
  for (const Memory &each : memories)
    result += (result.empty() ? "" : ", ") + each.name;
  return result.empty() ? "it has none" : "it has " + result;
}

/// As many as a vector of the target has of the widest elements that are written in the loop.
int64_t lanesIn(const Node &loop, const ScheduleState &state) {
  int64_t bytes = 1;
  for (const std::string &name : loop.statements())
    bytes = std::max(bytes, byteSize(state.nest.tensor(state.nest.statement(name)->tensor)->type));
  return state.vectorBytes / bytes;
}

std::string bindThreads(Node &tree, const Relations &relations, const std::string &loop) {
  std::vector<Node *> path = loopsTo(tree, loop);
  std::string other;
  auto look = [&](const Node &each) {
    if (each.execution == Execution::Parallel && each.name != loop)
      other = each.name;
  };
  for (const Node *each : path)
    look(*each);
  if (!path.empty())
    path.back()->visit([&](const Node &each) { look(each); });
  if (!other.empty())
    return "loop '" + other + "' around it or within runs on the threads already";
  return setExecution(tree, relations, loop, Execution::Parallel);
}

std::string bindLanes(Node &tree, const ScheduleState &state, const std::string &loop) {
  std::vector<Node *> path = loopsTo(tree, loop);
  if (path.empty())
    return noLoop(tree, loop);
  int64_t lanes = lanesIn(*path.back(), state);
  if (lanes < 2)
    return "the target has no lanes for what loop '" + loop + "' writes";
  if (extentOf(*path.back(), *state.relations).points().value_or(lanes + 1) > lanes)
    return "a vector of the target has " + std::to_string(lanes) + " lanes for what loop '" + loop +
           "' writes, and the loop has more iterations, or a number that is not known; split it "
           "by " +
           std::to_string(lanes);
  return setExecution(tree, *state.relations, loop, Execution::Vector);
}

} // namespace

std::string memoryProblem(const Nest &nest, const std::vector<Memory> &memories) {
  std::map<std::string, int64_t> used;
  for (const Tensor &each : nest.tensors) {
    if (each.memory.empty())
      continue;
    auto memory = std::find_if(memories.begin(), memories.end(),
                               [&](const Memory &one) { return one.name == each.memory; });
    if (memory == memories.end())
      return "the target has no memory '" + each.memory + "'; " + namesOf(memories);
    std::optional<int64_t> bytes = bytesOf(each, nest);
    if (!bytes)
      return "the size of '" + each.name + "' has no bound within '" + each.memory +
             "'; tile the loops that it grows with, or give the sizes";
    if ((used[each.memory] += *bytes) > memory->bytes)
      return "with '" + each.name + "', of " + std::to_string(*bytes) + " bytes, '" + each.memory +
             "' would hold " + std::to_string(used[each.memory]) + " of its " +
             std::to_string(memory->bytes);
  }
  return {};
}

void Schedule::setIntrinsics(TileIntrinsics intrinsics) {
  state_->intrinsics = std::move(intrinsics);
}

void Schedule::setTarget(TargetUnits units) {
  state_->intrinsics = std::move(units.intrinsics);
  state_->memories = std::move(units.memories);
  state_->vectorBytes = units.vectorBytes;
}

Status Schedule::bind(const std::string &loop, const std::string &unit) {
  auto change = [&](Node &tree) -> std::string {
    if (unit == "threads")
      return bindThreads(tree, *state_->relations, loop);
    if (unit == "lanes")
      return bindLanes(tree, *state_, loop);
    return "there is no unit '" + unit + "'; there are threads and lanes";
  };
  return changeTree(*state_, "bind " + loop, change, Changes::Execution);
}

} // namespace tensmith::nest
