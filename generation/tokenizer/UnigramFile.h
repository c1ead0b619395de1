// SentencePiece's Unigram as GGUF files have it ("t5"), which is a tokenizer.json of those steps.
#pragma once

#include "files/Gguf.h"
#include "generation/tokenizer/Pipeline.h"

namespace tensmith::generation {

/// Throws Failure where lists of the file disagree.
std::shared_ptr<TokenPipeline> unigramPipeline(const GgufFile &file);

} // namespace tensmith::generation
