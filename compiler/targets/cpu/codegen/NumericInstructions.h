// Operations of numbers that a machine has one instruction for, where others take several.
#pragma once

#include "compiler/targets/cpu/machine/Cpu.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/PatternMatch.h"

namespace tensmith::targets::cpu {

/// Before expansions: conversions of what is rounded to integers, also behind a clamp between
/// whole numbers.
void convertRounded(mlir::ModuleOp module, const Cpu &machine);

/// Extrema of floats: of vectors, too, where the machine takes NaN for the larger and the smaller.
void addExtrema(mlir::RewritePatternSet &patterns, const Cpu &machine);

} // namespace tensmith::targets::cpu
