// Evaluations that order, find and count elements, of every element type.
//
// Numbers are ordered by value, complex ones by the real part and then the imaginary; NaN comes
// last, whichever way is sorted. Sorting is stable: equal elements keep their order, also where it
// is descending.
#include "eager/Operators.h"
#include "eager/evaluators/Reduction.h"

#include "reference/Elements.h"
#include "reference/Workspace.h"

#include <cmath>
#include <complex>
#include <new>
#include <numeric>

namespace tensmith::eager {
namespace {

using namespace reference;

/// Throws std::bad_alloc, which dispatch takes, where there is no memory.
HostTensor zeros(DataType type, Shape shape) {
  HostTensor result(type, std::move(shape));
  if (!result.valid())
    throw std::bad_alloc();
  return result;
}

struct Lexicographic {
  double real, imaginary;
};

template <typename T> bool isUnordered(T) { return false; }
bool isUnordered(double x) { return std::isnan(x); }
bool isUnordered(const Lexicographic &x) { return std::isnan(x.real) || std::isnan(x.imaginary); }
template <typename T> bool precedes(T a, T b) { return a < b; }
bool precedes(const Lexicographic &a, const Lexicographic &b) {
  return a.real < b.real || (a.real == b.real && a.imaginary < b.imaginary);
}
template <typename T> bool comesFirst(const T &a, const T &b, bool descending) {
  if (isUnordered(a) || isUnordered(b))
    return !isUnordered(a) && isUnordered(b);
  return descending ? precedes(b, a) : precedes(a, b);
}

template <typename T>
std::vector<T> loadLine(const HostTensor &x, int64_t offset, int64_t step, int64_t size) {
  std::vector<T> line(static_cast<size_t>(size));
  if constexpr (std::is_same_v<T, Lexicographic>) {
    for (int64_t i = 0; i < size; ++i) {
      size_t at = size_t(offset + i * step);
      if (x.type() == DataType::C128)
        line[size_t(i)] = {x.as<double>().data()[2 * at], x.as<double>().data()[2 * at + 1]};
      else
        line[size_t(i)] = {x.as<float>().data()[2 * at], x.as<float>().data()[2 * at + 1]};
    }
  } else if (size > 0) {
    loadRun<T>(x, offset, step, size, line.data());
  }
  return line;
}

/// Calls `evaluate` with a value of the type that elements are compared in.
template <typename Evaluate> Outcome withOrder(DataType type, Evaluate evaluate) {
  if (isComplex(type))
    return evaluate(Lexicographic());
  return withWideType(type, evaluate);
}

/// Where the elements of each line along the last axis go.
template <typename T> HostTensor sortedOrder(const HostTensor &x, bool descending) {
  HostTensor order = zeros(DataType::I64, x.shape());
  int64_t size = x.rank() ? x.shape().back() : 1;
  for (int64_t begin = 0; begin < x.size(); begin += size) {
    std::vector<T> line = loadLine<T>(x, begin, 1, size);
    std::span<int64_t> places = order.as<int64_t>().subspan(size_t(begin), size_t(size));
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
      return comesFirst(line[size_t(a)], line[size_t(b)], descending);
    });
  }
  return order;
}

Result<HostTensor> orderOf(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  bool descending = invocation.attributes.integer("descending") != 0;
  HostTensor order;
  Outcome outcome = withOrder(x.type(), [&](auto wide) -> Outcome {
    order = sortedOrder<decltype(wide)>(x, descending);
    return std::vector<HostTensor>{};
  });
  if (!workspace.ok())
    return workspace.status();
  return order;
}

Outcome evaluateArgSort(const Invocation &invocation) {
  Result<HostTensor> order = orderOf(invocation);
  if (!order.ok())
    return order.status();
  return std::vector<HostTensor>{*order};
}
Outcome evaluateSort(const Invocation &invocation) {
  Result<HostTensor> order = orderOf(invocation);
  if (!order.ok())
    return order.status();
  const HostTensor &x = invocation.operands[0];
  HostTensor y = zeros(x.type(), x.shape());
  int64_t size = x.rank() ? x.shape().back() : 1, bytes = byteSize(x.type());
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t from = i / size * size + order->as<int64_t>()[size_t(i)];
    std::memcpy(y.mutableData() + i * bytes, x.data() + from * bytes, size_t(bytes));
  }
  return std::vector<HostTensor>{y};
}

