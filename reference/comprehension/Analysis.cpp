// Names, types and calls of a comprehension; its ranges are Ranges.cpp's.
//
// A name that is no tensor, size or `let` is an index of the statement. Calls are taken in: the
// callee's statements stand in the caller with its own names, so that what follows knows none.
#include "reference/comprehension/Analysis.h"

#include "reference/comprehension/Affine.h"
#include "reference/comprehension/Ranges.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

namespace tensmith::comprehension {
namespace {

constexpr size_t kMostTensors = 64, kMostStatements = 256, kMostIndices = 32, kMostCalls = 32;

struct Failure {}; // the function is given up; its message has been left

/// What names of a definition stand for where its statements are taken in.
struct Names {
  std::map<std::string, std::string> tensors;
  std::map<std::string, ExprRef> sizes;
  std::string suffix; // of the others; none of the function itself
};

class Analysis {
public:
  Analysis(const Module &module, std::vector<Message> &messages)
      : module_(module), messages_(messages) {}

  Function run(const Definition &definition) {
    try {
      function_.name = definition.name;
      inputs(definition);
      Names own;
      statements(definition, own);
      results(definition);
    } catch (Failure) {
    }
    return std::move(function_);
  }

private:
  [[noreturn]] void fail(Place place, std::string text) {
    messages_.push_back({place, std::move(text)});
    throw Failure();
  }

  // ---- the signature

  void checkNew(Place place, const std::string &name) {
    if (findBuiltIn(name))
      fail(place, "'" + name + "' is a function of the language; take another name");
    if (tensor(name) || size(name))
      fail(place, "'" + name + "' is defined twice");
  }

  void inputs(const Definition &definition) {
    if (definition.parameters.size() > kMostTensors)
      fail(definition.place, "there are more than " + std::to_string(kMostTensors) + " inputs");
    for (const ParameterSyntax &parameter : definition.parameters) {
      checkNew(parameter.place, parameter.name);
      if (parameter.dims.size() > 16)
        fail(parameter.place, "'" + parameter.name + "' has more than 16 dimensions");
      Tensor made{parameter.name, parameter.type, {}, {}, true, parameter.place};
      size_t number = function_.tensors.size();
      for (size_t dim = 0; dim < parameter.dims.size(); ++dim) {
        made.lows.push_back(integerExpr(0));
        made.extents.push_back(extentOf(*parameter.dims[dim], number, dim, parameter));
      }
      function_.tensors.push_back(std::move(made));
    }
    function_.inputs = function_.tensors.size();
  }

  /// What a declared size is: a new variable for a name that is met first.
  ExprRef extentOf(const Expr &declared, size_t tensor, size_t dim,
                   const ParameterSyntax &parameter) {
    if (declared.kind == Expr::Kind::Integer)
      return integerExpr(declared.integer);
    if (this->tensor(declared.text) || declared.text == parameter.name)
      fail(declared.place, "'" + declared.text + "' is a tensor, and no size");
    if (!size(declared.text))
      function_.sizes.push_back({declared.text, tensor, dim});
    return sizeExpr(*size(declared.text));
  }

  ExprRef sizeExpr(size_t number) const {
    return makeExpr({.kind = Expr::Kind::Size,
                     .type = DataType::I64,
                     .text = function_.sizes[number].name,
                     .integer = int64_t(number)});
  }

  std::optional<size_t> tensor(const std::string &name) const {
    for (size_t i = 0; i < function_.tensors.size(); ++i)
      if (function_.tensors[i].name == name)
        return i;
    return std::nullopt;
  }
  std::optional<size_t> size(const std::string &name) const {
    for (size_t i = 0; i < function_.sizes.size(); ++i)
      if (function_.sizes[i].name == name)
        return i;
    return std::nullopt;
  }

