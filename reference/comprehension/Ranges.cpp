// Range inference in rounds; see Ranges.h, and "Range Inference" in the documentation of Tensor
// Comprehensions.
#include "reference/comprehension/Ranges.h"

#include "reference/comprehension/Affine.h"

#include <algorithm>
#include <set>

namespace tensmith::comprehension {
namespace {

/// An index expression of an access along a dimension: low <= index < low + extent.
struct Access {
  const Expr *read; // null: the target
  size_t dim;
  ExprRef index, low, extent;
};

struct Range {
  ExprRef low, high;
};

Range both(const Range &a, const Range &b) {
  if (!a.low)
    return b;
  return {greater(a.low, b.low), smaller(a.high, b.high)};
}

class Inference {
public:
  Inference(Function &function, Statement &statement, std::vector<Message> &messages)
      : function_(function), statement_(statement), messages_(messages) {}

  bool run(std::span<const ExprRef> exists) {
    collect(*statement_.value);
    for (const ExprRef &expr : exists)
      collect(*expr);
    if (!statement_.isFirst)
      collectTarget();
    while (waits())
      if (!round())
        return explain();
    return order() && checkBounds() && place();
  }

private:
  bool fail(Place place, std::string text) {
    messages_.push_back({place, std::move(text)});
    return false;
  }

  void collect(const Expr &expr) {
    visit(expr, [&](const Expr &part) {
      if (part.kind != Expr::Kind::Read)
        return;
      const Tensor &tensor = function_.tensors[size_t(part.integer)];
      for (size_t dim = 0; dim < part.parts.size(); ++dim)
        accesses_.push_back({&part, dim, part.parts[dim], tensor.lows[dim], tensor.extents[dim]});
    });
  }

  void collectTarget() {
    const Tensor &target = function_.tensors[statement_.target];
    for (size_t dim = 0; dim < statement_.rank; ++dim)
      accesses_.push_back({nullptr, dim, indexExpr(dim), target.lows[dim], target.extents[dim]});
  }

  ExprRef indexExpr(size_t number) const {
    return makeExpr({.kind = Expr::Kind::Index,
                     .type = DataType::I64,
                     .text = statement_.indices[number].name,
                     .integer = int64_t(number)});
  }

  bool isOpen(size_t index) const { return !statement_.indices[index].low; }
  bool waits() const {
    for (size_t i = 0; i < statement_.indices.size(); ++i)
      if (isOpen(i))
        return true;
    return false;
  }

  /// Indices without a range that the expression has, or the bounds of its other indices.
  void addOpen(const Expr &expr, std::set<size_t> &open, std::set<size_t> &seen) const {
    visit(expr, [&](const Expr &part) {
      if (part.kind != Expr::Kind::Index || !seen.insert(size_t(part.integer)).second)
        return;
      const Index &index = statement_.indices[size_t(part.integer)];
      if (!index.low)
        open.insert(size_t(part.integer));
      for (const ExprRef &bound : {index.low, index.high})
        if (bound)
          addOpen(*bound, open, seen);
    });
  }

  bool round() {
    std::vector<Range> found(statement_.indices.size());
    for (const Access &access : accesses_) {
      std::set<size_t> open, seen;
      addOpen(*access.index, open, seen);
      if (open.size() != 1 || readsTensors(*access.index))
        continue;
      ExprRef last = minus(binaryExpr("+", access.low, access.extent), integerExpr(1));
      if (auto range = solve(access.index, *open.begin(), access.low, last)) {
        found[*open.begin()] = both(found[*open.begin()], *range);
        inside_.insert({access.read, access.dim});
      }
    }
    bool any = false;
    for (size_t i = 0; i < found.size(); ++i)
      if (found[i].low) {
        statement_.indices[i].low = found[i].low;
        statement_.indices[i].high = found[i].high;
        any = true;
      }
    return any;
  }

  static bool hasIndex(const Expr &expr, size_t index) {
    bool found = false;
    visit(expr, [&](const Expr &part) {
      found |= part.kind == Expr::Kind::Index && size_t(part.integer) == index;
    });
    return found;
  }

