// Integer expressions as sums, and their bounds over ranges of indices; see Affine.h.
#include "reference/comprehension/Affine.h"

#include <algorithm>

namespace tensmith::comprehension {
namespace {

int64_t floorDiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

bool isMultiple(const Affine &affine, int64_t of) {
  return affine.constant % of == 0 &&
         std::all_of(affine.terms.begin(), affine.terms.end(),
                     [&](const auto &term) { return term.second.coefficient % of == 0; });
}

Affine opaque(const ExprRef &expr) {
  Affine made;
  made.add(expr, 1);
  return made;
}

Affine rebuilt(const ExprRef &expr) {
  Expr copy = *expr;
  for (ExprRef &part : copy.parts)
    part = simplified(part);
  return opaque(makeExpr(std::move(copy)));
}

/// (q * b + r) / b = q where r is 0; a whole number of numbers.
Affine divisionOf(const ExprRef &expr, const Affine &a, const Affine &b) {
  bool isQuotient = expr->text == "/";
  if (b.isConstant() && b.constant > 0) {
    if (a.isConstant()) {
      Affine made;
      int64_t quotient = floorDiv(a.constant, b.constant);
      made.constant = isQuotient ? quotient : a.constant - quotient * b.constant;
      return made;
    }
    if (isMultiple(a, b.constant)) {
      Affine made;
      for (const auto &[text, term] : a.terms)
        if (isQuotient)
          made.add(term.expr, term.coefficient / b.constant);
      made.constant = isQuotient ? a.constant / b.constant : 0;
      return made;
    }
  }
  return rebuilt(expr);
}

Affine binaryOf(const ExprRef &expr) {
  const std::string &sign = expr->text;
  Affine a = affineOf(expr->parts[0]), b = affineOf(expr->parts[1]);
  if (sign == "+" || sign == "-") {
    a.add(b, sign == "+" ? 1 : -1);
    return a;
  }
  if (sign == "*" && (a.isConstant() || b.isConstant())) {
    Affine product;
    product.add(a.isConstant() ? b : a, a.isConstant() ? a.constant : b.constant);
    product.valid &= a.valid && b.valid;
    return product;
  }
  if (sign == "/" || sign == "%")
    return divisionOf(expr, a, b);
  bool isExtreme = sign == "min" || sign == "max";
  if (isExtreme && a.isConstant() && b.isConstant()) {
    Affine made;
    made.constant =
        sign == "min" ? std::min(a.constant, b.constant) : std::max(a.constant, b.constant);
    return made;
  }
  if (isExtreme && keyOf(*exprOf(a)) == keyOf(*exprOf(b)))
    return a;
  return rebuilt(expr);
}

} // namespace

std::string keyOf(const Expr &expr) {
  std::string key = char('A' + int(expr.kind)) + std::to_string(expr.integer);
  if (expr.kind == Expr::Kind::Index || expr.kind == Expr::Kind::Size ||
      expr.kind == Expr::Kind::Integer)
    return key;
  key += expr.kind == Expr::Kind::Read ? "" : expr.text;
  key += expr.kind == Expr::Kind::Real ? std::to_string(expr.number) : "";
  key += "(" + std::to_string(int(expr.type));
  for (const ExprRef &part : expr.parts)
    key += "," + keyOf(*part);
  return key + ")";
}

void Affine::add(const ExprRef &term, int64_t coefficient) {
  if (coefficient == 0)
    return;
  auto [place, isNew] = terms.try_emplace(keyOf(*term), Term{coefficient, term});
  if (isNew)
    return;
  int64_t &sum = place->second.coefficient;
  valid &= !__builtin_add_overflow(sum, coefficient, &sum) && sum != INT64_MIN;
  if (place->second.coefficient == 0)
    terms.erase(place);
}

void Affine::add(const Affine &other, int64_t factor) {
  valid &= other.valid;
  int64_t product = 0;
  for (const auto &[text, term] : other.terms) {
    valid &= !__builtin_mul_overflow(term.coefficient, factor, &product);
    add(term.expr, product);
  }
  valid &= !__builtin_mul_overflow(other.constant, factor, &product);
  valid &= !__builtin_add_overflow(constant, product, &constant);
  valid &= constant != INT64_MIN; // which has no negative
}

Affine affineOf(const ExprRef &expr) {
  Affine made;
  switch (expr->kind) {
  case Expr::Kind::Integer:
    made.constant = expr->integer;
    return made;
  case Expr::Kind::Unary:
    if (expr->text == "-") {
      made.add(affineOf(expr->parts[0]), -1);
      return made;
    }
    return rebuilt(expr);
  case Expr::Kind::Binary:
    return binaryOf(expr);
  default:
    return expr->parts.empty() ? opaque(expr) : rebuilt(expr);
  }
}

ExprRef exprOf(const Affine &affine) {
  ExprRef sum;
  auto append = [&](ExprRef term, bool negative) {
    if (!sum)
      sum = negative ? makeExpr({.kind = Expr::Kind::Unary,
                                 .type = DataType::I64,
                                 .text = "-",
                                 .parts = {term}})
                     : term;
    else
      sum = binaryExpr(negative ? "-" : "+", sum, term);
  };
  for (bool negative : {false, true})
    for (const auto &[text, term] : affine.terms) {
      if ((term.coefficient < 0) != negative)
        continue;
      int64_t size = term.coefficient < 0 ? -term.coefficient : term.coefficient;
      append(size == 1 ? term.expr : binaryExpr("*", integerExpr(size), term.expr), negative);
    }
  if (!sum)
    return integerExpr(affine.constant);
  if (affine.constant != 0)
    append(integerExpr(affine.constant < 0 ? -affine.constant : affine.constant),
           affine.constant < 0);
  return sum;
}

ExprRef simplified(const ExprRef &expr) {
  Affine affine = affineOf(expr);
  return affine.valid ? exprOf(affine) : expr;
}

/// x / c - y / c is at least (x - y) / c: pairs of quotients whose dividends differ by a number go.
static void dropQuotients(Affine &difference) {
  auto isQuotient = [](const Affine::Term &term, int64_t coefficient) {
    return term.coefficient == coefficient && term.expr->kind == Expr::Kind::Binary &&
           term.expr->text == "/" && term.expr->parts[1]->kind == Expr::Kind::Integer &&
           term.expr->parts[1]->integer > 0;
  };
  for (auto x = difference.terms.begin(); x != difference.terms.end(); ++x)
    for (auto y = difference.terms.begin(); y != difference.terms.end(); ++y) {
      if (!isQuotient(x->second, 1) || !isQuotient(y->second, -1))
        continue;
      int64_t by = x->second.expr->parts[1]->integer;
      Affine dividends = affineOf(x->second.expr->parts[0]);
      dividends.add(affineOf(y->second.expr->parts[0]), -1);
      if (y->second.expr->parts[1]->integer != by || !dividends.isConstant())
        continue;
      difference.constant += floorDiv(dividends.constant, by);
      difference.terms.erase(x);
      difference.terms.erase(y);
      return dropQuotients(difference);
    }
}

bool isAtMost(const ExprRef &a, const ExprRef &b) {
  if (b->kind == Expr::Kind::Binary && b->text == "max")
    if (isAtMost(a, b->parts[0]) || isAtMost(a, b->parts[1]))
      return true;
  if (a->kind == Expr::Kind::Binary && a->text == "min")
    if (isAtMost(a->parts[0], b) || isAtMost(a->parts[1], b))
      return true;
  if (a->kind == Expr::Kind::Binary && a->text == "max")
    return isAtMost(a->parts[0], b) && isAtMost(a->parts[1], b);
  if (b->kind == Expr::Kind::Binary && b->text == "min")
    return isAtMost(a, b->parts[0]) && isAtMost(a, b->parts[1]);
  Affine difference = affineOf(b);
  difference.add(affineOf(a), -1);
  dropQuotients(difference);
  auto isNotNegative = [](const auto &term) {
    return term.second.coefficient > 0 && term.second.expr->kind == Expr::Kind::Size;
  };
  return difference.valid && difference.constant >= 0 &&
         std::all_of(difference.terms.begin(), difference.terms.end(), isNotNegative);
}

ExprRef greater(const ExprRef &a, const ExprRef &b) {
  return isAtMost(b, a) ? a : isAtMost(a, b) ? b : simplified(binaryExpr("max", a, b));
}
ExprRef smaller(const ExprRef &a, const ExprRef &b) {
  return isAtMost(a, b) ? a : isAtMost(b, a) ? b : simplified(binaryExpr("min", a, b));
}

bool hasIndices(const Expr &expr) {
  bool found = false;
  visit(expr, [&](const Expr &part) { found |= part.kind == Expr::Kind::Index; });
  return found;
}

namespace {
constexpr int kMostSubstitutions = 64;

class Bounds {
public:
  explicit Bounds(std::span<const Index> indices) : indices_(indices) {}