  void results(const Definition &definition) {
    if (definition.results.empty())
      fail(definition.place, "'" + definition.name + "' gives no result");
    for (const ParameterSyntax &result : definition.results) {
      auto number = tensor(result.name);
      if (!number || function_.tensors[*number].isInput)
        fail(result.place, "no statement defines the result '" + result.name + "'");
      if (contains(function_.results, *number))
        fail(result.place, "'" + result.name + "' is a result twice");
      function_.results.push_back(*number);
      requireSizes(result, function_.tensors[*number]);
    }
  }
  static bool contains(const std::vector<size_t> &all, size_t one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  }

  void requireSizes(const ParameterSyntax &declared, const Tensor &tensor) {
    if (declared.dims.empty())
      return;
    if (declared.dims.size() != tensor.extents.size())
      fail(declared.place, "'" + declared.name + "' is declared with " +
                               counted(declared.dims.size(), "dimension") + ", and defined with " +
                               std::to_string(tensor.extents.size()));
    for (size_t dim = 0; dim < declared.dims.size(); ++dim) {
      const Expr &own = *declared.dims[dim];
      if (own.kind == Expr::Kind::Name && !size(own.text))
        fail(own.place, "no input has a size '" + own.text + "'");
      requireEqual(tensor.extents[dim],
                   own.kind == Expr::Kind::Name ? sizeExpr(*size(own.text))
                                                : integerExpr(own.integer),
                   declared.place,
                   "'" + declared.name + "' has the size {a} along dimension " +
                       std::to_string(dim) + ", and is declared with {b}");
    }
  }

  void requireEqual(const ExprRef &a, const ExprRef &b, Place place, const std::string &message,
                    size_t statement = SIZE_MAX) {
    if (isAtMost(a, b) && isAtMost(b, a))
      return;
    Affine difference = affineOf(minus(a, b));
    if (difference.isConstant())
      fail(place, message.find("{a}") == message.npos ? message : shown(message, a, b));
    function_.requirements.push_back(
        {true,
         a,
         b,
         std::to_string(place.line) + ":" + std::to_string(place.column) + ": " + message,
         {},
         statement});
  }
  static std::string shown(std::string message, const ExprRef &a, const ExprRef &b) {
    message.replace(message.find("{a}"), 3, print(*a));
    if (size_t at = message.find("{b}"); at != message.npos)
      message.replace(at, 3, print(*b));
    return message;
  }

  // ---- statements

  /// The function's name for what the definition at hand calls so.
  static std::string renamed(const Names &names, const std::string &name) {
    auto found = names.tensors.find(name);
    return found != names.tensors.end() ? found->second : name + names.suffix;
  }

  void statements(const Definition &definition, const Names &names) {
    for (const StatementSyntax &one : definition.statements) {
      if (function_.statements.size() >= kMostStatements)
        fail(one.place, "this makes more than " + std::to_string(kMostStatements) +
                            " statements, those of called comprehensions among them");
      if (isCall(one, names))
        call(one, names);
      else
        statement(one, names);
    }
  }

  bool isCall(const StatementSyntax &one, const Names &names) const {
    if (one.targets.size() > 1)
      return true;
    const Expr &value = *one.value;
    return !one.hasIndices && value.kind == Expr::Kind::Call && !findBuiltIn(value.text) &&
           !tensor(renamed(names, value.text)) && module_.find(value.text) &&
           one.assignment == Assignment::Set && one.where.empty();
  }

  void call(const StatementSyntax &one, const Names &names) {
    const Expr &value = *one.value;
    const Definition *callee = value.kind == Expr::Kind::Call ? module_.find(value.text) : nullptr;
    if (!callee || one.assignment != Assignment::Set || !one.where.empty())
      fail(one.value->place, "several results are those of a call, as C, D = f(A, B)");
    if (calls_.size() >= kMostCalls || std::count(calls_.begin(), calls_.end(), callee))
      fail(value.place, "'" + callee->name + "' calls itself, or is called too deep");
    if (callee->results.size() != one.targets.size())
      fail(one.place, "'" + callee->name + "' gives " + counted(callee->results.size(), "result") +
                          ", not " + std::to_string(one.targets.size()));
    Names inner;
    inner.suffix = "_" + callee->name + std::to_string(++copies_);
    bind(*callee, value, names, inner);
    for (size_t i = 0; i < one.targets.size(); ++i) {
      std::string target = renamed(names, one.targets[i].name);
      if (auto known = tensor(target); known || size(target))
        fail(one.targets[i].place, "'" + one.targets[i].name + "' has a value already");
      inner.tensors[callee->results[i].name] = target;
    }
    calls_.push_back(callee);
    size_t before = function_.tensors.size();
    statements(*callee, inner);
    calls_.pop_back();
    for (size_t i = 0; i < one.targets.size(); ++i) {
      auto made = tensor(inner.tensors[callee->results[i].name]);
      if (!made || *made < before)
        fail(callee->results[i].place,
             "no statement defines the result '" + callee->results[i].name + "'");
    }
  }

