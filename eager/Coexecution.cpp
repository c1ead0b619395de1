// The course of a step, from its begin to its end or to where it leaves all known ways. See
// Coexecution.h.
#include "eager/Coexecution.h"

#include "eager/CoexecutionLock.h"

#include <algorithm>

namespace tensmith::eager {
namespace {

constexpr size_t kMostDepartures = 32;

/// So many steps in a row that leave all paths, and co-execution only costs.
constexpr int64_t kMostFallBacksInARow = 16;

thread_local Coexecution *ofThread = nullptr;

} // namespace

Coexecution::~Coexecution() { close(); }

Coexecution *Coexecution::current() { return ofThread; }

Coexecution::Paused::Paused() : kept_(std::exchange(ofThread, nullptr)) {}
Coexecution::Paused::~Paused() { ofThread = kept_; }

// ---- the course of a step

void Coexecution::begin() {
  Entry entry;
  ofThread = this;
  stepsUnderWay().push_back(this);
  ++counts_.steps;
  candidates_ = paths_;
  std::erase_if(candidates_, [](const auto &path) {
    return std::any_of(path->segments.begin(), path->segments.end(),
                       [](const auto &segment) { return !segment->isReady(); });
  });
  hasLeftPaths_ = !graph_.blocks().empty() && !ways_.areMostlyPaths();
  isFollowing_ = hasLeftPaths_ || !candidates_.empty();
  isToBePath_ = ways_.asksForPath();
}

Status Coexecution::end() {
  Entry entry;
  ofThread = nullptr;
  Status status;
  if (isByBlocks()) {
    if (block_.isWhole())
      status = finishBlock();
    else if (!block_.candidates.empty())
      status = fallBack("the step ends");
  } else if (isFollowing_) {
    auto goesOn = [&](const auto &path) { return path->meanings.size() != compared_; };
    Deed end{Deed::Kind::Read};
    if (!std::all_of(candidates_.begin(), candidates_.end(), goesOn)) {
      std::erase_if(candidates_, goesOn);
      status = finishSegment(allPutOff());
    } else if (canLeavePaths(end)) {
      status = leavePaths();
    } else {
      status = fallBack("the step ends");
    }
  }
  if (status.ok()) {
    bool isPath = noteWay();
    if (isFollowing_)
      fellBackInARow_ = 0;
    Status kept;
    if (!isFollowing_ || (isToBePath_ && !isPath))
      kept = keepStep();
    if (!kept.ok())
      refusal_ = "its graph can't be made: " + kept.message();
    else if (fellBackInARow_ >= kMostFallBacksInARow)
      refusal_ = std::to_string(fellBackInARow_) +
                 " steps in a row have left all known ways, the last at " + departures_.back();
  }
  close();
  return status;
}

/// The step as a path, and if it was recorded as a walk through the graph.
Status Coexecution::keepStep() {
  if (!isFollowing_)
    noteDeaths();
  if (isPathTold_) {
    std::vector<size_t> rest = allPutOff();
    alive_.resize(segment_ + 1);
    alive_[segment_] = aliveWhenIdle(rest);
    takeIntoSegment(rest);
  }
  Trace trace = this->trace();
  if (isPathTold_)
    if (Status status = addPath(trace); !status.ok())
      return status;
  return isFollowing_ ? Status() : graph_.add(std::move(trace));
}

/// Whether the step's way is a known path.
bool Coexecution::noteWay() {
  ++(isFollowing_ ? counts_.coexecuted : counts_.recorded);
  counts_.byBlocks += isByBlocks();
  if (isFollowing_ && !hasLeftPaths_) {
    Path &path = *candidates_[0];
    ++path.runs;
    path.lastRun = counts_.steps;
    ways_.note(path.way, true);
    return true;
  }
  size_t way = wayOf(deeds_);
  bool isPath =
      std::any_of(paths_.begin(), paths_.end(), [&](const auto &path) { return path->way == way; });
  ways_.note(way, isPath);
  return isPath;
}

/// The step is over; what has not been computed is not needed.
void Coexecution::close() {
  std::erase(stepsUnderWay(), this);
  for (const Known &known : known_)
    if (std::shared_ptr<Storage> storage = known.storage.lock())
      --storage->steps;
  deeds_.clear();
  alive_.clear();
  numbers_.clear();
  known_.clear();
  candidates_.clear();
  coming_.clear();
  compared_ = segment_ = 0;
  isLaunched_ = isFollowing_ = hasLeftPaths_ = isToBePath_ = false;
  isPathTold_ = true;
  block_ = {};
  putOff_.clear();
  takenOfPutOff_ = 0;
  viewsOfUnmet_.clear();
  living_.clear();
  lookedAt_ = 0;
}

/// Leaves the known ways: the step is recorded from here.
Status Coexecution::fallBack(const std::string &why) {
  if (!hasLeftPaths_)
    takeStacksOfPath();
  isFollowing_ = false;
  ++counts_.fellBack;
  ++fellBackInARow_;
  departures_.push_back(placeOfCall() + ": " + why);
  if (departures_.size() > kMostDepartures)
    departures_.erase(departures_.begin());
  return doWhatIsPutOff();
}

/// Without the program of the segment under way, which may have been launched for nothing. What it
/// could not compute is none of the program's failures.
Status Coexecution::doWhatIsPutOff() {
  std::vector<size_t> left = allPutOff();
  std::erase_if(left, [&](size_t i) { return deeds_[i].isDone; });
  std::vector<Array> made;
  for (size_t i : left)
    if (deeds_[i].makes())
      made.insert(made.end(), deeds_[i].results.begin(), deeds_[i].results.end());
  if (isLaunched_)
    waitForEngine(made);
  isLaunched_ = false;
  coming_.clear();
  for (size_t i : left) {
    if (Status status = redo(deeds_[i]); !status.ok())
      return status;
    deeds_[i].isDone = true;
    forget(deeds_[i]);
  }
  return {};
}

/// Does a deed, into its results.
Status Coexecution::redo(const Deed &deed) {
  for (const Array &result : deed.results)
    if (Status status = result.provide(); !status.ok())
      return status;
  switch (deed.kind) {
  case Deed::Kind::Operation:
    return computeInto(*deed.op, deed.attributes(), deed.operands, deed.results);
  case Deed::Kind::Program:
    return runInto(deed.program, "program", deed.operands, deed.results);
  case Deed::Kind::Concat:
    return concatenateInto(deed.attributes().integer("axis"), deed.operands, deed.results[0]);
  case Deed::Kind::Write:
    for (size_t i = 0; i < deed.results.size(); ++i)
      if (Status status = copyInto(deed.results[i], deed.operands[i]); !status.ok())
        return status;
    return {};
  case Deed::Kind::View:
  case Deed::Kind::Read:
    return {};
  }
  return {};
}

} // namespace tensmith::eager
