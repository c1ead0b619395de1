// Typed tensors of the language inside C++ (dsl.hpp), and its operators.
#ifndef TENSMITH_DSL_TENSORS_HPP
#define TENSMITH_DSL_TENSORS_HPP

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <source_location>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tensmith::dsl {

using Place = std::source_location;

/// A size: a number, or a name of at most 23 characters.
struct Dim {
  char text[24] = {};

  constexpr Dim() = default;
  template <size_t N> consteval Dim(const char (&name)[N]) {
    static_assert(N <= sizeof text, "the name of a size has at most 23 characters");
    for (size_t i = 0; i + 1 < N; ++i)
      text[i] = name[i];
  }
  constexpr Dim(long long number) {
    if (number < 0)
      throw std::logic_error("a size is not negative");
    char digits[24] = {};
    int count = 0;
    do
      digits[count++] = char('0' + number % 10);
    while (number /= 10);
    for (int i = 0; i < count; ++i)
      text[i] = digits[count - 1 - i];
  }
  constexpr Dim(int number) : Dim(static_cast<long long>(number)) {}

  friend constexpr bool operator==(const Dim &, const Dim &) = default;
  constexpr bool isNumber() const { return text[0] >= '0' && text[0] <= '9'; }
  constexpr long long number() const {
    long long value = 0;
    for (int i = 0; text[i]; ++i)
      value = value * 10 + (text[i] - '0');
    return value;
  }
};

/// The dimensions of a tensor, or that there are none which fit.
struct Shape {
  static constexpr size_t kMostDims = 8;
  Dim of[kMostDims] = {};
  size_t rank = 0;
  bool fits = true;

  friend constexpr bool operator==(const Shape &, const Shape &) = default;
  constexpr void push(Dim dim) {
    if (rank == kMostDims)
      throw std::logic_error("a tensor has at most 8 dimensions");
    of[rank++] = dim;
  }
  constexpr Dim last(size_t fromEnd = 1) const { return of[rank - fromEnd]; }
  constexpr Shape without(size_t axis) const {
    Shape result;
    for (size_t i = 0; i < rank; ++i)
      if (i != axis)
        result.push(of[i]);
    return result;
  }
  /// The product of the numbers; -1 where a dimension is a name.
  constexpr long long elements() const {
    long long product = 1;
    for (size_t i = 0; i < rank; ++i) {
      if (!of[i].isNumber())
        return -1;
      product *= of[i].number();
    }
    return product;
  }
};

namespace detail {

template <Dim... D> consteval Shape shapeOf() {
  static_assert(sizeof...(D) <= Shape::kMostDims, "a tensor has at most 8 dimensions");
  Shape shape;
  (shape.push(D), ...);
  return shape;
}

constexpr Shape misfit() {
  Shape shape;
  shape.fits = false;
  return shape;
}

/// As NumPy broadcasts.
constexpr Shape broadcast(const Shape &a, const Shape &b) {
  const Shape &longer = a.rank >= b.rank ? a : b, &shorter = a.rank >= b.rank ? b : a;
  Shape result = longer;
  for (size_t i = 1; i <= shorter.rank; ++i) {
    Dim x = longer.last(i), y = shorter.last(i);
    if (x != y && x != Dim(1) && y != Dim(1))
      return misfit();
    result.of[result.rank - i] = x == Dim(1) ? y : x;
  }
  return result;
}

/// As numpy.matmul, without vectors on the left of stacks.
constexpr Shape product(const Shape &a, const Shape &b) {
  if (a.rank == 0 || b.rank == 0)
    return misfit();
  Dim inner = b.rank == 1 ? b.last() : b.last(2);
  if (a.last() != inner)
    return misfit();
  Shape left, right;
  for (size_t i = 0; i + 2 < a.rank; ++i)
    left.push(a.of[i]);
  for (size_t i = 0; i + 2 < b.rank; ++i)
    right.push(b.of[i]);
  Shape result = broadcast(left, right);
  if (!result.fits)
    return result;
  if (a.rank > 1)
    result.push(a.last(2));
  if (b.rank > 1)
    result.push(b.last());
  return result;
}

template <class E> inline constexpr const char *elementName = nullptr;
template <> inline constexpr const char *elementName<float> = "f32";
template <> inline constexpr const char *elementName<double> = "f64";
template <> inline constexpr const char *elementName<int32_t> = "i32";
template <> inline constexpr const char *elementName<int64_t> = "i64";
template <> inline constexpr const char *elementName<bool> = "bool";

template <class E>
concept Element = elementName<E> != nullptr;
template <class E>
concept Real = std::is_same_v<E, float> || std::is_same_v<E, double>;
template <class E>
concept Number = Element<E> && !std::is_same_v<E, bool>;

[[noreturn]] inline void fail(const std::string &what, const Place &place) {
  throw std::logic_error(std::string(place.file_name()) + ":" + std::to_string(place.line()) +
                         ": " + what);
}

/// What is being recorded: a stack of blocks, some of which are bodies of functions.
struct Recorder {
  struct Block {
    unsigned id;
    bool isFunction;
    std::string text = {};
    std::vector<std::string> captured = {}; // by a function, of what is around it
  };
  std::string declarations;
  std::vector<Block> blocks;
  unsigned nextBlock = 1, nextName = 0;

  std::string fresh(const char *stem = "v") { return stem + std::to_string(nextName++); }
  unsigned current() const { return blocks.empty() ? 0 : blocks.back().id; }
  void push(bool isFunction) { blocks.push_back({nextBlock++, isFunction}); }
  Block pop() {
    Block block = std::move(blocks.back());
    blocks.pop_back();
    return block;
  }
  void let(const std::string &name, const std::string &value, const Place &place) {
    if (blocks.empty())
      fail("operators stand within a function of the program", place);
    blocks.back().text += indent() + "let " + name + " = " + value + ";\n";
  }
  std::string indent() const {
    size_t depth = 1;
    for (size_t i = blocks.size(); i-- > 0 && !blocks[i].isFunction;)
      ++depth;
    return std::string(2 * depth, ' ');
  }
};

/// A name in the program, and the block that has it; 0: the top.
struct Handle {
  Recorder *recorder;
  std::string name;
  unsigned block;
  Place made; // operators of C++ can't tell their place: that of their first operand

  /// The name, where it may stand now.
  std::string use(const Recorder *in, const Place &place) const {
    if (recorder != in)
      fail("the value is of another program", place);
    std::vector<Recorder::Block> &blocks = recorder->blocks;
    for (size_t i = blocks.size(); block != 0 && i-- > 0;) {
      if (blocks[i].id == block) {
        for (size_t inner = i + 1; inner < blocks.size(); ++inner)
          capture(blocks[inner]);
        return name;
      }
    }
    if (block != 0)
      fail("the value is of a block that has ended; give it back from the block", place);
    return name;
  }

private:
  void capture(Recorder::Block &by) const {
    if (by.isFunction &&
        std::find(by.captured.begin(), by.captured.end(), name) == by.captured.end())
      by.captured.push_back(name);
  }
};

} // namespace detail

/// A tensor of the program.
template <detail::Element E, Shape S> class TensorOf {
  static_assert(S.fits);

public:
  using Scalar = E;
  static constexpr Shape shape = S;

  explicit TensorOf(detail::Handle handle) : handle_(std::move(handle)) {}
  const detail::Handle &handle() const { return handle_; }
  static std::string type() {
    std::string text = std::string(detail::elementName<E>) + "[";
    for (size_t i = 0; i < S.rank; ++i)
      text += (i ? ", " : "") + std::string(S.of[i].text);
    return text + "]";
  }

private:
  detail::Handle handle_;
};
/// Tensor<float, "batch", 784>; Tensor<float> is one number.
template <class E, Dim... D> using Tensor = TensorOf<E, detail::shapeOf<D...>()>;

/// A list of tensors of one type.
template <class T> class List {
public:
  using Item = T;
  explicit List(detail::Handle handle) : handle_(std::move(handle)) {}
  const detail::Handle &handle() const { return handle_; }
  static std::string type() { return "List[" + T::type() + "]"; }

private:
  detail::Handle handle_;
};

namespace detail {

template <class> inline constexpr bool isTensor = false;
template <class E, Shape S> inline constexpr bool isTensor<TensorOf<E, S>> = true;
template <class T>
concept AnyTensor = isTensor<T>;
template <class T>
concept RealTensor = AnyTensor<T> && Real<typename T::Scalar>;
template <class T>
concept NumberTensor = AnyTensor<T> && Number<typename T::Scalar>;
template <class T>
concept Condition = AnyTensor<T> && std::is_same_v<typename T::Scalar, bool> && T::shape.rank == 0;

template <class> inline constexpr bool isTuple = false;
template <class... T> inline constexpr bool isTuple<std::tuple<T...>> = true;

/// A number as the language writes it.
inline std::string literal(double number, bool isReal) {
  char text[64];
  auto end = isReal ? std::to_chars(text, std::end(text), number).ptr
                    : std::to_chars(text, std::end(text), static_cast<long long>(number)).ptr;
  std::string result(text, end);
  bool isWhole = result.find_first_of(".en") == std::string::npos;
  return isReal && isWhole ? result + ".0" : result;
}

template <class T> T named(Recorder *recorder, std::string name, const Place &place) {
  return T(Handle{recorder, std::move(name), recorder->current(), place});
}

/// The result of an operator, as a new name.
template <class T> T recorded(Recorder *recorder, const std::string &text, const Place &place) {
  std::string name = recorder->fresh();
  recorder->let(name, text, place);
  return named<T>(recorder, std::move(name), place);
}
template <class T> T typed(Recorder *recorder, const std::string &text, const Place &place) {
  return recorded<T>(recorder, "(" + text + " : " + T::type() + ")", place);
}

template <class R, class T>
R call(const char *name, const T &x, const std::string &attributes, const Place &place) {
  Recorder *recorder = x.handle().recorder;
  return recorded<R>(recorder,
                     std::string(name) + "(" + x.handle().use(recorder, place) + attributes + ")",
                     place);
}

template <class E, class A, class B> auto infix(const char *sign, const A &a, const B &b) {
  static_assert(std::is_same_v<typename A::Scalar, typename B::Scalar>,
                "the operands have different element types; cast one of them");
  constexpr Shape kShape = broadcast(A::shape, B::shape);
  static_assert(kShape.fits, "the operands' dimensions don't broadcast");
  Recorder *recorder = a.handle().recorder;
  const Place &place = a.handle().made;
  return recorded<TensorOf<E, kShape>>(
      recorder, a.handle().use(recorder, place) + sign + b.handle().use(recorder, place), place);
}

template <class E, class A> auto withNumber(const char *sign, const A &a, double b, bool isFirst) {
  Recorder *recorder = a.handle().recorder;
  const Place &place = a.handle().made;
  std::string x = a.handle().use(recorder, place), y = literal(b, Real<typename A::Scalar>);
  return recorded<TensorOf<E, A::shape>>(recorder, isFirst ? x + sign + y : y + sign + x, place);
}

} // namespace detail

#define TENSMITH_DSL_INFIX(symbol, sign, element)                                                  \
  template <detail::NumberTensor A, detail::NumberTensor B>                                        \
  auto operator symbol(const A &a, const B &b) {                                                   \
    return detail::infix<element>(" " sign " ", a, b);                                             \
  }                                                                                                \
  template <detail::NumberTensor A> auto operator symbol(const A &a, double b) {                   \
    return detail::withNumber<element>(" " sign " ", a, b, true);                                  \
  }                                                                                                \
  template <detail::NumberTensor A> auto operator symbol(double a, const A &b) {                   \
    return detail::withNumber<element>(" " sign " ", b, a, false);                                 \
  }
TENSMITH_DSL_INFIX(+, "+", typename A::Scalar)
TENSMITH_DSL_INFIX(-, "-", typename A::Scalar)
TENSMITH_DSL_INFIX(*, "*", typename A::Scalar)
TENSMITH_DSL_INFIX(/, "/", typename A::Scalar)
TENSMITH_DSL_INFIX(<, "<", bool)
TENSMITH_DSL_INFIX(>, ">", bool)
TENSMITH_DSL_INFIX(<=, "<=", bool)
TENSMITH_DSL_INFIX(>=, ">=", bool)
#undef TENSMITH_DSL_INFIX

template <detail::NumberTensor T> T operator-(const T &x) {
  return detail::call<T>("neg", x, "", x.handle().made);
}

#define TENSMITH_DSL_UNARY(name)                                                                   \
  template <detail::RealTensor T> T name(const T &x, Place place = Place::current()) {             \
    return detail::call<T>(#name, x, "", place);                                                   \
  }
TENSMITH_DSL_UNARY(exp)
TENSMITH_DSL_UNARY(log)
TENSMITH_DSL_UNARY(sqrt)
TENSMITH_DSL_UNARY(tanh)
TENSMITH_DSL_UNARY(sigmoid)
TENSMITH_DSL_UNARY(sin)
TENSMITH_DSL_UNARY(cos)
TENSMITH_DSL_UNARY(erf)
#undef TENSMITH_DSL_UNARY

template <detail::NumberTensor T> T abs(const T &x, Place place = Place::current()) {
  return detail::call<T>("abs", x, "", place);
}
template <detail::RealTensor T> T relu(const T &x, Place place = Place::current()) {
  return detail::call<T>("max", x, ", 0.0", place);
}

/// As numpy.matmul.
template <detail::NumberTensor A, detail::NumberTensor B>
auto matmul(const A &a, const B &b, Place place = Place::current()) {
  static_assert(std::is_same_v<typename A::Scalar, typename B::Scalar>,
                "the operands have different element types; cast one of them");
  constexpr Shape kShape = detail::product(A::shape, B::shape);
  static_assert(kShape.fits, "matmul: the dimension that is summed over differs, or stacks don't "
                             "broadcast");
  detail::Recorder *recorder = a.handle().recorder;
  return detail::recorded<TensorOf<typename A::Scalar, kShape>>(
      recorder, a.handle().use(recorder, place) + " @ " + b.handle().use(recorder, place), place);
}

/// Exchanges the last two dimensions.
template <detail::AnyTensor T> auto transpose(const T &x, Place place = Place::current()) {
  static_assert(T::shape.rank >= 2, "transpose: the operand is no matrix");
  constexpr Shape kShape = [] {
    Shape shape = T::shape;
    std::swap(shape.of[shape.rank - 1], shape.of[shape.rank - 2]);
    return shape;
  }();
  std::string order;
  for (size_t i = 0; i < T::shape.rank; ++i) {
    size_t dim = i + 2 < T::shape.rank ? i : 2 * T::shape.rank - 3 - i;
    order += (i ? ", " : "") + std::to_string(dim);
  }
  return detail::call<TensorOf<typename T::Scalar, kShape>>(
      "transpose", x, ", permutation = [" + order + "]", place);
}

#define TENSMITH_DSL_REDUCTION(name, operation)                                                    \
  template <size_t Axis, detail::NumberTensor T>                                                   \
  auto name(const T &x, Place place = Place::current()) {                                          \
    static_assert(Axis < T::shape.rank, #name ": there is no such dimension");                     \
    return detail::call<TensorOf<typename T::Scalar, T::shape.without(Axis)>>(                     \
        operation, x, ", axes = [" + std::to_string(Axis) + "]", place);                           \
  }
TENSMITH_DSL_REDUCTION(sum, "reduce_sum")
TENSMITH_DSL_REDUCTION(max, "reduce_max")
TENSMITH_DSL_REDUCTION(min, "reduce_min")
#undef TENSMITH_DSL_REDUCTION

#define TENSMITH_DSL_ALONG(name)                                                                   \
  template <size_t Axis, detail::RealTensor T>                                                     \
  T name(const T &x, Place place = Place::current()) {                                             \
    static_assert(Axis < T::shape.rank, #name ": there is no such dimension");                     \
    return detail::call<T>(#name, x, ", axis = " + std::to_string(Axis), place);                   \
  }
TENSMITH_DSL_ALONG(softmax)
TENSMITH_DSL_ALONG(log_softmax)
#undef TENSMITH_DSL_ALONG

template <detail::Element To, detail::AnyTensor T>
auto cast(const T &x, Place place = Place::current()) {
  return detail::call<TensorOf<To, T::shape>>(
      "cast", x, std::string(", to = ") + detail::elementName<To>, place);
}

/// Each element of one of both.
template <detail::AnyTensor C, detail::AnyTensor A, detail::AnyTensor B>
auto where(const C &condition, const A &a, const B &b, Place place = Place::current()) {
  static_assert(std::is_same_v<typename C::Scalar, bool>, "where: the condition is no boolean");
  static_assert(std::is_same_v<typename A::Scalar, typename B::Scalar>,
                "where: the operands have different element types");
  constexpr Shape kBoth = detail::broadcast(A::shape, B::shape);
  static_assert(kBoth.fits, "where: the operands' dimensions don't broadcast");
  constexpr Shape kShape = detail::broadcast(C::shape, kBoth);
  static_assert(kShape.fits, "where: the condition's dimensions don't broadcast");
  detail::Recorder *recorder = a.handle().recorder;
  return detail::recorded<TensorOf<typename A::Scalar, kShape>>(
      recorder,
      "where(" + condition.handle().use(recorder, place) + ", " + a.handle().use(recorder, place) +
          ", " + b.handle().use(recorder, place) + ")",
      place);
}

template <Dim... D, detail::AnyTensor T> auto reshape(const T &x, Place place = Place::current()) {
  constexpr Shape kTo = detail::shapeOf<D...>();
  static_assert(T::shape.elements() < 0 || kTo.elements() < 0 ||
                    T::shape.elements() == kTo.elements(),
                "reshape: the shapes have different numbers of elements");
  detail::Recorder *recorder = x.handle().recorder;
  return detail::typed<TensorOf<typename T::Scalar, kTo>>(
      recorder, "reshape(" + x.handle().use(recorder, place) + ")", place);
}

template <Dim... D, detail::AnyTensor T>
auto broadcast(const T &x, Place place = Place::current()) {
  constexpr Shape kTo = detail::shapeOf<D...>();
  static_assert(detail::broadcast(T::shape, kTo) == kTo,
                "broadcast: the operand does not broadcast to that shape");
  detail::Recorder *recorder = x.handle().recorder;
  return detail::typed<TensorOf<typename T::Scalar, kTo>>(
      recorder, "broadcast(" + x.handle().use(recorder, place) + ")", place);
}

/// Elements First to First + Count of a dimension.
template <size_t Axis, size_t First, size_t Count, detail::AnyTensor T>
auto slice(const T &x, Place place = Place::current()) {
  static_assert(Axis < T::shape.rank, "slice: there is no such dimension");
  static_assert(!T::shape.of[Axis].isNumber() ||
                    (long long)(First + Count) <= T::shape.of[Axis].number(),
                "slice: the part is outside of the dimension");
  constexpr Shape kShape = [] {
    Shape shape = T::shape;
    shape.of[Axis] = Dim((long long)Count);
    return shape;
  }();
  std::string starts, steps;
  for (size_t i = 0; i < T::shape.rank; ++i) {
    starts += (i ? ", " : "") + std::to_string(i == Axis ? First : 0);
    steps += i ? ", 1" : "1";
  }
  detail::Recorder *recorder = x.handle().recorder;
  return detail::typed<TensorOf<typename T::Scalar, kShape>>(
      recorder,
      "slice(" + x.handle().use(recorder, place) + ", starts = [" + starts + "], steps = [" +
          steps + "])",
      place);
}

/// One after the other along a dimension whose size is a number in both.
template <size_t Axis, detail::AnyTensor A, detail::AnyTensor B>
auto concat(const A &a, const B &b, Place place = Place::current()) {
  static_assert(std::is_same_v<typename A::Scalar, typename B::Scalar>,
                "concat: the operands have different element types");
  static_assert(Axis < A::shape.rank, "concat: there is no such dimension");
  static_assert(A::shape.without(Axis) == B::shape.without(Axis),
                "concat: the operands differ in another dimension");
  static_assert(A::shape.of[Axis].isNumber() && B::shape.of[Axis].isNumber(),
                "concat: the sizes along the dimension are not known");
  constexpr Shape kShape = [] {
    Shape shape = A::shape;
    shape.of[Axis] = Dim(A::shape.of[Axis].number() + B::shape.of[Axis].number());
    return shape;
  }();
  detail::Recorder *recorder = a.handle().recorder;
  return detail::recorded<TensorOf<typename A::Scalar, kShape>>(
      recorder,
      "concat(" + a.handle().use(recorder, place) + ", " + b.handle().use(recorder, place) +
          ", axis = " + std::to_string(Axis) + ")",
      place);
}

} // namespace tensmith::dsl

#endif