  /// The callee's inputs are the caller's tensors, and its sizes theirs.
  void bind(const Definition &callee, const Expr &call, const Names &names, Names &inner) {
    if (callee.parameters.size() != call.parts.size())
      fail(call.place, "'" + callee.name + "' takes " + counted(callee.parameters.size(), "input") +
                           ", not " + std::to_string(call.parts.size()));
    for (size_t i = 0; i < call.parts.size(); ++i) {
      const ParameterSyntax &parameter = callee.parameters[i];
      const Expr &given = *call.parts[i];
      auto number =
          given.kind == Expr::Kind::Name ? tensor(renamed(names, given.text)) : std::nullopt;
      if (!number)
        fail(given.place, "an argument of '" + callee.name + "' is the name of a tensor");
      const Tensor &tensor = function_.tensors[*number];
      bool isSame = tensor.type == parameter.type && tensor.extents.size() == parameter.dims.size();
      if (!isSame)
        fail(given.place, "'" + callee.name + "' takes " + typeName(parameter.type) + " of " +
                              counted(parameter.dims.size(), "dimension") + " here, not " +
                              typeName(tensor.type) + " of " +
                              std::to_string(tensor.extents.size()));
      for (const ExprRef &low : tensor.lows)
        if (!affineOf(low).isConstant() || affineOf(low).constant != 0)
          fail(given.place, "the indices of '" + given.text + "' begin at " + print(*low) +
                                ", and those of an input at 0");
      inner.tensors[parameter.name] = tensor.name;
      for (size_t dim = 0; dim < parameter.dims.size(); ++dim)
        bindSize(*parameter.dims[dim], tensor.extents[dim], given.place, callee, inner);
    }
  }

  void bindSize(const Expr &declared, const ExprRef &extent, Place place, const Definition &callee,
                Names &inner) {
    ExprRef other = declared.kind == Expr::Kind::Integer
                        ? integerExpr(declared.integer)
                        : inner.sizes.emplace(declared.text, extent).first->second;
    requireEqual(extent, other, place,
                 "'" + callee.name +
                     "' takes sizes that are equal where its own have one name; "
                     "these are {a} and {b}",
                 function_.statements.size());
  }

  void statement(const StatementSyntax &one, const Names &names) {
    Statement made;
    made.place = one.place;
    made.assignment = one.assignment;
    made.initialises = one.initialises;
    made.rank = one.indices.size();
    names_ = &names;
    made_ = &made;
    lets_.clear();
    std::string target = renamed(names, one.targets[0].name);
    auto known = tensor(target);
    checkTarget(one, target, known);
    for (const Named &index : one.indices)
      addIndex(index);
    std::vector<ExprRef> exists;
    for (const Clause &clause : one.where)
      this->clause(clause, exists);
    ExprRef value = resolve(one.value, /*asIndex=*/false);
    if (made.isReduction() && made.assignment == Assignment::Set)
      fail(made.indices.back().place, "'" + made.indices.back().name +
                                          "' is not among the target's indices, so the statement "
                                          "reduces along it; say how, by '+=!' or the like");
    made.isFirst = !known;
    made.target = known.value_or(function_.tensors.size());
    if (!known)
      function_.tensors.push_back({target, targetType(one, *value), {}, {}, false, one.place});
    checkType(one, *value, function_.tensors[made.target]);
    made.value = converted(value, function_.tensors[made.target].type);
    if (!inferRanges(function_, made, exists, messages_))
      throw Failure();
    made.reads = readsOf(made);
    if (made.value->nodes > kMostNodes)
      fail(one.place, "this statement is too long; give parts of it tensors of their own");
    function_.statements.push_back(std::move(made));
  }

