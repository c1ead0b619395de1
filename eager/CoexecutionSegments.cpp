// Following: a step's deeds beside those of the known paths, and the segment under way, of a path
// or a block, from its launch to its end. See Coexecution.h.
#include "eager/Coexecution.h"

#include "eager/Dispatch.h"

#include <algorithm>

namespace tensmith::eager {

/// Whether a known path goes on with this deed; the others are given up.
bool Coexecution::followsPaths(Deed &deed) {
  auto goesOn = [&](const std::shared_ptr<Path> &path) {
    if (compared_ >= path->meanings.size())
      return false;
    const std::shared_ptr<const Meaning> &meaning = path->meanings[compared_];
    if (meaning != deed.meaning && meaning->signature != signature_)
      return false;
    deed.meaning = meaning;
    return true;
  };
  auto left = std::find_if_not(candidates_.begin(), candidates_.end(), goesOn);
  if (left == candidates_.end())
    return true;
  std::vector<std::shared_ptr<Path>> going(candidates_.begin(), left);
  std::copy_if(std::next(left), candidates_.end(), std::back_inserter(going), goesOn);
  if (going.empty())
    return false;
  candidates_ = std::move(going);
  return true;
}

Result<bool> Coexecution::follows(Deed &deed, const Attributes &attributes) {
  if (!hasLeftPaths_ && followsPaths(deed))
    return true;
  deed.meaning = std::make_shared<const Meaning>(Meaning{signature_, attributes});
  if (!hasLeftPaths_) {
    if (!canLeavePaths(deed))
      return false;
    if (Status status = leavePaths(); !status.ok())
      return status;
  }
  return followsBlocks(deed);
}

Segment *Coexecution::segmentUnderWay() const {
  if (!hasLeftPaths_)
    return candidates_[0]->segments[segment_].get();
  return block_.candidates.size() == 1 ? block_.candidates[0]->segment.get() : nullptr;
}

Coexecution::Known &Coexecution::numbered(int number) {
  return known_[size_t(hasLeftPaths_ ? block_.storages[size_t(number)] : number)];
}

int Coexecution::nextNumber() const {
  return int(isByBlocks() ? block_.storages.size() : known_.size());
}

/// Paths that are the same to a segment's end share it.
bool Coexecution::isOnlyWay(const Segment &segment) const {
  return hasLeftPaths_ ||
         std::all_of(candidates_.begin(), candidates_.end(), [&](const auto &path) {
           return segment_ < path->segments.size() && path->segments[segment_].get() == &segment;
         });
}

/// Launches the segment as soon as that can be.
Status Coexecution::advance() {
  if (!isFollowing_ || isLaunched_)
    return {};
  Segment *segment = segmentUnderWay();
  size_t met = hasLeftPaths_ ? block_.met : compared_;
  return segment && met >= segment->lastInput && isOnlyWay(*segment) ? launch(*segment) : Status();
}

/// Not where an input is gone: the step goes another way then, as its next deeds will show.
Status Coexecution::launch(const Segment &segment) {
  isLaunched_ = segment.isEmpty();
  if (isLaunched_)
    return {};
  std::vector<Array> inputs, outputs;
  inputs.reserve(segment.inputs.size());
  outputs.reserve(segment.outputs.size());
  size_t constant = 0;
  for (const Segment::Value &value : segment.inputs) {
    inputs.push_back(value.storage < 0 ? segment.constants[constant++]
                                       : numbered(value.storage).seen(value.as));
    if (!inputs.back())
      return {};
  }
  for (const Segment::Value &value : segment.outputs) {
    bool isMet = value.isMade && value.storage < nextNumber();
    Result<Array> output = isMet ? numbered(value.storage).seen(value.as) : Array::later(value.as);
    if (!output.ok())
      return output.status();
    if (Status status = output->provide(); !status.ok())
      return status;
    if (!isMet)
      coming_[value.storage] = *output;
    outputs.push_back(std::move(*output));
  }
  Status status = runInto(segment.compiled, "step", inputs, outputs);
  isLaunched_ = status.ok();
  return status;
}

/// Python has issued all of the segment: what it writes outside is written, and the next one
/// begins.
Status Coexecution::finishSegment(std::span<const size_t> deeds) {
  const Segment &segment = *segmentUnderWay();
  std::set<int> held = alive(deeds);
  if (hasLeftPaths_) {
    std::set<int> numbers;
    for (int number : held)
      numbers.insert(block_.numbers.at(number));
    held = std::move(numbers);
  }
  if (!std::includes(segment.wanted.begin(), segment.wanted.end(), held.begin(), held.end())) {
    if (hasLeftPaths_)
      block_.candidates[0]->want(held);
    return fallBack("a tensor is kept");
  }
  if (!isLaunched_)
    if (Status status = launch(segment); !status.ok())
      return status;
  if (!isLaunched_)
    return fallBack("an input is gone");
  std::vector<Array> to, from;
  for (const Segment::Value &value : segment.outputs) {
    if (value.isMade)
      continue;
    to.push_back(numbered(value.storage).seen(value.as));
    from.push_back(std::move(coming_.at(value.storage)));
  }
  return moveInto(to, from);
}

} // namespace tensmith::eager