  /// The values of the index for which low <= expr <= last, whatever the others are.
  std::optional<Range> solve(const ExprRef &expr, size_t index, ExprRef low, ExprRef last) const {
    Affine sum = affineOf(expr);
    const Affine::Term *own = nullptr;
    for (const auto &[text, term] : sum.terms)
      if (hasIndex(*term.expr, index)) {
        if (own)
          return std::nullopt;
        own = &term;
      }
    if (!own || !sum.valid)
      return std::nullopt;
    Affine::Term term = *own;
    sum.terms.erase(keyOf(*term.expr));
    auto rest = boundsOf(exprOf(sum), statement_.indices);
    if (!rest)
      return std::nullopt;
    // low - least <= coefficient * term <= last - most
    low = minus(low, rest->least);
    last = minus(last, rest->most);
    if (term.coefficient < 0) {
      std::swap(low, last);
      low = minus(integerExpr(0), low);
      last = minus(integerExpr(0), last);
    }
    if (int64_t by = std::abs(term.coefficient); by != 1) {
      ExprRef divisor = integerExpr(by);
      low = simplified(binaryExpr("/", plus(low, integerExpr(by - 1)), divisor));
      last = simplified(binaryExpr("/", last, divisor));
    }
    if (term.expr->kind == Expr::Kind::Index)
      return Range{low, plus(last, integerExpr(1))};
    bool isQuotient = term.expr->kind == Expr::Kind::Binary && term.expr->text == "/";
    Affine by = isQuotient ? affineOf(term.expr->parts[1]) : Affine();
    if (!isQuotient || !by.isConstant() || by.constant <= 0)
      return std::nullopt;
    // low <= x / by <= last
    ExprRef divisor = integerExpr(by.constant);
    low = simplified(binaryExpr("*", divisor, low));
    last = minus(binaryExpr("*", divisor, plus(last, integerExpr(1))), integerExpr(1));
    return solve(term.expr->parts[0], index, low, last);
  }

  bool explain() {
    std::string names, first;
    Place place = statement_.place;
    for (const Index &index : statement_.indices)
      if (!index.low) {
        first = first.empty() ? index.name : first;
        names += (names.empty() ? "'" : ", '") + index.name + "'";
        place = index.place;
      }
    bool isOne = names.find(',') == names.npos;
    return fail(place, "no access tells the range" + std::string(isOne ? " of " : "s of ") + names +
                           ", since none has it as its one index without a range; write 'where " +
                           first + " in 0:...'");
  }

  /// Indices by what their bounds refer to.
  bool order() {
    size_t count = statement_.indices.size();
    std::vector<bool> done(count, false);
    while (statement_.order.size() < count) {
      size_t before = statement_.order.size();
      for (size_t i = 0; i < count; ++i) {
        bool ready = !done[i];
        for (const ExprRef &bound : {statement_.indices[i].low, statement_.indices[i].high})
          visit(*bound, [&](const Expr &part) {
            ready &= part.kind != Expr::Kind::Index || done[size_t(part.integer)];
          });
        if (!ready)
          continue;
        done[i] = true;
        statement_.order.push_back(i);
      }
      if (statement_.order.size() > before)
        continue;
      size_t open = size_t(std::find(done.begin(), done.end(), false) - done.begin());
      return fail(statement_.indices[open].place,
                  "the range of '" + statement_.indices[open].name +
                      "' depends on itself, by way of the indices in its bounds");
    }
    return true;
  }

  bool isRectangular() const {
    return std::none_of(
        statement_.indices.begin(), statement_.indices.end(),
        [](const Index &index) { return hasIndices(*index.low) || hasIndices(*index.high); });
  }

  bool checkBounds() {
    for (const Index &index : statement_.indices) {
      Affine low = affineOf(index.low), high = affineOf(index.high);
      if (!low.valid || !high.valid)
        return fail(index.place,
                    "the range of '" + index.name + "' has numbers beyond those of 64 bits");
      Affine extent = high;
      extent.add(low, -1);
      if (extent.isConstant() && extent.constant < 0)
        return fail(index.place, "the range of '" + index.name + "' is from " + print(*index.low) +
                                     " to " + print(*index.high) + ", which is before it");
    }
    return true;
  }

  /// The target's place in memory, where this is its first statement, and its reads' checks.
  bool place() {
    Tensor &target = function_.tensors[statement_.target];
    if (statement_.isFirst && !placeTarget(target))
      return false;
    if (!statement_.isFirst)
      placeIn(target);
    statement_.value = checked(statement_.value, /*always=*/true);
    return true;
  }

  bool placeTarget(Tensor &target) {
    for (size_t dim = 0; dim < statement_.rank; ++dim) {
      const Index &index = statement_.indices[dim];
      auto low = boundsOf(index.low, statement_.indices),
           high = boundsOf(index.high, statement_.indices);
      if (!low || !high)
        return fail(index.place, "the size of " + target.name + " along '" + index.name +
                                     "' can't be told from its range");
      target.lows.push_back(low->least);
      target.extents.push_back(minus(high->most, low->least));
      statement_.coversTarget &= !hasIndices(*index.low) && !hasIndices(*index.high);
    }
    if (!statement_.coversTarget && !statement_.initialises)
      return fail(statement_.place,
                  target.name + " has elements that this statement doesn't reach, which have no "
                                "value; give them one by a statement before, or by '+=!'");
    return true;
  }