  void checkTarget(const StatementSyntax &one, const std::string &target,
                   std::optional<size_t> known) {
    Place place = one.targets[0].place;
    if (known && function_.tensors[*known].isInput)
      fail(place, "'" + one.targets[0].name + "' is an input, which no statement may change");
    if (known && function_.tensors[*known].extents.size() != one.indices.size())
      fail(place, "'" + one.targets[0].name + "' has " +
                      counted(function_.tensors[*known].extents.size(), "dimension") + ", not " +
                      std::to_string(one.indices.size()));
    if (known)
      return;
    checkNew(place, target);
    if (one.assignment != Assignment::Set && !one.initialises)
      fail(place, "'" + one.targets[0].name +
                      "' has no value before this statement; with '!' behind the assignment it "
                      "begins with that of no elements");
    if (function_.tensors.size() >= kMostTensors)
      fail(place, "there are more than " + std::to_string(kMostTensors) + " tensors");
    if (one.indices.size() > 16)
      fail(place, "'" + one.targets[0].name + "' has more than 16 dimensions");
  }

  /// As a result of this name is declared; else the value's.
  DataType targetType(const StatementSyntax &one, const Expr &value) const {
    const Definition *definition = calls_.empty() ? module_.find(function_.name) : calls_.back();
    for (const ParameterSyntax &result : definition->results)
      if (result.name == one.targets[0].name && result.type != DataType::Undefined)
        return result.type;
    return value.type;
  }

  void checkType(const StatementSyntax &one, const Expr &value, const Tensor &target) {
    bool fits =
        value.type == target.type || (isArithmetic(value.type) && isArithmetic(target.type) &&
                                      matchTypes(value.type, target.type) == target.type);
    bool isLiteral = value.kind == Expr::Kind::Real && isFloat(target.type);
    if (!fits && !isLiteral)
      fail(one.value->place, "'" + target.name + "' is of " + typeName(target.type) +
                                 ", and this value of " + typeName(value.type) +
                                 "; convert it by " + typeName(target.type) + "(...)");
    if (one.assignment != Assignment::Set &&
        (!isArithmetic(target.type) || target.type == DataType::Bool))
      fail(one.place, "elements of " + typeName(target.type) + " are not reduced; convert them");
  }

  // ---- indices and clauses

  std::optional<size_t> index(const std::string &name) const {
    for (size_t i = 0; i < made_->indices.size(); ++i)
      if (made_->indices[i].name == name)
        return i;
    return std::nullopt;
  }

  size_t addIndex(const Named &named) {
    if (findBuiltIn(named.name))
      fail(named.place, "'" + named.name + "' is a function of the language, and no index");
    if (tensor(renamed(*names_, named.name)) || names_->sizes.count(named.name) ||
        (names_->suffix.empty() && size(named.name)) || index(named.name))
      fail(named.place, "'" + named.name + "' is a tensor, a size or an index already");
    if (made_->indices.size() >= kMostIndices)
      fail(named.place, "there are more than " + std::to_string(kMostIndices) + " indices");
    made_->indices.push_back({named.name, nullptr, nullptr, named.place});
    return made_->indices.size() - 1;
  }

  void clause(const Clause &clause, std::vector<ExprRef> &exists) {
    if (clause.kind == Clause::Kind::Exists) {
      exists.push_back(resolve(clause.low, /*asIndex=*/false));
      return;
    }
    if (clause.kind == Clause::Kind::Let) {
      if (lets_.count(clause.name) || index(clause.name) || tensor(renamed(*names_, clause.name)))
        fail(clause.place, "'" + clause.name + "' is defined twice");
      lets_[clause.name] = {resolve(clause.low, false), resolve(clause.low, /*asIndex=*/true)};
      return;
    }
    auto number = index(clause.name);
    if (!number)
      number = addIndex({clause.place, clause.name});
    ExprRef low = bound(clause.low), high = bound(clause.high);
    Index &ranged = made_->indices[*number];
    ranged.low = ranged.low ? greater(ranged.low, low) : low;
    ranged.high = ranged.high ? smaller(ranged.high, high) : high;
  }

