// Reference evaluation of reductions, of the positions of extremes, and of running sums and
// products.
//
// Sums and products are kept in double or modulo 2^64 and rounded at the end, those of a scan at
// each element.
#include "reference/Elements.h"
#include "reference/Workspace.h"

#include <limits>

namespace tensmith::reference {
namespace {

// ---- over any axes

struct Sum {
  template <typename T> static T initial(DataType) { return 0; }
  double operator()(double a, double b) const { return a + b; }
  template <typename T> T operator()(T a, T b) const { return T(uint64_t(a) + uint64_t(b)); }
};
struct Product {
  template <typename T> static T initial(DataType) { return 1; }
  double operator()(double a, double b) const { return a * b; }
  template <typename T> T operator()(T a, T b) const { return T(uint64_t(a) * uint64_t(b)); }
};

/// The largest value of an integer type, and the lowest, in the wide type.
template <typename T> T highest(DataType type) {
  int bits = info(type).bits - (std::is_signed_v<T> ? 1 : 0);
  return T(~uint64_t(0) >> (64 - bits));
}
template <typename T> T lowest(DataType type) {
  return std::is_signed_v<T> ? T(~uint64_t(highest<T>(type))) : T(0);
}

struct Largest {
  template <typename T> static T initial(DataType type) {
    if constexpr (std::is_same_v<T, double>)
      return -std::numeric_limits<double>::infinity();
    else
      return lowest<T>(type);
  }
  template <typename T> T operator()(T a, T b) const { return a != a || a > b ? a : b; }
};
struct Smallest {
  template <typename T> static T initial(DataType type) {
    if constexpr (std::is_same_v<T, double>)
      return std::numeric_limits<double>::infinity();
    else
      return highest<T>(type);
  }
  template <typename T> T operator()(T a, T b) const { return a != a || a < b ? a : b; }
};

/// x's dimensions apart: those kept and those reduced.
struct ReducedShape {
  Shape kept, reduced, result;
  std::vector<int64_t> keptStrides, reducedStrides;
};

ReducedShape splitShape(const HostTensor &x, const std::vector<bool> &isReduced, bool keepDims) {
  std::vector<int64_t> strides = rowMajorStrides(x.shape());
  ReducedShape split;
  for (size_t axis = 0; axis < isReduced.size(); ++axis) {
    (isReduced[axis] ? split.reduced : split.kept).push_back(x.shape()[axis]);
    (isReduced[axis] ? split.reducedStrides : split.keptStrides).push_back(strides[axis]);
    if (!isReduced[axis] || keepDims)
      split.result.push_back(isReduced[axis] ? 1 : x.shape()[axis]);
  }
  return split;
}

template <typename F, typename T>
Outcome reduceIn(Workspace &workspace, const HostTensor &x, const ReducedShape &split) {
  std::span<T> y = workspace.zeros<T>(split.result);
  if (!workspace.ok())
    return workspace.status();
  StridedLoop<1> inner = mergeDimensions<1>(split.reduced, {split.reducedStrides});
  std::array<T, kRun> run;
  size_t next = 0;
  auto reduceAt = [&](int64_t base) {
    T result = F::template initial<T>(x.type());
    forEachRun(inner, [&](const auto &offsets, const auto &steps, int64_t count) {
      loadRun<T>(x, base + offsets[0], steps[0], count, run.data());
      for (int64_t i = 0; i < count; ++i)
        result = F()(result, run[size_t(i)]);
    });
    y[next++] = result;
  };
  forEachRow(mergeDimensions<1>(split.kept, {split.keptStrides}),
             [&](const auto &offsets, const auto &steps, int64_t count) {
               for (int64_t i = 0; i < count; ++i)
                 reduceAt(offsets[0] + i * steps[0]);
             });
  return workspace.finish(workspace.narrow<T>(y, x.type(), split.result));
}

template <typename F> Outcome reduction(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  std::vector<bool> isReduced(size_t(x.rank()), false);
  for (int64_t value : invocation.attributes.integers("axes")) {
    size_t axis = workspace.axis("axes", value, x.rank());
    if (!workspace.ok())
      return workspace.status();
    isReduced[axis] = true;
  }
  if (!workspace.ok())
    return workspace.status();
  ReducedShape split = splitShape(x, isReduced, invocation.attributes.integer("keepdims") != 0);
  return withWideType(x.type(),
                      [&](auto wide) { return reduceIn<F, decltype(wide)>(workspace, x, split); });
}

// ---- along one axis

/// x seen as [outer, size, inner] around an axis.
struct Line {
  int64_t outer = 0, size = 0, inner = 0;
};

Line lineAlong(const HostTensor &x, size_t axis) {
  if (x.size() == 0)
    return {};
  return {extent(x.shape(), 0, axis), x.shape()[axis],
          extent(x.shape(), axis + 1, x.shape().size())};
}

/// Whether a is further out than b: NaN furthest of all, as NumPy has it.
template <bool Max, typename T> bool exceeds(T a, T b) {
  if (a != a || b != b)
    return a != a && b == b;
  return Max ? a > b : a < b;
}

template <bool Max, typename T> int64_t positionOfExtreme(std::span<const T> values, bool last) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i)
    if (exceeds<Max>(values[i], values[best]) || (last && !exceeds<Max>(values[best], values[i])))
      best = i;
  return int64_t(best);
}

