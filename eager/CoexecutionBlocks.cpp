// Following by blocks (TraceGraph.h): for steps, or the rest of one, that are on no known path.
//
// A block's program is launched as a path's segment is, once it is the only one that the step may
// be on and its inputs are there. It is over when the next deed comes: only then Python has let go
// of what it does not keep.
#include "eager/Coexecution.h"
#include "eager/Dispatch.h"

#include <algorithm>

namespace tensmith::eager {
namespace {

/// Steps that are looked back on. Where more of them than `kMostStrays` were on no path, a path
/// would mostly be launched for nothing.
constexpr size_t kLookedBackOn = 16;
constexpr int64_t kMostStrays = 4;

/// As few ways as these are worth a path each.
constexpr size_t kFewWays = 4;

} // namespace

void WayHistory::note(size_t way, bool isPath) {
  last_.push_back({way, isPath});
  if (last_.size() > kLookedBackOn)
    last_.pop_front();
}

bool WayHistory::areMostlyPaths() const {
  return looksForPaths_ && std::count_if(last_.begin(), last_.end(), [](const Way &each) {
                             return !each.isPath;
                           }) <= kMostStrays;
}

bool WayHistory::asksForPath() const {
  if (!looksForPaths_ || last_.size() < 2 * kFewWays)
    return false;
  std::map<size_t, bool> ways; // whether it was a path when it was taken last
  for (const Way &each : last_)
    ways[each.way] = each.isPath;
  return ways.size() <= kFewWays &&
         std::any_of(ways.begin(), ways.end(), [](const auto &way) { return !way.second; });
}

int BlockUnderWay::number(int storage) {
  auto [found, isNew] = numbers.emplace(storage, int(storages.size()));
  if (isNew)
    storages.push_back(storage);
  return found->second;
}

// ---- from paths to blocks

/// Deeds that were compared with paths have stood where those of a path did.
void Coexecution::takeStacksOfPath() {
  size_t at = 0;
  for (Deed &deed : deeds_)
    if (deed.kind != Deed::Kind::View)
      deed.stack = candidates_[0]->stacks[at++];
}

/// Whether blocks are known for what comes next: a deed that makes or writes something, or a read
/// or the step's end.
bool Coexecution::canLeavePaths(Deed &deed) {
  if (graph_.blocks().empty())
    return false;
  takeStacksOfPath();
  if (deed.computes()) {
    deed.stack = stackOfCall();
    return !graph_.from(graph_.node(deed)).empty();
  }
  auto last = std::find_if(deeds_.rbegin(), deeds_.rend(),
                           [](const Deed &each) { return each.computes(); });
  return last == deeds_.rend() || graph_.isReadAfter(graph_.node(*last));
}

/// What the path's segment has put off is done deed by deed, since it need not begin where a block
/// does.
Status Coexecution::leavePaths() {
  if (Status status = doWhatIsPutOff(); !status.ok())
    return status;
  hasLeftPaths_ = true;
  candidates_.clear();
  return {};
}

// ---- blocks

/// Whether blocks go on with this deed. Where one is over, but Python keeps what it does not give,
/// the step has fallen back.
Result<bool> Coexecution::followsBlocks(Deed &deed) {
  if (block_.isWhole())
    if (Status status = finishBlock(); !status.ok() || !isFollowing_)
      return status.ok() ? Result<bool>(true) : Result<bool>(status);
  if (!deed.computes())
    return block_.candidates.empty();
  deed.stack = stackOfCall();
  int node = graph_.node(deed);
  if (block_.candidates.empty())
    block_ = {graph_.from(node), deeds_.size()};
  std::vector<int> which;
  for (int storage : deed.signature().which)
    which.push_back(block_.number(storage));
  std::erase_if(block_.candidates, [&](const BlockRef &each) {
    return each->nodes[block_.met] != node || each->which[block_.met] != which;
  });
  ++block_.met;
  return !block_.candidates.empty();
}

Status Coexecution::finishBlock() {
  std::vector<size_t> deeds;
  for (size_t i = block_.begin; i < deeds_.size(); ++i)
    if (deeds_[i].computes())
      deeds.push_back(i);
  if (Status status = finishSegment(deeds); !status.ok() || !isFollowing_)
    return status;
  for (size_t i : deeds) {
    deeds_[i].isDone = true;
    forget(deeds_[i]);
  }
  block_ = {};
  coming_.clear();
  isLaunched_ = false;
  return {};
}

} // namespace tensmith::eager