  ExprRef bound(const ExprRef &written) {
    ExprRef resolved = resolve(written, /*asIndex=*/true);
    visit(*resolved, [&](const Expr &part) {
      if (part.kind == Expr::Kind::Read && !part.parts.empty())
        fail(part.place, "bounds of a range don't read tensors; a scalar input may be one");
      bool isKnown = part.kind == Expr::Kind::Integer || part.kind == Expr::Kind::Index ||
                     part.kind == Expr::Kind::Size || part.kind == Expr::Kind::Read ||
                     part.kind == Expr::Kind::Cast || part.kind == Expr::Kind::Binary ||
                     (part.kind == Expr::Kind::Unary && part.text == "-");
      if (!isKnown || part.type == DataType::Bool)
        fail(part.place, "bounds of a range are of + - * / % min and max");
    });
    return simplified(resolved);
  }

  // ---- expressions

  ExprRef with(const Expr &like, Expr made) {
    made.place = like.place;
    ExprRef expr = makeExpr(std::move(made));
    if (expr->depth > kMostDepth || expr->nodes > kMostNodes)
      fail(like.place,
           "this is too long or nested too deep; give parts of it tensors of their own");
    return expr;
  }

  ExprRef converted(const ExprRef &expr, DataType type) {
    if (expr->type == type)
      return expr;
    Expr copy = *expr;
    copy.type = type;
    if (expr->kind == Expr::Kind::Real && isFloat(type))
      return makeExpr(std::move(copy));
    return with(*expr, {.kind = Expr::Kind::Cast, .type = type, .parts = {expr}});
  }

  static bool isReal(const Expr &expr) {
    return expr.kind == Expr::Kind::Real ||
           (expr.kind == Expr::Kind::Unary && isReal(*expr.parts[0]));
  }

  /// A number with a point takes the type of the floats that it meets.
  DataType matched(const Expr &a, const Expr &b) {
    for (const Expr *one : {&a, &b})
      if (!isArithmetic(one->type))
        fail(one->place,
             "nothing is computed with " + typeName(one->type) + "; convert it, as by float(...)");
    if (isReal(a) != isReal(b) && isFloat(a.type) && isFloat(b.type))
      return isReal(a) ? b.type : a.type;
    return matchTypes(a.type, b.type);
  }

  ExprRef resolve(const ExprRef &written, bool asIndex) {
    const Expr &expr = *written;
    DataType whole = asIndex ? DataType::I64 : DataType::I32;
    switch (expr.kind) {
    case Expr::Kind::Integer:
      if (!asIndex && expr.integer != int32_t(expr.integer))
        whole = DataType::I64;
      return with(expr, {.kind = expr.kind, .type = whole, .integer = expr.integer});
    case Expr::Kind::Real:
      return with(expr, {.kind = expr.kind, .type = DataType::F32, .number = expr.number});
    case Expr::Kind::Boolean:
      return with(expr, {.kind = expr.kind, .type = DataType::Bool, .integer = expr.integer});
    case Expr::Kind::Name:
      return variable(expr, whole);
    case Expr::Kind::Extent:
      return extent(expr, whole);
    case Expr::Kind::Call:
      return application(expr);
    case Expr::Kind::Unary:
      return unary(expr, asIndex);
    case Expr::Kind::Binary:
      return binary(expr, asIndex);
    case Expr::Kind::Select:
      return select(expr, asIndex);
    default:
      break;
    }
    ExprRef inner = resolve(expr.parts[0], asIndex && isInteger(expr.type));
    return with(expr, {.kind = Expr::Kind::Cast, .type = expr.type, .parts = {inner}});
  }

