// Rules of real numbers, for `--fast-math`: roundings differ, and so does what overflows, is
// infinite or no number on the way.
//
// In real numbers, where both sides are defined, they are equal: that is a rule's proof. Where one
// side alone is defined, or a float has no room for what is in between, results may be others
// (docs/simplification.md has a table).
#ifndef TENSMITH_REWRITE_REAL_RULES
#define TENSMITH_REWRITE_REAL_RULES
include "mlir/IR/PatternBase.td"
include "compiler/rewrite/RuleConditions.td"

// The sign of zero.
def PlusZero : Pat<(Graph_AddOp:$y $x, $zero), (replaceWithValue $x), [(IsZero $zero), (SameType $y, $x)]>;
def ZeroPlus : Pat<(Graph_AddOp:$y $zero, $x), (replaceWithValue $x), [(IsZero $zero), (SameType $y, $x)]>;
def ZeroMinus : Pat<(Graph_SubOp:$y $zero, $x), (Graph_NegOp $x), [(IsZero $zero), (SameType $y, $x)]>;
def NegOfDifference : Pat<(Graph_NegOp (Graph_SubOp $a, $b)), (Graph_SubOp $b, $a)>;

// Functions that undo one another: outside of their domain, and where they overflow.
def ExpOfLog : Pat<(Graph_ExpOp (Graph_LogOp $x)), (replaceWithValue $x)>;
def LogOfExp : Pat<(Graph_LogOp (Graph_ExpOp $x)), (replaceWithValue $x)>;
def SqrtOfSquare : Pat<(Graph_SqrtOp (Graph_MulOp:$p $x, $x)), (Graph_AbsOp $x)>;
def SquareOfSqrt : Pat<(Graph_MulOp (Graph_SqrtOp:$a $x), $b), (replaceWithValue $x), [(SameValue $a, $b)]>;
def LogOfSoftmax : Pat<(Graph_LogOp (Graph_SoftmaxOp $x, $axis)), (Graph_LogSoftmaxOp $x, $axis)>;

// Powers by what is faster.
def Square : Pat<(Graph_PowOp:$y $x, $two), (Graph_MulOp $x, $x), [(IsTwo $two), (SameType $y, $x)]>;
def PowerOfHalf : Pat<(Graph_PowOp:$y $x, $half), (Graph_SqrtOp $x), [(IsHalf $half), (IsFloat $x), (SameType $y, $x)]>;
def PowerOfMinusHalf : Pat<(Graph_PowOp:$y $x, $half), (Graph_RsqrtOp $x), [(IsMinusHalf $half), (IsFloat $x), (SameType $y, $x)]>;
def PowerOfMinusOne : Pat<(Graph_PowOp:$y $x, $one), (Graph_DivOp (OnesLike $x), $x), [(IsMinusOne $one), (IsFloat $x), (SameType $y, $x)]>;
def OverSqrt : Pat<(Graph_DivOp:$y $x, (Graph_SqrtOp:$root $a)), (Graph_MulOp $x, (Rsqrt $a)), [(HasOneUse $root), (IsFloat $a)]>;
def ExpTimesExp : Pat<(Graph_MulOp (Graph_ExpOp:$p $a), (Graph_ExpOp:$q $b)), (Graph_ExpOp (Sum $a, $b)),
                      [(HasOneUse $p), (HasOneUse $q)]>;

// Constants meet, and are folded.
def ConstantTerms : Pat<(Graph_AddOp:$z (Graph_AddOp:$y $x, $c), $d), (Graph_AddOp $x, (Sum $c, $d)),
                        [(IsConstant $c), (IsConstant $d), (IsFloat $x), (SameType $z, $x), (SameType $y, $x)]>;
def ConstantFactors : Pat<(Graph_MulOp:$z (Graph_MulOp:$y $x, $c), $d), (Graph_MulOp $x, (Product $c, $d)),
                          [(IsConstant $c), (IsConstant $d), (IsFloat $x), (SameType $z, $x), (SameType $y, $x)]>;

// The distributive law.
def CommonFactor : Pat<(Graph_AddOp:$y (Graph_MulOp:$p $a, $b), (Graph_MulOp:$q $a, $c)), (Graph_MulOp $a, (Sum $b, $c)),
                       [(IsFloat $a), (HasOneUse $p), (HasOneUse $q), (SameType $b, $c), (SameType $p, $b)]>;
def FactorOutOfSum : Pat<(Graph_ReduceSumOp (Graph_MulOp:$p $x, $s), $axes, $keepdims),
                         (Graph_MulOp (SumOver $x, $axes, $keepdims), $s), [(IsFloat $x), (IsScalar $s), (HasOneUse $p)]>;
def QuotientOutOfSum : Pat<(Graph_ReduceSumOp (Graph_DivOp:$p $x, $s), $axes, $keepdims),
                           (Graph_DivOp (SumOver $x, $axes, $keepdims), $s), [(IsFloat $x), (IsScalar $s), (HasOneUse $p)]>;
def NegOutOfSum : Pat<(Graph_ReduceSumOp (Graph_NegOp:$p $x), $axes, $keepdims),
                      (Graph_NegOp (SumOver $x, $axes, $keepdims)), [(HasOneUse $p)]>;
#endif
