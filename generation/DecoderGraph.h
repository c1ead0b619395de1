// A decoder as a graph: what one run of it computes for some tokens behind others.
//
// The graph takes its weights as inputs, in the blocks of the file, so a module has none of them:
// it is small, is the same for all files of a shape, and a file of any size is mapped and not
// copied. Keys and values of former tokens are inputs too, and those of the new ones results, which
// the caller lets be written behind the former.
//
// Inputs: tokens i64 [t], cosines and sines f32 [t, rotated / 2] (twice where layers with a window
// rotate otherwise), table, lengths and firsts, for each layer past_key and past_value
// [past, keyHeads, headSize], then the file's tensors. Results: of a step logits f32
// [1, vocabulary]; for each layer key and value [t, keyHeads, headSize]. All keys and values are as
// they are kept (CacheFormat.h): f32, f16, or ui8 with the bytes of a head's blocks.
//
// Row i sees lengths[i] former positions, i64 [t], in the pages table[i], i64 [t, n], and behind
// them the rows firsts[i], i64 [t], to i of its own run. So single tokens of any sequences, and
// spans of a prompt, are attended alike, where keys and values lie. What is not in pages is one
// page.
//
// Paged forms take keys and values from pages that all sequences share (vLLM, arXiv 2309.06180):
// past_key and past_value are [pages, positions, keyHeads, headSize]. Beside logits they give
// `hidden` f32 [tokens, width], what the last product is of.
#pragma once

#include "generation/Architecture.h"
#include "generation/CacheFormat.h"
#include "generation/GraphOf.h"

namespace tensmith::generation {

/// The tensors of the file that are inputs, in order, behind the others.
struct DecoderInputs {
  std::vector<const GgufTensor *> weights;
};

enum class DecoderForm {
  Step,      // a token behind others of its sequence
  Several,   // tokens behind others; no logits
  PagedStep, // a token of each of several sequences
  PagedSpan, // Several, on pages
};

struct DecoderOptions {
  DecoderForm form = DecoderForm::Step;
  bool exact = false;    // nothing is rounded to 8 bits
  int64_t positions = 0; // of a page
  CacheFormat cache;
};

/// Throws Failure where tensors are missing or of other sizes than the architecture's.
DecoderInputs buildDecoder(GraphOf &graph, const Architecture &architecture, const GgufFile &file,
                           const DecoderOptions &options);

} // namespace tensmith::generation