  /// Sizes and indices are whole numbers of 64 bits, and of 32 in values, as published.
  ExprRef asWhole(const Expr &like, const ExprRef &size, DataType whole) {
    return whole == DataType::I64
               ? size
               : with(like, {.kind = Expr::Kind::Cast, .type = whole, .parts = {size}});
  }

  ExprRef variable(const Expr &expr, DataType whole) {
    if (auto let = lets_.find(expr.text); let != lets_.end())
      return whole == DataType::I64 ? let->second.asIndex : let->second.value;
    if (auto number = tensor(renamed(*names_, expr.text))) {
      size_t rank = function_.tensors[*number].extents.size();
      if (rank > 0)
        fail(expr.place, "'" + expr.text + "' has " + counted(rank, "dimension") +
                             "; its elements are read by as many indices");
      return with(expr, {.kind = Expr::Kind::Read,
                         .type = function_.tensors[*number].type,
                         .text = expr.text,
                         .integer = int64_t(*number)});
    }
    if (auto size = names_->sizes.find(expr.text); size != names_->sizes.end())
      return asWhole(expr, size->second, whole);
    if (auto number = size(expr.text); number && names_->suffix.empty())
      return asWhole(expr, sizeExpr(*number), whole);
    auto number = index(expr.text);
    if (!number)
      number = addIndex({expr.place, expr.text});
    return asWhole(expr,
                   with(expr, {.kind = Expr::Kind::Index,
                               .type = DataType::I64,
                               .text = expr.text,
                               .integer = int64_t(*number)}),
                   whole);
  }

  ExprRef extent(const Expr &expr, DataType whole) {
    auto number = tensor(renamed(*names_, expr.text));
    if (!number || function_.tensors[*number].extents.size() <= size_t(expr.integer))
      fail(expr.place, number
                           ? "'" + expr.text + "' has no dimension " + std::to_string(expr.integer)
                           : "'" + expr.text + "' is no tensor that is defined here");
    return asWhole(expr, function_.tensors[*number].extents[size_t(expr.integer)], whole);
  }

  std::string defined() const {
    std::string names;
    for (const Tensor &tensor : function_.tensors)
      names += (names.empty() ? "; tensors are " : ", ") + tensor.name;
    return names;
  }

  ExprRef application(const Expr &expr) {
    if (const BuiltIn *builtIn = findBuiltIn(expr.text))
      return function(expr, *builtIn);
    auto number = tensor(renamed(*names_, expr.text));
    if (!number && module_.find(expr.text))
      fail(expr.place,
           "a comprehension is called by a statement of its own, as C = " + expr.text + "(A)");
    if (!number)
      fail(expr.place,
           "'" + expr.text + "' is no tensor or function that is defined here" + defined());
    const Tensor &tensor = function_.tensors[*number];
    if (tensor.extents.size() != expr.parts.size())
      fail(expr.place, "'" + expr.text + "' has " + counted(tensor.extents.size(), "dimension") +
                           ", and is read at " + std::to_string(expr.parts.size()) + " indices");
    Expr made{.kind = Expr::Kind::Read,
              .type = tensor.type,
              .text = expr.text,
              .integer = int64_t(*number)};
    for (const ExprRef &part : expr.parts) {
      ExprRef position = resolve(part, /*asIndex=*/true);
      if (!isInteger(position->type))
        fail(part->place, "an index is a whole number, and this is of " + typeName(position->type));
      made.parts.push_back(converted(position, DataType::I64));
    }
    return with(expr, std::move(made));
  }

  ExprRef function(const Expr &expr, const BuiltIn &builtIn) {
    if (expr.parts.size() != builtIn.arguments)
      fail(expr.place, expr.text + " takes " + counted(builtIn.arguments, "argument") + ", not " +
                           std::to_string(expr.parts.size()));
    Expr made{.kind = Expr::Kind::Function, .text = expr.text};
    for (const ExprRef &part : expr.parts)
      made.parts.push_back(resolve(part, /*asIndex=*/false));
    made.type = made.parts[0]->type;
    for (const ExprRef &part : made.parts)
      made.type = matched(*part, *made.parts[0]) == made.type ? made.type
                                                              : matchTypes(made.type, part->type);
    if (!isFloat(made.type))
      made.type = DataType::F32;
    for (ExprRef &part : made.parts)
      part = converted(part, made.type);
    return with(expr, std::move(made));
  }

