// Tokenizers of GGUF files that are the steps of a tokenizer.json: SentencePiece's Unigram ("t5"),
// and pairs by rank ("gpt2") where expressions cut the words.
#pragma once

#include "files/Gguf.h"
#include "generation/tokenizer/Pipeline.h"

namespace tensmith::generation {

/// Throws Failure where lists of the file disagree.
std::shared_ptr<TokenPipeline> unigramPipeline(const GgufFile &file);
/// Words are cut by each of the expressions in turn. `takesWholeWords`: a word that is a token is
/// one, whatever is merged. Throws Failure where lists of the file disagree, or there is no library
/// of expressions.
std::shared_ptr<TokenPipeline> rankPipeline(const GgufFile &file,
                                            const std::vector<std::string> &expressions,
                                            bool takesWholeWords);

} // namespace tensmith::generation
