// The adjoint of a statement as text; see ComprehensionGradient.cpp.
//
// All names are of this file's own making (x0, v1, n2, y, g), so that equal structures give equal
// texts, which are compiled once.
#include "compiler/graph/ComprehensionAdjoint.h"

#include "reference/comprehension/Affine.h"

namespace tensmith::graph {

using namespace comprehension;

namespace {

ExprRef named(const std::string &name) {
  return makeExpr({.kind = Expr::Kind::Name, .text = name});
}
ExprRef real(double value) { return makeExpr({.kind = Expr::Kind::Real, .number = value}); }
ExprRef binary(const std::string &sign, const ExprRef &a, const ExprRef &b) {
  return makeExpr({.kind = Expr::Kind::Binary, .text = sign, .parts = {a, b}});
}
ExprRef call(const std::string &name, std::vector<ExprRef> parts) {
  if (parts.empty())
    return named(name);
  return makeExpr({.kind = Expr::Kind::Call, .text = name, .parts = std::move(parts)});
}
ExprRef negative(const ExprRef &x) {
  return makeExpr({.kind = Expr::Kind::Unary, .text = "-", .parts = {x}});
}
ExprRef choice(const ExprRef &condition, const ExprRef &yes, const ExprRef &no) {
  return makeExpr({.kind = Expr::Kind::Select, .parts = {condition, yes, no}});
}
ExprRef cast(DataType type, const ExprRef &x) {
  return makeExpr({.kind = Expr::Kind::Cast, .type = type, .parts = {x}});
}
ExprRef times(const ExprRef &a, const ExprRef &b) { return binary("*", a, b); }

std::string conditional(const std::string &guard, const ExprRef &value) {
  return guard.empty() ? print(*value) : "(" + guard + ") ? " + print(*value) + " : 0.0";
}

/// Walks from the value to the reads of a tensor, with what each is multiplied by.
class Walk {
public:
  Walk(size_t tensor, std::map<std::string, std::pair<ExprRef, ExprRef>> &found)
      : tensor_(tensor), found_(found) {}

  std::string refusal;

  void run(const ExprRef &expr, const ExprRef &factor) {
    if (!isFloat(expr->type) || !reads(*expr))
      return;
    switch (expr->kind) {
    case Expr::Kind::Read: {
      auto [place, isNew] = found_.try_emplace(keyOf(*expr), expr, factor);
      if (!isNew)
        place->second.second = binary("+", place->second.second, factor);
      return;
    }
    case Expr::Kind::Unary:
      return run(expr->parts[0], negative(factor));
    case Expr::Kind::Cast:
      return run(expr->parts[0],
                 isFloat(expr->parts[0]->type) ? cast(expr->parts[0]->type, factor) : factor);
    case Expr::Kind::Select:
      run(expr->parts[1], choice(expr->parts[0], factor, real(0)));
      return run(expr->parts[2], choice(expr->parts[0], real(0), factor));
    case Expr::Kind::Function:
      return function(*expr, factor);
    case Expr::Kind::Binary:
      return arithmetic(*expr, factor);
    default:
      return;
    }
  }

private:
  bool reads(const Expr &expr) const {
    bool found = false;
    visit(expr, [&](const Expr &part) {
      found |= part.kind == Expr::Kind::Read && size_t(part.integer) == tensor_;
    });
    return found;
  }

  void function(const Expr &expr, const ExprRef &factor) {
    for (size_t i = 0; i < expr.parts.size(); ++i) {
      if (!reads(*expr.parts[i]))
        continue;
      ExprRef partial = partialDerivative(expr.text, expr.parts, i, factor);
      if (!partial)
        refusal = "the function '" + expr.text + "' has no derivative here";
      else if (partial->kind != Expr::Kind::Real) // a step
        run(expr.parts[i], partial);
    }
  }

  void arithmetic(const Expr &expr, const ExprRef &factor) {
    const ExprRef &a = expr.parts[0], &b = expr.parts[1];
    const std::string &sign = expr.text;
    if (sign == "+" || sign == "-") {
      run(a, factor);
      run(b, sign == "+" ? factor : negative(factor));
    } else if (sign == "*") {
      run(a, times(factor, b));
      run(b, times(factor, a));
    } else if (sign == "/") {
      run(a, binary("/", factor, b));
      run(b, negative(binary("/", times(factor, a), times(b, b))));
    } else if (sign == "%") {
      run(a, factor);
      run(b, negative(times(factor, call("floor", {binary("/", a, b)}))));
    } else { // equal shares of equal ones
      const char *beats = sign == "min" ? "<" : ">";
      ExprRef half = choice(binary("==", a, b), times(factor, real(0.5)), real(0));
      run(a, choice(binary(beats, a, b), factor, half));
      run(b, choice(binary(beats, b, a), factor, half));
    }
  }