  void expectTruth(const Expr &expr) {
    if (expr.type != DataType::Bool)
      fail(expr.place, "a condition is expected here, and this is of " + typeName(expr.type));
  }

  ExprRef unary(const Expr &expr, bool asIndex) {
    ExprRef inner = resolve(expr.parts[0], asIndex);
    if (expr.text == "!") {
      expectTruth(*inner);
    } else {
      matched(*inner, *inner);
      if (inner->type == DataType::Bool)
        fail(expr.place, "a truth has no negative; '!' is its opposite");
    }
    return with(expr,
                {.kind = expr.kind, .type = inner->type, .text = expr.text, .parts = {inner}});
  }

  ExprRef binary(const Expr &expr, bool asIndex) {
    ExprRef a = resolve(expr.parts[0], asIndex), b = resolve(expr.parts[1], asIndex);
    const std::string &sign = expr.text;
    if (sign == "&&" || sign == "||") {
      expectTruth(*a);
      expectTruth(*b);
      return with(expr, {.kind = expr.kind, .type = DataType::Bool, .text = sign, .parts = {a, b}});
    }
    DataType type = matched(*a, *b);
    bool compares =
        sign == "==" || sign == "!=" || sign == "<" || sign == "<=" || sign == ">" || sign == ">=";
    if (type == DataType::Bool && sign != "==" && sign != "!=")
      fail(expr.place, "'" + sign + "' is of numbers; convert truths, as by int32(...)");
    return with(expr, {.kind = expr.kind,
                       .type = compares ? DataType::Bool : type,
                       .text = sign,
                       .parts = {converted(a, type), converted(b, type)}});
  }

  ExprRef select(const Expr &expr, bool asIndex) {
    ExprRef condition = resolve(expr.parts[0], asIndex);
    expectTruth(*condition);
    ExprRef yes = resolve(expr.parts[1], asIndex), no = resolve(expr.parts[2], asIndex);
    DataType type = yes->type == no->type ? yes->type : matched(*yes, *no);
    return with(expr, {.kind = expr.kind,
                       .type = type,
                       .parts = {condition, converted(yes, type), converted(no, type)}});
  }

  std::vector<size_t> readsOf(const Statement &statement) const {
    std::set<size_t> reads;
    auto add = [&](const Expr &expr) {
      visit(expr, [&](const Expr &part) {
        if (part.kind == Expr::Kind::Read)
          reads.insert(size_t(part.integer));
      });
    };
    add(*statement.value);
    for (const Index &index : statement.indices) {
      add(*index.low);
      add(*index.high);
    }
    if (statement.readsTarget())
      reads.insert(statement.target);
    return {reads.begin(), reads.end()};
  }