  void placeIn(const Tensor &target) {
    for (size_t dim = 0; dim < statement_.rank; ++dim) {
      const Index &index = statement_.indices[dim];
      ExprRef end = plus(target.lows[dim], target.extents[dim]);
      auto same = [](const ExprRef &a, const ExprRef &b) {
        return isAtMost(a, b) && isAtMost(b, a);
      };
      statement_.coversTarget &= same(index.low, target.lows[dim]) && same(index.high, end);
      std::string what = target.name + " is written along '" + index.name + "' ";
      if (inside_.count({nullptr, dim}))
        continue;
      require(target.lows[dim], index.low, statement_.place,
              what + "from {b} on, where it begins at {a}");
      require(index.high, end, statement_.place, what + "up to {a}, where it ends at {b}");
    }
  }

  /// a <= b, at the least of b and the greatest of a.
  bool require(const ExprRef &a, const ExprRef &b, Place place, std::string message) {
    auto most = boundsOf(a, statement_.indices), least = boundsOf(b, statement_.indices);
    if (!most || !least)
      return false;
    if (isAtMost(most->most, least->least))
      return true;
    Requirement made;
    made.a = most->most;
    made.b = least->least;
    made.message =
        std::to_string(place.line) + ":" + std::to_string(place.column) + ": " + std::move(message);
    for (const Index &index : statement_.indices)
      if (!hasIndices(*index.low) && !hasIndices(*index.high))
        made.extents.push_back(minus(index.high, index.low));
    made.statement = function_.statements.size();
    function_.requirements.push_back(std::move(made));
    return true;
  }

  /// Whether bounds of the expression are attained: each index stands in it once.
  static bool isExact(const ExprRef &index) {
    Affine sum = affineOf(index);
    return std::all_of(sum.terms.begin(), sum.terms.end(), [](const auto &term) {
      return term.second.expr->kind == Expr::Kind::Index ||
             term.second.expr->kind == Expr::Kind::Size;
    });
  }

  /// Whether the index of a read is inside by the ranges, or by a requirement on sizes. `always`:
  /// whether the read takes place at each point.
  bool isInside(const Expr &read, size_t dim, bool always) {
    const ExprRef &index = read.parts[dim];
    const Tensor &tensor = function_.tensors[size_t(read.integer)];
    if (readsTensors(*index))
      return false;
    auto bounds = boundsOf(index, statement_.indices);
    if (!bounds)
      return false;
    ExprRef low = tensor.lows[dim];
    ExprRef last = minus(binaryExpr("+", low, tensor.extents[dim]), integerExpr(1));
    if (isAtMost(low, bounds->least) && isAtMost(bounds->most, last))
      return true;
    bool ofData = readsTensors(*bounds->least) || readsTensors(*bounds->most) ||
                  readsTensors(*tensor.extents[dim]);
    if (!always || ofData || !isRectangular() || !isExact(index))
      return false;
    std::string what =
        tensor.name + " is read along dimension " + std::to_string(dim) + " at '" + print(*index);
    return require(low, index, read.place, what + "', that is at {b}, where it begins at {a}") &&
           require(index, last, read.place,
                   what + "', that is at {a}, where its last index is {b}");
  }

  ExprRef checked(const ExprRef &expr, bool always) {
    bool branches =
        expr->kind == Expr::Kind::Select ||
        (expr->kind == Expr::Kind::Binary && (expr->text == "&&" || expr->text == "||"));
    Expr copy = *expr;
    for (size_t i = 0; i < copy.parts.size(); ++i)
      copy.parts[i] = checked(copy.parts[i], always && (!branches || i == 0));
    if (copy.kind == Expr::Kind::Read)
      for (size_t dim = 0; dim < copy.parts.size(); ++dim)
        if (!inside_.count({expr.get(), dim}) && !isInside(copy, dim, always))
          copy.checked |= uint64_t(1) << dim;
    return makeExpr(std::move(copy));
  }

  Function &function_;
  Statement &statement_;
  std::vector<Message> &messages_;
  std::vector<Access> accesses_;
  std::set<std::pair<const Expr *, size_t>> inside_; // accesses that have told a range
};

} // namespace

bool inferRanges(Function &function, Statement &statement, std::span<const ExprRef> exists,
                 std::vector<Message> &messages) {
  return Inference(function, statement, messages).run(exists);
}

} // namespace tensmith::comprehension
