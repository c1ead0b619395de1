// Recording: storages to values. Each function says which steps it adds; see Tape.h.
#include "eager/Tape.h"

#include "eager/Dispatch.h"

#include "reference/Elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace tensmith::eager {
namespace {

std::vector<int64_t> inverse(const std::vector<int64_t> &permutation) {
  std::vector<int64_t> result(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    result[size_t(permutation[i])] = int64_t(i);
  return result;
}

bool isNumber(DataType type) { return isInteger(type) || type == DataType::Bool; }

Status complexIsRefused(std::string_view name) {
  return unsupported(std::string(name) + ": complex numbers have no derivative here");
}

Attributes withList(const char *name, std::vector<int64_t> numbers) {
  Attributes attributes;
  attributes.set(name, std::move(numbers));
  return attributes;
}

/// The tape's own copies are not the program's.
Result<Array> copyOf(const Array &array) {
  Tape::Paused paused;
  Result<Array> copy = Array::allocate(array.type(), array.shape(), array.device());
  if (!copy.ok())
    return copy;
  if (Status status = assign(*copy, array); !status.ok())
    return status;
  return copy;
}

} // namespace

std::vector<int64_t> placesOf(const Geometry &geometry) {
  std::vector<int64_t> places;
  reference::forEachRow(reference::mergeDimensions<1>(geometry.shape, {geometry.strides}),
                        [&](const auto &offsets, const auto &steps, int64_t count) {
                          for (int64_t i = 0; i < count; ++i)
                            places.push_back(geometry.offset + offsets[0] + i * steps[0]);
                        });
  return places;
}

// ---- tapes

std::vector<std::shared_ptr<Tape>> &Tape::recording() {
  static thread_local std::vector<std::shared_ptr<Tape>> tapes;
  return tapes;
}

std::vector<Tape *> &Tape::live() {
  static std::vector<Tape *> &tapes = *new std::vector<Tape *>();
  return tapes;
}

Tape::~Tape() { std::erase(live(), this); }

void Tape::begin() { recording().push_back(shared_from_this()); }

void Tape::end() {
  auto &tapes = recording();
  auto last = std::find(tapes.rbegin(), tapes.rend(), shared_from_this());
  if (last != tapes.rend())
    tapes.erase(std::prev(last.base()));
}

void Tape::release() {
  isReleased_ = true;
  for (auto &[pointer, known] : known_)
    if (std::shared_ptr<Storage> storage = known.storage.lock();
        storage && storage->history.get() == this && keptByResults_)
      known.base.reset();
  inputs_.clear();
  sharedInputs_.clear();
  leaves_.clear();
  steps_.clear();
  known_.clear();
}

// ---- values

Tape::Number Tape::newValue(DataType type, Shape shape) {
  values_.push_back({type, std::move(shape)});
  return Number(values_.size()) - 1;
}

Tape::Number Tape::add(std::string name, Attributes attributes, std::vector<Number> operands,
                       std::vector<Value> results) {
  Number first = Number(values_.size());
  for (Value &result : results)
    newValue(result.type, std::move(result.shape));
  steps_.push_back(
      {std::move(name), std::move(attributes), std::move(operands), first, results.size()});
  return first;
}

Tape::Number Tape::one(std::string name, std::vector<Number> operands, DataType type, Shape shape,
                       Attributes attributes) {
  return add(std::move(name), std::move(attributes), std::move(operands),
             {{type, std::move(shape)}});
}

Tape::Number Tape::input(const Array &array, bool isFixed, bool isShared) {
  std::pair key(static_cast<const Storage *>(array.storage().get()), Geometry(array));
  if (auto known = sharedInputs_.find(key); isShared && known != sharedInputs_.end())
    return known->second;
  Number value = newValue(array.type(), array.shape());
  if (isShared)
    sharedInputs_[key] = value;
  inputs_.push_back({array, value, isFixed, !isShared});
  return value;
}

Tape::Number Tape::integers(std::span<const int64_t> numbers, Shape shape) {
  return input(Array::adopt(HostTensor::of<int64_t>(
      DataType::I64, std::move(shape), std::vector<int64_t>(numbers.begin(), numbers.end()))));
}

/// Numbers that rules of derivatives and of arithmetic look for, as relu's zero, are part of the
/// structure; others are inputs, so that a rate that changes compiles nothing.
static std::optional<std::string> textOfSpecial(double number) {
  if (number == 0)
    return std::signbit(number) ? "-0" : "0";
  constexpr std::pair<double, const char *> kTexts[] = {
      {1, "1"}, {-1, "-1"}, {2, "2"}, {0.5, "0.5"}};
  for (auto [each, text] : kTexts)
    if (number == each)
      return text;
  return std::nullopt;
}

/// Whether its elements can be told now, and nobody but the tape's program has a say in them.
static bool isSettled(const Array &array) {
  const Storage &storage = *array.storage();
  return array.isDense() && !storage.leaf && storage.steps == 0 && !storage.isShared() &&
         !isComplex(array.type()) && storage.bytes == array.size() * byteSize(array.type()) &&
         Engine::ofProcess().isReady(array.storage()->variable);
}

std::optional<std::string> Tape::constantText(const Array &array) {
  if (array.rank() != 0 || !isSettled(array))
    return std::nullopt;
  return textOfSpecial(array.asHostTensor().getDouble(0));
}

std::optional<std::string> Tape::structureText(const Array &array) {
  constexpr int64_t kMostNumbers = 64; // as the rows of a batch, from which labels are picked
  // The text must not depend on how far the engine is.
  if (array.size() == 0 || !wait(array).ok() || !isSettled(array))
    return std::nullopt;
  HostTensor tensor = array.asHostTensor();
  const std::byte *data = array.elements();
  auto bytes = size_t(byteSize(array.type()));
  bool isOneNumber = std::memcmp(data, data + bytes, bytes * size_t(array.size() - 1)) == 0;
  if (!isNumber(array.type()))
    return isOneNumber ? textOfSpecial(tensor.getDouble(0)) : std::nullopt;
  std::string text;
  int64_t count = isOneNumber ? 1 : array.size();
  for (int64_t i = 0; i < count && count <= kMostNumbers; ++i) {
    int64_t number = tensor.getInt(i);
    if (array.type() == DataType::U64 && number < 0)
      return std::nullopt;
    text += (i ? "," : "") + std::to_string(number);
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

std::optional<Tape::Number> Tape::constant(const Array &array) {
  std::optional<std::string> text = constantText(array);
  if (!text)
    return std::nullopt;
  Number value = newValue(array.type(), {});
  constants_[value] = std::move(*text);
  return value;
}

/// An input that is the same single number, bit for bit, and is always given as it is.
std::optional<Tape::Number> Tape::equalInput(const Array &array) const {
  auto isFixed = [&](const Array &x) {
    Storage &storage = *x.storage();
    return x.rank() == 0 && storage.bytes == byteSize(x.type()) && !isActive(x) &&
           storage.steps == 0 && storage.data && Engine::ofProcess().isReady(storage.variable);
  };
  if (!isFixed(array))
    return std::nullopt;
  auto found = std::find_if(inputs_.begin(), inputs_.end(), [&](const Input &input) {
    return input.array.type() == array.type() && isFixed(input.array) &&
           std::memcmp(input.array.elements(), array.elements(), size_t(byteSize(array.type()))) ==
               0;
  });
  return found == inputs_.end() ? std::nullopt : std::optional(found->value);
}

void Tape::renewLeaves() {
  std::vector<Known *> leaves;
  for (auto &[pointer, known] : known_) {
    std::shared_ptr<Storage> storage = known.storage.lock();
    if (storage && storage->leaf && known.base)
      leaves.push_back(&known);
  }
  // By their values, and not by where they lie in memory: what is recorded again is the same text.
  std::ranges::sort(leaves, {}, [](const Known *known) { return known->base->value; });
  for (Known *known : leaves) {
    const Geometry &geometry = known->base->geometry;
    Number renewed = one("identity", {known->base->value}, geometry.type, geometry.shape);
    renewed_[renewed] = known->base->value;
    known->base->value = renewed;
    known->seen.clear();
  }
}

Tape::Number Tape::unrenewed(Number value) const {
  for (auto found = renewed_.find(value); found != renewed_.end(); found = renewed_.find(value))
    value = found->second;
  return value;
}

bool Tape::isComputed(Number value) const {
  auto after = std::upper_bound(steps_.begin(), steps_.end(), value,
                                [](Number value, const Step &step) { return value < step.first; });
  return after != steps_.begin() &&
         value < std::prev(after)->first + Number(std::prev(after)->resultCount);
}

std::optional<std::pair<Geometry, Tape::Number>> Tape::baseOf(const Array &array) const {
  Known *known = find(array.storage());
  if (!known || !known->base)
    return std::nullopt;
  return std::pair(known->base->geometry, known->base->value);
}

Tape::Number Tape::reshaped(Number value, const Shape &shape) {
  if (values_[size_t(value)].shape == shape)
    return value;
  return one("reshape", {value}, values_[size_t(value)].type, shape);
}

// ---- storages

Tape::Known *Tape::find(const std::shared_ptr<Storage> &storage) const {
  auto found = known_.find(storage.get());
  if (found == known_.end())
    return nullptr;
  if (found->second.storage.lock() == storage)
    return &found->second;
  known_.erase(found); // another one had this place
  return nullptr;
}

Tape::Known &Tape::known(const std::shared_ptr<Storage> &storage) {
  if (Known *found = find(storage))
    return *found;
  Known &made = known_[storage.get()];
  made.storage = storage;
  return made;
}

bool Tape::isActive(const Array &array) const {
  Known *known = find(array.storage());
  return known && known->base;
}

void Tape::bind(const Array &array, Number value) {
  Known &known = this->known(array.storage());
  known = {array.storage(), Base{Geometry(array), value}, {}, {}};
  if (keptByResults_)
    array.storage()->history = shared_from_this();
}

Status Tape::keepFor(const Array &array, const Array &kept) {
  for (Input &input : inputs_) {
    const Array &was = input.array;
    if (was.storage() != array.storage())
      continue;
    std::erase_if(sharedInputs_, [&](const auto &entry) { return entry.second == input.value; });
    input.array = kept.view(was.shape(), was.strides(), was.offset());
  }
  Result<Number> value = read(kept);
  if (!value.ok())
    return value.status();
  bind(array, *value);
  return {};
}

Tape::Number Tape::applied(const ViewStep &step, Number parent) {
  Attributes attributes;
  if (step.name == "slice") {
    // The last element is the same of each size where all are walked down from it.
    std::vector<int64_t> starts = step.starts;
    const Shape &shape = values_[size_t(parent)].shape;
    for (size_t i = 0; i < starts.size(); ++i)
      if (step.steps[i] == -1 && starts[i] == shape[i] - 1 && shape[i] == step.shape[i])
        starts[i] = -1;
    attributes.set("starts", std::move(starts));
    attributes.set("steps", step.steps);
    attributes.set("from_end", step.fromEnd);
  }
  if (step.name == "transpose")
    attributes.set("permutation", step.permutation);
  return one(std::string(step.name), {parent}, values_[size_t(parent)].type, step.shape,
             attributes);
}

/// The parent, with the view's elements replaced.
Tape::Number Tape::putThrough(const ViewStep &step, Number parent, Number value) {
  Value whole = values_[size_t(parent)];
  if (step.name == "reshape" || step.name == "broadcast") // of dimensions of 1: writes say so
    return reshaped(value, whole.shape);
  if (step.name == "transpose")
    return one("transpose", {value}, whole.type, whole.shape,
               withList("permutation", inverse(step.permutation)));
  Attributes attributes;
  attributes.set("starts", step.starts);
  attributes.set("steps", step.steps);
  return one("put_slice", {parent, value}, whole.type, whole.shape, attributes);
}

Status Tape::checkReadable(const Base &base, const Geometry &geometry) const {
  if (base.geometry.type == geometry.type)
    return {};
  return complexIsRefused("a view");
}

/// The value of a tensor on a storage with a base.
Result<Tape::Number> Tape::readAt(Known &known, const Geometry &geometry) {
  const Base &base = *known.base;
  if (geometry == base.geometry)
    return base.value;
  if (auto seen = known.seen.find(geometry); seen != known.seen.end())
    return seen->second;
  if (Status status = checkReadable(base, geometry); !status.ok())
    return status;
  Number value;
  if (auto link = known.links.find(geometry); link != known.links.end()) {
    Link how = link->second;
    Result<Number> parent = readAt(known, how.parent);
    if (!parent.ok())
      return parent;
    value = applied(how.step, *parent);
  } else {
    std::vector<int64_t> places = placesOf(geometry);
    for (int64_t &place : places)
      place -= base.geometry.offset;
    Number flat = reshaped(base.value, {elementCount(base.geometry.shape).value_or(0)});
    value = one("gather", {flat, integers(places, geometry.shape)}, geometry.type, geometry.shape);
  }
  known.seen[geometry] = value;
  return value;
}

Result<Tape::Number> Tape::read(const Array &array) {
  if (array.storage()->leaf && !isActive(array)) {
    const Shape &shape = array.storage()->leaf->shape; // of which the array may be a view
    Array whole = array.view(shape, denseStrides(shape), 0);
    leaves_.emplace_back(whole, watch(whole, true));
  }
  if (Known *known = find(array.storage()); known && known->base)
    return readAt(*known, Geometry(array));
  if (isComplex(array.type()))
    return complexIsRefused("an operand");
  bool mayDiffer = isStrict_ && isWhole_; // even a number that is 0 now
  if (std::optional<Number> number = mayDiffer ? std::nullopt : constant(array))
    return *number;
  if (std::optional<Number> number = sharesNumbers_ ? equalInput(array) : std::nullopt)
    return *number;
  if (isWhole_ || !array.storage()->isShared())
    return input(array);
  if (Status status = wait(array); !status.ok())
    return status;
  Result<Array> copy = snapshotOf(array);
  if (!copy.ok())
    return copy.status();
  return input(*copy);
}

/// What a storage is seen as where it gets a value: the tensor that `to` is a view of, where that
/// is all of it; else a row of its elements.
Tape::Base Tape::baseFor(const Array &to, const Known &known) {
  Geometry root(to);
  for (auto link = known.links.find(root); link != known.links.end(); link = known.links.find(root))
    root = link->second.parent;
  int64_t count = to.storage()->bytes / byteSize(to.type());
  Array whole = to.view(root.shape, root.strides, root.offset);
  if (!whole.isDense() || whole.size() != count || root.offset != 0)
    whole = to.view({count}, {1}, 0);
  return {Geometry(whole), -1};
}

/// Rows of the base's value are replaced. `places` are distinct.
Status Tape::scatter(Known &known, std::span<const int64_t> places, int64_t row, Number updates) {
  Base &base = *known.base;
  std::vector<int64_t> rows;
  for (int64_t place : places)
    rows.push_back((place - base.geometry.offset) / row);
  int64_t count = elementCount(base.geometry.shape).value_or(0);
  Number value = one("scatter_rows",
                     {reshaped(base.value, {count / row, row}),
                      integers(rows, {int64_t(rows.size()), 1}), updates},
                     base.geometry.type, {count / row, row});
  base.value = reshaped(value, base.geometry.shape);
  known.seen.clear();
  return {};
}

/// The tensor gets a value, and the base with it.
Status Tape::put(const Array &to, const Geometry &geometry, Number value) {
  Known &known = this->known(to.storage());
  if (!known.base) {
    Base base = baseFor(to, known);
    if (geometry != base.geometry)
      base.value = input(to.view(base.geometry.shape, base.geometry.strides, base.geometry.offset));
    known.base = base;
    if (keptByResults_ && !to.storage()->leaf)
      to.storage()->history = shared_from_this();
  }
  if (Status status = checkReadable(*known.base, geometry); !status.ok())
    return status;
  if (geometry == known.base->geometry) {
    known.base->value = value;
    known.seen.clear();
    return {};
  }
  auto link = known.links.find(geometry);
  if (link == known.links.end()) {
    std::vector<int64_t> places = placesOf(geometry);
    return scatter(known, places, 1, reshaped(value, {int64_t(places.size()), 1}));
  }
  Link how = link->second;
  Result<Number> parent = readAt(known, how.parent);
  if (!parent.ok())
    return parent.status();
  return put(to, how.parent, putThrough(how.step, *parent, value));
}

/// Rows that lie side by side in memory, of what is chosen at each position, at multiples of their
/// size; else single elements.
static int64_t rowsFor(const Geometry &base, std::span<const int64_t> places, int64_t row) {
  int64_t count = elementCount(base.shape).value_or(0);
  bool fits = row > 0 && count % row == 0;
  for (int64_t place : places)
    fits = fits && (place - base.offset) % row == 0;
  return fits ? row : 1;
}

static std::vector<int64_t> singles(std::span<const int64_t> places, int64_t row) {
  std::vector<int64_t> all;
  for (int64_t place : places)
    for (int64_t i = 0; i < row; ++i)
      all.push_back(place + i);
  return all;
}

// ---- what happens to tensors

Tape::Number Tape::watch(const Array &array, bool isInput) {
  Number value = -1;
  if (isInput) {
    value = input(array, array.storage()->leaf != nullptr, /*isShared=*/false);
  } else if (Result<Number> now = read(array); now.ok()) {
    value = one("identity", {*now}, array.type(), array.shape());
  }
  if (value >= 0 && !put(array, Geometry(array), value).ok())
    value = -1;
  return value;
}

Status Tape::record(std::string_view name, const Attributes &attributes,
                    std::span<const Array> operands, std::span<const Array> results,
                    bool hasGraph) {
  auto isUsed = [&](const Array &array) { return isActive(array) || array.storage()->leaf; };
  if (!isWhole_ && std::none_of(operands.begin(), operands.end(), isUsed))
    return {};
  bool isOfNumbers = std::all_of(results.begin(), results.end(),
                                 [](const Array &result) { return isNumber(result.type()); });
  if (isOfNumbers && !hasGraph && !isStrict_)
    return {}; // jumps have no derivative
  std::vector<Number> numbers;
  for (const Array &operand : operands) {
    Result<Number> number = read(operand);
    if (!number.ok())
      return number.status();
    numbers.push_back(*number);
  }
  std::vector<Value> values;
  for (const Array &result : results)
    values.push_back({result.type(), result.shape()});
  Number first = add(std::string(name), attributes, std::move(numbers), std::move(values));
  for (size_t i = 0; i < results.size(); ++i)
    bind(results[i], first + Number(i));
  return {};
}

void Tape::view(const Array &of, const Array &view, ViewStep step) {
  Geometry from(of), to(view);
  if (from == to)
    return;
  Known &known = this->known(of.storage());
  if (known.links.contains(to) || (known.base && known.base->geometry == to))
    return;
  for (std::optional<Geometry> at = from; at;) { // a view of itself has no end
    auto link = known.links.find(*at);
    at = link == known.links.end() ? std::nullopt : std::optional(link->second.parent);
    if (at == to)
      return;
  }
  known.links.emplace(to, Link{from, std::move(step)});
}

Status Tape::gathered(const Array &from, std::span<const int64_t> places, int64_t row,
                      const Array &result) {
  if (from.storage()->leaf && !isActive(from))
    if (Result<Number> leaf = read(from); !leaf.ok())
      return leaf.status();
  bool mayDiffer = isActive(from) || (isStrict_ && isWhole_);
  if (!mayDiffer)
    return {};
  if (isStrict_)
    return unsupported("an index by a tensor can't be followed here; use take_along_axis or where");
  const Base base = *find(from.storage())->base;
  if (Status status = checkReadable(base, Geometry(from)); !status.ok())
    return status;
  int64_t fitting = rowsFor(base.geometry, places, row);
  std::vector<int64_t> rows =
      fitting == row ? std::vector<int64_t>(places.begin(), places.end()) : singles(places, row);
  for (int64_t &place : rows)
    place = (place - base.geometry.offset) / fitting;
  int64_t count = elementCount(base.geometry.shape).value_or(0), chosen = int64_t(rows.size());
  Number value =
      one("gather", {reshaped(base.value, {count / fitting, fitting}), integers(rows, {chosen})},
          result.type(), {chosen, fitting});
  bind(result, reshaped(value, result.shape()));
  return {};
}

Status Tape::scattered(const Array &to, std::vector<int64_t> places, int64_t row,
                       const Array &values) {
  bool mayDiffer = isActive(to) || isActive(values) || values.storage()->leaf;
  if (!mayDiffer && !(isStrict_ && isWhole_))
    return {};
  if (isStrict_)
    return unsupported("a write at an index by a tensor can't be followed here; use where");
  Result<Number> updates = read(values);
  if (!updates.ok())
    return updates.status();
  Known &known = this->known(to.storage());
  if (!known.base) {
    known.base = baseFor(to, known);
    const Geometry &whole = known.base->geometry;
    known.base->value = input(to.view(whole.shape, whole.strides, whole.offset));
    if (keptByResults_ && !to.storage()->leaf)
      to.storage()->history = shared_from_this();
  }
  int64_t fitting = rowsFor(known.base->geometry, places, row);
  if (fitting != row)
    places = singles(places, row);
  Number rows = reshaped(*updates, {int64_t(places.size()), fitting});
  std::unordered_map<int64_t, int64_t> last; // of writes to one place
  for (size_t i = 0; i < places.size(); ++i)
    last[places[i]] = int64_t(i);
  if (last.size() < places.size()) {
    std::vector<int64_t> kept, keptPlaces;
    for (size_t i = 0; i < places.size(); ++i)
      if (last[places[i]] == int64_t(i)) {
        kept.push_back(int64_t(i));
        keptPlaces.push_back(places[i]);
      }
    rows = one("gather", {rows, integers(kept, {int64_t(kept.size())})}, values.type(),
               {int64_t(kept.size()), fitting});
    places = std::move(keptPlaces);
  }
  return scatter(known, places, fitting, rows);
}

Status Tape::write(const Array &to, const Array &from) {
  if (!isWhole_ && !isActive(to) && !isActive(from) && !from.storage()->leaf && !to.storage()->leaf)
    return {};
  if (to.storage()->leaf && !isActive(to))
    if (Result<Number> leaf = read(to); !leaf.ok())
      return leaf.status();
  Result<Number> value = read(from);
  if (!value.ok())
    return value.status();
  if (from.shape() != to.shape())
    *value = one("broadcast", {*value}, to.type(), to.shape());
  return put(to, Geometry(to), *value);
}

Status Tape::reads(const Array &array) const {
  if (!isStrict_ || (!isWhole_ && !isActive(array)))
    return {};
  return unsupported("elements of a tensor that differs from example to example are read; use "
                     "where instead of if, or a loop over the examples");
}

Status Tape::keepInputs(const Storage &storage) {
  for (Tape *tape : live())
    for (Input &input : tape->inputs_) {
      if (input.array.storage().get() != &storage)
        continue;
      Result<Array> copy = copyOf(input.array);
      if (!copy.ok())
        return copy.status();
      std::erase_if(tape->sharedInputs_,
                    [&](const auto &entry) { return entry.second == input.value; });
      input.array = *copy;
    }
  return {};
}

} // namespace tensmith::eager