/// Where each element of the second operand goes into the first, which is sorted.
Outcome evaluateSearchSorted(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x1", 1), &v = workspace.anyOperand(1, "x2");
  HostTensor y = workspace.allocate(DataType::I64, v.shape());
  workspace.require(x.type() == v.type(), "x2", "is of another type than x1");
  if (!workspace.ok())
    return workspace.status();
  bool right = invocation.attributes.integer("right") != 0;
  return withOrder(x.type(), [&](auto wide) -> Outcome {
    using T = decltype(wide);
    std::vector<T> sorted = loadLine<T>(x, 0, 1, x.size()), values = loadLine<T>(v, 0, 1, v.size());
    for (int64_t i = 0; i < v.size(); ++i) {
      auto less = [](const T &a, const T &b) { return comesFirst(a, b, false); };
      auto place = right ? std::upper_bound(sorted.begin(), sorted.end(), values[size_t(i)], less)
                         : std::lower_bound(sorted.begin(), sorted.end(), values[size_t(i)], less);
      y.setInt(i, place - sorted.begin());
    }
    return workspace.finish(std::move(y));
  });
}

bool holds(const HostTensor &x, int64_t i) {
  if (!isComplex(x.type()))
    return isNonZero(x, i);
  Lexicographic value = loadLine<Lexicographic>(x, i, 1, 1)[0];
  return value.real != 0 || value.imaginary != 0;
}

/// For each axis the indices of the elements that differ from zero.
Outcome evaluateNonZero(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  if (!workspace.ok())
    return workspace.status();
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.size(); ++i)
    if (holds(x, i))
      found.push_back(i);
  std::vector<HostTensor> results;
  int64_t inner = x.size();
  for (int64_t size : x.shape()) {
    inner = size ? inner / size : 0;
    HostTensor indices = zeros(DataType::I64, {int64_t(found.size())});
    for (size_t k = 0; k < found.size(); ++k)
      indices.as<int64_t>()[k] = found[k] / inner % size;
    results.push_back(indices);
  }
  return workspace.finish(std::move(results));
}

/// any, all and how many, over axes.
template <typename Combine>
Outcome countedOver(const Invocation &invocation, DataType type, int64_t initial, Combine combine) {
  return reduceOver(invocation, type, initial, holds, combine,
                    [](HostTensor &y, int64_t i, int64_t total) { y.setInt(i, total); });
}
Outcome evaluateAny(const Invocation &invocation) {
  return countedOver(invocation, DataType::Bool, 0, [](int64_t a, bool b) { return a | b; });
}
Outcome evaluateAll(const Invocation &invocation) {
  return countedOver(invocation, DataType::Bool, 1, [](int64_t a, bool b) { return a & b; });
}
Outcome evaluateCount(const Invocation &invocation) {
  return countedOver(invocation, DataType::I64, 0, [](int64_t a, bool b) { return a + b; });
}

/// The first, second ... of `size` numbers from `start` on: start + i * step, rounded once.
Outcome evaluateSequence(const Invocation &invocation) {
  Workspace workspace(invocation);
  const Attributes &given = invocation.attributes;
  HostTensor y = workspace.allocate(given.type("to"), {given.integer("size")});
  if (!workspace.ok())
    return workspace.status();
  bool isWhole = given.has("first");
  for (int64_t i = 0; i < y.size(); ++i) {
    if (isWhole && !isFloat(y.type()))
      y.setInt(i, int64_t(uint64_t(given.integer("first")) +
                          uint64_t(i) * uint64_t(given.integer("by"))));
    else if (isWhole)
      y.setDouble(i, double(given.integer("first")) + double(i) * double(given.integer("by")));
    else
      y.setDouble(i, given.real("start") + double(i) * given.real("step"));
  }
  return workspace.finish(std::move(y));
}

constexpr Entry kEntries[] = {
    {"all", evaluateAll},           {"any", evaluateAny},
    {"argsort", evaluateArgSort},   {"count_nonzero", evaluateCount},
    {"nonzero", evaluateNonZero},   {"searchsorted", evaluateSearchSorted},
    {"sequence", evaluateSequence}, {"sort", evaluateSort},
};

} // namespace

Evaluator arrangingEvaluator(std::string_view name) {
  for (const Entry &entry : kEntries)
    if (entry.name == name)
      return entry.evaluate;
  return nullptr;
}

} // namespace tensmith::eager
