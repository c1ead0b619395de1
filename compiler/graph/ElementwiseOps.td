// result[i] = f(operands[i]): the arithmetic of the language. Operands are broadcast as NumPy does.
//
// Constraints of all:
// (E1) operands have one element type, but for the condition of `where` and the amount of `bit_shift`
// (E2) operands' shapes broadcast together
#ifndef TENSMITH_GRAPH_ELEMENTWISE
#define TENSMITH_GRAPH_ELEMENTWISE
include "compiler/graph/GraphBase.td"

class Graph_ElementwiseOp<string mnemonic, list<Trait> traits = []>
    : Graph_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<Graph_Elementwise, ["additions"]>], traits)> {
  int additions = 30; // that an element takes: of a function that is computed by a call or a long polynomial
  let definitions = "int64_t $cppClass::additions() { return " # additions # "; }";
}

class Graph_UnaryOp<string mnemonic, string text, list<Trait> traits = []> : Graph_ElementwiseOp<mnemonic, traits> {
  let summary = text;
  let arguments = (ins Graph_Tensor:$x);
  let results = (outs Graph_Tensor:$y);
}
class Graph_BinaryOp<string mnemonic, string text, list<Trait> traits = []> : Graph_ElementwiseOp<mnemonic, traits> {
  let summary = text;
  let arguments = (ins Graph_Tensor:$a, Graph_Tensor:$b);
  let results = (outs Graph_Tensor:$c);
}
class Graph_CompareOp<string mnemonic, string text> : Graph_BinaryOp<mnemonic, text # "; the result is boolean">;