template <bool Max> Outcome evaluateArg(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  size_t axis = workspace.axis("axis", invocation.attributes.integer("axis"), x.rank());
  if (!workspace.ok())
    return workspace.status();
  workspace.require(x.shape()[axis] > 0, "x", "is empty along the axis");
  Shape shape = x.shape();
  if (invocation.attributes.integer("keepdims"))
    shape[axis] = 1;
  else
    shape.erase(shape.begin() + int64_t(axis));
  HostTensor y = workspace.allocate(DataType::I64, shape);
  bool last = invocation.attributes.integer("last") != 0;
  Line line = lineAlong(x, axis);
  return withWideType(x.type(), [&](auto wide) -> Outcome {
    using T = decltype(wide);
    std::span<T> values = workspace.zeros<T>({line.size});
    if (!workspace.ok())
      return workspace.status();
    for (int64_t i = 0; i < y.size(); ++i) {
      int64_t offset = i / line.inner * line.size * line.inner + i % line.inner;
      loadRun<T>(x, offset, line.inner, line.size, values.data());
      y.setInt(i, positionOfExtreme<Max, T>(values, last));
    }
    return workspace.finish(std::move(y));
  });
}

/// The running result over one line, in place.
template <typename F, typename T>
void scanLine(std::span<T> values, bool exclusive, bool reverse, DataType type) {
  if (reverse)
    std::reverse(values.begin(), values.end());
  T total = F::template initial<T>(type);
  for (T &value : values) {
    T before = total;
    total = F()(total, value);
    value = exclusive ? before : total;
  }
  if (reverse)
    std::reverse(values.begin(), values.end());
}

template <typename F> Outcome scan(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  size_t axis = workspace.axis("axis", invocation.attributes.integer("axis"), x.rank());
  if (!workspace.ok())
    return workspace.status();
  bool exclusive = invocation.attributes.integer("exclusive") != 0;
  bool reverse = invocation.attributes.integer("reverse") != 0;
  Line line = lineAlong(x, axis);
  return withWideType(x.type(), [&](auto wide) -> Outcome {
    using T = decltype(wide);
    std::span<T> result = workspace.widen<T>(x), values = workspace.zeros<T>({line.size});
    if (!workspace.ok())
      return workspace.status();
    for (int64_t i = 0; i < line.outer * line.inner; ++i) {
      int64_t offset = i / line.inner * line.size * line.inner + i % line.inner;
      for (int64_t k = 0; k < line.size; ++k)
        values[size_t(k)] = result[size_t(offset + k * line.inner)];
      scanLine<F, T>(values, exclusive, reverse, x.type());
      for (int64_t k = 0; k < line.size; ++k)
        result[size_t(offset + k * line.inner)] = values[size_t(k)];
    }
    return workspace.finish(workspace.narrow<T>(result, x.type(), x.shape()));
  });
}

/// Here there is one process.
Outcome evaluateAllReduceMean(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  if (!workspace.ok())
    return workspace.status();
  return workspace.finish(x);
}

constexpr Entry kEntries[] = {
    {"reduce_sum", reduction<Sum>},
    {"reduce_prod", reduction<Product>},
    {"reduce_max", reduction<Largest>},
    {"reduce_min", reduction<Smallest>},
    {"arg_max", evaluateArg<true>},
    {"arg_min", evaluateArg<false>},
    {"cumsum", scan<Sum>},
    {"cumprod", scan<Product>},
    {"all_reduce_mean", evaluateAllReduceMean},
};

} // namespace

std::span<const Entry> reductionEntries() { return kEntries; }

} // namespace tensmith::reference
