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
def Graph_AbsOp : Graph_UnaryOp<"abs", "|x|">;
def Graph_NegOp : Graph_UnaryOp<"neg", "-x", [DeclareOpInterfaceMethods<Graph_KnownContents>]>;
}
def Graph_SignOp : Graph_UnaryOp<"sign", "-1, 0 or 1; NaN of NaN">;
let additions = 1 in {
def Graph_CeilOp : Graph_UnaryOp<"ceil", "smallest integer not less than x">;
def Graph_FloorOp : Graph_UnaryOp<"floor", "largest integer not greater than x">;
def Graph_RoundOp : Graph_UnaryOp<"round", "nearest integer, halves to even">;
}
let additions = 4 in {
def Graph_SqrtOp : Graph_UnaryOp<"sqrt", "square root; NaN below zero">;
def Graph_RsqrtOp : Graph_UnaryOp<"rsqrt", "1 / sqrt(x)">;
}
let additions = 12 in {
def Graph_ExpOp : Graph_UnaryOp<"exp", "e to the x">;
def Graph_LogOp : Graph_UnaryOp<"log", "natural logarithm">;
}
def Graph_Log1pOp : Graph_UnaryOp<"log1p", "log(1 + x), accurate near zero">;
def Graph_SinOp : Graph_UnaryOp<"sin", "sine, x in radians">;
def Graph_CosOp : Graph_UnaryOp<"cos", "cosine, x in radians">;
def Graph_TanOp : Graph_UnaryOp<"tan", "tangent, x in radians">;
def Graph_AsinOp : Graph_UnaryOp<"asin", "arc sine">;
def Graph_AcosOp : Graph_UnaryOp<"acos", "arc cosine">;
def Graph_AtanOp : Graph_UnaryOp<"atan", "arc tangent">;
def Graph_SinhOp : Graph_UnaryOp<"sinh", "hyperbolic sine">;
def Graph_CoshOp : Graph_UnaryOp<"cosh", "hyperbolic cosine">;
let additions = 12 in
def Graph_TanhOp : Graph_UnaryOp<"tanh", "hyperbolic tangent">;
def Graph_AsinhOp : Graph_UnaryOp<"asinh", "inverse hyperbolic sine">;
def Graph_AcoshOp : Graph_UnaryOp<"acosh", "inverse hyperbolic cosine">;
def Graph_AtanhOp : Graph_UnaryOp<"atanh", "inverse hyperbolic tangent">;
let additions = 12 in {
def Graph_ErfOp : Graph_UnaryOp<"erf", "error function">;
def Graph_SigmoidOp : Graph_UnaryOp<"sigmoid", "1 / (1 + exp(-x))">;
}
let additions = 1 in {
def Graph_NotOp : Graph_UnaryOp<"not", "logical not of a boolean">;
def Graph_BitwiseNotOp : Graph_UnaryOp<"bitwise_not", "all bits inverted">;
def Graph_IsNanOp : Graph_UnaryOp<"isnan", "whether x is not a number; the result is boolean">;
}
let additions = 1 in
def Graph_IsInfOp : Graph_UnaryOp<"isinf", "whether x is infinite; the result is boolean"> {
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
  let arguments = (ins Graph_Tensor:$x, TypeAttr:$to);
}

let additions = 1 in {
def Graph_AddOp : Graph_BinaryOp<"add", "a + b", [Commutative, DeclareOpInterfaceMethods<Graph_KnownContents>]>;
def Graph_SubOp : Graph_BinaryOp<"sub", "a - b", [DeclareOpInterfaceMethods<Graph_KnownContents>]>;
def Graph_MulOp : Graph_BinaryOp<"mul", "a * b", [Commutative, DeclareOpInterfaceMethods<Graph_KnownContents>]>;
}
let additions = 4 in
def Graph_DivOp : Graph_BinaryOp<"div", "a / b; integers toward zero, division by zero gives 0", [DeclareOpInterfaceMethods<Graph_KnownContents>]>;
def Graph_ModOp : Graph_BinaryOp<"mod", "remainder with the sign of b (Python), or of a where `fmod` (C)",
                                 [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let arguments = (ins Graph_Tensor:$a, Graph_Tensor:$b, DefaultValuedAttr<BoolAttr, "false">:$fmod);
}
def Graph_PowOp : Graph_BinaryOp<"pow", "a to the b; the exponent may be of another type, the result is of a's">;
let additions = 1 in {
def Graph_MinOp : Graph_BinaryOp<"min", "the smaller; NaN if either is", [Commutative, DeclareOpInterfaceMethods<Graph_KnownContents>]>;
def Graph_MaxOp : Graph_BinaryOp<"max", "the larger; NaN if either is", [Commutative, DeclareOpInterfaceMethods<Graph_KnownContents>]>;
def Graph_AndOp : Graph_BinaryOp<"and", "logical and of booleans", [Commutative]>;
def Graph_OrOp : Graph_BinaryOp<"or", "logical or of booleans", [Commutative]>;
def Graph_XorOp : Graph_BinaryOp<"xor", "logical exclusive or of booleans", [Commutative]>;
def Graph_BitwiseAndOp : Graph_BinaryOp<"bitwise_and", "a & b on integers", [Commutative]>;
def Graph_BitwiseOrOp : Graph_BinaryOp<"bitwise_or", "a | b on integers", [Commutative]>;
def Graph_BitwiseXorOp : Graph_BinaryOp<"bitwise_xor", "a ^ b on integers", [Commutative]>;
}
def Graph_BitShiftOp : Graph_BinaryOp<"bit_shift", "a shifted by b bits; where b is negative or the width or more, zero, or -1 of a negative a to the right"> {
  let arguments = (ins Graph_Tensor:$a, Graph_Tensor:$b, DefaultValuedAttr<BoolAttr, "true">:$left);
}
let additions = 1 in
def Graph_EqualOp : Graph_BinaryOp<"equal", "a == b; the result is boolean", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let description = "Also on strings.";
}
let additions = 1 in {
def Graph_LessOp : Graph_CompareOp<"less", "a < b">;
def Graph_LessOrEqualOp : Graph_CompareOp<"less_or_equal", "a <= b">;
def Graph_GreaterOp : Graph_CompareOp<"greater", "a > b">;
def Graph_GreaterOrEqualOp : Graph_CompareOp<"greater_or_equal", "a >= b">;
}
let additions = 1 in
def Graph_WhereOp : Graph_ElementwiseOp<"where", [DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "condition ? a : b";
  let arguments = (ins Graph_Tensor:$condition, Graph_Tensor:$a, Graph_Tensor:$b);
  let results = (outs Graph_Tensor:$c);
}
#endif
