// Loops that keep some of their states for the way back, and run again from those.
//
// before: a loop carries c           the way back has what each iteration used: O(n)
//
// after:  the loop in parts, with c at the start of each part put onto a stack:
//         loop { push c, start; c = loop of `length` iterations from start }
//         the way back is a loop over leaves, from the last iteration to the first:
//         loop { pop c, start; run start..end again, and keep what its iterations use;
//                go back through them; end = start }
//
// Segments: each part is a leaf, and parts get longer, by 16 iterations after 16 of them, so that n
// iterations have O(sqrt n) parts of at most O(sqrt n) iterations, though n need not be known.
// Recursive: parts have 64, 256, 1024, ... iterations and leaves 64. Before a leaf is gone back
// through, the loop runs on from the last state of the stack, and pushes one after each 4^k leaves,
// the largest that fit: at most three of each k are there at a time, O(log n).
//
// The iterations are copies of the same body, which know their number in the whole loop: random
// numbers and rows of inputs are those of that iteration. Sums begin with what the way back has
// summed up so far (LoopCotangents), so that each is added up in the same order as without parts,
// and gradients have the same bits. Stacks are sequences, which share what lies on them.
//
// Griewank and Walther, "Algorithm 799: revolve", 2000; Chen and others, "Training deep nets with
// sublinear memory cost", 2016; growing parts: Stumm and Walther, "New algorithms for optimal
// online checkpointing", 2010.
#pragma once

#include "compiler/autodiff/ReverseLoop.h"

namespace tensmith::autodiff {

/// Whether all that the loop carries and scans out are tensors that can be put onto stacks, and
/// there may be enough iterations for it to be worth while.
bool canBeCut(graph::LoopOp loop);

/// The reverse of a loop in parts, which takes its place.
mlir::LogicalResult reverseInParts(const graph::GradientCode &code, Activity &activity,
                                   graph::LoopOp loop, llvm::ArrayRef<mlir::Value> given,
                                   Reverse &outer, Procedures *procedures, Checkpointing plan);

} // namespace tensmith::autodiff
