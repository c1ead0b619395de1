// A decoder as a graph: what one run of it computes for some tokens behind others.
//
// The graph takes its weights as inputs, in the blocks of the file, so a module has none of them:
// it is small, is the same for all files of a shape, and a file of any size is mapped and not
// copied. Keys and values of former tokens are inputs too, and those of the new ones results, which
// the caller lets be written behind the former.
//
// Inputs: tokens i64 [t], wanted i64 [w] (the tokens whose logits are asked for; none where t is
// 1), cosines and sines f32 [t, rotated / 2] (twice where layers with a window rotate otherwise),
// for each layer past_key and past_value f32 [past, keyHeads, headSize], then the file's tensors.
// Results: logits f32 [w, vocabulary], for each layer key and value f32 [t, keyHeads, headSize].
#pragma once

#include "generation/Architecture.h"
#include "generation/GraphOf.h"

namespace tensmith::generation {

/// The tensors of the file that are inputs, in order, behind the others.
struct DecoderInputs {
  std::vector<const GgufTensor *> weights;
};

/// `isStep`: t is 1 and w is all; else both are open. Throws Failure where tensors are missing or
/// of other sizes than the architecture's.
DecoderInputs buildDecoder(GraphOf &graph, const Architecture &architecture, const GgufFile &file,
                           bool isStep);

} // namespace tensmith::generation