let additions = 1 in {
def Graph_AbsOp : Graph_UnaryOp<"abs", "|x|"> {
  let description = "Numbers of any type; of the least integer of a signed type it is that integer.";
}
def Graph_NegOp : Graph_UnaryOp<"neg", "-x", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = "Numbers of any type; integers wrap, also those without a sign.";
}
}
def Graph_SignOp : Graph_UnaryOp<"sign", "-1, 0 or 1; NaN of NaN"> {
  let description = "Numbers of any type. The sign of a zero is kept.";
}
let additions = 1 in {
def Graph_CeilOp : Graph_UnaryOp<"ceil", "smallest integer not less than x"> {
  let description = "Integers are unchanged.";
}
def Graph_FloorOp : Graph_UnaryOp<"floor", "largest integer not greater than x"> {
  let description = "Integers are unchanged.";
}
def Graph_RoundOp : Graph_UnaryOp<"round", "nearest integer, halves to even"> {
  let description = "2.5 gives 2 and 3.5 gives 4. Integers are unchanged.";
}
}
let additions = 4 in {
def Graph_SqrtOp : Graph_UnaryOp<"sqrt", "square root; NaN below zero"> {
  let description = "-0 gives -0.";
}
def Graph_RsqrtOp : Graph_UnaryOp<"rsqrt", "1 / sqrt(x)"> {
  let description = "inf of 0, NaN below.";
}
}
let additions = 12 in {
def Graph_ExpOp : Graph_UnaryOp<"exp", "e to the x"> {
  let description = "Overflow gives inf, underflow 0.";
}
def Graph_LogOp : Graph_UnaryOp<"log", "natural logarithm"> {
  let description = "-inf of 0, NaN below.";
}
}
def Graph_Log1pOp : Graph_UnaryOp<"log1p", "log(1 + x), accurate near zero"> {
  let description = "-inf of -1, NaN below.";
}
def Graph_SinOp : Graph_UnaryOp<"sin", "sine, x in radians"> {
  let description = "The argument is reduced exactly, however large it is. NaN of infinities.";
}
def Graph_CosOp : Graph_UnaryOp<"cos", "cosine, x in radians"> {
  let description = "The argument is reduced exactly, however large it is. NaN of infinities.";
}
def Graph_TanOp : Graph_UnaryOp<"tan", "tangent, x in radians"> {
  let description = "The argument is reduced exactly, however large it is. NaN of infinities.";
}
def Graph_AsinOp : Graph_UnaryOp<"asin", "arc sine"> {
  let description = "In [-pi/2, pi/2]; NaN where |x| > 1.";
}
def Graph_AcosOp : Graph_UnaryOp<"acos", "arc cosine"> {
  let description = "In [0, pi]; NaN where |x| > 1.";
}
def Graph_AtanOp : Graph_UnaryOp<"atan", "arc tangent"> {
  let description = "In [-pi/2, pi/2].";
}
def Graph_SinhOp : Graph_UnaryOp<"sinh", "hyperbolic sine"> {
  let description = "(exp(x) - exp(-x)) / 2, accurate near zero.";
}
def Graph_CoshOp : Graph_UnaryOp<"cosh", "hyperbolic cosine"> {
  let description = "(exp(x) + exp(-x)) / 2.";
}
let additions = 12 in
def Graph_TanhOp : Graph_UnaryOp<"tanh", "hyperbolic tangent"> {
  let description = "1 and -1 of infinities.";
}
def Graph_AsinhOp : Graph_UnaryOp<"asinh", "inverse hyperbolic sine"> {
  let description = "log(x + sqrt(x^2 + 1)), accurate near zero and for negative x.";
}
def Graph_AcoshOp : Graph_UnaryOp<"acosh", "inverse hyperbolic cosine"> {
  let description = "NaN below 1.";
}
def Graph_AtanhOp : Graph_UnaryOp<"atanh", "inverse hyperbolic tangent"> {
  let description = "Infinities of 1 and -1, NaN beyond.";
}
let additions = 12 in {
def Graph_ErfOp : Graph_UnaryOp<"erf", "error function"> {
  let description = "2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x. GELU is made of it.";
}
def Graph_SigmoidOp : Graph_UnaryOp<"sigmoid", "1 / (1 + exp(-x))"> {
  let description = "0 and 1 of infinities; nothing overflows on the way.";
}
}
let additions = 1 in {
def Graph_NotOp : Graph_UnaryOp<"not", "logical not of a boolean"> {
  let description = "x is boolean.";
}
def Graph_BitwiseNotOp : Graph_UnaryOp<"bitwise_not", "all bits inverted"> {
  let description = "x is of integers.";
}
def Graph_IsNanOp : Graph_UnaryOp<"isnan", "whether x is not a number; the result is boolean"> {
  let description = "Never of integers.";
}
}
let additions = 1 in
def Graph_IsInfOp : Graph_UnaryOp<"isinf", "whether x is infinite; the result is boolean"> {
  let description = "`detect_negative` and `detect_positive` say which infinities count. Never of integers.";
  let arguments = (ins Graph_Tensor:$x, DefaultValuedAttr<BoolAttr, "true">:$detect_negative,
                   DefaultValuedAttr<BoolAttr, "true">:$detect_positive);
}
let additions = 1 in
def Graph_CastOp : Graph_UnaryOp<"cast", "conversion to the element type `to`, by value",
                                 [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = [{
    Float to integer truncates toward zero; to boolean: whether not zero. Between floats rounds to nearest even;
    to 8-bit and smaller floats `saturate` clamps to the largest finite value instead of giving infinity or NaN
    (ONNX Cast). `round` is the rounding to F8E8M0: "up", "down" or "nearest".
  }];
  let arguments = (ins Graph_Tensor:$x, TypeAttr:$to, DefaultValuedAttr<BoolAttr, "true">:$saturate,
                   DefaultValuedAttr<StrAttr, "\"up\"">:$round_mode);
}
let additions = 1 in
def Graph_BitCastOp : Graph_UnaryOp<"bit_cast", "the same bits read as the type `to` of the same width"> {
  let description = "Sizes stay. It is an error where `to` is not as wide as x's type.";
  let arguments = (ins Graph_Tensor:$x, TypeAttr:$to);
}

