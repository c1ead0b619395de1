// A language inside C++: functions over typed tensors are run once, and what they do is recorded as
// a program of Tensmith's language (.tsm), which is printed, compiled or trained.
//
// What is a tensor is of the program, and everything else of C++: loops of C++ unroll, its
// functions are inlined, and its ifs choose what is recorded. `branch`, `loop` and `fold` stand in
// the program. (Staging: Rompf & Odersky, "Lightweight modular staging", 2010; of networks in a host
// language: Wei, Schwartz & Adve, "DLVM: A modern compiler infrastructure for deep learning
// systems", 2017.)
//
//     using namespace tensmith::dsl;
//     Program program;
//     auto w = program.parameter<float, 784, 10>("w");
//     program.main([&](Tensor<float, "batch", 784> x) { return softmax<1>(matmul(x, w)); });
//     std::string text = program.text();
//
// A tensor's type has its element type and its dimensions, each a number or a name. Equal names are
// equal sizes. Operands that don't fit are errors of the C++ compiler. What only staging tells (a
// value of a block that has ended, or of another program) is a std::logic_error that names the line
// of C++.
//
// Header only, C++20. libtensmith_compiler is needed where `compile` is called.
#ifndef TENSMITH_DSL_HPP
#define TENSMITH_DSL_HPP

#include <tensmith/compiler.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
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
    if (by.isFunction && std::find(by.captured.begin(), by.captured.end(), name) == by.captured.end())
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
  return recorded<R>(recorder, std::string(name) + "(" + x.handle().use(recorder, place) +
                                   attributes + ")",
                     place);
}

template <class E, class A, class B>
auto infix(const char *sign, const A &a, const B &b) {
  static_assert(std::is_same_v<typename A::Scalar, typename B::Scalar>,
                "the operands have different element types; cast one of them");
  constexpr Shape kShape = broadcast(A::shape, B::shape);
  static_assert(kShape.fits, "the operands' dimensions don't broadcast");
  Recorder *recorder = a.handle().recorder;
  const Place &place = a.handle().made;
  return recorded<TensorOf<E, kShape>>(recorder,
                                       a.handle().use(recorder, place) + sign +
                                           b.handle().use(recorder, place),
                                       place);
}

