// The parts of a nest, its verification and its text; see Nest.h.
#include "compiler/nest/Nest.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>
#include <utility>

namespace tensmith::nest {

int64_t Affine::coefficient(const std::string &name) const {
  auto found = terms.find(name);
  return found == terms.end() ? 0 : found->second;
}

Affine operator+(Affine a, const Affine &b) {
  a.constant += b.constant;
  for (const auto &[name, factor] : b.terms)
    if ((a.terms[name] += factor) == 0)
      a.terms.erase(name);
  return a;
}

Affine operator-(Affine a, const Affine &b) { return std::move(a) + (-1) * b; }

Affine operator*(int64_t factor, Affine a) {
  if (factor == 0)
    return {};
  a.constant *= factor;
  for (auto &[name, coefficient] : a.terms)
    coefficient *= factor;
  return a;
}

Affine substituted(const Affine &affine, const std::map<std::string, Affine> &by) {
  Affine result = affine.constant;
  for (const auto &[name, factor] : affine.terms) {
    auto found = by.find(name);
    result = result + factor * (found == by.end() ? Affine(name) : found->second);
  }
  return result;
}

std::string text(const Affine &affine) {
  std::string result;
  auto add = [&](int64_t factor, const std::string &what) {
    std::string sign = factor < 0 ? "-" : "+";
    result += result.empty() ? (factor < 0 ? "-" : "") : " " + sign + " ";
    std::string magnitude = std::to_string(factor < 0 ? 0 - uint64_t(factor) : uint64_t(factor));
    result += what.empty() ? magnitude : magnitude == "1" ? what : magnitude + " * " + what;
  };
  for (const auto &[name, factor] : affine.terms)
    add(factor, name);
  if (affine.constant != 0 || result.empty())
    add(affine.constant, "");
  return result;
}

Constraint atLeast(const Affine &a, const Affine &b) { return {a - b}; }
Constraint less(const Affine &a, const Affine &b) { return {b - a - 1}; }
Constraint equal(const Affine &a, const Affine &b) { return {a - b, true}; }
std::vector<Constraint> within(const Affine &name, const Affine &low, const Affine &high) {
  return {atLeast(name, low), less(name, high)};
}
std::string text(const Constraint &constraint) {
  return text(constraint.value) + (constraint.isEquality ? " = 0" : " >= 0");
}

Expr constant(DataType type, double number) {
  Expression result{Operation::Constant, type};
  result.number = number;
  result.integer = int64_t(number);
  return std::make_shared<Expression>(std::move(result));
}

Expr wholeNumber(DataType type, int64_t number) {
  Expression result{Operation::Constant, type};
  result.number = double(number);
  result.integer = number;
  return std::make_shared<Expression>(std::move(result));
}

Expr both(const Expr &a, const Expr &b) { return !a ? b : !b ? a : apply(Operation::And, {a, b}); }

Expr identity(Reduction reduction, DataType type) {
  Expression result{Operation::Constant, type};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  bool isSigned = info(type).kind == TypeClass::Signed;
  int bits = info(type).bits;
  int64_t greatest = isSigned ? int64_t((uint64_t(1) << (bits - 1)) - 1) : -1;
  if (reduction == Reduction::Multiply || reduction == Reduction::And)
    result.number = 1, result.integer = 1;
  if (reduction == Reduction::Minimum)
    result.number = kInfinity, result.integer = greatest;
  if (reduction == Reduction::Maximum)
    result.number = -kInfinity, result.integer = isSigned ? -greatest - 1 : 0;
  return std::make_shared<Expression>(std::move(result));
}

Expr index(Affine affine) {
  Expression result{Operation::Index, DataType::I64};
  result.affine = std::move(affine);
  return std::make_shared<Expression>(std::move(result));
}

Expr load(const Tensor &tensor, std::vector<Expr> indices) {
  Expression result{Operation::Load, tensor.type, std::move(indices)};
  result.tensor = tensor.name;
  return std::make_shared<Expression>(std::move(result));
}

static std::vector<Expr> indicesOf(std::vector<Affine> indices) {
  std::vector<Expr> result;
  for (Affine &each : indices)
    result.push_back(index(std::move(each)));
  return result;
}

Expr load(const Tensor &tensor, std::vector<Affine> indices) {
  return load(tensor, indicesOf(std::move(indices)));
}

Expr read(const Tensor &tensor, std::vector<Affine> indices, std::vector<Constraint> guard,
          Expr otherwise) {
  Expression result{Operation::Load, tensor.type, indicesOf(std::move(indices))};
  result.tensor = tensor.name;
  result.guard = std::move(guard);
  if (!result.guard.empty())
    result.operands.push_back(std::move(otherwise));
  return std::make_shared<Expression>(std::move(result));
}

static bool isComparison(Operation operation) {
  return operation >= Operation::Less && operation <= Operation::NotEqual;
}

Expr apply(Operation operation, std::vector<Expr> operands) {
  DataType type = operands[operation == Operation::Select ? 1 : 0]->type;
  if (isComparison(operation))
    type = DataType::Bool;
  return std::make_shared<Expression>(Expression{operation, type, std::move(operands)});
}

Expr cast(DataType type, Expr value) {
  return std::make_shared<Expression>(Expression{Operation::Cast, type, {std::move(value)}});
}

Expr checked(Expr value, Expr condition, std::string message, Expr told) {
  DataType type = value->type;
  Expression result{
      Operation::Check, type, {std::move(value), std::move(condition), std::move(told)}};
  result.reports[0] = {std::move(message)};
  return std::make_shared<Expression>(std::move(result));
}

Expr byOperator(std::string name, std::vector<Expr> operands) {
  Expression result{Operation::Operator, operands[0]->type, std::move(operands)};
  result.name = std::move(name);
  return std::make_shared<Expression>(std::move(result));
}

Expr byFunction(std::shared_ptr<const ScalarFunction> function, DataType type,
                std::vector<Expr> operands) {
  Expression result{Operation::Function, type, std::move(operands)};
  result.function = std::move(function);
  return std::make_shared<Expression>(std::move(result));
}

size_t rankOf(const Expression &load) {
  return load.operands.size() - (load.guard.empty() ? 0 : 1) - (load.isConditional ? 1 : 0);
}

namespace {

/// Rebuilds expressions from their operands on; those that are one object stay one.
class Rebuilder {
public:
  /// Changes a copy whose operands are done; null: it stays.
  using Change = std::function<Expr(Expression &copy)>;
  explicit Rebuilder(Change change) : change_(std::move(change)) {}

