// What happens when a deed is met: its signature, its operands' storages, and what it takes part in
// when Python reads. See Coexecution.h.
#include "eager/Coexecution.h"

#include "eager/CoexecutionLock.h"

#include <algorithm>
#include <cstring>

namespace tensmith::eager {
namespace {

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

/// A number that is part of a graph's structure, on memory that nobody writes: one for each.
Result<Array> constantOf(const Array &array, const std::string &text) {
  static auto &known = *new std::map<std::pair<DataType, std::string>, Array>;
  Array &constant = known[{array.type(), text}];
  if (!constant) {
    Result<Array> copy = Array::allocate(array.type(), array.shape());
    if (!copy.ok())
      return copy;
    std::memcpy(copy->data(), array.elements(), size_t(byteSize(array.type())));
    constant = std::move(*copy);
  }
  return constant;
}

} // namespace

// ---- storages

Coexecution::Known *Coexecution::find(const Array &array) {
  auto found = numbers_.find(array.storage().get());
  return found == numbers_.end() ? nullptr : &known_[size_t(found->second)];
}

/// The deed that brings the elements which a segment takes that ends before the deed `end`.
size_t Coexecution::Known::lastMetBefore(size_t end) const {
  auto after = std::lower_bound(metAgainAt.begin(), metAgainAt.end(), end);
  return after == metAgainAt.begin() ? firstMetAt : *std::prev(after);
}

/// While the step goes on no other storage comes to be at the place of one that it has met and that
/// is gone, since what keeps the count of its holders lies there, too.
Coexecution::Known &Coexecution::meetStorage(const Array &array) {
  if (Known *known = find(array)) {
    if (std::exchange(known->isWritable, false))
      known->metAgainAt.push_back(compared_);
    return *known;
  }
  int number = int(known_.size());
  Storage &storage = *array.storage();
  numbers_[&storage] = number;
  known_.push_back({number, array.on(nullptr), array.storage(), storage.bytes, {}, compared_});
  if (storage.leaf)
    known_.back().leaf = storage.leaf->shape;
  ++storage.steps;
  if (auto views = viewsOfUnmet_.extract(&storage))
    for (Deed &view : views.mapped().second) {
      view.numbers = {number, number};
      deeds_.push_back(std::move(view));
    }
  return known_.back();
}

/// Whether the step has put off what makes the elements, or, for who writes them, takes them.
bool Coexecution::depends(const Array &array, bool toWrite) const {
  auto found = numbers_.find(array.storage().get());
  return isFollowing_ && found != numbers_.end() &&
         (toWrite || known_[size_t(found->second)].isComing());
}

/// Other steps do what they have put off, before `step` takes or writes a tensor that they have
/// met. From then on they put nothing off.
Status Coexecution::settleOthers(const Coexecution *step, const Array &array, bool toWrite) {
  if (array.storage()->steps == 0)
    return {};
  for (Coexecution *other : stepsUnderWay())
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
Status Coexecution::takeOperand(Array &array, Deed &deed) {
  Signature &signature = signature_;
  if (Status status = settleOthers(this, array, /*toWrite=*/false); !status.ok())
    return status;
  std::optional<std::string> constant;
  if (array.rank() == 0 && !find(array))
    constant = Tape::constantText(array);
  bool isShared = array.storage()->isShared();
  if (constant || isShared) {
    Result<Array> copy = constant ? constantOf(array, *constant) : snapshotOf(array);
    if (!copy.ok())
      return copy.status();
    array = std::move(*copy);
  }
  if (constant) {
    signature.what += "c" + *constant + ";";
    append(signature.what, int64_t(array.type()));
    deed.numbers.push_back(-1);
    return {};
  }
  signature.what += isShared ? 's' : array.storage()->leaf ? 'l' : 'o';
  int number = meetStorage(array).number;
  signature.which.push_back(number);
  deed.numbers.push_back(number);
  append(signature.what, array);
  return {};
}

// ---- which deeds keep memory

/// The last deed, which has been kept, is given what it makes or writes.
void Coexecution::giveResults(Arrays results) {
  Deed &deed = deeds_.back();
  size_t index = deeds_.size() - 1;
  deed.results.assign(results.begin(), results.end());
  for (const Array &result : results) {
    Known &known = *find(result);
    known.putOffBy.push_back(index);
    deed.numbers.push_back(known.number);
  }
  for (int number : deed.numbers)
    if (number >= 0)
      ++known_[size_t(number)].handles;
  putOff_.push_back(index);
}

/// It is done, and so needs no memory any more.
void Coexecution::forget(Deed &deed) {
  size_t i = 0;
  for (auto *list : {&deed.operands, &deed.results})
    for (Array &array : *list)
      if (int number = deed.numbers[i++]; number >= 0 && array) {
        --known_[size_t(number)].handles;
        array = array.on(nullptr);
      }
}

/// Of what the deeds make, none of which is with the engine, what others than the step hold.
std::set<int> Coexecution::alive(std::span<const size_t> deeds) const {
  std::set<int> result;
  for (size_t i : deeds) {
    const Deed &deed = deeds_[i];
    for (size_t k = 0; deed.makes() && k < deed.results.size(); ++k) {
      const Known &known = known_[size_t(deed.numberOfResult(k))];
      if (known.storage.use_count() > known.handles + isComingFrom(known.number))
        result.insert(known.number);
    }
  }
  return result;
}

/// Whether the segment under way keeps it as what it will give.
bool Coexecution::isComingFrom(int number) const {
  if (!isByBlocks())
    return coming_.contains(number);
  auto found = block_.numbers.find(number);
  return found != block_.numbers.end() && coming_.contains(found->second);
}

/// Where operations were issued, which hold what they need.
std::set<int> Coexecution::aliveWhenIdle(std::span<const size_t> deeds) const {
  waitForEngine();
  return alive(deeds);
}

/// Whether deeds that are put off compute again what these do: a backward pass does, of the same
/// tensors.
bool Coexecution::isComputedAgain(const std::set<size_t> &deeds) const {
  std::set<int> taken;
  for (size_t i : deeds)
    for (size_t k = 0; k < deeds_[i].operands.size(); ++k)
      taken.insert(deeds_[i].numbers[k]);
  taken.erase(-1);
  return std::any_of(putOff_.begin(), putOff_.end(), [&](size_t i) {
    const Deed &deed = deeds_[i];
    return deed.segment < 0 && deed.program && deed.program->derives && !deeds.contains(i) &&
           std::any_of(
               deed.numbers.begin(), deed.numbers.begin() + ptrdiff_t(deed.operands.size()),
               [&](int number) { return taken.contains(number); });
  });
}

/// The deeds of no segment yet that a storage's elements depend on, in order. All of them where a
/// write in place is among these, since others may read what was there before; and where others
/// compute the same, which one program does once.
std::vector<size_t> Coexecution::neededFor(const Known &known, bool isAll) const {
  std::set<size_t> needed;
  std::vector<std::pair<int, size_t>> open{{known.number, deeds_.size()}}; // as before that deed
  while (!open.empty() && !isAll) {
    auto [number, before] = open.back();
    open.pop_back();
    if (number < 0)
      continue;
    for (size_t i : known_[size_t(number)].putOffBy) {
      const Deed &deed = deeds_[i];
      if (i >= before || !needed.insert(i).second)
        continue;
      isAll = isAll || deed.kind == Deed::Kind::Write;
      for (size_t k = 0; k < deed.operands.size(); ++k)
        open.emplace_back(deed.numbers[k], i);
    }
  }
  isAll = isAll || isComputedAgain(needed);
  return isAll ? allPutOff() : std::vector<size_t>(needed.begin(), needed.end());
}

std::vector<size_t> Coexecution::allPutOff() const {
  std::vector<size_t> deeds;
  std::copy_if(putOff_.begin(), putOff_.end(), std::back_inserter(deeds),
               [&](size_t i) { return deeds_[i].segment < 0; });
  return deeds;
}

/// They are of the segment that is over.
void Coexecution::takeIntoSegment(std::span<const size_t> deeds) {
  for (size_t i : deeds) {
    Deed &deed = deeds_[i];
    deed.segment = int(segment_);
    for (size_t k = 0; k < deed.results.size(); ++k) {
      Known &known = known_[size_t(deed.numberOfResult(k))];
      std::erase(known.putOffBy, i);
      if (deed.makes())
        known.madeBy = segment_;
    }
    if (isFollowing_ && !hasLeftPaths_)
      forget(deed);
  }
  takenOfPutOff_ += deeds.size();
  if (2 * takenOfPutOff_ < putOff_.size())
    return;
  putOff_ = allPutOff();
  takenOfPutOff_ = 0;
}

// ---- deeds

/// A deed whose signature is complete: it is followed, or recorded.
Status Coexecution::keep(Deed &&deed, const Attributes &attributes) {
  if (isFollowing_) {
    Result<bool> isKnown = follows(deed, attributes);
    if (!isKnown.ok())
      return isKnown.status();
    if (!*isKnown)
      if (Status status = fallBack("the step goes another way"); !status.ok())
        return status;
  }
  if (!isFollowing_) {
    if (!deed.meaning)
      deed.meaning = std::make_shared<const Meaning>(Meaning{signature_, attributes});
    deed.place = placeOfCall();
    deed.stack = stackOfCall();
    deed.isDone = true;
    noteDeaths();
  }
  ++compared_;
  deeds_.push_back(std::move(deed));
  return {};
}

/// The last deed is compared, or done where the step is recorded.
Status Coexecution::go() {
  if (isFollowing_)
    return advance();
  Status status = redo(deeds_.back());
  forget(deeds_.back());
  return status;
}

void Coexecution::beginSignature(char kind) {
  signature_.what.assign(1, kind);
  signature_.which.clear();
}

/// A deed that makes its results, whose signature has begun. `types`: with shapes.
Result<std::vector<Array>> Coexecution::meet(Deed &&deed, const Attributes &attributes,
                                             const std::vector<reference::ResultType> &types) {
  Entry entry;
  deed.numbers.reserve(deed.operands.size() + types.size());
  for (Array &operand : deed.operands)
    if (Status status = takeOperand(operand, deed); !status.ok())
      return status;
  if (Status status = keep(std::move(deed), attributes); !status.ok())
    return status;
  std::vector<Array> results;
  for (const reference::ResultType &type : types) {
    auto coming = coming_.find(nextNumber());
    Result<Array> result =
        coming == coming_.end() ? Array::later(type.type, *type.shape) : coming->second;
    if (!result.ok())
      return result.status();
    Known &known = meetStorage(*result);
    known.isMade = true;
    if (isByBlocks())
      block_.number(known.number);
    results.push_back(std::move(*result));
  }
  giveResults(results);
  if (Status status = go(); !status.ok())
    return status;
  return results;
}

Result<std::vector<Array>> Coexecution::operation(const Operator &op, const Attributes &attributes,
                                                  Arrays operands,
                                                  const std::vector<reference::ResultType> &types) {
  Deed deed{Deed::Kind::Operation, &op};
  deed.operands.assign(operands.begin(), operands.end());
  beginSignature('p');
  append(signature_.what, int64_t(reinterpret_cast<intptr_t>(&op)));
  append(signature_.what, attributes);
  return meet(std::move(deed), attributes, types);
}

Result<std::vector<Array>> Coexecution::program(std::shared_ptr<const Compiled> compiled,
                                                Arrays operands,
                                                const std::vector<reference::ResultType> &types) {
  Deed deed{Deed::Kind::Program};
  deed.operands.assign(operands.begin(), operands.end());
  beginSignature('g');
  append(signature_.what, int64_t(reinterpret_cast<intptr_t>(compiled.get())));
  deed.program = std::move(compiled);
  return meet(std::move(deed), {}, types);
}

Result<Array> Coexecution::concat(int64_t axis, Arrays operands, DataType type, Shape shape) {
  Deed deed{Deed::Kind::Concat};
  deed.operands.assign(operands.begin(), operands.end());
  Attributes attributes;
  attributes.set("axis", axis);
  beginSignature('j');
  append(signature_.what, axis);
  Result<std::vector<Array>> results =
      meet(std::move(deed), attributes, {{type, std::move(shape)}});
  if (!results.ok())
    return results.status();
  return results->front();
}

Result<std::vector<size_t>> Coexecution::write(Arrays to, Arrays from) {
  Entry entry;
  std::vector<size_t> left;
  std::vector<Array> written;
  Deed deed{Deed::Kind::Write};
  beginSignature('w');
  for (size_t i = 0; i < to.size(); ++i) {
    if (Status status = settleOthers(this, to[i], /*toWrite=*/true); !status.ok())
      return status;
    const Known *source = find(from[i]);
    if (to[i].storage()->isShared() || isComplex(to[i].type()) ||
        (!find(to[i]) && !(source && source->isMade))) {
      left.push_back(i);
      continue;
    }
    Array operand = from[i];
    if (Status status = takeOperand(operand, deed); !status.ok())
      return status;
    deed.operands.push_back(std::move(operand));
    written.push_back(to[i]);
  }
  for (const Array &each : written) {
    signature_.which.push_back(meetStorage(each).number);
    append(signature_.what, each);
  }
  if (!written.empty()) {
    if (Status status = keep(std::move(deed)); !status.ok())
      return status;
    giveResults(written);
    if (Status status = go(); !status.ok())
      return status;
  }
  for (size_t i : left)
    if (find(to[i]))
      if (Status status = meetRead(to[i], /*toWrite=*/true); !status.ok())
        return status;
  return left;
}

void Coexecution::view(const Array &of, const Array &view, const ViewStep &step) {
  bool isSame =
      view.offset() == of.offset() && view.shape() == of.shape() && view.strides() == of.strides();
  if (isSame || isComplex(of.type()))
    return;
  Entry entry;
  Deed deed{Deed::Kind::View};
  deed.view = std::make_unique<const ViewStep>(step);
  deed.operands.push_back(of.on(nullptr));
  deed.results.push_back(view.on(nullptr));
  if (const Known *known = find(of)) {
    deed.numbers = {known->number, known->number};
    deeds_.push_back(std::move(deed));
  } else {
    auto &[storage, views] = viewsOfUnmet_[of.storage().get()];
    storage = of.storage(); // so that no other one comes to be at its place
    views.push_back(std::move(deed));
  }
}

Status Coexecution::read(const Array &array, bool toWrite) {
  if (array.storage()->steps == 0)
    return {};
  bool isOfOthers =
      std::any_of(stepsUnderWay().begin(), stepsUnderWay().end(), [&](Coexecution *each) {
        return each != current() && each->depends(array, toWrite);
      });
  if (isOfOthers) { // without the lock where there are none: they may be waiting
    Entry entry;
    if (Status status = settleOthers(current(), array, toWrite); !status.ok())
      return status;
  }
  return current() ? current()->meetRead(array, toWrite) : Status();
}

/// By Python, in the step's own thread.
Status Coexecution::meetRead(const Array &array, bool toWrite) {
  Known *known = find(array);
  if (!known || !(known->isComing() || toWrite))
    return {};
  Entry entry;
  Deed deed{Deed::Kind::Read};
  beginSignature(toWrite ? 'R' : 'r');
  signature_.which.push_back(known->number);
  deed.operands.push_back(known->asMet);
  deed.numbers.push_back(known->number);
  if (Status status = keep(std::move(deed)); !status.ok())
    return status;
  std::vector<size_t> needed = neededFor(*find(array), toWrite);
  if (isFollowing_ && !hasLeftPaths_)
    if (Status status = finishSegment(needed); !status.ok())
      return status;
  alive_.resize(segment_ + 1);
  if (isFollowing_ && !hasLeftPaths_)
    alive_[segment_] = segmentUnderWay()->wanted;
  else if (!isFollowing_ || isToBePath_)
    alive_[segment_] = aliveWhenIdle(needed);
  else
    isPathTold_ = false; // to wait for the engine at each read would cost too much
  takeIntoSegment(needed);
  find(array)->isWritable = toWrite;
  ++segment_;
  isLaunched_ = false;
  coming_.clear();
  return advance();
}

} // namespace tensmith::eager
