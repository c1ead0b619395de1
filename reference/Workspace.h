// The operands and buffers of one evaluation, with the first failure remembered.
//
// An evaluator asks for all its operands and buffers, then looks at `ok` once, then computes: so
// that neither a wrong operand nor a lack of memory needs a branch of its own at each step. After a
// failure every request still answers, with something empty. Buffers hold wide elements (double,
// int64_t or uint64_t), in which operators accumulate; `narrow` rounds to the type of the result,
// once.
#pragma once

#include "reference/Reference.h"

#include <deque>

namespace tensmith::reference {

using Outcome = Result<std::vector<HostTensor>>;

inline constexpr int64_t kAnyRank = -1;
inline constexpr size_t kNoResult = SIZE_MAX;

/// Sizes, strides and pads above this are refused, so that a product of two of them can't overflow.
inline constexpr int64_t kLargestExtent = (int64_t(1) << 31) - 1;

class Workspace {
public:
  explicit Workspace(const Invocation &invocation) : invocation_(invocation) {}

  bool ok() const { return status_.ok(); }
  const Status &status() const { return status_; }

  /// Notes that the operand of that name is wrong, unless a failure is known already.
  void reject(std::string_view operand, const std::string &problem);
  void rejectAttribute(std::string_view attribute, const std::string &problem);
  void require(bool holds, std::string_view operand, const char *problem) {
    if (!holds)
      reject(operand, problem);
  }

  /// A required operand of any type: also of strings or complex numbers.
  const HostTensor &anyOperand(size_t index, std::string_view name, int64_t rank = kAnyRank);
  /// A required operand of numbers or booleans, of `rank` dimensions unless that is kAnyRank.
  const HostTensor &operand(size_t index, std::string_view name, int64_t rank = kAnyRank);
  const HostTensor &floatOperand(size_t index, std::string_view name, int64_t rank = kAnyRank);
  void expectShape(const HostTensor &tensor, std::string_view name, std::span<const int64_t> shape);

  /// The elements of a required list of integers of at most 64, and the one element of a required
  /// scalar.
  std::vector<int64_t> integers(size_t index, std::string_view name);
  int64_t integer(size_t index, std::string_view name);
  double real(size_t index, std::string_view name);

  template <typename T> std::span<T> zeros(std::span<const int64_t> shape);
  template <typename T> std::span<T> zeros(std::initializer_list<int64_t> shape) {
    return zeros<T>(std::span<const int64_t>(shape.begin(), shape.size()));
  }
  /// A copy of the elements of an operand, or of nothing if the operand is absent.
  template <typename T> std::span<T> widen(const HostTensor &tensor);
  /// Rounds floats to nearest; wraps integers.
  template <typename T>
  HostTensor narrow(std::span<const T> values, DataType type, Shape shape,
                    size_t result = kNoResult);

  /// Whether the attribute `layout` says that images are [N, spatial..., C], and not [N, C,
  /// spatial...].
  bool isChannelsLast();

  /// An attribute that counts dimensions, from the end where negative: in [0, rank).
  size_t axis(std::string_view attribute, int64_t value, int64_t rank);

  HostTensor allocate(DataType type, Shape shape);
  /// Result number `index`, zero-filled: in the memory that the caller has set aside for it, where
  /// there is enough, and in its own where not.
  HostTensor allocateResult(size_t index, DataType type, Shape shape);
  /// That a tensor of `shape` could exist at all: for a result that is computed in stages.
  void expectRepresentable(std::span<const int64_t> shape);
  /// `results`, or the failure that is noted.
  Outcome finish(std::vector<HostTensor> results);
  template <typename... Tensor> Outcome finish(HostTensor first, Tensor... rest) {
    std::vector<HostTensor> results;
    results.push_back(std::move(first));
    (results.push_back(std::move(rest)), ...);
    return finish(std::move(results));
  }

private:
  bool hasNumbers(const HostTensor &tensor, std::string_view name);
  void note(Status status);
  void noteExhausted(std::span<const int64_t> shape);

  const Invocation &invocation_;
  Status status_;
  std::deque<HostTensor> buffers_;
};

/// Calls `evaluate` with a value of the type that `type` accumulates in: double, int64_t or
/// uint64_t.
template <typename Evaluate> Outcome withWideType(DataType type, Evaluate evaluate) {
  if (isFloat(type))
    return evaluate(double());
  return info(type).kind == TypeClass::Signed ? evaluate(int64_t()) : evaluate(uint64_t());
}

/// a * b + c, for integers modulo 2^64.
inline double multiplyAdd(double a, double b, double c) { return c + a * b; }
inline uint64_t multiplyAdd(uint64_t a, uint64_t b, uint64_t c) { return c + a * b; }
inline int64_t multiplyAdd(int64_t a, int64_t b, int64_t c) {
  return int64_t(uint64_t(c) + uint64_t(a) * uint64_t(b));
}

/// The product of the dimensions from `begin` to before `end`, of a tensor that exists.
int64_t extent(const Shape &shape, size_t begin, size_t end);

/// Row-major strides of a tensor of `shape` seen as one of `target`, 0 where it is repeated;
/// nothing where it can't be broadcast to that (NumPy's rule: aligned at the right, a 1 is
/// repeated).
std::optional<std::vector<int64_t>> broadcastStrides(std::span<const int64_t> shape,
                                                     std::span<const int64_t> target);

/// Visits the positions of `shape` in row-major order: `visit(index)`, with `index` of as many
/// coordinates.
template <typename Visit> void forEachPosition(std::span<const int64_t> shape, Visit visit) {
  Shape index(shape.size(), 0);
  for (int64_t size : shape)
    if (size <= 0)
      return;
  for (;;) {
    visit(std::as_const(index));
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1])
      index[--axis] = 0;
    if (axis == 0)
      return;
  }
}

inline int64_t dot(std::span<const int64_t> a, std::span<const int64_t> b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

} // namespace tensmith::reference
