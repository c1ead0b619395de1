// Rules of arithmetic that hold for every float: NaN, the infinities and both zeros included.
//
// Each rule gives the same number as what it replaces, bit for bit but for which NaN a NaN is, so
// that all of them run under every policy. Where a rule says why it holds, that is its proof; test/
// AlgebraicRulesTest.cpp draws expressions of all of them and compares elements that are special.
// A result has the type of what it replaces: operands that broadcast are left alone by SameType.
#ifndef TENSMITH_REWRITE_ALGEBRAIC_RULES
#define TENSMITH_REWRITE_ALGEBRAIC_RULES
include "mlir/IR/PatternBase.td"
include "compiler/rewrite/RuleConditions.td"

// x * 1, x / 1: the product of a float with 1 is exact.
def TimesOne : Pat<(Graph_MulOp:$y $x, $one), (replaceWithValue $x), [(IsOne $one), (SameType $y, $x)]>;
def OneTimes : Pat<(Graph_MulOp:$y $one, $x), (replaceWithValue $x), [(IsOne $one), (SameType $y, $x)]>;
def OverOne : Pat<(Graph_DivOp:$y $x, $one), (replaceWithValue $x), [(IsOne $one), (SameType $y, $x)]>;
def ToTheOne : Pat<(Graph_PowOp:$y $x, $one), (replaceWithValue $x), [(IsOne $one), (SameType $y, $x)]>;

// x * -1, x / -1: exact, with the other sign.
def TimesMinusOne : Pat<(Graph_MulOp:$y $x, $one), (Graph_NegOp $x), [(IsMinusOne $one), (IsFloat $x), (SameType $y, $x)]>;
def MinusOneTimes : Pat<(Graph_MulOp:$y $one, $x), (Graph_NegOp $x), [(IsMinusOne $one), (IsFloat $x), (SameType $y, $x)]>;
def OverMinusOne : Pat<(Graph_DivOp:$y $x, $one), (Graph_NegOp $x), [(IsMinusOne $one), (IsFloat $x), (SameType $y, $x)]>;

// x - 0 and x + -0: -0 stays -0. x + 0 does not do for floats: of -0 it is 0.
def MinusZero : Pat<(Graph_SubOp:$y $x, $zero), (replaceWithValue $x), [(IsPositiveZero $zero), (SameType $y, $x)]>;
def PlusMinusZero : Pat<(Graph_AddOp:$y $x, $zero), (replaceWithValue $x), [(IsNeutral $zero), (SameType $y, $x)]>;
def MinusZeroPlus : Pat<(Graph_AddOp:$y $zero, $x), (replaceWithValue $x), [(IsNeutral $zero), (SameType $y, $x)]>;
// -0 - x: of 0 it is -0, and of -0 it is 0. (0 - 0 is 0, which is no negation.)
def MinusZeroMinus : Pat<(Graph_SubOp:$y $zero, $x), (Graph_NegOp $x), [(IsNeutral $zero), (SameType $y, $x)]>;

// Signs are exact: they go where they cost nothing.
def NegOfNeg : Pat<(Graph_NegOp (Graph_NegOp $x)), (replaceWithValue $x)>;
def PlusNeg : Pat<(Graph_AddOp $a, (Graph_NegOp $b)), (Graph_SubOp $a, $b)>;
def NegPlus : Pat<(Graph_AddOp (Graph_NegOp $a), $b), (Graph_SubOp $b, $a)>;
def MinusNeg : Pat<(Graph_SubOp $a, (Graph_NegOp $b)), (Graph_AddOp $a, $b)>;
def NegTimesNeg : Pat<(Graph_MulOp (Graph_NegOp $a), (Graph_NegOp $b)), (Graph_MulOp $a, $b)>;
def NegOverNeg : Pat<(Graph_DivOp (Graph_NegOp $a), (Graph_NegOp $b)), (Graph_DivOp $a, $b), [(IsFloat $a)]>;
def AbsOfNeg : Pat<(Graph_AbsOp (Graph_NegOp $x)), (Graph_AbsOp $x), [(IsSigned $x)]>; // unsigned, -1 is 255 of 8 bits

// What has been done is not done again.
def AbsOfAbs : Pat<(Graph_AbsOp (Graph_AbsOp:$y $x)), (replaceWithValue $y)>;
def SignOfSign : Pat<(Graph_SignOp (Graph_SignOp:$y $x)), (replaceWithValue $y)>;
foreach outer = [Graph_CeilOp, Graph_FloorOp, Graph_RoundOp] in
  foreach inner = [Graph_CeilOp, Graph_FloorOp, Graph_RoundOp] in
    def : Pat<(outer (inner:$y $x)), (replaceWithValue $y)>; // of a whole number
foreach op = [Graph_MaxOp, Graph_MinOp, Graph_AndOp, Graph_OrOp, Graph_BitwiseAndOp, Graph_BitwiseOrOp] in
  def : Pat<(op $x, $x), (replaceWithValue $x)>;
// Of two zeros both take the one that they take: the inner result is equal to one of its operands.
foreach op = [Graph_MaxOp, Graph_MinOp] in
  def : Pat<(op:$z (op:$y $a, $b), $b), (replaceWithValue $y), [(SameType $z, $y)]>;
def NotOfNot : Pat<(Graph_NotOp (Graph_NotOp $x)), (replaceWithValue $x)>;
def BitwiseNotOfNot : Pat<(Graph_BitwiseNotOp (Graph_BitwiseNotOp $x)), (replaceWithValue $x)>;

def WhereOfSame : Pat<(Graph_WhereOp:$y $c, $x, $x), (replaceWithValue $x), [(SameType $y, $x)]>;
def WhereOfNot : Pat<(Graph_WhereOp (Graph_NotOp $c), $a, $b), (Graph_WhereOp $c, $b, $a)>;

// A cast to a type that has all numbers of the first, and back.
def CastBack : Pat<(Graph_CastOp:$y (Graph_CastOp:$wide $x, $to, $s, $r), $to2, $s2, $r2), (replaceWithValue $x),
                   [(SameType $y, $x), (HoldsAllOf $wide, $x)]>;

// Integers wrap: what holds for whole numbers holds for them. What has sizes that only a run tells may
// be the only value that tells them.
def IntegerMinusItself : Pat<(Graph_SubOp:$y $x, $x), (ZerosLike $y), [(IsInteger $x), (HasKnownSizes $x), (SameType $y, $x)]>;
def IntegerCommonFactor : Pat<(Graph_AddOp:$y (Graph_MulOp:$p $a, $b), (Graph_MulOp:$q $a, $c)), (Graph_MulOp $a, (Sum $b, $c)),
                              [(IsInteger $a), (HasOneUse $p), (HasOneUse $q), (SameType $b, $c), (SameType $p, $b)]>;
#endif
