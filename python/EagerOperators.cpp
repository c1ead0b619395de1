// Element-wise operators: promotion, Python's numbers beside tensors, and the methods that Python
// calls for its operators.
#include "python/Eager.h"

#include <unordered_map>

namespace tensmith::python {
namespace {

using eager::Operator;

/// Which types an operator takes its operands in.
enum class Domain : uint8_t {
  Any,     // the promoted type
  Numbers, // booleans become int8
  Floats,  // booleans and integers become float64
  Truths,  // numbers become whether they differ from zero
};

struct Function {
  const Operator *op;
  Domain domain;
  Attributes attributes;
  const Operator *ofBooleans = nullptr; // where booleans have one of their own
};

DataType typeIn(Domain domain, DataType type) {
  if (domain == Domain::Truths)
    return DataType::Bool;
  if (domain == Domain::Floats && (type == DataType::Bool || isInteger(type)))
    return DataType::F64;
  return domain == Domain::Numbers && type == DataType::Bool ? DataType::I8 : type;
}

Array applyTo(const Function &function, Array *operands, size_t count, size_t first = 0) {
  DataType type = operands[first].type();
  for (size_t k = first + 1; k < count; ++k) {
    std::optional<DataType> promoted = eager::promotedType(type, operands[k].type());
    if (!promoted)
      throw nb::type_error("the operands' types do not go together");
    type = *promoted;
  }
  type = typeIn(function.domain, type);
  for (size_t k = first; k < count; ++k)
    if (operands[k].type() != type)
      operands[k] = take(eager::cast(operands[k], type));
  bool isOfBooleans = type == DataType::Bool && function.ofBooleans;
  return apply(isOfBooleans ? *function.ofBooleans : *function.op, function.attributes,
               {operands, count});
}

/// False where it is nothing that an operator takes.
bool isOperand(nb::handle value) {
  return nb::isinstance<Tensor>(value) || isScalar(value) || isNumpy(value);
}

/// A tensor's or NumPy array's; none of anything else.
Array arrayOf(nb::handle value) {
  if (nb::isinstance<Tensor>(value))
    return nb::inst_ptr<Tensor>(value)->array;
  return !isScalar(value) && isNumpy(value) ? nb::cast<Tensor>(tensorOf(value)).array : Array();
}

/// Operands as arrays, numbers beside the first tensor.
void loadOperands(std::span<const nb::handle> values, Array *operands, size_t first = 0) {
  DataType beside = DataType::Undefined;
  for (size_t k = 0; k < values.size(); ++k) {
    operands[k] = arrayOf(values[k]);
    if (operands[k] && k >= first)
      beside = beside == DataType::Undefined
                   ? operands[k].type()
                   : eager::promotedType(beside, operands[k].type()).value_or(beside);
  }
  for (size_t k = 0; k < values.size(); ++k)
    if (!operands[k]) {
      if (!isScalar(values[k]))
        throw nb::type_error(
            ("operands are tensors, NumPy arrays, and numbers beside them, but one is a " +
             nb::cast<std::string>(values[k].type().attr("__name__")))
                .c_str());
      operands[k] = scalarArray(values[k], k < first ? DataType::Undefined : beside);
    }
}

nb::object wrapped(Array array) { return nb::cast(Tensor{std::move(array)}); }

nb::object binary(const Function &function, nb::handle a, nb::handle b) {
  const nb::handle values[] = {a, b};
  Array operands[2];
  loadOperands(values, operands);
  return wrapped(applyTo(function, operands, 2));
}

const Function &functionNamed(const std::string &name) {
  struct Row {
    const char *name, *op;
    Domain domain = Domain::Any;
    int64_t left = -1;
    const char *ofBooleans = nullptr;
  };
  static constexpr Row kRows[] = {
      {"abs", "abs"},
      {"acos", "acos", Domain::Floats},
      {"acosh", "acosh", Domain::Floats},
      {"add", "add"},
      {"asin", "asin", Domain::Floats},
      {"asinh", "asinh", Domain::Floats},
      {"atan", "atan", Domain::Floats},
      {"atan2", "atan2", Domain::Floats},
      {"atanh", "atanh", Domain::Floats},
      {"bitwise_and", "bitwise_and"},
      {"bitwise_left_shift", "bit_shift", Domain::Numbers, 1},
      {"bitwise_invert", "bitwise_not", Domain::Any, -1, "not"},
      {"bitwise_or", "bitwise_or"},
      {"bitwise_right_shift", "bit_shift", Domain::Numbers, 0},
      {"bitwise_xor", "bitwise_xor"},
      {"cbrt", "cbrt", Domain::Floats},
      {"ceil", "ceil"},
      {"conj", "conj"},
      {"copysign", "copysign", Domain::Floats},
      {"cos", "cos", Domain::Floats},
      {"cosh", "cosh", Domain::Floats},
      {"divide", "div", Domain::Floats},
      {"equal", "equal"},
      {"erf", "erf", Domain::Floats},
      {"exp", "exp", Domain::Floats},
      {"exp2", "exp2", Domain::Floats},
      {"expm1", "expm1", Domain::Floats},
      {"floor", "floor"},
      {"floor_divide", "floor_divide", Domain::Numbers},
      {"greater", "greater"},
      {"greater_equal", "greater_or_equal"},
      {"hypot", "hypot", Domain::Floats},
      {"imag", "imag"},
      {"isfinite", "isfinite"},
      {"isinf", "isinf"},
      {"isnan", "isnan"},
      {"less", "less"},
      {"less_equal", "less_or_equal"},
      {"log", "log", Domain::Floats},
      {"log10", "log10", Domain::Floats},
      {"log1p", "log1p", Domain::Floats},
      {"log2", "log2", Domain::Floats},
      {"logaddexp", "logaddexp", Domain::Floats},
      {"logical_and", "and", Domain::Truths},
      {"logical_not", "logical_not", Domain::Any, -1, "not"},
      {"logical_or", "or", Domain::Truths},
      {"logical_xor", "xor", Domain::Truths},
      {"maximum", "max"},
      {"minimum", "min"},
      {"multiply", "mul"},
      {"negative", "neg", Domain::Numbers},
      {"nextafter", "nextafter", Domain::Floats},
      {"not_equal", "not_equal"},
      {"pow", "pow", Domain::Numbers},
      {"real", "real"},
      {"reciprocal", "reciprocal", Domain::Floats},
      {"remainder", "remainder", Domain::Numbers},
      {"round", "round"},
      {"sigmoid", "sigmoid", Domain::Floats},
      {"sign", "sign", Domain::Numbers},
      {"signbit", "signbit"},
      {"sin", "sin", Domain::Floats},
      {"sinh", "sinh", Domain::Floats},
      {"sqrt", "sqrt", Domain::Floats},
      {"square", "square", Domain::Numbers},
      {"subtract", "sub"},
      {"tan", "tan", Domain::Floats},
      {"tanh", "tanh", Domain::Floats},
      {"trunc", "trunc"},
  };
  static const auto &table = *[] {
    auto *all = new std::unordered_map<std::string, Function>();
    for (const Row &row : kRows) {
      Function function{eager::findOperator(row.op), row.domain, {}};
      if (row.ofBooleans)
        function.ofBooleans = eager::findOperator(row.ofBooleans);
      if (row.left >= 0)
        function.attributes.set("left", row.left);
      all->emplace(row.name, function);
    }
    return all;
  }();
  auto found = table.find(name);
  if (found == table.end())
    throw nb::value_error(("there is no element-wise function '" + name + "'").c_str());
  return found->second;
}

/// `function(x)` and `function(x, y)`, as callables.
struct Unary {
  const Function *function;
  nb::object operator()(nb::handle x) const {
    const nb::handle values[] = {x};
    Array operand[1];
    if (!nb::isinstance<Tensor>(x))
      throw nb::type_error("the operand is not a tensor");
    loadOperands(values, operand);
    return wrapped(applyTo(*function, operand, 1));
  }
};
struct Binary {
  const Function *function;
  nb::object operator()(nb::handle a, nb::handle b) const { return binary(*function, a, b); }
};

nb::object where(nb::handle condition, nb::handle a, nb::handle b) {
  static const Function function{eager::findOperator("where"), Domain::Any, {}};
  const nb::handle values[] = {condition, a, b};
  Array operands[3];
  loadOperands(values, operands, 1);
  if (operands[0].type() != DataType::Bool)
    operands[0] = take(eager::cast(operands[0], DataType::Bool));
  return wrapped(applyTo(function, operands, 3, 1));
}

void defineOperator(nb::class_<Tensor> &tensor, const char *method, const char *function,
                    bool reflected = false) {
  const Function *found = &functionNamed(function);
  tensor.def(
      method,
      [found, reflected](nb::handle self, nb::handle other) -> nb::object {
        if (!isOperand(other))
          return nb::borrow(Py_NotImplemented);
        return reflected ? binary(*found, other, self) : binary(*found, self, other);
      },
      nb::arg("other").none());
}

/// x += y: the result in x's memory, so that views of x see it.
void defineInPlace(nb::class_<Tensor> &tensor, const char *method, const char *function) {
  const Function *found = &functionNamed(function);
  tensor.def(
      method,
      [found](nb::handle self, nb::handle other) -> nb::object {
        if (!isOperand(other))
          return nb::borrow(Py_NotImplemented);
        nb::object result = binary(*found, self, other);
        const Array &from = nb::inst_ptr<Tensor>(result)->array;
        const Array &to = nb::inst_ptr<Tensor>(self)->array;
        if (from.shape() != to.shape())
          throw nb::value_error("an operation in place can't change its tensor's shape");
        if (from.type() != to.type())
          throw nb::type_error(("the result is of type " + std::string(name(from.type())) +
                                ", which an operation in place can't store as " +
                                std::string(name(to.type())))
                                   .c_str());
        check(eager::assign(to, from));
        return nb::borrow(self);
      },
      nb::arg("other").none());
}

} // namespace

void bindOperators(nb::module_ &m, nb::class_<Tensor> &tensor) {
  nb::class_<Unary>(m, "Unary").def("__call__", &Unary::operator());
  nb::class_<Binary>(m, "Binary").def("__call__", &Binary::operator());
  m.def("unary", [](const std::string &name) { return Unary{&functionNamed(name)}; });
  m.def("binary", [](const std::string &name) { return Binary{&functionNamed(name)}; });
  m.def("where", where);
  struct Method {
    const char *name, *function;
  };
  for (auto [name, function] : std::initializer_list<Method>{{"add", "add"},
                                                             {"sub", "subtract"},
                                                             {"mul", "multiply"},
                                                             {"truediv", "divide"},
                                                             {"floordiv", "floor_divide"},
                                                             {"mod", "remainder"},
                                                             {"pow", "pow"},
                                                             {"and", "bitwise_and"},
                                                             {"or", "bitwise_or"},
                                                             {"xor", "bitwise_xor"},
                                                             {"lshift", "bitwise_left_shift"},
                                                             {"rshift", "bitwise_right_shift"}}) {
    defineOperator(tensor, ("__" + std::string(name) + "__").c_str(), function);
    defineOperator(tensor, ("__r" + std::string(name) + "__").c_str(), function, true);
    defineInPlace(tensor, ("__i" + std::string(name) + "__").c_str(), function);
  }
  for (auto [name, function] : std::initializer_list<Method>{{"__eq__", "equal"},
                                                             {"__ne__", "not_equal"},
                                                             {"__lt__", "less"},
                                                             {"__le__", "less_equal"},
                                                             {"__gt__", "greater"},
                                                             {"__ge__", "greater_equal"}})
    defineOperator(tensor, name, function);
  for (auto [name, function] : std::initializer_list<Method>{
           {"__abs__", "abs"}, {"__neg__", "negative"}, {"__invert__", "bitwise_invert"}}) {
    Unary unary{&functionNamed(function)};
    tensor.def(name, [unary](nb::handle self) { return unary(self); });
  }
  tensor.def("__pos__", [](nb::handle self) {
    const Array &from = nb::inst_ptr<Tensor>(self)->array;
    Array result = take(Array::allocate(from.type(), from.shape(), from.device()));
    check(eager::assign(result, from));
    return wrapped(result);
  });
}

} // namespace tensmith::python
