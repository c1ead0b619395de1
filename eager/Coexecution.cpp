// Following and recording: what happens when a deed is met. See Coexecution.h.
#include "eager/Coexecution.h"

#include "eager/Dispatch.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace tensmith::eager {
namespace {

constexpr size_t kMostDepartures = 32;

/// So many steps in a row that leave all paths, and co-execution only costs.
constexpr int64_t kMostFallBacksInARow = 16;

thread_local Coexecution *ofThread = nullptr;

/// The steps under way, of all threads. It changes with the interpreter's lock and an `Entry`.
std::vector<Coexecution *> &underWay() {
  static auto *steps = new std::vector<Coexecution *>; // threads may outlive the process's statics
  return *steps;
}

/// Keeps other threads out of all steps while a call waits without the interpreter's lock. One lock
/// for all, as steps read each other's tensors. It is never waited for with the interpreter's lock.
class Entry {
public:
  Entry() {
    if (lock().try_lock())
      return;
    LetGo unlocked;
    lock().lock();
  }
  ~Entry() { lock().unlock(); }
  Entry(const Entry &) = delete;

private:
  static std::recursive_mutex &lock() {
    static auto *mutex = new std::recursive_mutex; // threads may outlive the process's statics
    return *mutex;
  }
};

void append(std::string &text, int64_t number) {
  text.append(reinterpret_cast<const char *>(&number), sizeof number);
}

void append(std::string &text, const Array &array) {
  append(text, int64_t(array.type()));
  append(text, array.storage()->bytes); // a program may take all of what the array is a view of
  append(text, array.offset());
  append(text, array.rank());
  for (int64_t size : array.shape())
    append(text, size);
  for (int64_t stride : array.strides())
    append(text, stride);
}

template <typename T> void append(std::string &text, const std::vector<T> &list) {
  append(text, int64_t(list.size()));
  text.append(reinterpret_cast<const char *>(list.data()), list.size() * sizeof(T));
}

void append(std::string &text, const Attributes &attributes) {
  for (const auto &[name, value] : attributes.all()) {
    text += name;
    append(text, int64_t(value.index()));
    std::visit(
        [&](const auto &each) {
          using T = std::decay_t<decltype(each)>;
          if constexpr (std::is_same_v<T, std::string>)
            append(text, int64_t(each.size())), text += each;
          else if constexpr (std::is_arithmetic_v<T>)
            text.append(reinterpret_cast<const char *>(&each), sizeof each);
          else if constexpr (std::is_same_v<T, std::vector<int64_t>> ||
                             std::is_same_v<T, std::vector<double>>)
            append(text, each);
        },
        value);
  }
}

/// A single number that is there.
Result<Array> numberOf(const Array &array) {
  Result<Array> copy = Array::allocate(array.type(), array.shape());
  if (copy.ok())
    std::memcpy(copy->data(), array.data(), size_t(byteSize(array.type())));
  return copy;
}

/// The elements as they are, in memory of nobody else's.
Result<Array> snapshotOf(const Array &array) {
  Coexecution::Paused paused;
  Tape::Paused untold;
  Result<Array> copy = Array::allocate(array.type(), array.shape());
  if (copy.ok())
    if (Status status = copyInto(*copy, array); !status.ok())
      return status;
  return copy;
}

} // namespace

Coexecution::~Coexecution() { close(); }

Coexecution *Coexecution::current() { return ofThread; }

Coexecution::Paused::Paused() : kept_(std::exchange(ofThread, nullptr)) {}
Coexecution::Paused::~Paused() { ofThread = kept_; }

// ---- storages

Coexecution::Known *Coexecution::find(const Array &array) {
  auto found = numbers_.find(array.storage().get());
  return found == numbers_.end() ? nullptr : &known_[size_t(found->second)];
}

/// The deed that brings the elements which a segment takes that ends before the deed `end`.
size_t Coexecution::Known::lastMetBefore(size_t end) const {
  auto after = std::lower_bound(metAt.begin(), metAt.end(), end);
  return after == metAt.begin() ? metAt.front() : *std::prev(after);
}