  const Module &module_;
  std::vector<Message> &messages_;
  Function function_;
  std::vector<const Definition *> calls_;
  size_t copies_ = 0;
  // Of the statement at hand.
  const Names *names_ = nullptr;
  Statement *made_ = nullptr;
  struct Let {
    ExprRef value, asIndex;
  };
  std::map<std::string, Let> lets_;
};

} // namespace

bool isArithmetic(DataType type) {
  return type == DataType::Bool || type == DataType::F16 || type == DataType::BF16 ||
         type == DataType::F32 || type == DataType::F64 ||
         (isInteger(type) && info(type).bits >= 8);
}

DataType matchTypes(DataType a, DataType b) {
  if (a == b)
    return a;
  if (isFloat(a) != isFloat(b))
    return isFloat(a) ? a : b;
  int bits = std::max(info(a).bits, info(b).bits);
  if (isFloat(a))
    return bits == 16 ? DataType::F32 : info(a).bits == bits ? a : b;
  auto isUnsigned = [](DataType type) { return info(type).kind != TypeClass::Signed; };
  if (isUnsigned(a) == isUnsigned(b))
    return info(a).bits == bits && a != DataType::Bool ? a : b;
  return bits <= 8    ? DataType::I8
         : bits == 16 ? DataType::I16
         : bits == 32 ? DataType::I32
                      : DataType::I64;
}

std::optional<size_t> Function::result(const std::string &name) const {
  for (size_t number : results)
    if (tensors[number].name == name)
      return number;
  return std::nullopt;
}

std::vector<size_t> operandsOf(const Function &function, std::optional<size_t> number) {
  std::set<size_t> operands;
  if (!number) {
    for (size_t i = 0; i < function.inputs; ++i)
      operands.insert(i);
    return {operands.begin(), operands.end()};
  }
  const Statement &statement = function.statements[*number];
  operands.insert(statement.reads.begin(), statement.reads.end());
  auto addSizes = [&](const ExprRef &expr) {
    visit(*expr, [&](const Expr &part) {
      if (part.kind == Expr::Kind::Size)
        operands.insert(function.sizes[size_t(part.integer)].tensor);
      if (part.kind == Expr::Kind::Read)
        operands.insert(size_t(part.integer));
    });
  };
  auto addTensor = [&](const Tensor &tensor) {
    std::for_each(tensor.lows.begin(), tensor.lows.end(), addSizes);
    std::for_each(tensor.extents.begin(), tensor.extents.end(), addSizes);
  };
  addSizes(statement.value);
  for (const Index &index : statement.indices) {
    addSizes(index.low);
    addSizes(index.high);
  }
  addTensor(function.tensors[statement.target]);
  for (size_t read : statement.reads)
    addTensor(function.tensors[read]);
  for (const Requirement &requirement : function.requirements)
    if (requirement.statement == *number) {
      addSizes(requirement.a);
      addSizes(requirement.b);
      std::for_each(requirement.extents.begin(), requirement.extents.end(), addSizes);
    }
  return {operands.begin(), operands.end()};
}

Function analyse(const Module &module, const Definition &definition,
                 std::vector<Message> &messages) {
  return Analysis(module, messages).run(definition);
}

Status statusOf(const std::vector<Message> &messages, const std::string &name) {
  std::string text;
  for (const Message &message : messages)
    text += (text.empty() ? "" : "\n") + name + (name.empty() ? "" : ":") +
            std::to_string(message.place.line) + ":" + std::to_string(message.place.column) + ": " +
            message.text;
  return invalidArgument(std::move(text));
}

namespace {
Result<std::shared_ptr<const Function>> read(const std::string &text, const std::string &name) {
  std::vector<Message> messages;
  Module module = parse(text, messages);
  if (!messages.empty())
    return statusOf(messages, "");
  if (module.definitions.empty())
    return invalidArgument("1:1: the text defines no comprehension; write def f(...) -> (...)");
  if (name.empty() && module.definitions.size() > 1)
    return invalidArgument("the text has " + std::to_string(module.definitions.size()) +
                           " comprehensions; say which");
  const Definition *definition = name.empty() ? &module.definitions[0] : module.find(name);
  if (!definition)
    return invalidArgument("the text has no comprehension '" + name + "'");
  auto function = std::make_shared<const Function>(analyse(module, *definition, messages));
  if (!messages.empty())
    return statusOf(messages, "");
  return std::shared_ptr<const Function>(function);
}
} // namespace

Result<std::shared_ptr<const Function>> functionOf(const std::string &text,
                                                   const std::string &name) {
  constexpr size_t kMostRemembered = 64;
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, std::shared_ptr<const Function>> remembered;
  {
    std::lock_guard lock(mutex);
    auto found = remembered.find({text, name});
    if (found != remembered.end())
      return found->second;
  }
  auto made = read(text, name);
  if (!made.ok())
    return made;
  std::lock_guard lock(mutex);
  if (remembered.size() >= kMostRemembered)
    remembered.clear();
  remembered[{text, name}] = *made;
  return made;
}

} // namespace tensmith::comprehension
