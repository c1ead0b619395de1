// What small tensors hold that exporters compute of sizes by way of floats, as
// floor(cast(height) * 0.5), or know in part, as [batch, 3, height, what a loop gives].
//
// An element is a quotient of two expressions over symbols. Floats hold it exactly, or it is
// rounded at once: f32 keeps whole numbers below 2^24, which sizes are, their products with
// fractions by powers of two, and of a quotient n / d as much as floor and ceil need, since it is
// 1/d or more from the next whole number.
#pragma once

#include "compiler/graph/Shape.h"

namespace tensmith::graph {

struct Fraction {
  mlir::AffineExpr numerator, denominator;
  bool isRounded = false; // what follows must be floor, ceil or a cast
};

/// Elements of `value`, row-major, each where it is known; nothing where none is, or the tensor is
/// large.
std::optional<llvm::SmallVector<std::optional<Fraction>>> fractionsOf(ShapeContext &shapes,
                                                                      mlir::Value value);

/// The same of integers: null where an element isn't known.
std::optional<Contents> partialContents(ShapeContext &shapes, mlir::Value value);

/// Rounded toward zero; null where the denominator may be negative, or of which sign the numerator
/// is takes too long an expression.
mlir::AffineExpr wholePart(ShapeContext &shapes, const Fraction &fraction);

} // namespace tensmith::graph
