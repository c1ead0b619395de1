// Conversions between f32 and f16 for machines without instructions for them (F16C), by integer
// arithmetic.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tensmith::targets::cpu {

/// arith.extf from f16 to f32 and arith.truncf from f32 to f16, of scalars and vectors, rounding to
/// nearest even. After Fabian Giesen's half_to_float and float_to_half_fast3_rtne (public domain,
/// gist.github.com/rygorous/2156668).
void addHalfExpansions(mlir::RewritePatternSet &patterns);

} // namespace tensmith::targets::cpu