  std::optional<ExprRef> extreme(const ExprRef &expr, bool most) {
    Affine sum = affineOf(expr);
    for (;;) {
      auto hasIndex = [](const auto &term) { return hasIndices(*term.second.expr); };
      auto found = std::find_if(sum.terms.begin(), sum.terms.end(), hasIndex);
      if (found == sum.terms.end())
        return sum.valid ? std::optional(exprOf(sum)) : std::nullopt;
      // The index whose bounds refer to others goes first, for these may be in the sum as well.
      auto next = sum.terms.end();
      for (auto term = sum.terms.begin(); term != sum.terms.end(); ++term)
        if (hasIndices(*term->second.expr) &&
            (next == sum.terms.end() || rankOf(*term->second.expr) > rankOf(*next->second.expr)))
          next = term;
      Affine::Term term = next->second;
      sum.terms.erase(next);
      auto bound = termExtreme(term.expr, most == (term.coefficient > 0));
      if (!bound || ++substitutions_ > kMostSubstitutions)
        return std::nullopt;
      sum.add(affineOf(*bound), term.coefficient);
    }
  }

private:
  /// How many indices are between this one and one whose bounds are of sizes alone.
  int rankOf(const Expr &expr, int most = 8) const {
    int rank = 0;
    visit(expr, [&](const Expr &part) {
      if (part.kind != Expr::Kind::Index || most == 0)
        return;
      const Index &index = indices_[size_t(part.integer)];
      for (const ExprRef &bound : {index.low, index.high})
        if (bound && hasIndices(*bound))
          rank = std::max(rank, 1 + rankOf(*bound, most - 1));
    });
    return rank;
  }

