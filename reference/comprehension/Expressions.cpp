// Expressions as trees: walks over them, and copies with parts replaced; see Analysis.h.
#include "reference/comprehension/Analysis.h"

namespace tensmith::comprehension {

void visit(const Expr &expr, const std::function<void(const Expr &)> &each) {
  each(expr);
  for (const ExprRef &part : expr.parts)
    visit(*part, each);
}

ExprRef rewrite(const ExprRef &expr, const std::function<ExprRef(const ExprRef &)> &of) {
  Expr copy = *expr;
  bool changed = false;
  for (ExprRef &part : copy.parts) {
    ExprRef next = rewrite(part, of);
    changed |= next != part;
    part = std::move(next);
  }
  ExprRef same = changed ? makeExpr(std::move(copy)) : expr;
  ExprRef other = of(same);
  return other ? other : same;
}

bool readsTensors(const Expr &expr) {
  bool reads = false;
  visit(expr, [&](const Expr &part) { reads |= part.kind == Expr::Kind::Read; });
  return reads;
}

} // namespace tensmith::comprehension
