// Reference evaluation of comprehensions.
//
// Floats are computed in double precision and rounded when a statement is done; integers wrap at
// the width of their type. A whole statement reads old values: its target is replaced at the end.
// Conditions are lazy: what stands behind an untaken `?` or a decided `&&` is not read.
#include "reference/comprehension/Evaluate.h"

#include "reference/ScalarFunctions.h"
#include "reference/Workspace.h"
#include "reference/comprehension/Affine.h"

#include <algorithm>
#include <cmath>

namespace tensmith::comprehension {
namespace {

constexpr double kMostPoints = 1e15; // of a statement

struct Number {
  double real = 0;
  int64_t whole = 0; // of U64 its two's complement
};

bool isUnsigned64(DataType type) { return type == DataType::U64; }

int64_t wrapped(int64_t value, DataType type) {
  if (type == DataType::Bool)
    return value != 0;
  int bits = info(type).bits;
  if (bits >= 64)
    return value;
  uint64_t cut = uint64_t(value) << (64 - bits);
  return info(type).kind == TypeClass::Signed ? int64_t(cut) >> (64 - bits)
                                              : int64_t(cut >> (64 - bits));
}

double rounded(double value, DataType type) {
  if (type == DataType::F64)
    return value;
  if (type == DataType::F32)
    return float(value);
  HostTensor one(type, {1});
  one.setDouble(0, value);
  return one.getDouble(0);
}

/// Toward zero, to the nearest number of the type where it is beyond; NaN is 0.
int64_t wholeOf(double value, DataType type) {
  if (std::isnan(value))
    return 0;
  int bits = info(type).bits;
  if (info(type).kind != TypeClass::Signed) {
    double limit = std::ldexp(1.0, bits);
    return value <= 0       ? 0
           : value >= limit ? int64_t(bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1)
                            : int64_t(uint64_t(value));
  }
  double limit = std::ldexp(1.0, bits - 1);
  int64_t most = bits == 64 ? INT64_MAX : (int64_t(1) << (bits - 1)) - 1;
  return value >= limit ? most : value < -limit ? -most - 1 : int64_t(value);
}

Number cast(Number x, DataType from, DataType to) {
  Number made;
  if (isFloat(to)) {
    double value = isFloat(from)        ? x.real
                   : isUnsigned64(from) ? double(uint64_t(x.whole))
                                        : double(x.whole);
    made.real = rounded(value, to);
    return made;
  }
  if (to == DataType::Bool)
    made.whole = isFloat(from) ? x.real != 0 : x.whole != 0;
  else
    made.whole = isFloat(from) ? wholeOf(x.real, to) : wrapped(x.whole, to);
  return made;
}

template <typename T> bool compares(const std::string &sign, T a, T b) {
  return sign == "=="   ? a == b
         : sign == "!=" ? a != b
         : sign == "<"  ? a < b
         : sign == "<=" ? a <= b
         : sign == ">"  ? a > b
                        : a >= b;
}

template <typename T> T floorDivided(T a, T b) {
  T r = reference::FloorRemainder()(a, b);
  return reference::Divide()(T(reference::wordOf(a) - reference::wordOf(r)), b);
}

template <typename T> T arithmetic(const std::string &sign, T a, T b) {
  using namespace reference;
  switch (sign[0]) {
  case '+':
    return Add()(a, b);
  case '-':
    return Subtract()(a, b);
  case '*':
    return Multiply()(a, b);
  case '%':
    return FloorRemainder()(a, b);
  case '/':
    if constexpr (std::is_same_v<T, double>)
      return a / b;
    else
      return floorDivided(a, b);
  default:
    return sign == "min" ? Minimum()(a, b) : Maximum()(a, b);
  }
}

class Evaluator {
public:
  Evaluator(const Function &function, std::span<const HostTensor> operands,
            std::optional<size_t> statement)
      : function_(function), tensors_(function.tensors.size()), sizes_(function.sizes.size()) {
    std::vector<size_t> numbers = operandsOf(function, statement);
    if (numbers.size() != operands.size()) {
      fail("'" + function.name + "' takes " + counted(numbers.size(), "input") + ", not " +
           std::to_string(operands.size()));
      return;
    }
    for (size_t i = 0; i < numbers.size(); ++i)
      bind(numbers[i], operands[i]);
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const SizeVariable &size = function.sizes[i];
      if (status_.ok() && tensors_[size.tensor].type() != DataType::Undefined)
        sizes_[i] = tensors_[size.tensor].shape()[size.dim];
    }
    for (size_t number : numbers)
      checkExtents(number);
  }

