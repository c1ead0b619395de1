// The template of right operands that are packed by pairs of rows, for products of bf16 that are
// added up by two: see interleaved() in Contraction.h for where each element goes.
#pragma once
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// What a kernel packs: panels of pairs of a matrix's rows.
struct PairedRows {
  graph::PackOp pack;
  mlir::Value rows;  // [..., depth, columns], or [..., columns, depth] where turned
  mlir::Value pairs; // or [..., depth / 2, 2, columns], where the kernel has no rows
  bool turned = false;
};
/// Of a kernel that computes such panels and nothing else, if they can be made by vectors.
std::optional<PairedRows> matchPairedRows(graph::KernelOp kernel, const Machine &machine);

extern const Template kPack;

} // namespace tensmith::kernel