Coexecution::Known &Coexecution::meetStorage(const Array &array) {
  if (Known *known = find(array)) {
    if (std::exchange(known->isWritable, false))
      known->metAt.push_back(compared_);
    return *known;
  }
  int number = int(known_.size());
  numbers_[array.storage().get()] = number;
  known_.push_back({number, array, {compared_}});
  if (!array.storage()->step)
    array.storage()->step = this;
  return known_.back();
}

/// Whether the step has put off what makes the elements, or, for who writes them, takes them.
bool Coexecution::depends(const Array &array, bool toWrite) const {
  auto found = numbers_.find(array.storage().get());
  return isFollowing_ && found != numbers_.end() &&
         (toWrite || known_[size_t(found->second)].isComing);
}

/// Other steps do what they have put off, before `step` takes or writes a tensor that they have
/// met. From then on they put nothing off.
Status Coexecution::settleOthers(const Coexecution *step, const Array &array, bool toWrite) {
  if (!array.storage()->step)
    return {};
  for (Coexecution *other : underWay())
    if (other != step && other->depends(array, toWrite))
      if (Status status =
              other->fallBack(toWrite ? "another thread writes" : "another thread reads");
          !status.ok())
        return status;
  return {};
}

/// Makes of an operand what a deed holds of it, and appends its part of the signature. Numbers that
/// are part of a graph's structure, and memory that others write whenever they like, are taken as
/// they are.
Status Coexecution::takeOperand(Array &array, Signature &signature) {
  if (Status status = settleOthers(this, array, /*toWrite=*/false); !status.ok())
    return status;
  std::optional<std::string> constant;
  if (array.rank() == 0 && !find(array))
    constant = Tape::constantText(array);
  bool isShared = array.storage()->isShared();
  if (constant || isShared) {
    Result<Array> copy = constant ? numberOf(array) : snapshotOf(array);
    if (!copy.ok())
      return copy.status();
    array = std::move(*copy);
  }
  if (constant) {
    signature.what += "c" + *constant + ";";
    append(signature.what, int64_t(array.type()));
    return {};
  }
  signature.what += isShared ? 's' : array.storage()->leaf ? 'l' : 'o';
  signature.which.push_back(meetStorage(array).number);
  append(signature.what, array);
  return {};
}

/// What was made in the segment under way and is held by others than the step. Nothing of it may be
/// with the engine.
std::set<int> Coexecution::alive() const {
  std::unordered_map<const Storage *, long> ours;
  for (const Deed &deed : deeds_)
    for (const auto *list : {&deed.operands, &deed.results})
      for (const Array &array : *list)
        ++ours[array.storage().get()];
  for (const auto &[number, array] : coming_)
    ++ours[array.storage().get()];
  std::set<int> result;
  for (const Known &known : known_)
    if (known.isMade && known.madeBy == segment_ &&
        known.array.storage().use_count() > ours[known.array.storage().get()] + 1)
      result.insert(known.number);
  return result;
}

/// Where operations were issued, which hold what they need.
std::set<int> Coexecution::aliveWhenIdle() const {
  waitForEngine();
  return alive();
}

// ---- the course of a step

void Coexecution::begin() {
  Entry entry;
  ofThread = this;
  underWay().push_back(this);
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
    auto goesOn = [&](const auto &path) { return path->signatures.size() != compared_; };
    Deed end{Deed::Kind::Read};
    if (!std::all_of(candidates_.begin(), candidates_.end(), goesOn)) {
      std::erase_if(candidates_, goesOn);
      status = finishSegment();
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
    alive_.resize(segment_ + 1);
    alive_[segment_] = aliveWhenIdle();
    for (Deed &deed : deeds_)
      if (deed.segment < 0)
        deed.segment = int(segment_);
    if (Status status = addPath(); !status.ok())
      return status;
  }
  return isFollowing_ ? Status() : graph_.add(trace(), this);
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
  std::erase(underWay(), this);
  for (Known &known : known_)
    if (Coexecution *&step = known.array.storage()->step; step == this) {
      auto other = std::find_if(underWay().begin(), underWay().end(),
                                [&](Coexecution *each) { return each->find(known.array); });
      step = other == underWay().end() ? nullptr : *other;
    }
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
  handles_.clear();
  counted_ = 0;
  held_.clear();
  lookedAt_ = 0;
}

