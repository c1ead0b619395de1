// Proofs of conditions on sizes by cases; see SizeCases.h.
#include "compiler/graph/SizeCases.h"

#include "compiler/graph/BroadcastSizes.h"
#include "compiler/graph/Shape.h"

using namespace mlir;

namespace tensmith::graph {

using Relation = Condition::Relation;

AffineExpr SizeCases::answered(AffineExpr size) const {
  if (answers_.empty())
    return facts_.normal(size);
  ShapeContext shapes(size.getContext());
  AffineExpr normal = facts_.normal(shapes.simplify(size).replace(answers_));
  return shapes.simplify(normal.replace(answers_));
}

void SizeCases::assume(const Condition &condition) {
  known_.push_back(condition);
  Condition known = condition;
  known.a = answered(known.a);
  known.b = answered(known.b);
  assumeAnswered(narrowed(known));
}

void SizeCases::assumeAnswered(const Condition &condition) {
  isImpossible_ |= facts_.decide(condition) == false;
  facts_.assume(condition);
}

void SizeCases::assumeSize(AffineExpr size) {
  sizes_.push_back(size);
  AffineExpr own = answered(size), zero = getAffineConstantExpr(0, size.getContext());
  // As a condition it bounds sizes that are larger by a number, too, as padded ones are.
  if (facts_.decide(Relation::AtMost, zero, own) != true)
    facts_.assume({Relation::AtMost, zero, own, {}});
  facts_.assumeSize(own);
}

/// What it says where sizes are 1, or are not.
Condition SizeCases::narrowed(Condition condition) const {
  AffineExpr one = getAffineConstantExpr(1, condition.a.getContext());
  auto isNotOne = [&](AffineExpr size) {
    return notOne_.contains(size) || facts_.decide(Relation::Equal, size, one) == false;
  };
  if (condition.relation == Relation::Broadcast && isNotOne(condition.a))
    std::swap(condition.a, condition.b);
  if (condition.relation == Relation::Broadcast && isNotOne(condition.b))
    condition.relation = Relation::EqualOrOne;
  if (condition.relation == Relation::EqualOrOne && (isNotOne(condition.a) || condition.b == one))
    condition.relation = Relation::Equal;
  return condition;
}

SizeCases SizeCases::withAnswer(AffineExpr question, bool isOne) const {
  AffineExpr one = getAffineConstantExpr(1, question.getContext()), half = question.floorDiv(2);
  SizeCases next;
  next.answers_ = answers_;
  // Whether the part is 1 is question - 2 * half, where the question may be 2; of 1 / n it is not.
  bool isAtMostOne = cast<AffineBinaryOpExpr>(question).getLHS() == one;
  next.answers_[half] = isOne || isAtMostOne ? one - 1 : half;
  next.answers_[question] = isOne ? one : next.answers_[half] * 2;
  AffineExpr part = answered(partOfQuestion(question));
  if (isOne)
    next.assume({Relation::Equal, part, one, {}});
  else if (isAtMostOne) // 1 / n is less where n, by which something is divided, is more
    next.assume({Relation::AtMost,
                 one * 2,
                 next.answered(cast<AffineBinaryOpExpr>(question).getRHS()),
                 {}});
  // What is equal is known first, so that the others are put as sizes that remain.
  for (bool equal : {true, false})
    for (const Condition &known : known_)
      if ((known.relation == Relation::Equal) == equal)
        next.assume(known);
  for (AffineExpr size : notOne_)
    next.notOne_.insert(next.answered(size));
  if (!isOne)
    next.notOne_.insert(next.answered(part));
  // Once more with all that: what may be 1 may be known not to be.
  for (const Condition &known : known_)
    if (known.relation == Relation::EqualOrOne || known.relation == Relation::Broadcast)
      next.assumeAnswered(next.narrowed({known.relation, next.answered(known.a),
                                         next.answered(known.b), known.message, known.unlessZero}));
  for (AffineExpr size : sizes_)
    next.assumeSize(size);
  return next;
}

bool SizeCases::proves(const Condition &condition, unsigned questions) const {
  if (isImpossible_)
    return true;
  Condition asked = condition;
  asked.a = answered(condition.a);
  asked.b = answered(condition.b);
  if (facts_.decide(asked) == true)
    return true;
  AffineExpr question;
  for (AffineExpr size : {asked.a, asked.b})
    size.walk([&](AffineExpr part) {
      if (!question && partOfQuestion(part) && !answers_.contains(part))
        question = part;
    });
  return question && questions > 0 && withAnswer(question, true).proves(condition, questions - 1) &&
         withAnswer(question, false).proves(condition, questions - 1);
}

bool SizeCases::isAtMost(AffineExpr a, AffineExpr b) {
  constexpr unsigned kQuestions = 3;
  return SizeCases().proves({Relation::AtMost, a, b, {}}, kQuestions);
}

} // namespace tensmith::graph
