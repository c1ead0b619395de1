// What rules of arithmetic ask of their operands, and the results that records can't say.
#ifndef TENSMITH_REWRITE_RULE_CONDITIONS
#define TENSMITH_REWRITE_RULE_CONDITIONS
include "mlir/IR/PatternBase.td"
include "compiler/graph/ElementwiseOps.td"
include "compiler/graph/ReductionOps.td"
include "compiler/graph/NormalizationOps.td"

// Numbers as constants, or as broadcasts and reshapes of constants (AlgebraicRules.cpp).
def IsOne : Constraint<CPred<"isNumber($0, 1)">>;
def IsMinusOne : Constraint<CPred<"isNumber($0, -1)">>;
def IsTwo : Constraint<CPred<"isNumber($0, 2)">>;
def IsHalf : Constraint<CPred<"isNumber($0, 0.5)">>;
def IsMinusHalf : Constraint<CPred<"isNumber($0, -0.5)">>;
def IsPositiveZero : Constraint<CPred<"isNumber($0, 0.0)">>;
def IsZero : Constraint<CPred<"isNumber($0, 0.0) || isNumber($0, -0.0)">>;
// -0 of floats, 0 of integers.
def IsNeutral : Constraint<CPred<"isNumber($0, isFloat($0) ? -0.0 : 0.0)">>;
def IsConstant : Constraint<CPred<"isConstant($0)">>;

def IsFloat : Constraint<CPred<"isFloat($0)">>;
def IsSigned : Constraint<CPred<"!getElementTypeOrSelf($0.getType()).isUnsignedInteger()">>;
def IsInteger : Constraint<CPred<"isInteger($0)">>;
def SameType : Constraint<CPred<"$0.getType() == $1.getType()">>;
def HasKnownSizes : Constraint<CPred<"cast<ShapedType>($0.getType()).hasStaticShape()">>;
def SameValue : Constraint<CPred<"$0 == $1">>;
def IsScalar : Constraint<CPred<"isScalar($0)">>;
def HasOneUse : Constraint<CPred<"$0.hasOneUse()">>;
def HoldsAllOf : Constraint<CPred<"holdsAllOf($0, $1)">>;

def Sum : NativeCodeCall<"built<graph::AddOp>($_builder, $_loc, {$0, $1})">;
def Product : NativeCodeCall<"built<graph::MulOp>($_builder, $_loc, {$0, $1})">;
def Rsqrt : NativeCodeCall<"built<graph::RsqrtOp>($_builder, $_loc, {$0})">;
def ZerosLike : NativeCodeCall<"filledLike($_builder, $_loc, $0, 0)">;
def SumOver : NativeCodeCall<"sumOver($_builder, $_loc, $0, $1, $2)">;
def OnesLike : NativeCodeCall<"filledLike($_builder, $_loc, $0, 1)">;
#endif
