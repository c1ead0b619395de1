// The nests of the tests, in the words of the interface that front ends build nests by.
#include "compiler/nest/test/Programs.h"

namespace tensmith::nest::test {
namespace {

using Indices = std::vector<Affine>;
using Bounds = std::vector<std::vector<Constraint>>;
using enum Operation;
constexpr auto kInput = Tensor::Role::Input, kOutput = Tensor::Role::Output,
               kLocal = Tensor::Role::Local;

class Builder {
public:
  explicit Builder(std::string name, std::vector<std::string> sizes) {
    nest.name = std::move(name);
    for (const std::string &each : sizes)
      nest.parameters.push_back({each, 1});
  }
  void tensor(const std::string &name, std::vector<Affine> extents, Tensor::Role role = kInput,
              DataType type = DataType::F32) {
    nest.tensors.push_back({name, type, std::move(extents), role});
  }
  Expr at(const std::string &name, Indices indices) {
    return load(*nest.tensor(name), std::move(indices));
  }
  Expr at(const std::string &name, std::vector<Expr> indices) {
    return load(*nest.tensor(name), std::move(indices));
  }
  Statement &say(const std::string &name, std::vector<std::string> iterators, Bounds bounds,
                 const std::string &tensor, Indices indices, Reduction reduction, Expr value) {
    Statement own;
    own.name = name;
    own.iterators = std::move(iterators);
    for (auto &each : bounds)
      own.domain.insert(own.domain.end(), each.begin(), each.end());
    own.tensor = tensor;
    for (Affine &each : indices)
      own.indices.push_back(index(std::move(each)));
    own.reduction = reduction;
    own.value = std::move(value);
    nest.statements.push_back(std::move(own));
    return nest.statements.back();
  }
  Nest nest;
};

std::vector<Constraint> to(const char *name, Affine high) { return within(name, 0, high); }
Expr zero() { return constant(DataType::F32, 0); }

} // namespace

Nest product() {
  Builder b("product", {"M", "N", "K"});
  b.tensor("A", {"M", "K"});
  b.tensor("B", {"K", "N"});
  b.tensor("C", {"M", "N"}, kOutput);
  b.say("start", {"i", "j"}, {to("i", "M"), to("j", "N")}, "C", {"i", "j"}, Reduction::None,
        zero());
  b.say("add", {"i", "j", "k"}, {to("i", "M"), to("j", "N"), to("k", "K")}, "C", {"i", "j"},
        Reduction::Add,
        apply(Multiply, {b.at("A", Indices{"i", "k"}), b.at("B", Indices{"k", "j"})}));
  return b.nest;
}

Nest productOf(DataType left, DataType right, DataType sum) {
  Nest result = product();
  DataType types[] = {left, right, sum};
  for (size_t number = 0; number < 3; ++number)
    result.tensors[number].type = types[number];
  auto converted = [&](size_t number, Indices indices) {
    Expr own = load(result.tensors[number], std::move(indices));
    return own->type == sum ? own : cast(sum, own);
  };
  result.statements[0].value = constant(sum, 0);
  result.statements[1].value =
      apply(Multiply, {converted(0, Indices{"i", "k"}), converted(1, Indices{"k", "j"})});
  return result;
}

Nest convolutionOf(DataType image, DataType filter) {
  Builder b("convolution_of_bytes", {"B", "H", "W", "F", "C"});
  Affine h = Affine("y") + Affine("r"), w = Affine("x") + Affine("s");
  b.tensor("I", {"B", Affine("H") + 2, Affine("W") + 2, "C"}, kInput, image);
  b.tensor("K", {3, 3, "C", "F"}, kInput, filter);
  b.tensor("O", {"B", "H", "W", "F"}, kOutput, DataType::I32);
  Bounds all{to("n", "B"), to("y", "H"), to("x", "W"), to("f", "F")};
  b.say("start", {"n", "y", "x", "f"}, all, "O", {"n", "y", "x", "f"}, Reduction::None,
        constant(DataType::I32, 0));
  for (auto &each : Bounds{to("r", 3), to("s", 3), to("c", "C")})
    all.push_back(each);
  b.say("add", {"n", "y", "x", "f", "r", "s", "c"}, all, "O", {"n", "y", "x", "f"}, Reduction::Add,
        apply(Multiply, {cast(DataType::I32, b.at("I", Indices{"n", h, w, "c"})),
                         cast(DataType::I32, b.at("K", Indices{"r", "s", "c", "f"}))}));
  return b.nest;
}

Nest convolution() {
  Builder b("convolution", {"C", "F", "H", "W"});
  Affine h = Affine("y") + Affine("r"), w = Affine("x") + Affine("s");
  b.tensor("I", {"C", Affine("H") + 2, Affine("W") + 2});
  b.tensor("K", {"F", "C", 3, 3});
  b.tensor("O", {"F", "H", "W"}, kOutput);
  b.say("start", {"f", "y", "x"}, {to("f", "F"), to("y", "H"), to("x", "W")}, "O", {"f", "y", "x"},
        Reduction::None, zero());
  b.say("add", {"f", "y", "x", "c", "r", "s"},
        {to("f", "F"), to("y", "H"), to("x", "W"), to("c", "C"), to("r", 3), to("s", 3)}, "O",
        {"f", "y", "x"}, Reduction::Add,
        apply(Multiply, {b.at("I", Indices{"c", h, w}), b.at("K", Indices{"f", "c", "r", "s"})}));
  b.say("relu", {"f", "y", "x"}, {to("f", "F"), to("y", "H"), to("x", "W")}, "O", {"f", "y", "x"},
        Reduction::None, apply(Maximum, {b.at("O", Indices{"f", "y", "x"}), zero()}));
  return b.nest;
}

Nest depthwise() {
  Builder b("depthwise", {"C", "H", "W"});
  Affine h = 2 * Affine("y") + Affine("r"), w = 2 * Affine("x") + Affine("s");
  b.tensor("I", {2 * Affine("H") + 1, 2 * Affine("W") + 1, "C"});
  b.tensor("K", {3, 3, "C"});
  b.tensor("O", {"H", "W", "C"}, kOutput);
  b.say("start", {"y", "x", "c"}, {to("y", "H"), to("x", "W"), to("c", "C")}, "O", {"y", "x", "c"},
        Reduction::None, zero());
  b.say("add", {"y", "x", "c", "r", "s"},
        {to("y", "H"), to("x", "W"), to("c", "C"), to("r", 3), to("s", 3)}, "O", {"y", "x", "c"},
        Reduction::Add,
        apply(Multiply, {b.at("I", Indices{h, w, "c"}), b.at("K", Indices{"r", "s", "c"})}));
  return b.nest;
}

Nest pooling() {
  Builder b("pooling", {"C", "H", "W"});
  Affine h = 2 * Affine("y") + Affine("r"), w = 2 * Affine("x") + Affine("s");
  b.tensor("I", {"C", 2 * Affine("H"), 2 * Affine("W")});
  b.tensor("O", {"C", "H", "W"}, kOutput);
  b.say("start", {"c", "y", "x"}, {to("c", "C"), to("y", "H"), to("x", "W")}, "O", {"c", "y", "x"},
        Reduction::None, constant(DataType::F32, -1e30));
  b.say("most", {"c", "y", "x", "r", "s"},
        {to("c", "C"), to("y", "H"), to("x", "W"), to("r", 2), to("s", 2)}, "O", {"c", "y", "x"},
        Reduction::Maximum, b.at("I", Indices{"c", h, w}));
  return b.nest;
}

Nest scan() {
  Builder b("scan", {"B", "T"});
  b.tensor("X", {"B", "T"});
  b.tensor("H", {"B", "T"}, kOutput);
  b.say("first", {"b"}, {to("b", "B")}, "H", {"b", 0}, Reduction::None, b.at("X", Indices{"b", 0}));
  b.say("next", {"b", "t"}, {to("b", "B"), within("t", 1, "T")}, "H", {"b", "t"}, Reduction::None,
        apply(Add, {b.at("H", Indices{"b", Affine("t") - 1}), b.at("X", Indices{"b", "t"})}));
  return b.nest;
}

Nest stencilInTime() {
  Builder b("stencil", {"T", "N"});
  b.tensor("U", {"N"});
  b.tensor("A", {Affine("T") + 1, Affine("N")}, kOutput);
  b.nest.parameters[1].least = 3;
  b.say("start", {"x"}, {to("x", "N")}, "A", {0, "x"}, Reduction::None, b.at("U", Indices{"x"}));
  auto edge = [&](const char *name, Affine x, int64_t where) {
    b.say(name, {"t"}, {to("t", "T")}, "A", {Affine("t") + 1, x}, Reduction::None,
          b.at("A", Indices{"t", x}))
        .position = {1, where};
  };
  edge("left", 0, 0);
  edge("right", Affine("N") - 1, 1);
  Expr sum = apply(Add, {b.at("A", Indices{"t", Affine("x") - 1}), b.at("A", Indices{"t", "x"})});
  sum = apply(Subtract, {sum, b.at("A", Indices{"t", Affine("x") + 1})});
  b.say("step", {"t", "x"}, {to("t", "T"), within("x", 1, Affine("N") - 1)}, "A",
        {Affine("t") + 1, "x"}, Reduction::None, sum)
      .position = {1, 2, 0};
  b.nest.statements[0].position = {0, 0};
  return b.nest;
}

Nest triangularSolve() {
  Builder b("solve", {"N", "R"});
  b.tensor("L", {"N", "N"});
  b.tensor("Y", {"N", "R"});
  b.tensor("X", {"N", "R"}, kOutput);
  b.say("start", {"i", "r"}, {to("i", "N"), to("r", "R")}, "X", {"i", "r"}, Reduction::None,
        b.at("Y", Indices{"i", "r"}))
      .position = {0, 0, 0};
  b.say("subtract", {"i", "j", "r"}, {to("i", "N"), within("j", 0, "i"), to("r", "R")}, "X",
        {"i", "r"}, Reduction::Add,
        apply(Multiply,
              {apply(Negate, {b.at("L", Indices{"i", "j"})}), b.at("X", Indices{"j", "r"})}))
      .position = {0, 1, 0, 0};
  b.say("scale", {"i", "r"}, {to("i", "N"), to("r", "R")}, "X", {"i", "r"}, Reduction::None,
        apply(Multiply, {b.at("X", Indices{"i", "r"}), constant(DataType::F32, -1)}))
      .position = {0, 2, 0};
  return b.nest;
}

Nest softmax() {
  Builder b("softmax", {"M", "N"});
  b.tensor("X", {"M", "N"});
  b.tensor("m", {"M"}, kLocal);
  b.tensor("e", {"M", "N"}, kLocal);
  b.tensor("s", {"M"}, kLocal);
  b.tensor("Y", {"M", "N"}, kOutput);
  Bounds row = {to("i", "M")}, all = {to("i", "M"), to("j", "N")};
  b.say("low", {"i"}, row, "m", {"i"}, Reduction::None, constant(DataType::F32, -1e30));
  b.say("most", {"i", "j"}, all, "m", {"i"}, Reduction::Maximum, b.at("X", Indices{"i", "j"}));
  b.say("power", {"i", "j"}, all, "e", {"i", "j"}, Reduction::None,
        apply(Exponential,
              {apply(Subtract, {b.at("X", Indices{"i", "j"}), b.at("m", Indices{"i"})})}));
  b.say("none", {"i"}, row, "s", {"i"}, Reduction::None, zero());
  b.say("sum", {"i", "j"}, all, "s", {"i"}, Reduction::Add, b.at("e", Indices{"i", "j"}));
  b.say("share", {"i", "j"}, all, "Y", {"i", "j"}, Reduction::None,
        apply(Divide, {b.at("e", Indices{"i", "j"}), b.at("s", Indices{"i"})}));
  return b.nest;
}

Nest argmax() {
  Builder b("argmax", {"M", "N"});
  b.tensor("X", {"M", "N"});
  b.tensor("m", {"M"}, kOutput);
  b.tensor("a", {"M"}, kOutput, DataType::I64);
  Bounds row = {to("i", "M")}, all = {to("i", "M"), to("j", "N")};
  b.say("low", {"i"}, row, "m", {"i"}, Reduction::None, constant(DataType::F32, -1e30));
  b.say("most", {"i", "j"}, all, "m", {"i"}, Reduction::Maximum, b.at("X", Indices{"i", "j"}));
  b.say("last", {"i"}, row, "a", {"i"}, Reduction::None, index("N"));
  Expr isMost = apply(Equal, {b.at("X", Indices{"i", "j"}), b.at("m", Indices{"i"})});
  b.say("where", {"i", "j"}, all, "a", {"i"}, Reduction::Minimum,
        apply(Select, {isMost, index("j"), index("N")}));
  return b.nest;
}

Nest attention() {
  Builder b("attention", {"Q", "S", "D"});
  b.tensor("q", {"Q", "D"});
  b.tensor("k", {"S", "D"});
  b.tensor("v", {"S", "D"});
  b.tensor("p", {"Q", "S"}, kLocal);
  b.tensor("m", {"Q"}, kLocal);
  b.tensor("s", {"Q"}, kLocal);
  b.tensor("O", {"Q", "D"}, kOutput);
  Bounds row = {to("i", "Q")}, all = {to("i", "Q"), to("j", "S")};
  b.say("none", {"i", "j"}, all, "p", {"i", "j"}, Reduction::None, zero());
  b.say("score", {"i", "j", "d"}, {to("i", "Q"), to("j", "S"), to("d", "D")}, "p", {"i", "j"},
        Reduction::Add,
        apply(Multiply, {b.at("q", Indices{"i", "d"}), b.at("k", Indices{"j", "d"})}));
  b.say("low", {"i"}, row, "m", {"i"}, Reduction::None, constant(DataType::F32, -1e30));
  b.say("most", {"i", "j"}, all, "m", {"i"}, Reduction::Maximum, b.at("p", Indices{"i", "j"}));
  b.say("power", {"i", "j"}, all, "p", {"i", "j"}, Reduction::None,
        apply(Exponential,
              {apply(Subtract, {b.at("p", Indices{"i", "j"}), b.at("m", Indices{"i"})})}));
  b.say("empty", {"i"}, row, "s", {"i"}, Reduction::None, zero());
  b.say("sum", {"i", "j"}, all, "s", {"i"}, Reduction::Add, b.at("p", Indices{"i", "j"}));
  b.say("clear", {"i", "d"}, {to("i", "Q"), to("d", "D")}, "O", {"i", "d"}, Reduction::None,
        zero());
  b.say("mix", {"i", "j", "d"}, {to("i", "Q"), to("j", "S"), to("d", "D")}, "O", {"i", "d"},
        Reduction::Add,
        apply(Multiply, {b.at("p", Indices{"i", "j"}), b.at("v", Indices{"j", "d"})}));
  b.say("share", {"i", "d"}, {to("i", "Q"), to("d", "D")}, "O", {"i", "d"}, Reduction::None,
        apply(Divide, {b.at("O", Indices{"i", "d"}), b.at("s", Indices{"i"})}));
  return b.nest;
}

Nest lookup() {
  Builder b("lookup", {"V", "E", "B", "L"});
  b.tensor("table", {"V", "E"});
  b.tensor("index", {"B", "L"}, kInput, DataType::I64);
  b.tensor("O", {"B", "E"}, kOutput);
  b.say("start", {"b", "e"}, {to("b", "B"), to("e", "E")}, "O", {"b", "e"}, Reduction::None,
        zero());
  b.say("add", {"b", "l", "e"}, {to("b", "B"), to("l", "L"), to("e", "E")}, "O", {"b", "e"},
        Reduction::Add,
        b.at("table", std::vector<Expr>{b.at("index", Indices{"b", "l"}), index("e")}));
  return b.nest;
}

Nest scatter() {
  Builder b("scatter", {"V", "B"});
  b.tensor("X", {"B"});
  b.tensor("index", {"B"}, kInput, DataType::I64);
  b.tensor("O", {"V"}, kOutput);
  b.say("start", {"v"}, {to("v", "V")}, "O", {"v"}, Reduction::None, zero());
  b.say("add", {"b"}, {to("b", "B")}, "O", {0}, Reduction::Add, b.at("X", Indices{"b"})).indices = {
      b.at("index", Indices{"b"})};
  return b.nest;
}

Nest blur() {
  Builder b("blur", {"H", "W"});
  b.tensor("I", {Affine("H") + 2, "W"});
  b.tensor("T", {Affine("H") + 2, "W"}, kLocal);
  b.tensor("O", {"H", "W"}, kOutput);
  b.say("twice", {"y", "x"}, {to("y", Affine("H") + 2), to("x", "W")}, "T", {"y", "x"},
        Reduction::None,
        apply(Multiply, {b.at("I", Indices{"y", "x"}), constant(DataType::F32, 2)}));
  Expr sum = apply(Add, {b.at("T", Indices{"y", "x"}), b.at("T", Indices{Affine("y") + 1, "x"})});
  b.say("blur", {"y", "x"}, {to("y", "H"), to("x", "W")}, "O", {"y", "x"}, Reduction::None,
        apply(Add, {sum, b.at("T", Indices{Affine("y") + 2, "x"})}));
  return b.nest;
}

Nest padded() {
  Builder b("padded", {"N"});
  b.tensor("X", {"N"});
  b.tensor("O", {"N"}, kOutput);
  auto shifted = [&](int64_t by) {
    Affine at = Affine("x") + by;
    return read(*b.nest.tensor("X"), {at}, within(at, 0, "N"), constant(DataType::F32, 7));
  };
  b.say("sum", {"x"}, {to("x", "N")}, "O", {"x"}, Reduction::None,
        apply(Subtract, {apply(Add, {shifted(-1), shifted(0)}), shifted(2)}));
  return b.nest;
}

/// C = A B with a lower triangular A.
Nest triangularProduct() {
  Nest result = product();
  result.name = "triangular";
  for (Statement &each : result.statements)
    if (each.iterators.size() == 3)
      each.domain.push_back(atLeast(Affine(each.iterators[0]), Affine(each.iterators[2])));
  result.context.push_back(equal("M", "K"));
  return result;
}

std::vector<Nest> namedPrograms() {
  std::vector<Nest> all{lookup(), scatter(),           blur(),
                        padded(), triangularProduct(), convolutionOf(DataType::U8, DataType::I8)};
  for (const Program &each : programs())
    all.push_back(each.nest);
  return all;
}

std::vector<Program> programs() {
  return {{product(), {{13, 21, 9}, {1, 1, 1}, {17, 40, 5}}},
          {convolution(), {{3, 5, 7, 19}, {1, 1, 1, 1}}},
          {depthwise(), {{20, 5, 6}, {3, 1, 2}}},
          {pooling(), {{3, 5, 18}, {1, 1, 1}}},
          {scan(), {{19, 11}, {2, 1}}},
          {stencilInTime(), {{9, 23}, {4, 3}}},
          {triangularSolve(), {{11, 18}, {1, 1}}},
          {softmax(), {{9, 21}, {1, 1}}},
          {argmax(), {{9, 21}, {1, 1}}},
          {attention(), {{7, 19, 6}, {1, 1, 1}}}};
}

} // namespace tensmith::nest::test
