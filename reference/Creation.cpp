// Reference evaluation of what makes values: ranges, positions, and counter-based random numbers
// (base/Philox.h).
//
// The number at flat index i of a result is a function of the seed, the key where there is one, and
// i alone, but for dropout.
#include "base/Int128.h"
#include "base/Philox.h"
#include "reference/Elements.h"
#include "reference/Workspace.h"

#include <random>

namespace tensmith::reference {
namespace {

// ---- range, iota

constexpr double kLargestCount = 0x1p48;

/// How many steps of `delta` from `start` stay before `limit`; nothing where that is no count.
std::optional<int64_t> rangeCount(double start, double limit, double delta) {
  double count = std::ceil((limit - start) / delta);
  if (std::isnan(count) || count > kLargestCount)
    return std::nullopt;
  return int64_t(std::max(count, 0.0));
}

std::optional<int64_t> rangeCount(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0)
    return std::nullopt;
  Int128 distance = Int128(limit) - start, step = delta;
  if (step < 0) {
    distance = -distance;
    step = -step;
  }
  Int128 count = distance <= 0 ? 0 : (distance + step - 1) / step;
  return count > Int128(kLargestCount) ? std::nullopt : std::optional(int64_t(count));
}

template <typename T> T scalarOf(Workspace &workspace, size_t operand, std::string_view name) {
  if constexpr (std::is_same_v<T, double>)
    return workspace.real(operand, name);
  else
    return workspace.integer(operand, name);
}

template <typename T> Outcome rangeOf(Workspace &workspace, DataType type) {
  T start = scalarOf<T>(workspace, 0, "start"), limit = scalarOf<T>(workspace, 1, "limit");
  T delta = scalarOf<T>(workspace, 2, "delta");
  std::optional<int64_t> count = rangeCount(start, limit, delta);
  workspace.require(!workspace.ok() || count, "delta", "doesn't lead from start to limit");
  HostTensor y = workspace.allocate(type, {count.value_or(0)});
  if (!workspace.ok())
    return workspace.status();
  for (int64_t i = 0; i < y.size(); ++i) {
    if constexpr (std::is_same_v<T, double>)
      y.setDouble(i, start + double(i) * delta);
    else
      y.setInt(i, multiplyAdd(i, delta, start));
  }
  return workspace.finish(std::move(y));
}

Outcome evaluateRange(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &start = workspace.operand(0, "start");
  for (size_t i = 1; i < 3; ++i)
    workspace.require(workspace.operand(i, i == 1 ? "limit" : "delta").type() == start.type(),
                      i == 1 ? "limit" : "delta", "is not of start's type");
  if (!workspace.ok())
    return workspace.status();
  return isFloat(start.type()) ? rangeOf<double>(workspace, start.type())
                               : rangeOf<int64_t>(workspace, start.type());
}

/// The one result, of the type that the caller gives.
HostTensor givenResult(Workspace &workspace, const Invocation &invocation) {
  if (invocation.results.empty() || !invocation.results[0].shape) {
    workspace.reject("y", "has no known type, which this operator needs");
    return {};
  }
  DataType type = invocation.results[0].type;
  TypeClass kind = info(type).kind;
  workspace.require(kind != TypeClass::None && kind != TypeClass::String &&
                        kind != TypeClass::Complex,
                    "y", "must be of a type of numbers");
  return workspace.allocate(type, *invocation.results[0].shape);
}

Outcome evaluateIota(const Invocation &invocation) {
  Workspace workspace(invocation);
  HostTensor y = givenResult(workspace, invocation);
  size_t axis = workspace.axis("axis", invocation.attributes.integer("axis"), y.rank());
  if (!workspace.ok() || y.size() == 0)
    return workspace.finish(std::move(y));
  int64_t inner = extent(y.shape(), axis + 1, y.shape().size());
  for (int64_t i = 0; i < y.size(); ++i)
    y.setInt(i, i / inner % y.shape()[axis]);
  return workspace.finish(std::move(y));
}

// ---- random numbers

/// In [0, 1), as fine as the type can show.
double uniformFor(DataType type, uint64_t seed, int64_t index) {
  return type == DataType::F64 ? uniform53At(seed, uint64_t(index))
                               : uniformAt(seed, uint64_t(index));
}

/// The operator's own, and where it has a key, one for each of those.
uint64_t seedOf(Workspace &workspace, const Invocation &invocation, size_t key) {
  auto seed = uint64_t(invocation.attributes.integer("seed"));
  return invocation.present(key) ? mixedSeed(seed, uint64_t(workspace.integer(key, "key"))) : seed;
}

Outcome evaluateRandomUniform(const Invocation &invocation) {
  Workspace workspace(invocation);
  double low = invocation.attributes.real("low", 0), high = invocation.attributes.real("high", 1);
  uint64_t seed = seedOf(workspace, invocation, 0);
  HostTensor y = givenResult(workspace, invocation);
  for (int64_t i = 0; workspace.ok() && i < y.size(); ++i)
    y.setDouble(i, low + (high - low) * uniformFor(y.type(), seed, i));
  return workspace.finish(std::move(y));
}

Outcome evaluateRandomNormal(const Invocation &invocation) {
  Workspace workspace(invocation);
  double mean = invocation.attributes.real("mean", 0);
  double deviation = invocation.attributes.real("deviation", 1);
  uint64_t seed = seedOf(workspace, invocation, 0);
  HostTensor y = givenResult(workspace, invocation);
  for (int64_t i = 0; workspace.ok() && i < y.size(); ++i)
    y.setDouble(i, mean + deviation * normalAt(seed, uint64_t(i)));
  return workspace.finish(std::move(y));
}

/// The type that the attribute `to` names; of numbers.
DataType requestedType(Workspace &workspace, const Invocation &invocation) {
  std::optional<DataType> type = dataTypeFromOnnx(invocation.attributes.integer("to"));
  if (type && byteSize(*type) > 0 && info(*type).kind != TypeClass::Complex)
    return *type;
  workspace.rejectAttribute("to", "must be a type of numbers");
  return DataType::Undefined;
}

Outcome evaluateBernoulli(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &p = workspace.floatOperand(0, "p");
  DataType type = requestedType(workspace, invocation);
  uint64_t seed = seedOf(workspace, invocation, 1);
  HostTensor y = workspace.allocate(type, p.shape());
  for (int64_t i = 0; workspace.ok() && i < y.size(); ++i)
    y.setInt(i, uniformFor(p.type(), seed, i) < p.getDouble(i));
  return workspace.finish(std::move(y));
}

/// The class whose share of the total, laid end to end, a number in [0, 1) falls into.
int64_t drawClass(std::span<const double> cumulative, double uniform) {
  double at = uniform * cumulative.back();
  auto found = std::upper_bound(cumulative.begin(), cumulative.end(), at);
  return std::min<int64_t>(found - cumulative.begin(), int64_t(cumulative.size()) - 1);
}

void accumulateProbabilities(const HostTensor &x, int64_t row, std::span<double> cumulative) {
  int64_t classes = int64_t(cumulative.size());
  loadRun<double>(x, row * classes, 1, classes, cumulative.data());
  double highest = *std::max_element(cumulative.begin(), cumulative.end()), total = 0;
  for (double &value : cumulative)
    value = total += std::exp(value - highest);
}

Outcome evaluateMultinomial(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x", 2);
  DataType type = requestedType(workspace, invocation);
  int64_t samples = invocation.attributes.integer("sample_size", 1);
  if (samples < 0)
    workspace.rejectAttribute("sample_size", "is negative");
  if (!workspace.ok())
    return workspace.status();
  workspace.require(x.shape()[1] > 0, "x", "has no classes to draw from");
  uint64_t seed = seedOf(workspace, invocation, 1);
  HostTensor y = workspace.allocate(type, {x.shape()[0], samples});
  std::span<double> cumulative = workspace.zeros<double>({x.shape()[1]});
  for (int64_t i = 0; workspace.ok() && i < y.size(); ++i) {
    if (i % samples == 0)
      accumulateProbabilities(x, i / samples, cumulative);
    y.setInt(i, drawClass(cumulative, uniform53At(seed, uint64_t(i))));
  }
  return workspace.finish(std::move(y));
}

void fillTrue(HostTensor &mask) {
  if (mask.size() > 0)
    std::memset(mask.mutableData(), 1, size_t(mask.size()));
}

/// In [0, 1), a multiple of 2^-53, from two words.
double nextUniform(std::mt19937 &generator) {
  uint32_t high = generator() >> 5, low = generator() >> 6;
  return (double(high) * 0x1p26 + double(low)) * 0x1p-53;
}

/// The mask of a seed is the one that the standard's own evaluator draws (NumPy's RandomState): a
/// training that was seeded can be repeated elsewhere.
Outcome evaluateDropout(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  double ratio = invocation.present(1) ? workspace.real(1, "ratio") : 0.5;
  bool training = invocation.present(2) && workspace.real(2, "training_mode") != 0;
  workspace.require(ratio >= 0 && ratio <= 1, "ratio", "must be in [0, 1]");
  HostTensor mask = workspace.allocate(DataType::Bool, x.shape());
  if (!workspace.ok())
    return workspace.status();
  if (!training || ratio == 0) {
    fillTrue(mask);
    return workspace.finish(x, std::move(mask));
  }
  std::mt19937 generator(uint32_t(seedOf(workspace, invocation, 3)));
  HostTensor y = workspace.allocate(x.type(), x.shape());
  for (int64_t i = 0; workspace.ok() && i < x.size(); ++i) {
    if (nextUniform(generator) < ratio)
      continue;
    mask.setInt(i, 1);
    y.setDouble(i, x.getDouble(i) / (1 - ratio));
  }
  return workspace.finish(std::move(y), std::move(mask));
}

constexpr Entry kEntries[] = {
    {"range", evaluateRange},
    {"iota", evaluateIota},
    {"random_uniform", evaluateRandomUniform},
    {"random_normal", evaluateRandomNormal},
    {"bernoulli", evaluateBernoulli},
    {"multinomial", evaluateMultinomial},
    {"dropout", evaluateDropout},
};

} // namespace

std::span<const Entry> creationEntries() { return kEntries; }

} // namespace tensmith::reference