/// Whether a known path goes on with this deed; the others are given up.
bool Coexecution::followsPaths(const Signature &signature) {
  auto goesOn = [&](const std::shared_ptr<Path> &path) {
    return compared_ < path->signatures.size() && path->signatures[compared_] == signature;
  };
  if (std::none_of(candidates_.begin(), candidates_.end(), goesOn))
    return false;
  std::erase_if(candidates_, [&](const auto &path) { return !goesOn(path); });
  return true;
}

Result<bool> Coexecution::follows(Deed &deed) {
  if (!hasLeftPaths_) {
    if (followsPaths(deed.signature))
      return true;
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

/// The deeds of no segment yet that a storage's elements depend on. All of them where a write in
/// place is among these, since others may read what was there before.
std::vector<size_t> Coexecution::neededFor(const Known &known, bool isAll) const {
  std::vector<size_t> needed, all;
  std::set<const Storage *> storages{known.array.storage().get()};
  for (size_t i = deeds_.size(); i-- > 0;) {
    const Deed &deed = deeds_[i];
    if (deed.segment >= 0 || deed.kind == Deed::Kind::View)
      continue;
    all.push_back(i);
    bool isNeeded = std::any_of(deed.results.begin(), deed.results.end(), [&](const Array &result) {
      return storages.contains(result.storage().get());
    });
    if (!isNeeded)
      continue;
    isAll = isAll || deed.kind == Deed::Kind::Write;
    needed.push_back(i);
    for (const Array &operand : deed.operands)
      storages.insert(operand.storage().get());
  }
  return isAll ? all : needed;
}

/// Launches the segment as soon as that can be.
Status Coexecution::advance() {
  if (!isFollowing_ || isLaunched_)
    return {};
  Segment *segment = segmentUnderWay();
  size_t met = hasLeftPaths_ ? block_.met : compared_;
  return segment && met >= segment->lastInput && isOnlyWay(*segment) ? launch(*segment) : Status();
}

Status Coexecution::launch(const Segment &segment) {
  isLaunched_ = segment.isEmpty();
  if (isLaunched_)
    return {};
  std::vector<Array> inputs, outputs;
  size_t constant = 0;
  for (const Segment::Value &value : segment.inputs) {
    const Geometry &as = value.geometry;
    inputs.push_back(value.storage < 0
                         ? segment.constants[constant++]
                         : numbered(value.storage).array.view(as.shape, as.strides, as.offset));
  }
  for (const Segment::Value &value : segment.outputs) {
    bool isMet = value.isMade && value.storage < nextNumber();
    Result<Array> output = isMet ? numbered(value.storage).array
                                 : Array::later(value.geometry.type, value.geometry.shape);
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
Status Coexecution::finishSegment() {
  const Segment &segment = *segmentUnderWay();
  std::set<int> held = hasLeftPaths_ ? aliveOfBlock() : alive();
  if (!std::includes(segment.wanted.begin(), segment.wanted.end(), held.begin(), held.end())) {
    if (hasLeftPaths_)
      block_.candidates[0]->want(held);
    return fallBack("a tensor is kept");
  }
  if (!isLaunched_)
    if (Status status = launch(segment); !status.ok())
      return status;
  std::vector<Array> to, from;
  for (const Segment::Value &value : segment.outputs) {
    if (value.isMade)
      continue;
    const Geometry &as = value.geometry;
    to.push_back(numbered(value.storage).array.view(as.shape, as.strides, as.offset));
    from.push_back(std::move(coming_.at(value.storage)));
  }
  return moveInto(to, from);
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
  std::vector<Array> made;
  auto isPutOff = [](const Deed &deed) { return deed.segment < 0 && !deed.isDone; };
  for (const Deed &deed : deeds_)
    if (isPutOff(deed) && deed.kind != Deed::Kind::Write && deed.computes())
      made.insert(made.end(), deed.results.begin(), deed.results.end());
  if (isLaunched_)
    waitForEngine(made);
  isLaunched_ = false;
  coming_.clear();
  for (Deed &deed : deeds_)
    if (isPutOff(deed)) {
      if (Status status = redo(deed); !status.ok())
        return status;
      deed.isDone = true;
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
    return computeInto(*deed.op, deed.attributes, deed.operands, deed.results);
  case Deed::Kind::Program:
    return runInto(deed.program, "program", deed.operands, deed.results);
  case Deed::Kind::Concat:
    return concatenateInto(deed.attributes.integer("axis"), deed.operands, deed.results[0]);
  case Deed::Kind::Write:
    return copyInto(deed.results[0], deed.operands[0]);
  case Deed::Kind::View:
  case Deed::Kind::Read:
    return {};
  }
  return {};
}

// ---- deeds

/// A deed whose signature is complete: it is followed, or recorded.
Status Coexecution::keep(Deed deed) {
  if (isFollowing_) {
    Result<bool> isKnown = follows(deed);
    if (!isKnown.ok())
      return isKnown.status();
    if (!*isKnown)
      if (Status status = fallBack("the step goes another way"); !status.ok())
        return status;
  }
  if (!isFollowing_) {
    deed.place = placeOfCall();
    deed.stack = stackOfCall();
    noteDeaths();
  }
  ++compared_;
  deeds_.push_back(std::move(deed));
  return {};
}

/// A deed that makes its results. `types`: with shapes.
Result<std::vector<Array>> Coexecution::meet(Deed deed,
                                             const std::vector<reference::ResultType> &types) {
  Entry entry;
  for (Array &operand : deed.operands)
    if (Status status = takeOperand(operand, deed.signature); !status.ok())
      return status;
  if (Status status = keep(std::move(deed)); !status.ok())
    return status;
  std::vector<Array> results;
  for (const reference::ResultType &type : types) {
    auto coming = coming_.find(nextNumber());
    Result<Array> result =
        coming == coming_.end() ? Array::later(type.type, *type.shape) : coming->second;
    if (!result.ok())
      return result.status();
    Known &known = meetStorage(*result);
    known.isMade = known.isComing = true;
    known.madeBy = segment_;
    if (isByBlocks())
      block_.number(known.number);
    results.push_back(std::move(*result));
  }
  deeds_.back().results = results;
  if (Status status = isFollowing_ ? advance() : redo(deeds_.back()); !status.ok())
    return status;
  return results;
}

Result<std::vector<Array>> Coexecution::operation(const Operator &op, const Attributes &attributes,
                                                  Arrays operands,
                                                  const std::vector<reference::ResultType> &types) {
  Deed deed{Deed::Kind::Operation, &op, attributes};
  deed.operands.assign(operands.begin(), operands.end());
  deed.signature.what = "p";
  append(deed.signature.what, int64_t(reinterpret_cast<intptr_t>(&op)));
  append(deed.signature.what, attributes);
  return meet(std::move(deed), types);
}

Result<std::vector<Array>> Coexecution::program(std::shared_ptr<const Compiled> compiled,
                                                Arrays operands,
                                                const std::vector<reference::ResultType> &types) {
  Deed deed{Deed::Kind::Program};
  deed.operands.assign(operands.begin(), operands.end());
  deed.signature.what = "g";
  append(deed.signature.what, int64_t(reinterpret_cast<intptr_t>(compiled.get())));
  deed.program = std::move(compiled);
  return meet(std::move(deed), types);
}

Result<Array> Coexecution::concat(int64_t axis, Arrays operands, DataType type, Shape shape) {
  Deed deed{Deed::Kind::Concat};
  deed.operands.assign(operands.begin(), operands.end());
  deed.attributes.set("axis", axis);
  deed.signature.what = "j";
  append(deed.signature.what, axis);
  Result<std::vector<Array>> results = meet(std::move(deed), {{type, std::move(shape)}});
  if (!results.ok())
    return results.status();
  return results->front();
}

Result<bool> Coexecution::write(const Array &to, const Array &from) {
  Entry entry;
  if (Status status = settleOthers(this, to, /*toWrite=*/true); !status.ok())
    return status;
  Known *target = find(to), *source = find(from);
  if (to.storage()->isShared() || isComplex(to.type()) ||
      (!target && !(source && source->isMade))) {
    if (target)
      if (Status status = meetRead(to, /*toWrite=*/true); !status.ok())
        return status;
    return false;
  }
  Deed deed{Deed::Kind::Write};
  deed.signature.what = "w";
  Array operand = from;
  if (Status status = takeOperand(operand, deed.signature); !status.ok())
    return status;
  deed.signature.which.push_back(meetStorage(to).number);
  append(deed.signature.what, to);
  deed.operands.push_back(std::move(operand));
  if (Status status = keep(std::move(deed)); !status.ok())
    return status;
  deeds_.back().results.push_back(to);
  meetStorage(to).isComing = true;
  if (Status status = isFollowing_ ? advance() : redo(deeds_.back()); !status.ok())
    return status;
  return true;
}

void Coexecution::view(const Array &of, const Array &view, const ViewStep &step) {
  bool isSame =
      view.offset() == of.offset() && view.shape() == of.shape() && view.strides() == of.strides();
  if (isSame || isComplex(of.type()))
    return;
  Entry entry;
  Deed deed{Deed::Kind::View};
  deed.view = step;
  deed.operands.push_back(of);
  deed.results.push_back(view);
  deeds_.push_back(std::move(deed));
}

Status Coexecution::read(const Array &array, bool toWrite) {
  if (!array.storage()->step)
    return {};
  bool isOfOthers = std::any_of(underWay().begin(), underWay().end(), [&](Coexecution *each) {
    return each != ofThread && each->depends(array, toWrite);
  });
  if (isOfOthers) { // without the lock where there are none: they may be waiting
    Entry entry;
    if (Status status = settleOthers(ofThread, array, toWrite); !status.ok())
      return status;
  }
  return ofThread ? ofThread->meetRead(array, toWrite) : Status();
}

/// By Python, in the step's own thread.
Status Coexecution::meetRead(const Array &array, bool toWrite) {
  Known *known = find(array);
  if (!known || !(known->isComing || toWrite))
    return {};
  Entry entry;
  Deed deed{Deed::Kind::Read};
  deed.signature = {toWrite ? "R" : "r", {known->number}};
  deed.operands.push_back(known->array);
  if (Status status = keep(std::move(deed)); !status.ok())
    return status;
  std::vector<size_t> needed = neededFor(*find(array), toWrite);
  std::set<int> made;
  for (size_t i : needed)
    for (const Array &result : deeds_[i].results)
      made.insert(find(result)->number);
  for (Known &each : known_)
    if (each.isComing && each.isMade && each.madeBy == segment_ && !made.contains(each.number))
      each.madeBy = segment_ + 1;
  if (isFollowing_ && !hasLeftPaths_)
    if (Status status = finishSegment(); !status.ok())
      return status;
  alive_.resize(segment_ + 1);
  if (isFollowing_ && !hasLeftPaths_)
    alive_[segment_] = segmentUnderWay()->wanted;
  else if (!isFollowing_ || isToBePath_)
    alive_[segment_] = aliveWhenIdle();
  else
    isPathTold_ = false; // to wait for the engine at each read would cost too much
  for (size_t i : needed)
    deeds_[i].segment = int(segment_);
  for (int number : made)
    known_[size_t(number)].isComing = false;
  for (const Deed &each : deeds_) // a write that was not needed
    if (each.segment < 0 && each.kind != Deed::Kind::View)
      for (const Array &result : each.results)
        find(result)->isComing = true;
  find(array)->isWritable = toWrite;
  ++segment_;
  isLaunched_ = false;
  coming_.clear();
  return advance();
}

} // namespace tensmith::eager