  size_t tensor_;
  std::map<std::string, std::pair<ExprRef, ExprRef>> &found_;
};

} // namespace

AdjointText::AdjointText(const ComprehensionView &view)
    : view_(view), function_(*view.function), statement_(*view.single()) {}

/// def adjoint(float(n0, n1) x0, ..., float(y0, y1) y, float(g0, g1) g) -> (RESULTS) {
std::string AdjointText::head(const std::string &results) const {
  std::string text = "def adjoint(";
  auto declare = [&](const Tensor &tensor, const std::string &name, bool isInput) {
    text += (text.back() == '(' ? "" : ", ") + typeName(tensor.type);
    for (size_t dim = 0; dim < tensor.extents.size(); ++dim) {
      const Expr &extent = *tensor.extents[dim];
      std::string size = extent.kind == Expr::Kind::Integer ? std::to_string(extent.integer)
                         : isInput                          ? "n" + std::to_string(extent.integer)
                                   : "s" + name + "_" + std::to_string(dim);
      text += (dim ? ", " : "(") + size;
    }
    text += (tensor.extents.empty() ? " " : ") ") + name;
  };
  for (size_t operand : view_.operands)
    declare(function_.tensors[operand], nameOf(operand), function_.tensors[operand].isInput);
  declare(function_.tensors[statement_.target], "y", false);
  declare(function_.tensors[statement_.target], "g", false);
  return text + ") -> (" + results + ") {\n";
}

/// In this text's names: tensors from index 0 on, sizes, and indices that were solved for.
ExprRef AdjointText::renamed(const ExprRef &expr) const {
  return rewrite(expr, [&](const ExprRef &part) -> ExprRef {
    if (part->kind == Expr::Kind::Size) {
      const SizeVariable &size = function_.sizes[size_t(part->integer)];
      return makeExpr(
          {.kind = Expr::Kind::Extent, .text = nameOf(size.tensor), .integer = int64_t(size.dim)});
    }
    if (part->kind == Expr::Kind::Index) {
      auto solved = solved_.find(size_t(part->integer));
      return solved != solved_.end() ? renamed(solved->second)
                                     : named("v" + std::to_string(part->integer));
    }
    if (part->kind == Expr::Kind::Read) {
      const Tensor &tensor = function_.tensors[size_t(part->integer)];
      std::vector<ExprRef> at;
      for (size_t dim = 0; dim < part->parts.size(); ++dim)
        at.push_back(minus(part->parts[dim], renamed(tensor.lows[dim])));
      return call(nameOf(size_t(part->integer)), at);
    }
    return nullptr;
  });
}

ExprRef AdjointText::indexOf(size_t number) const {
  return makeExpr({.kind = Expr::Kind::Index, .type = DataType::I64, .integer = int64_t(number)});
}

/// A tensor of this text at the point's element of the target: inputs begin at 0, what is defined
/// here where the target's ranges do.
ExprRef AdjointText::atTarget(const std::string &name, bool isInput) const {
  std::vector<ExprRef> at;
  for (size_t dim = 0; dim < statement_.rank; ++dim) {
    const ExprRef &low = function_.tensors[statement_.target].lows[dim];
    at.push_back(isInput ? minus(indexOf(dim), low) : indexOf(dim));
  }
  return call(name, at);
}

std::string AdjointText::listOfIndices(llvm::ArrayRef<size_t> indices) const {
  std::string text;
  for (size_t index : indices)
    text += (text.empty() ? "(" : ", ") + std::string("v") + std::to_string(index);
  return text.empty() ? text : text + ")";
}

/// Ranges that hold for all sizes, with what others ask of the point as a guard.
AdjointText::Points AdjointText::pointsOf(llvm::ArrayRef<size_t> indices,
                                          const std::string &more) const {
  Points points;
  auto guard = [&](const std::string &condition) {
    points.guard += (points.guard.empty() ? "" : " && ") + condition;
  };
  for (size_t number = 0; number < statement_.indices.size(); ++number) {
    const Index &index = statement_.indices[number];
    bool isSolved = solved_.count(number);
    std::string name =
        isSolved ? "(" + print(*renamed(solved_.at(number))) + ")" : "v" + std::to_string(number);
    if (isSolved || hasIndices(*index.low) || hasIndices(*index.high)) {
      guard("(" + print(*renamed(index.low)) + ") <= " + name);
      guard(name + " < (" + print(*renamed(index.high)) + ")");
    }
    if (isSolved || !llvm::is_contained(indices, number))
      continue;
    auto low = boundsOf(index.low, statement_.indices),
         high = boundsOf(index.high, statement_.indices);
    points.where += (points.where.empty() ? "" : ", ") + name + " in " +
                    print(*renamed(low->least)) + ":" + print(*renamed(high->most));
  }
  if (!more.empty())
    guard(more);
  return points;
}

std::string AdjointText::statement(const std::string &target, const std::string &sign,
                                   const std::string &value, const Points &points) const {
  return "  " + target + " " + sign + " " + value +
         (points.where.empty() ? "" : "\n    where " + points.where) + "\n";
}

namespace {
std::vector<size_t> allIndices(const Statement &statement) {
  std::vector<size_t> all(statement.indices.size());
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = i;
  return all;
}
} // namespace

/// c(l) counts what is equal to the result, which shares the cotangent.
ExprRef AdjointText::extremeSeed(std::string &before) const {
  DataType type = function_.tensors[statement_.target].type;
  std::vector<size_t> all = allIndices(statement_),
                      target(all.begin(), all.begin() + long(statement_.rank));
  ExprRef equals = binary("==", cast(type, statement_.value), atTarget("y", true));
  Points points = pointsOf(all), own = pointsOf(target);
  auto count = [&](const std::string &guard, const ExprRef &condition) {
    std::string text = print(*renamed(condition));
    return typeName(type) + "((" + (guard.empty() ? text : guard + " && " + text) +
           ") ? 1.0 : 0.0)";
  };
  std::string list = listOfIndices(target);
  before += statement("c" + list, "+=!", count(points.guard, equals), points);
  if (statement_.readsTarget())
    before += statement("c" + list, "+=", count("", oldIsResult()), own);
  return choice(equals, binary("/", atTarget("g", true), atTarget("c", false)), real(0));
}

ExprRef AdjointText::oldIsResult() const {
  // The element is an input here, and so not read as the statement's own tensors are.
  return binary("==", atTarget(nameOf(statement_.target), true), atTarget("y", true));
}

/// z(l) counts zeros, p(l) is the product of the other elements.
ExprRef AdjointText::productSeed(std::string &before) const {
  DataType type = function_.tensors[statement_.target].type;
  std::vector<size_t> all = allIndices(statement_),
                      target(all.begin(), all.begin() + long(statement_.rank));
  Points points = pointsOf(all);
  std::string value = print(*renamed(statement_.value)), list = listOfIndices(target);
  std::string isZero = "(" + value + ") == 0.0";
  std::string inside = points.guard.empty() ? "" : "(" + points.guard + ") && ";
  std::string outside = points.guard.empty() ? "" : "!(" + points.guard + ") || ";
  before += statement("z" + list, "+=!", typeName(type) + "((" + inside + isZero + ") ? 1.0 : 0.0)",
                      points);
  before +=
      statement("p" + list, "*=!",
                typeName(type) + "((" + outside + isZero + ") ? 1.0 : (" + value + "))", points);
  ExprRef zeros = atTarget("z", false), others = atTarget("p", false), zero = real(0);
  ExprRef ofZero = choice(binary("==", zeros, real(1)), others, zero);
  ExprRef ofOther = choice(binary("==", zeros, zero), binary("/", others, statement_.value), zero);
  ExprRef factor = choice(binary("==", statement_.value, zero), ofZero, ofOther);
  if (statement_.readsTarget())
    factor = times(atTarget(nameOf(statement_.target), true), factor);
  return times(atTarget("g", true), factor);
}

ExprRef AdjointText::seed(std::string &before) const {
  switch (statement_.assignment) {
  case Assignment::Minimum:
  case Assignment::Maximum:
    return extremeSeed(before);
  case Assignment::Multiply:
    return productSeed(before);
  default:
    return atTarget("g", true);
  }
}

/// What an old element of the target gets: all of the cotangent where the statement doesn't reach.
ExprRef AdjointText::ofOldTarget() const {
  ExprRef g = atTarget("g", true), reached = real(0);
  switch (statement_.assignment) {
  case Assignment::Add:
    return g;
  case Assignment::Minimum:
  case Assignment::Maximum:
    reached = choice(oldIsResult(), binary("/", g, atTarget("c", false)), real(0));
    break;
  case Assignment::Multiply:
    reached = choice(binary("==", atTarget("z", false), real(0)), times(g, atTarget("p", false)),
                     real(0));
    break;
  case Assignment::Set:
    break;
  }
  bool isReduction = statement_.assignment != Assignment::Set;
  ExprRef inside;
  for (size_t dim = 0; dim < statement_.rank; ++dim) {
    const Index &index = statement_.indices[dim];
    ExprRef low = index.low, high = index.high;
    if (isReduction) {
      low = boundsOf(low, statement_.indices)->least;
      high = boundsOf(high, statement_.indices)->most;
    }
    for (const ExprRef &one : {binary("<=", low, indexOf(dim)), binary("<", indexOf(dim), high)})
      inside = inside ? binary("&&", inside, one) : one;
  }
  return inside ? choice(inside, reached, g) : reached;
}

void AdjointText::collect(size_t tensor, const ExprRef &seed, std::vector<Access> &accesses,
                          std::string &refusal) const {
  std::map<std::string, std::pair<ExprRef, ExprRef>> found;
  Walk walk(tensor, found);
  walk.run(statement_.value, seed);
  refusal = walk.refusal;
  for (const auto &[key, access] : found)
    accesses.push_back({access.first, access.second});
}

/// The element's places, and where they run.
static std::pair<std::string, std::string> placesOf(const Tensor &tensor, const std::string &name) {
  std::string target = "d", where;
  for (size_t dim = 0; dim < tensor.extents.size(); ++dim) {
    std::string place = "a" + std::to_string(dim);
    target += (dim ? ", " : "(") + place;
    where += (dim ? ", " : "") + place + " in 0:" + name + "." + std::to_string(dim);
  }
  return {target + (tensor.extents.empty() ? "" : ")"), where};
}

/// d(a0, a1, ...) += factor, over the points whose access is at (a0, a1, ...).
std::string AdjointText::pull(size_t tensor, const Access &access) {
  solved_.clear();
  const Tensor &read = function_.tensors[tensor];
  std::string guards;
  auto guard = [&](const std::string &condition) {
    guards += (guards.empty() ? "" : " && ") + condition;
  };
  auto substituted = [&](const ExprRef &expr, size_t index, const ExprRef &by) {
    return simplified(rewrite(expr, [&](const ExprRef &part) -> ExprRef {
      return part->kind == Expr::Kind::Index && size_t(part->integer) == index ? by : nullptr;
    }));
  };
  std::vector<ExprRef> exact; // what must be 0
  std::vector<std::pair<ExprRef, int64_t>> multiples;
  for (size_t dim = 0; dim < access.read->parts.size(); ++dim) {
    ExprRef place = named("a" + std::to_string(dim));
    ExprRef own = minus(access.read->parts[dim], read.lows[dim]);
    for (const auto &[index, by] : solved_)
      own = substituted(own, index, by);
    Affine sum = affineOf(own);
    std::optional<size_t> best;
    int64_t bestCoefficient = 0;
    for (const auto &[key, term] : sum.terms) {
      if (term.expr->kind != Expr::Kind::Index)
        continue;
      size_t index = size_t(term.expr->integer);
      bool isElsewhere = false;
      for (const auto &[other, one] : sum.terms)
        visit(*one.expr, [&](const Expr &part) {
          isElsewhere |=
              other != key && part.kind == Expr::Kind::Index && size_t(part.integer) == index;
        });
      bool isBetter = !best || (index < statement_.rank && *best >= statement_.rank);
      if (!isElsewhere && isBetter) {
        best = index;
        bestCoefficient = term.coefficient;
      }
    }
    if (!best) {
      exact.push_back(minus(place, own));
      continue;
    }
    Affine rest; // coefficient * index = place - rest
    rest.add(affineOf(place), 1);
    rest.add(sum, -1);
    rest.add(indexOf(*best), bestCoefficient);
    if (bestCoefficient < 0) {
      Affine opposite;
      opposite.add(rest, -1);
      rest = opposite;
    }
    int64_t by = std::abs(bestCoefficient);
    ExprRef value = exprOf(rest);
    if (by != 1)
      multiples.push_back({value, by});
    ExprRef solution = by == 1 ? value : binaryExpr("/", value, integerExpr(by));
    for (auto &[other, expr] : solved_)
      expr = substituted(expr, *best, solution);
    for (auto &[expr, of] : multiples)
      expr = substituted(expr, *best, solution);
    for (ExprRef &expr : exact)
      expr = substituted(expr, *best, solution);
    solved_[*best] = solution;
  }
  for (const auto &[expr, by] : multiples)
    guard("(" + print(*renamed(expr)) + ") % " + std::to_string(by) + " == 0");
  for (const ExprRef &expr : exact)
    guard("(" + print(*renamed(expr)) + ") == 0");
  Points points = pointsOf(allIndices(statement_), guards);
  auto [target, where] = placesOf(read, nameOf(tensor));
  points.where = where + (where.empty() || points.where.empty() ? "" : ", ") + points.where;
  std::string value = conditional(points.guard, renamed(access.factor));
  std::string text = statement(target, "+=", typeName(read.type) + "(" + value + ")", points);
  solved_.clear();
  return text;
}

AdjointText::Scatter AdjointText::scatter(size_t tensor, const Access &access,
                                          const std::string &before) const {
  const Tensor &read = function_.tensors[tensor];
  std::vector<size_t> own;
  for (size_t i = 0; i < statement_.indices.size(); ++i) {
    bool isOwn = false;
    for (const ExprRef &part : access.read->parts)
      visit(*part, [&](const Expr &expr) {
        isOwn |= expr.kind == Expr::Kind::Index && size_t(expr.integer) == i;
      });
    if (isOwn)
      own.push_back(i);
  }
  Points all = pointsOf(allIndices(statement_));
  Scatter made;
  made.values =
      head(typeName(read.type) + " t") + before +
      statement("t" + listOfIndices(own), "+=!",
                typeName(read.type) + "(" + conditional(all.guard, renamed(access.factor)) + ")",
                all) +
      "}\n";
  // Of a point that is none of the statement's nothing is added, at any place that there is.
  std::string place;
  size_t rank = access.read->parts.size();
  for (size_t dim = rank; dim-- > 0;) {
    ExprRef at = renamed(minus(access.read->parts[dim], read.lows[dim]));
    std::string clamped = "min(max(int64(" + print(*at) + "), 0), " + nameOf(tensor) + "." +
                          std::to_string(dim) + " - 1)";
    place = dim + 1 == rank
                ? clamped
                : "k == " + std::to_string(dim) + " ? " + clamped + " : (" + place + ")";
  }
  Points points = pointsOf(own);
  if (!points.guard.empty())
    place = "(" + points.guard + ") ? (" + place + ") : int64(0)";
  points.where +=
      (points.where.empty() ? "" : ", ") + std::string("k in 0:") + std::to_string(rank);
  std::string list = listOfIndices(own);
  list = list.empty() ? "(k)" : list.substr(0, list.size() - 1) + ", k)";
  made.places = head("q") + statement("q" + list, "=", "int64(" + place + ")", points) + "}\n";
  return made;
}

AdjointText::Texts AdjointText::of(size_t tensor) {
  Texts texts;
  std::string before, pulls;
  ExprRef seed = this->seed(before);
  std::vector<Access> accesses;
  collect(tensor, seed, accesses, texts.refusal);
  for (const Access &access : accesses) {
    bool isGather =
        llvm::any_of(access.read->parts, [](const ExprRef &part) { return readsTensors(*part); });
    if (isGather)
      texts.scatters.push_back(scatter(tensor, access, before));
    else
      pulls += pull(tensor, access);
  }
  bool isOld = tensor == statement_.target && statement_.readsTarget();
  if (pulls.empty() && !isOld)
    return texts;
  const Tensor &read = function_.tensors[tensor];
  auto [target, where] = placesOf(read, nameOf(tensor));
  texts.pulls =
      head(typeName(read.type) + " d") + before + statement(target, "=", "0.0", {where, ""});
  if (isOld) {
    for (size_t dim = 0; dim < statement_.rank; ++dim)
      solved_[dim] = plus(named("a" + std::to_string(dim)), read.lows[dim]);
    std::string value = print(*renamed(ofOldTarget()));
    texts.pulls += statement(target, "+=", typeName(read.type) + "(" + value + ")", {where, ""});
    solved_.clear();
  }
  texts.pulls += pulls + "}\n";
  return texts;
}

} // namespace tensmith::graph