template <class E, class A>
auto withNumber(const char *sign, const A &a, double b, bool isFirst) {
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
      "slice(" + x.handle().use(recorder, place) + ", starts = [" + starts + "], steps = [" + steps +
          "])",
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

namespace detail {

/// What a function of the program takes or gives: a tensor, a list, or a tuple of such.
template <class T> std::string typeOf() {
  if constexpr (isTuple<T>)
    return []<class... P>(std::type_identity<std::tuple<P...>>) {
      std::string text;
      ((text += (text.empty() ? "" : ", ") + typeOf<P>()), ...);
      return "(" + text + ")";
    }(std::type_identity<T>());
  else
    return T::type();
}

template <class T> std::string textOf(const T &value, const Recorder *recorder, const Place &place) {
  if constexpr (isTuple<T>) {
    std::string text;
    std::apply(
        [&](const auto &...parts) {
          ((text += (text.empty() ? "" : ", ") + textOf(parts, recorder, place)), ...);
        },
        value);
    return "(" + text + ")";
  } else {
    return value.handle().use(recorder, place);
  }
}

/// New names for all that a value of the type has.
template <class T> T fresh(Recorder *recorder, const Place &place) {
  if constexpr (isTuple<T>)
    return [&]<class... P>(std::type_identity<std::tuple<P...>>) {
      return std::tuple<P...>{fresh<P>(recorder, place)...};
    }(std::type_identity<T>());
  else
    return named<T>(recorder, recorder->fresh(), place);
}

template <class T> T bound(Recorder *recorder, const std::string &text, const Place &place) {
  T value = fresh<T>(recorder, place);
  recorder->let(textOf(value, recorder, place), text, place);
  return value;
}

/// A block that `body` records, with what it gives at the end; its braces are around it.
template <class F> auto blockOf(Recorder *recorder, const Place &place, F body) {
  recorder->push(/*isFunction=*/false);
  auto result = body();
  std::string indent = recorder->indent();
  std::string last = textOf(result, recorder, place);
  std::string text = "{\n" + recorder->blocks.back().text + indent + last + "\n" +
                     indent.substr(2) + "}";
  recorder->pop();
  return std::pair(std::move(text), std::move(result));
}

template <class F> struct Signature : Signature<decltype(&F::operator())> {};
template <class C, class R, class... A> struct Signature<R (C::*)(A...) const> {
  using Result = R;
  using Arguments = std::tuple<std::remove_cvref_t<A>...>;
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R (C::*)(A...) const> {};

} // namespace detail

/// One of two blocks, by a boolean of the run.
template <detail::AnyTensor C, class Then, class Else>
auto branch(const C &condition, Then then, Else otherwise, Place place = Place::current()) {
  static_assert(detail::Condition<C>, "branch: the condition is no single boolean");
  using Result = std::invoke_result_t<Then>;
  static_assert(std::is_same_v<Result, std::invoke_result_t<Else>>,
                "branch: the blocks give different types");
  detail::Recorder *recorder = condition.handle().recorder;
  std::string test = condition.handle().use(recorder, place);
  std::string first = detail::blockOf(recorder, place, then).first;
  std::string second = detail::blockOf(recorder, place, otherwise).first;
  return detail::bound<Result>(recorder, "if " + test + " " + first + " else " + second, place);
}

/// `body` again and again, from the first state, while the condition on the state holds. A state is
/// a tensor or a tuple of them, which both are given in one piece; its type stays.
template <class State, class Condition, class Body>
State loop(const State &first, Condition condition, Body body, Place place = Place::current()) {
  using Test = std::invoke_result_t<Condition, State>;
  static_assert(detail::Condition<Test>, "loop: the condition gives no single boolean");
  static_assert(std::is_same_v<State, std::invoke_result_t<Body, State>>,
                "loop: the body gives another type than the state's");
  detail::Recorder *recorder = nullptr;
  if constexpr (detail::isTuple<State>)
    recorder = std::get<0>(first).handle().recorder;
  else
    recorder = first.handle().recorder;
  std::string start = detail::textOf(first, recorder, place), name = recorder->fresh("loop");
  recorder->push(/*isFunction=*/true);
  std::string parameter = recorder->fresh("state");
  State state = detail::bound<State>(recorder, parameter, place);
  std::string test = condition(state).handle().use(recorder, place);
  recorder->push(/*isFunction=*/false);
  std::string next = detail::textOf(body(state), recorder, place);
  detail::Recorder::Block inner = recorder->pop();
  std::string last = detail::textOf(state, recorder, place);
  detail::Recorder::Block outer = recorder->pop();
  std::string passed, taken;
  for (const std::string &captured : outer.captured) {
    passed += ", " + captured;
    taken += ", " + captured;
  }
  recorder->declarations += "fn " + name + "(" + parameter + ": " + detail::typeOf<State>() + taken +
                            ") = {\n" + outer.text + "  if " + test + " {\n" + inner.text + "    " +
                            name + "(" + next + passed + ")\n  } else { " + last + " }\n}\n\n";
  return detail::bound<State>(recorder, name + "(" + start + passed + ")", place);
}

/// The state after all items of a list, whose length the run tells.
template <class T, class State, class Body>
State fold(const List<T> &items, const State &first, Body body, Place place = Place::current()) {
  static_assert(std::is_same_v<State, std::invoke_result_t<Body, State, T>>,
                "fold: the body gives another type than the state's");
  detail::Recorder *recorder = items.handle().recorder;
  std::string start = detail::textOf(first, recorder, place);
  std::string list = items.handle().use(recorder, place);
  std::string state = recorder->fresh("state"), item = recorder->fresh("item");
  std::string block = detail::blockOf(recorder, place, [&] {
                        State now = detail::bound<State>(recorder, state, place);
                        return body(now, detail::named<T>(recorder, item, place));
                      }).first;
  return detail::bound<State>(
      recorder, "fold(fn(" + state + ", " + item + ") => " + block + ", " + start + ", " + list + ")",
      place);
}

/// A function of the program, as a value of C++.
template <class Result, class... Arguments> class Function {
public:
  Function(detail::Recorder *recorder, std::string name)
      : recorder_(recorder), name_(std::move(name)) {}

  template <class... Given> Result operator()(const Given &...given) const {
    static_assert(sizeof...(Given) == sizeof...(Arguments),
                  "the function takes another number of arguments");
    static_assert((std::is_same_v<Given, Arguments> && ...),
                  "an argument has another type than the function's parameter");
    Place place = Place::current();
    std::string text;
    ((text += (text.empty() ? "" : ", ") + detail::textOf(given, recorder_, place)), ...);
    return detail::bound<Result>(recorder_, name_ + "(" + text + ")", place);
  }

private:
  detail::Recorder *recorder_;
  std::string name_;
};

/// A program as it grows. Values and functions of it refer to it, so that it stays where it is.
class Program {
public:
  Program() = default;
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// A constant that is loaded from a file of NumPy's beside the program; what training trains.
  template <detail::Element E, Dim... D>
  Tensor<E, D...> parameter(const std::string &name, const std::string &file = {},
                            Place place = Place::current()) {
    static_assert(Tensor<E, D...>::shape.elements() >= 0,
                  "parameter: its dimensions are numbers");
    return declared<Tensor<E, D...>>(
        name, "load(\"" + (file.empty() ? name + ".npy" : file) + "\")", place);
  }

  /// One that is drawn from a normal distribution around 0 where training begins.
  template <detail::Real E, Dim... D>
  Tensor<E, D...> drawn(const std::string &name, double deviation, Place place = Place::current()) {
    static_assert(Tensor<E, D...>::shape.elements() >= 0, "drawn: its dimensions are numbers");
    return declared<Tensor<E, D...>>(name,
                                     detail::literal(deviation, true) + " * (random_normal(seed = " +
                                         std::to_string(++draws_) + ") : " +
                                         Tensor<E, D...>::type() + ")",
                                     place);
  }

  /// A function, whose body is recorded now; `body` takes tensors, lists or tuples of them by their
  /// types and gives one of these.
  template <class Body>
  auto function(const std::string &name, Body body, Place place = Place::current()) {
    using Signature = detail::Signature<Body>;
    if (!recorder_.blocks.empty())
      detail::fail("a function can't be made within another one", place);
    claim(name, place);
    return record<typename Signature::Result>(
        name, body, place, std::type_identity<typename Signature::Arguments>());
  }

  /// What the program computes. Its parameters are inputs, in their order.
  template <class Body> void main(Body body, Place place = Place::current()) {
    function("main", std::move(body), place);
  }

  /// The program in the language.
  std::string text() const { return recorder_.declarations; }

  /// A module of it, in the file `path`. Files that it loads lie in `folder`. Throws the compiler's
  /// message. `options`: as of ts_compile_bytes, where null the defaults.
  void compile(const std::string &path, const std::string &folder = ".",
               const ts_compile_options *options = nullptr) const {
    ts_compile_options own;
    ts_compile_options_init(&own);
    if (options)
      own = *options;
    own.folder = folder.c_str();
    std::string program = text();
    void *module = nullptr;
    size_t size = 0;
    check(ts_compile_bytes(program.data(), program.size(), "program.tsm", &own, &module, &size));
    std::FILE *file = std::fopen(path.c_str(), "wb");
    bool isWritten = file && std::fwrite(module, 1, size, file) == size;
    isWritten = file && std::fclose(file) == 0 && isWritten;
    ts_bytes_free(module);
    if (!isWritten)
      throw std::runtime_error(path + ": can't be written");
  }

private:
  static void check(ts_status *status) {
    if (!status)
      return;
    std::string message = ts_status_message(status);
    ts_status_free(status);
    throw std::runtime_error(message);
  }

  void claim(const std::string &name, const Place &place) {
    if (std::find(names_.begin(), names_.end(), name) != names_.end())
      detail::fail("the program has a '" + name + "' already", place);
    names_.push_back(name);
  }

  template <class T> T declared(const std::string &name, const std::string &value, const Place &place) {
    if (!recorder_.blocks.empty())
      detail::fail("parameters stand outside of functions", place);
    claim(name, place);
    recorder_.declarations += "let " + name + " = " + value + "\n\n";
    return T(detail::Handle{&recorder_, name, 0, place});
  }

  template <class Result, class Body, class... A>
  auto record(const std::string &name, Body &body, const Place &place,
              std::type_identity<std::tuple<A...>>) {
    recorder_.push(/*isFunction=*/true);
    std::tuple<A...> parameters{detail::fresh<A>(&recorder_, place)...};
    std::string list;
    std::apply(
        [&](const auto &...one) {
          ((list += (list.empty() ? "" : ", ") + detail::textOf(one, &recorder_, place) + ": " +
                    detail::typeOf<std::remove_cvref_t<decltype(one)>>()),
           ...);
        },
        parameters);
    Result result = std::apply(body, parameters);
    std::string last = detail::textOf(result, &recorder_, place);
    detail::Recorder::Block block = recorder_.pop();
    recorder_.declarations +=
        "fn " + name + "(" + list + ") = {\n" + block.text + "  " + last + "\n}\n\n";
    return Function<Result, A...>(&recorder_, name);
  }

  detail::Recorder recorder_;
  std::vector<std::string> names_;
  int draws_ = 0;
};

} // namespace tensmith::dsl

#endif
