// A language inside C++: functions over typed tensors are run once, and what they do is recorded as
// a program of Tensmith's language (.tsm), which is printed, compiled or trained.
//
// What is a tensor is of the program, and everything else of C++: loops of C++ unroll, its
// functions are inlined, and its ifs choose what is recorded. `branch`, `loop` and `fold` stand in
// the program. (Staging: Rompf & Odersky, "Lightweight modular staging", 2010; of networks in a
// host language: Wei, Schwartz & Adve, "DLVM: A modern compiler infrastructure for deep learning
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
#include <tensmith/dsl_tensors.hpp>

#include <cstdio>

namespace tensmith::dsl {

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

template <class T>
std::string textOf(const T &value, const Recorder *recorder, const Place &place) {
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
  std::string text =
      "{\n" + recorder->blocks.back().text + indent + last + "\n" + indent.substr(2) + "}";
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
  recorder->declarations += "fn " + name + "(" + parameter + ": " + detail::typeOf<State>() +
                            taken + ") = {\n" + outer.text + "  if " + test + " {\n" + inner.text +
                            "    " + name + "(" + next + passed + ")\n  } else { " + last +
                            " }\n}\n\n";
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
      recorder,
      "fold(fn(" + state + ", " + item + ") => " + block + ", " + start + ", " + list + ")", place);
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
    static_assert(Tensor<E, D...>::shape.elements() >= 0, "parameter: its dimensions are numbers");
    return declared<Tensor<E, D...>>(
        name, "load(\"" + (file.empty() ? name + ".npy" : file) + "\")", place);
  }

  /// One that is drawn from a normal distribution around 0 where training begins.
  template <detail::Real E, Dim... D>
  Tensor<E, D...> drawn(const std::string &name, double deviation, Place place = Place::current()) {
    static_assert(Tensor<E, D...>::shape.elements() >= 0, "drawn: its dimensions are numbers");
    return declared<Tensor<E, D...>>(name,
                                     detail::literal(deviation, true) +
                                         " * (random_normal(seed = " + std::to_string(++draws_) +
                                         ") : " + Tensor<E, D...>::type() + ")",
                                     place);
  }

  /// A function, whose body is recorded now; `body` takes tensors, lists or tuples of them by their
  /// types and gives one of these. `parameters`: their names, where they have some.
  template <class Body>
  auto function(const std::string &name, Body body, std::vector<std::string> parameters = {},
                Place place = Place::current()) {
    using Signature = detail::Signature<Body>;
    if (!recorder_.blocks.empty())
      detail::fail("a function can't be made within another one", place);
    claim(name, place);
    parameters.resize(
        std::max(parameters.size(), std::tuple_size_v<typename Signature::Arguments>));
    return record<typename Signature::Result>(name, body, parameters, place,
                                              std::type_identity<typename Signature::Arguments>());
  }

  /// What the program computes. Its parameters are inputs, in their order, by these names.
  template <class Body>
  void main(Body body, std::vector<std::string> inputs = {}, Place place = Place::current()) {
    function("main", std::move(body), std::move(inputs), place);
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

  bool isTaken(const std::string &name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }

  void claim(const std::string &name, const Place &place) {
    if (isTaken(name))
      detail::fail("the program has a '" + name + "' already", place);
    names_.push_back(name);
  }

  template <class T>
  T declared(const std::string &name, const std::string &value, const Place &place) {
    if (!recorder_.blocks.empty())
      detail::fail("parameters stand outside of functions", place);
    claim(name, place);
    recorder_.declarations += "let " + name + " = " + value + "\n\n";
    return T(detail::Handle{&recorder_, name, 0, place});
  }

  template <class Result, class Body, class... A>
  auto record(const std::string &name, Body &body, const std::vector<std::string> &names,
              const Place &place, std::type_identity<std::tuple<A...>>) {
    for (const std::string &parameter : names)
      if (isTaken(parameter))
        detail::fail("the parameter '" + parameter + "' would hide what has the name already",
                     place);
    recorder_.push(/*isFunction=*/true);
    std::string list;
    size_t number = 0;
    std::tuple<A...> parameters{parameter<A>(names[number++], list, place)...};
    Result result = std::apply(body, parameters);
    std::string last = detail::textOf(result, &recorder_, place);
    detail::Recorder::Block block = recorder_.pop();
    recorder_.declarations +=
        "fn " + name + "(" + list + ") = {\n" + block.text + "  " + last + "\n}\n\n";
    return Function<Result, A...>(&recorder_, name);
  }

  /// Adds a parameter to the list of a function's; a tuple is taken apart in the body.
  template <class T> T parameter(const std::string &given, std::string &list, const Place &place) {
    std::string name = given.empty() ? recorder_.fresh() : given;
    list += (list.empty() ? "" : ", ") + name + ": " + detail::typeOf<T>();
    if constexpr (detail::isTuple<T>)
      return detail::bound<T>(&recorder_, name, place);
    else
      return detail::named<T>(&recorder_, name, place);
  }

  detail::Recorder recorder_;
  std::vector<std::string> names_;
  int draws_ = 0;
};

} // namespace tensmith::dsl

#endif