  std::optional<ExprRef> termExtreme(const ExprRef &term, bool most) {
    if (term->kind == Expr::Kind::Index) {
      const Index &index = indices_[size_t(term->integer)];
      if (!index.low || !index.high)
        return std::nullopt;
      return most ? minus(index.high, integerExpr(1)) : index.low;
    }
    if (term->kind != Expr::Kind::Binary)
      return std::nullopt;
    auto left = [&](bool greatest) { return extreme(term->parts[0], greatest); };
    Affine by = affineOf(term->parts[1]);
    bool byNumber = by.isConstant() && by.constant > 0;
    if (term->text == "/" && byNumber) {
      auto bound = left(most);
      return bound ? std::optional(simplified(binaryExpr("/", *bound, term->parts[1])))
                   : std::nullopt;
    }
    if (term->text == "%" && byNumber)
      return integerExpr(most ? by.constant - 1 : 0);
    if (term->text != "min" && term->text != "max")
      return std::nullopt;
    auto a = left(most), b = extreme(term->parts[1], most);
    if (!a || !b)
      return std::nullopt;
    return term->text == "min" ? smaller(*a, *b) : greater(*a, *b);
  }

  std::span<const Index> indices_;
  int substitutions_ = 0;
};
} // namespace

std::optional<Interval> boundsOf(const ExprRef &expr, std::span<const Index> indices) {
  auto least = Bounds(indices).extreme(expr, false), most = Bounds(indices).extreme(expr, true);
  if (!least || !most)
    return std::nullopt;
  return Interval{*least, *most};
}

} // namespace tensmith::comprehension
