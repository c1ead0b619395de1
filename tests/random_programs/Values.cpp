// Numbers and tensors; see Generator.h. Products of floats pass through tanh, so that values stay
// small and a rounding stays one.
#include "tests/random_programs/Generator.h"

namespace tensmith::random_programs {

ExprPointer Generator::integerValue(int depth) {
  Type own = tensor("i64");
  switch (below(9)) {
  case 0:
    return call("length", value(data("List", {randomType(1, false)}), depth - 1));
  case 1:
    return with(
        with(call("reduce_sum", value(tensor("i64", {"5"}), depth - 1)), "axes", integers({0})),
        "keepdims", make(Expr::Kind::Boolean, "false"));
  case 2:
    return sign("mod", value(own, depth - 1), integer(2 + below(9)));
  case 3:
    return sign("div", value(own, depth - 1), integer(1 + below(5)));
  case 4:
    return negated(value(own, depth - 1));
  case 5:
    return call(chance(50) ? "max" : "min", value(own, depth - 1), value(own, depth - 1));
  case 6:
    return call("where", booleanValue(depth - 1), value(own, depth - 1), value(own, depth - 1));
  default: {
    static const std::vector<std::string> signs = {"add", "sub", "mul"};
    return sign(oneOf(signs), value(own, depth - 1), value(own, depth - 1));
  }
  }
}

ExprPointer Generator::integersValue(const Type &type, int depth) {
  static const std::vector<std::string> signs = {"add", "sub", "mul"};
  switch (below(4)) {
  case 0:
    return sign(oneOf(signs), value(type, depth - 1), value(tensor("i64"), depth - 1));
  case 1:
    return call("where", booleanValue(depth - 1), value(type, depth - 1), value(type, depth - 1));
  case 2:
    return with(call("cumsum", value(type, depth - 1)), "axis", integer(0));
  default:
    return sign(oneOf(signs), value(type, depth - 1), value(type, depth - 1));
  }
}

ExprPointer Generator::booleanValue(int depth) {
  Type own = tensor("bool"), number = tensor("i64");
  if (depth <= 0 || --left_ <= 0)
    return leaf(own);
  static const std::vector<std::string> comparisons = {"less", "less_or_equal", "greater",
                                                       "greater_or_equal", "equal"};
  switch (below(5)) {
  case 0:
    return sign("and", value(own, depth - 1), value(own, depth - 1));
  case 1:
    return sign(chance(50) ? "or" : "and", value(own, depth - 1), value(own, depth - 1));
  case 2:
    return sign("not", value(own, depth - 1));
  default:
    return sign(oneOf(comparisons), value(number, depth - 1), value(number, depth - 1));
  }
}

ExprPointer Generator::elementwise(const Type &type, int depth) {
  static const std::vector<std::string> unary = {"tanh", "sigmoid", "sin", "cos", "abs", "erf"};
  switch (below(6)) {
  case 0:
    return call(oneOf(unary), value(type, depth - 1));
  case 1:
    return call("tanh", sign("mul", value(type, depth - 1), value(type, depth - 1)));
  case 2:
    return call("where", booleanValue(depth - 1), value(type, depth - 1), value(type, depth - 1));
  case 3: // broadcast
    return call("tanh", sign(chance(50) ? "mul" : "sub", value(tensor("f32"), depth - 1),
                             value(type, depth - 1)));
  case 4:
    return call(chance(50) ? "max" : "min", value(type, depth - 1), value(type, depth - 1));
  default:
    return sign(chance(50) ? "add" : "sub", value(type, depth - 1), value(type, depth - 1));
  }
}

ExprPointer Generator::scalarValue(int depth) {
  Type from = randomTensor();
  if (!from.isReal() || from.dims.empty())
    from = tensor("f32", {"5"});
  if (chance(25))
    return sign("matmul", value(tensor("f32", {"3"}), depth - 1),
                value(tensor("f32", {"3"}), depth - 1));
  static const std::vector<std::string> reductions = {"reduce_sum", "reduce_max", "reduce_min"};
  return call("tanh", with(with(call(oneOf(reductions), value(from, depth - 1)), "axes",
                                from.dims.size() == 1 ? integers({0}) : integers({0, 1})),
                           "keepdims", make(Expr::Kind::Boolean, "false")));
}

ExprPointer Generator::rowValue(const Type &type, int depth) {
  const std::string &size = type.dims[0];
  if (type.isOpen() && named_ && chance(20)) // of a size that no operand has
    return chance(50)
               ? ascribe(call("broadcast", value(tensor("f32"), depth - 1)), type)
               : call("sin", with(call("cast", ascribe(with(call("iota"), "axis", integer(0)),
                                                       tensor("i64", {"n"}))),
                                  "to", name("f32")));
  std::string other = size == "5" ? "3" : "5";
  switch (below(5)) {
  case 0:
    return call("tanh", sign("matmul", value(tensor("f32", {size, other}), depth - 1),
                             value(tensor("f32", {other}), depth - 1)));
  case 1:
    return call("tanh", with(with(call("reduce_sum", value(tensor("f32", {size, "5"}), depth - 1)),
                                  "axes", integers({1})),
                             "keepdims", make(Expr::Kind::Boolean, "false")));
  case 2:
    if (type.isOpen())
      break;
    return with(call("gather", value(tensor("f32", {other, size}), depth - 1),
                     sign("mod", value(tensor("i64"), depth - 1), integer(std::stoll(other)))),
                "axis", integer(0));
  case 3:
    return with(call("softmax", value(type, depth - 1)), "axis", integer(0));
  default:
    break;
  }
  return with(call("cumsum", value(type, depth - 1)), "axis", integer(0));
}

ExprPointer Generator::matrixValue(const Type &type, int depth) {
  const std::string &rows = type.dims[0], &columns = type.dims[1];
  switch (below(5)) {
  case 0:
    if (rows == "n")
      return call("tanh", sign("matmul",
                               call("tanh", sign("matmul", value(type, depth - 1),
                                                 value(tensor("f32", {"5", "3"}), depth - 1))),
                               value(tensor("f32", {"3", "5"}), depth - 1)));
    return with(call("transpose", value(tensor("f32", {columns, rows}), depth - 1)), "permutation",
                integers({1, 0}));
  case 1:
    return with(call("softmax", value(type, depth - 1)), "axis", integer(1));
  case 2: // the row for each
    return call("tanh",
                sign("add", value(type, depth - 1), value(tensor("f32", {columns}), depth - 1)));
  case 3: {
    ExprPointer joined =
        with(call("concat", value(type, depth - 1), value(type, depth - 1)), "axis", integer(1));
    ExprPointer cut =
        with(with(call("slice", std::move(joined)), "starts", integers({0, below(2)})), "steps",
             integers({1, 1 + below(2)}));
    return rows == "n" ? elementwise(type, depth) : ascribe(std::move(cut), type);
  }
  default:
    return with(call("reverse", value(type, depth - 1)), "axes", integers({below(2)}));
  }
}

ExprPointer Generator::realValue(const Type &type, int depth) {
  if (chance(50))
    return elementwise(type, depth);
  return type.dims.empty()       ? scalarValue(depth)
         : type.dims.size() == 1 ? rowValue(type, depth)
                                 : matrixValue(type, depth);
}

} // namespace tensmith::random_programs
