// Sequences and optionals of which all is known, as their elements: before a derivative is made.
//
// before: s = split_to_sequence x        after: y = slice x
//         y = sequence_at s, 1
//
// What is known are how many elements a sequence has and which of them are taken. Then tensors have
// the ranks that rules ask for, and a derivative is that of slices and concatenations. An element
// of what is split into single ones is a gather, whichever it is and however many there are. Other
// sequences are differentiated as such (compiler/graph/SequenceGradient.cpp).
#pragma once

#include "compiler/graph/Gradient.h"

namespace tensmith::autodiff {

/// In the block and the regions of its operators. What a position or a length contradicts stays as
/// it is, for the run to refuse.
void resolveSequences(const graph::GradientCode &code, mlir::Block &block);

} // namespace tensmith::autodiff