  Expr of(const Expr &e) {
    auto found = done_.find(e.get());
    if (found != done_.end())
      return found->second;
    Expression copy = *e;
    bool isNew = false;
    for (Expr &operand : copy.operands) {
      Expr own = of(operand);
      isNew |= own != operand;
      operand = std::move(own);
    }
    Expr result = change_(copy);
    if (!result)
      result = isNew ? std::make_shared<Expression>(std::move(copy)) : e;
    return done_[e.get()] = result;
  }

private:
  Change change_;
  std::map<const Expression *, Expr> done_;
};

} // namespace

Expr withLoads(const Expr &expression, const std::function<Expr(const Expression &)> &replace) {
  return Rebuilder([&](Expression &copy) {
           return copy.operation == Operation::Load ? replace(copy) : nullptr;
         })
      .of(expression);
}

Expr substituted(const Expr &expression, const std::map<std::string, Affine> &by) {
  return Rebuilder([&](Expression &copy) -> Expr {
           if (copy.operation != Operation::Index && copy.guard.empty())
             return nullptr;
           copy.affine = substituted(copy.affine, by);
           for (Constraint &each : copy.guard)
             each.value = substituted(each.value, by);
           return std::make_shared<Expression>(copy);
         })
      .of(expression);
}

const Tensor *Nest::tensor(const std::string &name) const {
  auto found = std::find_if(tensors.begin(), tensors.end(),
                            [&](const Tensor &each) { return each.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

const Statement *Nest::statement(const std::string &name) const {
  auto found = std::find_if(statements.begin(), statements.end(),
                            [&](const Statement &each) { return each.name == name; });
  return found == statements.end() ? nullptr : &*found;
}

Statement *Nest::statement(const std::string &name) {
  return const_cast<Statement *>(std::as_const(*this).statement(name));
}

namespace {

constexpr size_t kMostStatements = 64, kMostIterators = 12, kMostConstraints = 64;
constexpr size_t kMostOfExpression = 4096, kDeepest = 256;
constexpr int64_t kMostCoefficient = int64_t(1) << 40;

bool isIdentifier(const std::string &name) {
  auto isWord = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !name.empty() && name.size() <= 64 && !std::isdigit((unsigned char)(name[0])) &&
         std::all_of(name.begin(), name.end(), isWord);
}

/// One statement's checks; the first problem counts.
struct Verifier {
  const Nest &nest;
  std::set<std::string> names = {}; // of what affine expressions may be over
  std::string problem = {};
  size_t nodes = 0;
  std::set<const Expression *> seen = {};

  bool fail(std::string what) {
    if (problem.empty())
      problem = std::move(what);
    return false;
  }

  bool affine(const Affine &value) {
    auto isLarge = [](int64_t n) { return n > kMostCoefficient || n < -kMostCoefficient; };
    for (const auto &[name, factor] : value.terms) {
      if (!names.count(name))
        return fail("'" + name + "' is neither an iterator of it nor a parameter");
      if (isLarge(factor))
        return fail("the factor of '" + name + "' is beyond 2^40");
    }
    return !isLarge(value.constant) || fail("a constant of an index is beyond 2^40");
  }
  bool constraints(const std::vector<Constraint> &all) {
    if (all.size() > kMostConstraints)
      return fail("it has more than 64 constraints in one place");
    return std::all_of(all.begin(), all.end(), [&](const auto &c) { return affine(c.value); });
  }
  bool access(const std::string &name, size_t rank, const std::vector<Expr> &indices,
              size_t depth) {
    const Tensor *tensor = nest.tensor(name);
    if (!tensor)
      return fail("there is no tensor '" + name + "'");
    if (tensor->extents.size() != rank)
      return fail("tensor '" + name + "' has " + std::to_string(tensor->extents.size()) +
                  " dimensions, and " + std::to_string(rank) + " indices are given");
    for (size_t dim = 0; dim < rank; ++dim)
      if (!indices[dim] || indices[dim]->type != DataType::I64)
        return fail("an index of '" + name + "' is not of i64");
      else if (!expression(*indices[dim], depth + 1))
        return false;
    return true;
  }
  bool expression(const Expression &e, size_t depth) {
    if (depth > kDeepest || ++nodes > kMostOfExpression)
      return fail("its expression is larger than 4096 operations or deeper than 256");
    if (!seen.insert(&e).second)
      return true;
    if (e.operation == Operation::Index)
      return affine(e.affine);
    if (e.operation == Operation::Load) {
      if (e.operands.size() < size_t(!e.guard.empty()) + size_t(e.isConditional))
        return fail("a guarded load has no other value, or a conditional one no condition");
      size_t rank = rankOf(e);
      if (!constraints(e.guard) || !access(e.tensor, rank, e.operands, depth))
        return false;
      if (nest.tensor(e.tensor)->type != e.type)
        return fail("a load of '" + e.tensor + "' has another type than the tensor");
      if (e.isConditional && e.operands.back()->type != DataType::Bool)
        return fail("a condition is no bool");
      return std::all_of(e.operands.begin() + int64_t(rank), e.operands.end(),
                         [&](const Expr &own) {
                           return own ? expression(*own, depth + 1) : fail("an operand is missing");
                         });
    }
    for (const Expr &operand : e.operands)
      if (!operand)
        return fail("an operand is missing");
      else if (!expression(*operand, depth + 1))
        return false;
    return types(e);
  }
  /// Of operations on values, whose operands were verified.
  bool types(const Expression &e) {
    auto count = [&](size_t n) {
      return e.operands.size() == n || fail("wrong number of operands");
    };
    auto same = [&] {
      for (const Expr &operand : e.operands)
        if (operand->type != e.operands[0]->type)
          return fail("operands of one operation have types " +
                      std::string(name(e.operands[0]->type)) + " and " +
                      std::string(name(operand->type)) + "; cast one of them");
      return true;
    };
    using enum Operation;
    if (e.operation == Constant)
      return count(0);
    if (e.operation == Cast)
      return count(1);
    if (e.operation == Select)
      return count(3) &&
             (e.operands[0]->type == DataType::Bool || fail("a condition is no bool")) &&
             (e.operands[1]->type == e.operands[2]->type || fail("the two values have two types"));
    if (e.operation == Check)
      return count(3) &&
             ((e.operands[1]->type == DataType::Bool && e.operands[2]->type == DataType::I64) ||
              fail("a check has no bool, or tells no i64"));
    if (e.operation == Operation::Function)
      return !e.operands.empty() || fail("a function has no operands");
    if (e.operation == Operator)
      return (!e.operands.empty() || fail("an operator has no operands")) && same();
    bool isUnary = (e.operation >= Negate && e.operation <= RoundEven) || e.operation == Not;
    return count(isUnary ? 1 : 2) && same();
  }
};

bool hasPositions(const Nest &nest, std::string &problem) {
  size_t with = std::count_if(nest.statements.begin(), nest.statements.end(),
                              [](const Statement &each) { return !each.position.empty(); });
  if (with == 0)
    return true;
  std::set<std::vector<int64_t>> all;
  for (const Statement &each : nest.statements)
    if (each.position.size() != each.iterators.size() + 1 || !all.insert(each.position).second)
      problem = "statement '" + each.name + "': its position needs a number more than it has " +
                "iterators, and must be its own; give all statements positions, or none";
  return problem.empty();
}

std::string problemOf(const Nest &nest) {
  if (nest.statements.empty() || nest.statements.size() > kMostStatements)
    return "it has " + std::to_string(nest.statements.size()) + " statements; 1 to 64 are possible";
  Verifier global{nest};
  std::set<std::string> taken;
  auto declare = [&](const std::string &name) {
    if (!isIdentifier(name))
      global.fail("'" + name + "' is no identifier");
    else if (!taken.insert(name).second)
      global.fail("'" + name + "' is declared twice");
  };
  for (const Parameter &each : nest.parameters) {
    declare(each.name);
    global.names.insert(each.name);
  }
  for (const Tensor &each : nest.tensors) {
    declare(each.name);
    for (const Affine &extent : each.extents)
      global.affine(extent);
  }
  global.constraints(nest.context);
  for (const Statement &each : nest.statements)
    declare(each.name);
  return global.problem;
}

std::string problemOf(const Nest &nest, const Statement &statement) {
  Verifier verifier{nest};
  for (const Parameter &each : nest.parameters)
    verifier.names.insert(each.name);
  if (statement.iterators.size() > kMostIterators)
    return "it has more than 12 iterators";
  for (const std::string &name : statement.iterators)
    if (!isIdentifier(name) || !verifier.names.insert(name).second)
      return "iterator '" + name + "' is no identifier, or taken";
  if (!statement.value)
    return "it has no value";
  verifier.constraints(statement.domain);
  verifier.access(statement.tensor, statement.indices.size(), statement.indices, 0);
  verifier.expression(*statement.value, 0);
  if (!verifier.problem.empty())
    return verifier.problem;
  const Tensor &target = *nest.tensor(statement.tensor);
  if (target.role == Tensor::Role::Input)
    return "it writes the input '" + target.name + "'";
  if (target.type != statement.value->type)
    return "its value is of " + std::string(name(statement.value->type)) + ", and '" + target.name +
           "' of " + std::string(name(target.type)) + "; cast it";
  return {};
}

} // namespace

Status verify(const Nest &nest) {
  std::string problem = problemOf(nest);
  if (problem.empty())
    hasPositions(nest, problem);
  for (const Statement &each : nest.statements)
    if (problem.empty())
      if (std::string own = problemOf(nest, each); !own.empty())
        problem = "statement '" + each.name + "': " + own;
  return problem.empty() ? Status() : invalidArgument("nest '" + nest.name + "': " + problem);
}

static const char *const kOperationNames[] = {
    "constant", "index",    "load", "operator", "function", "+",   "-",      "*",    "/",    "%",
    "floordiv", "floormod", "min",  "max",      "pow",      "neg", "abs",    "exp",  "log",  "sqrt",
    "rsqrt",    "sin",      "cos",  "tan",      "tanh",     "erf", "floor",  "ceil", "rint", "<",
    "<=",       "==",       "!=",   "and",      "or",       "not", "select", "cast", "check"};

static std::string list(const std::vector<Expr> &all, const char *open, const char *close);

std::string text(const Expression &e) {
  if (e.operation == Operation::Constant) {
    std::string number = std::to_string(e.number);
    return info(e.type).kind == TypeClass::Float ? number : std::to_string(e.integer);
  }
  if (e.operation == Operation::Index)
    return text(e.affine);
  if (e.operation == Operation::Load) {
    std::string result =
        e.tensor + list({e.operands.begin(), e.operands.begin() + int64_t(rankOf(e))}, "[", "]");
    for (const Constraint &each : e.guard)
      result += (&each == &e.guard[0] ? " if " : " and ") + text(each);
    return e.guard.empty() ? result : "(" + result + ")";
  }
  std::string name = kOperationNames[size_t(e.operation)];
  if (e.operation == Operation::Cast)
    name = tensmith::name(e.type);
  if (e.operation == Operation::Operator)
    name = e.name;
  if (e.operation == Operation::Function)
    name = e.function->name;
  if (e.operands.size() == 2 && !std::isalpha((unsigned char)(name[0])))
    return "(" + text(*e.operands[0]) + " " + name + " " + text(*e.operands[1]) + ")";
  return name + list(e.operands, "(", ")");
}

static std::string list(const std::vector<Expr> &all, const char *open, const char *close) {
  std::string result = open;
  for (const Expr &each : all)
    result += (&each == &all[0] ? "" : ", ") + text(*each);
  return result + close;
}

void forEachLoad(const Statement &statement,
                 const std::function<void(const Expression &load, size_t rank)> &visit) {
  std::vector<const Expression *> waiting{statement.value.get()};
  for (const Expr &index : statement.indices)
    waiting.push_back(index.get());
  std::set<const Expression *> seen;
  while (!waiting.empty()) {
    const Expression *expression = waiting.back();
    waiting.pop_back();
    if (!seen.insert(expression).second)
      continue;
    for (const Expr &operand : expression->operands)
      waiting.push_back(operand.get());
    if (expression->operation == Operation::Load)
      visit(*expression, rankOf(*expression));
  }
}

std::string text(const Nest &nest) {
  static const char *const kSigns[] = {" = ", " += ", " *= ", " min= ", " max= ", " |= ", " &= "};
  std::string result;
  for (const Statement &each : nest.statements) {
    result += each.name + "[";
    for (const std::string &name : each.iterators)
      result += (&name == &each.iterators[0] ? "" : ", ") + name;
    result += "]: " + each.tensor + list(each.indices, "[", "]") + kSigns[size_t(each.reduction)] +
              text(*each.value);
    for (const Constraint &constraint : each.domain)
      result += (&constraint == &each.domain[0] ? " where " : " and ") + text(constraint);
    result += "\n";
  }
  return result;
}

} // namespace tensmith::nest