let additions = 1 in {
def Graph_AddOp : Graph_BinaryOp<"add", "a + b", [Commutative, DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = "Integers wrap.";
}
def Graph_SubOp : Graph_BinaryOp<"sub", "a - b", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = "Integers wrap.";
}
def Graph_MulOp : Graph_BinaryOp<"mul", "a * b", [Commutative, DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = "Integers wrap.";
}
}
let additions = 4 in
def Graph_DivOp : Graph_BinaryOp<"div", "a / b; integers toward zero, division by zero gives 0", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = "Floats divide as IEEE 754 says. The least integer of a signed type by -1 is that integer.";
}
def Graph_ModOp : Graph_BinaryOp<"mod", "remainder with the sign of b (Python), or of a where `fmod` (C)",
                                 [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = "By zero: 0 of integers, NaN of floats.";
  let arguments = (ins Graph_Tensor:$a, Graph_Tensor:$b, DefaultValuedAttr<BoolAttr, "false">:$fmod);
}
def Graph_PowOp : Graph_BinaryOp<"pow", "a to the b; the exponent may be of another type, the result is of a's"> {
  let description = [{
    Integers to a negative power are cut toward zero. Floats: NaN of a negative base with a broken exponent, inf of 0 to
    a negative power, 1 of anything to 0.
  }];
}
let additions = 1 in {
def Graph_MinOp : Graph_BinaryOp<"min", "the smaller; NaN if either is", [Commutative, DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = "IEEE 754's minimum: -0 is less than 0.";
}
def Graph_MaxOp : Graph_BinaryOp<"max", "the larger; NaN if either is", [Commutative, DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = "IEEE 754's maximum: 0 is greater than -0.";
}
def Graph_AndOp : Graph_BinaryOp<"and", "logical and of booleans", [Commutative]> {
  let description = "Both are computed; nothing is left out.";
}
def Graph_OrOp : Graph_BinaryOp<"or", "logical or of booleans", [Commutative]> {
  let description = "Both are computed; nothing is left out.";
}
def Graph_XorOp : Graph_BinaryOp<"xor", "logical exclusive or of booleans", [Commutative]> {
  let description = "True where they differ.";
}
def Graph_BitwiseAndOp : Graph_BinaryOp<"bitwise_and", "a & b on integers", [Commutative]> {
  let description = "Of two's complement, where the type has a sign.";
}
def Graph_BitwiseOrOp : Graph_BinaryOp<"bitwise_or", "a | b on integers", [Commutative]> {
  let description = "Of two's complement, where the type has a sign.";
}
def Graph_BitwiseXorOp : Graph_BinaryOp<"bitwise_xor", "a ^ b on integers", [Commutative]> {
  let description = "Of two's complement, where the type has a sign.";
}
}
def Graph_BitShiftOp : Graph_BinaryOp<"bit_shift", "a shifted by b bits; where b is negative or the width or more, zero, or -1 of a negative a to the right"> {
  let description = "To the left where `left`; to the right the sign is repeated where the type has one.";
  let arguments = (ins Graph_Tensor:$a, Graph_Tensor:$b, DefaultValuedAttr<BoolAttr, "true">:$left);
}
let additions = 1 in
def Graph_EqualOp : Graph_BinaryOp<"equal", "a == b; the result is boolean", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = "Also on strings.";
}
let additions = 1 in {
def Graph_LessOp : Graph_CompareOp<"less", "a < b"> {
  let description = "False where one is NaN.";
}
def Graph_LessOrEqualOp : Graph_CompareOp<"less_or_equal", "a <= b"> {
  let description = "False where one is NaN.";
}
def Graph_GreaterOp : Graph_CompareOp<"greater", "a > b"> {
  let description = "False where one is NaN.";
}
def Graph_GreaterOrEqualOp : Graph_CompareOp<"greater_or_equal", "a >= b"> {
  let description = "False where one is NaN.";
}
}
let additions = 1 in
def Graph_WhereOp : Graph_ElementwiseOp<"where", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "condition ? a : b";
  let description = [{
    `condition` is boolean, a and b have one type. Both are computed, and the derivative goes to the one that was taken.
  }];
  let arguments = (ins Graph_Tensor:$condition, Graph_Tensor:$a, Graph_Tensor:$b);
  let results = (outs Graph_Tensor:$c);
}
#endif
