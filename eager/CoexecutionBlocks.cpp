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

/// So many tensors that were still held are looked at again, besides as many as are new.
constexpr size_t kLookedAtAgain = 16;

/// What nobody but a step holds, nor the engine, keeps what a deed says of it, without its memory.
void giveMemoryBack(Storage &storage) {
  storage.data = nullptr;
  storage.owner = nullptr;
  storage.charge = Charge();
}

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
  if (!looksForPaths_ || last_.size() < 2 * kFewWays || last_.back().isPath)
    return false;
  std::set<size_t> ways;
  for (const Way &each : last_)
    ways.insert(each.way);
  return ways.size() <= kFewWays;
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
  for (int storage : deed.signature.which)
    which.push_back(block_.number(storage));
  std::erase_if(block_.candidates, [&](const BlockRef &each) {
    return each->nodes[block_.met] != node || each->which[block_.met] != which;
  });
  ++block_.met;
  return !block_.candidates.empty();
}

Status Coexecution::finishBlock() {
  if (Status status = finishSegment(); !status.ok() || !isFollowing_)
    return status;
  for (size_t i = block_.begin; i < deeds_.size(); ++i)
    deeds_[i].isDone = true;
  block_ = {};
  coming_.clear();
  isLaunched_ = false;
  releaseUnheld();
  return {};
}

/// Of what was made: all deeds are done. The engine may hold some of it, which is looked at again
/// later, few at a time.
void Coexecution::releaseUnheld() {
  countHandles();
  size_t count = kLookedAtAgain + known_.size() - lookedAt_;
  for (; lookedAt_ < known_.size(); ++lookedAt_)
    if (known_[lookedAt_].isMade)
      held_.push_back(int(lookedAt_));
  for (count = std::min(count, held_.size()); count > 0; --count) {
    int number = held_.front();
    held_.pop_front();
    const Known &known = known_[size_t(number)];
    Storage &storage = *known.array.storage();
    if (isUnheld(known) && Engine::ofProcess().isReady(storage.variable))
      giveMemoryBack(storage);
    else
      held_.push_back(number);
  }
}

/// As `alive`, of what was made in the block, by its numbers.
std::set<int> Coexecution::aliveOfBlock() const {
  std::unordered_map<const Storage *, long> ours;
  for (const auto &[number, array] : coming_)
    ++ours[array.storage().get()];
  for (size_t i = block_.begin; i < deeds_.size(); ++i)
    for (const auto *list : {&deeds_[i].operands, &deeds_[i].results})
      for (const Array &array : *list)
        ++ours[array.storage().get()];
  std::set<int> result;
  for (size_t i = block_.begin; i < deeds_.size(); ++i) {
    const Deed &deed = deeds_[i];
    if (!deed.computes() || deed.kind == Deed::Kind::Write)
      continue;
    for (const Array &array : deed.results)
      if (array.storage().use_count() > ours[array.storage().get()] + 1)
        result.insert(block_.numbers.at(numbers_.at(array.storage().get())));
  }
  return result;
}

// ---- recording

void Coexecution::countHandles() {
  for (; counted_ < deeds_.size(); ++counted_)
    for (const auto *list : {&deeds_[counted_].operands, &deeds_[counted_].results})
      for (const Array &array : *list)
        ++handles_[array.storage().get()];
}

/// By others than the step. Its handles have been counted.
bool Coexecution::isUnheld(const Known &known) const {
  auto found = handles_.find(known.array.storage().get());
  return known.array.storage().use_count() <= (found == handles_.end() ? 0 : found->second) + 1;
}

/// What was made and is held by the step alone is no output of a block that ends here or later.
void Coexecution::noteDeaths() {
  countHandles();
  waitForEngine();
  for (Known &known : known_)
    if (known.isMade && !known.diedBefore && isUnheld(known)) {
      known.diedBefore = deeds_.size();
      giveMemoryBack(*known.array.storage());
    }
}

Trace Coexecution::trace() const {
  Trace trace{deeds_, {}};
  for (const Known &known : known_)
    if (known.diedBefore)
      trace.diedBefore[known.array.storage().get()] = *known.diedBefore;
  return trace;
}

} // namespace tensmith::eager