  Result<std::vector<HostTensor>> run(std::optional<size_t> statement) {
    if (!statement)
      check(SIZE_MAX);
    for (size_t i = statement.value_or(0);
         i < (statement ? *statement + 1 : function_.statements.size()) && status_.ok(); ++i) {
      check(i);
      if (status_.ok())
        evaluate(function_.statements[i]);
    }
    if (!status_.ok())
      return status_;
    return std::move(tensors_);
  }

private:
  void fail(std::string message) {
    if (status_.ok())
      status_ = invalidArgument(std::move(message));
  }
  void fail(Place place, const std::string &message) {
    fail(std::to_string(place.line) + ":" + std::to_string(place.column) + ": " + message);
  }

  void bind(size_t number, const HostTensor &given) {
    const Tensor &tensor = function_.tensors[number];
    if (given.type() != tensor.type)
      fail("'" + tensor.name + "' is of " + typeName(tensor.type) + ", not of " +
           typeName(given.type()));
    else if (size_t(given.rank()) != tensor.extents.size())
      fail("'" + tensor.name + "' has " + counted(tensor.extents.size(), "dimension") + ", not " +
           std::to_string(given.rank()));
    tensors_[number] = given;
  }

  void checkExtents(size_t number) {
    const Tensor &tensor = function_.tensors[number];
    for (size_t dim = 0; status_.ok() && dim < tensor.extents.size(); ++dim) {
      int64_t size = integer(*tensor.extents[dim]), given = tensors_[number].shape()[dim];
      if (size != given)
        fail("'" + tensor.name + "' has the size " + std::to_string(given) + " along dimension " +
             std::to_string(dim) + ", where " + print(*tensor.extents[dim]) + " is " +
             std::to_string(size));
    }
  }

  void check(size_t statement) {
    for (const Requirement &one : function_.requirements) {
      if (one.statement != statement || !status_.ok())
        continue;
      bool isEmpty = std::any_of(one.extents.begin(), one.extents.end(),
                                 [&](const ExprRef &extent) { return integer(*extent) <= 0; });
      int64_t a = integer(*one.a), b = integer(*one.b);
      if (isEmpty || (one.isEqual ? a == b : a <= b))
        continue;
      std::string text = one.message;
      for (auto [key, value] : {std::pair("{a}", a), std::pair("{b}", b)})
        if (size_t at = text.find(key); at != text.npos)
          text.replace(at, 3, std::to_string(value));
      fail(std::move(text));
    }
  }

  // ---- whole numbers of sizes and ranges

  int64_t integer(const Expr &expr) {
    switch (expr.kind) {
    case Expr::Kind::Integer:
      return expr.integer;
    case Expr::Kind::Size:
      return sizes_[size_t(expr.integer)];
    case Expr::Kind::Index:
      return point_[size_t(expr.integer)];
    case Expr::Kind::Unary:
    case Expr::Kind::Binary:
      return integerOf(expr);
    default:
      return value(expr).whole;
    }
  }

  int64_t integerOf(const Expr &expr) {
    int64_t a = integer(*expr.parts[0]), made = 0;
    int64_t b = expr.kind == Expr::Kind::Unary ? 0 : integer(*expr.parts[1]);
    bool overflows = false;
    if (expr.kind == Expr::Kind::Unary)
      overflows = __builtin_sub_overflow(int64_t(0), a, &made);
    else if (expr.text == "+")
      overflows = __builtin_add_overflow(a, b, &made);
    else if (expr.text == "-")
      overflows = __builtin_sub_overflow(a, b, &made);
    else if (expr.text == "*")
      overflows = __builtin_mul_overflow(a, b, &made);
    else
      made = arithmetic(expr.text, a, b);
    if (overflows)
      fail(expr.place, "a size or an index is beyond the numbers of 64 bits");
    return overflows ? 0 : made;
  }

  // ---- values

  Number value(const Expr &expr) {
    Number made;
    switch (expr.kind) {
    case Expr::Kind::Integer:
    case Expr::Kind::Boolean:
      made.whole = expr.integer;
      return made;
    case Expr::Kind::Real:
      made.real = expr.number;
      return made;
    case Expr::Kind::Index:
    case Expr::Kind::Size:
      made.whole = integer(expr);
      return made;
    case Expr::Kind::Read:
      return read(expr);
    case Expr::Kind::Function: {
      double arguments[4] = {};
      for (size_t i = 0; i < expr.parts.size(); ++i)
        arguments[i] = value(*expr.parts[i]).real;
      made.real = findBuiltIn(expr.text)->evaluate(arguments);
      return made;
    }
    case Expr::Kind::Unary:
      return unary(expr);
    case Expr::Kind::Binary:
      return binary(expr);
    case Expr::Kind::Select:
      return value(*expr.parts[value(*expr.parts[0]).whole ? 1 : 2]);
    case Expr::Kind::Cast:
      return cast(value(*expr.parts[0]), expr.parts[0]->type, expr.type);
    default:
      return made;
    }
  }

  Number unary(const Expr &expr) {
    Number x = value(*expr.parts[0]);
    if (expr.text == "!")
      return {0, !x.whole};
    return {-x.real, wrapped(int64_t(-uint64_t(x.whole)), expr.type)};
  }

  Number binary(const Expr &expr) {
    const std::string &sign = expr.text;
    Number a = value(*expr.parts[0]);
    if (sign == "&&" || sign == "||")
      return bool(a.whole) == (sign == "||") ? a : value(*expr.parts[1]);
    Number b = value(*expr.parts[1]);
    DataType type = expr.parts[0]->type;
    if (expr.type == DataType::Bool) {
      bool holds = isFloat(type)        ? compares(sign, a.real, b.real)
                   : isUnsigned64(type) ? compares(sign, uint64_t(a.whole), uint64_t(b.whole))
                                        : compares(sign, a.whole, b.whole);
      return {0, holds};
    }
    if (isFloat(type))
      return {arithmetic(sign, a.real, b.real), 0};
    int64_t made = isUnsigned64(type)
                       ? int64_t(arithmetic(sign, uint64_t(a.whole), uint64_t(b.whole)))
                       : arithmetic(sign, a.whole, b.whole);
    return {0, wrapped(made, type)};
  }

  Number read(const Expr &expr) {
    const Tensor &tensor = function_.tensors[size_t(expr.integer)];
    const HostTensor &elements = tensors_[size_t(expr.integer)];
    int64_t offset = 0;
    for (size_t dim = 0; dim < expr.parts.size(); ++dim) {
      int64_t low = integer(*tensor.lows[dim]), size = elements.shape()[dim];
      int64_t index = integer(*expr.parts[dim]);
      if (index < low || index - low >= size) {
        fail(expr.place, tensor.name + " is read at index " + std::to_string(index) +
                             " along dimension " + std::to_string(dim) + ", outside of [" +
                             std::to_string(low) + ", " + std::to_string(low + size) + ")");
        return {};
      }
      offset = offset * size + index - low;
    }
    Number made;
    if (isFloat(tensor.type))
      made.real = elements.getDouble(offset);
    else
      made.whole = elements.getInt(offset);
    return made;
  }

  // ---- statements

  void evaluate(const Statement &statement) {
    const Tensor &target = function_.tensors[statement.target];
    point_.assign(statement.indices.size(), 0);
    Shape shape;
    std::vector<int64_t> lows;
    for (size_t dim = 0; dim < statement.rank; ++dim) {
      lows.push_back(integer(*target.lows[dim]));
      shape.push_back(integer(*target.extents[dim]));
      if (status_.ok() && shape.back() < 0)
        fail(statement.indices[dim].place, "the range of '" + statement.indices[dim].name +
                                               "' is from " + std::to_string(lows.back()) + " to " +
                                               std::to_string(lows.back() + shape.back()) +
                                               ", which is before it");
    }
    checkPoints(statement);
    if (!status_.ok())
      return;
    bool isReal = isFloat(target.type);
    HostTensor sums(isReal ? DataType::F64 : DataType::I64, shape);
    if (!sums.valid()) {
      status_ = Status(StatusCode::ResourceExhausted,
                       "no memory for '" + target.name + "', " + toString(shape));
      return;
    }
    start(statement, sums);
    points(statement, 0, [&] {
      int64_t offset = 0;
      for (size_t dim = 0; dim < shape.size(); ++dim)
        offset = offset * shape[dim] + point_[dim] - lows[dim];
      accumulate(statement, sums, offset, value(*statement.value));
    });
    if (!status_.ok())
      return;
    HostTensor result(target.type, shape);
    for (int64_t i = 0; i < sums.size() && result.valid(); ++i)
      isReal ? result.setDouble(i, sums.getDouble(i)) : result.setInt(i, sums.getInt(i));
    tensors_[statement.target] = std::move(result);
  }

  void checkPoints(const Statement &statement) {
    double points = 1;
    for (const Index &index : statement.indices)
      if (!hasIndices(*index.low) && !hasIndices(*index.high))
        points *= std::max(0.0, double(integer(*index.high)) - double(integer(*index.low)));
    if (points > kMostPoints)
      fail(statement.place, "this statement has more than 10^15 points");
  }

  /// Old values, or what the reduction gives of no elements.
  void start(const Statement &statement, HostTensor &sums) {
    DataType type = function_.tensors[statement.target].type;
    if (statement.readsTarget()) {
      const HostTensor &old = tensors_[statement.target];
      if (old.shape() != sums.shape())
        fail(statement.place, "the target has another shape here");
      for (int64_t i = 0; status_.ok() && i < sums.size(); ++i)
        isFloat(type) ? sums.setDouble(i, old.getDouble(i)) : sums.setInt(i, old.getInt(i));
      return;
    }
    double infinity = HUGE_VAL;
    Number first;
    if (statement.assignment == Assignment::Multiply)
      first = {1, 1};
    if (statement.assignment == Assignment::Minimum)
      first = {infinity, isUnsigned64(type) ? -1 : wholeOf(infinity, type)};
    if (statement.assignment == Assignment::Maximum)
      first = {-infinity, wholeOf(-infinity, type)};
    for (int64_t i = 0; i < sums.size(); ++i)
      isFloat(type) ? sums.setDouble(i, first.real) : sums.setInt(i, first.whole);
  }

  void accumulate(const Statement &statement, HostTensor &sums, int64_t offset, Number x) {
    static const std::string signs[] = {"", "+", "*", "min", "max"};
    const std::string &sign = signs[size_t(statement.assignment)];
    DataType type = function_.tensors[statement.target].type;
    if (isFloat(type)) {
      double old = sums.getDouble(offset);
      sums.setDouble(offset, sign.empty() ? x.real : arithmetic(sign, old, x.real));
      return;
    }
    int64_t old = sums.getInt(offset);
    int64_t made = isUnsigned64(type)
                       ? int64_t(sign.empty() ? uint64_t(x.whole)
                                              : arithmetic(sign, uint64_t(old), uint64_t(x.whole)))
                       : (sign.empty() ? x.whole : arithmetic(sign, old, x.whole));
    sums.setInt(offset, wrapped(made, type));
  }

  template <typename Visit> void points(const Statement &statement, size_t depth, Visit visit) {
    if (depth == statement.order.size())
      return visit();
    size_t number = statement.order[depth];
    const Index &index = statement.indices[number];
    int64_t low = integer(*index.low), high = integer(*index.high);
    for (int64_t i = low; i < high && status_.ok(); ++i) {
      point_[number] = i;
      points(statement, depth + 1, visit);
    }
  }

  const Function &function_;
  std::vector<HostTensor> tensors_;
  std::vector<int64_t> sizes_, point_;
  Status status_;
};

reference::Outcome evaluateComprehension(const reference::Invocation &invocation) {
  auto function =
      functionOf(invocation.attributes.string("text"), invocation.attributes.string("function"));
  if (!function.ok())
    return function.status();
  int64_t number = invocation.attributes.integer("statement", -1);
  std::optional<size_t> statement;
  if (number >= 0)
    statement = size_t(number);
  if (statement && *statement >= (*function)->statements.size())
    return invalidArgument("'" + (*function)->name + "' has no statement " +
                           std::to_string(number));
  std::string name = invocation.attributes.string("output");
  size_t result = (*function)->results[0];
  if (statement)
    result = (*function)->statements[*statement].target;
  else if (auto named = (*function)->result(name); named && !name.empty())
    result = *named;
  else if (!name.empty())
    return invalidArgument("'" + (*function)->name + "' has no result '" + name + "'");
  auto tensors = evaluate(**function, invocation.operands, statement);
  if (!tensors.ok())
    return tensors.status();
  std::vector<HostTensor> results;
  results.push_back(std::move((*tensors)[result]));
  return results;
}

constexpr reference::Entry kEntries[] = {{"comprehension", evaluateComprehension}};

} // namespace

Result<std::vector<HostTensor>> evaluate(const Function &function,
                                         std::span<const HostTensor> operands,
                                         std::optional<size_t> statement) {
  return Evaluator(function, operands, statement).run(statement);
}

} // namespace tensmith::comprehension

namespace tensmith::reference {
std::span<const Entry> comprehensionEntries() { return comprehension::kEntries; }
} // namespace tensmith::reference
