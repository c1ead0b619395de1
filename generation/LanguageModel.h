// A language model from a GGUF file or a folder: its decoder compiled, its tokenizer, and
// conversations with it.
//
// Modules are compiled without weights, and kept in the cache of modules: for a conversation one
// for a token behind others, and one for any number of them. Weights are the mapped file's. A
// conversation
// (`Context`) keeps the keys and values of its tokens, as f32, into whose memory the modules write
// those of new ones, or in blocks of fewer bits (CacheFormat.h); tokens that it begins with and
// that are there already are not computed again. The last token is always computed alone, so that a
// prompt gives the same text again.
#pragma once

#include "generation/Architecture.h"
#include "generation/DecoderGraph.h"
#include "generation/Sampling.h"
#include "generation/folder/ModelFolder.h"

#include <tensmith/tensmith.hpp>

#include <functional>
#include <memory>
#include <mutex>

namespace tensmith::generation {

struct ModelSettings {
  int threads = 0;      // 0: as many as the process may use
  int64_t context = 0;  // tokens that a conversation may have; 0: the model's, at most 4096
  bool shorter = false; // the context, where the model takes no more
  int weights = 0;      // bits that a folder's matrices are quantised to, 8 or 4; 0: as they are
  std::string cacheType = "f32"; // of keys and values: f32, f16, q8_0, q4_0
  bool exact = false; // f32 is multiplied by weights as it is, and not rounded to 8 bits for it
  std::string cacheDir;
  bool noCache = false;
};

class Context;

class LanguageModel {
public:
  /// Throws Failure or Error, with the file and what is wrong.
  static std::shared_ptr<LanguageModel> load(const std::string &path,
                                             const ModelSettings &settings);

  const Architecture &architecture() const { return architecture_; }
  const Tokenizer &tokenizer() const { return tokenizer_; }
  const GgufFile &file() const { return file_; }
  const CacheFormat &cacheFormat() const { return cache_; }
  int64_t contextLength() const { return context_; }

  /// A module's session, and its inputs behind those of a run.
  struct Part {
    std::unique_ptr<Session> session;
    std::vector<Tensor> weights;
  };
  /// Compiled when it is first asked for; by any thread. `positions`: of a page, of paged forms.
  const Part &part(DecoderForm form, int64_t positions = 0) const;
  /// As Tokenizer's. Throws Failure, before it does much, where the text can't be within the
  /// context.
  std::vector<Token> encode(std::string_view text, bool control, bool begins) const;
  /// Throws Failure where a token is none of the vocabulary.
  void check(std::span<const Token> tokens) const;

private:
  LanguageModel(ModelFiles files, const ModelSettings &settings);

  GgufFile file_;
  Architecture architecture_;
  Tokenizer tokenizer_;
  ModelSettings settings_;
  CacheFormat cache_;
  int64_t context_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<DecoderForm, int64_t>, Part> parts_;
  mutable std::map<const GgufTensor *, Tensor> views_; // of the file's tensors, for all parts
};

/// A conversation, used by one thread at a time.
class Context {
public:
  explicit Context(std::shared_ptr<const LanguageModel> model);

  /// Makes the conversation these tokens; those behind what it has in common with them are
  /// computed. Gives the last one's logits, one for each token of the vocabulary. Throws Failure
  /// where there are none, or more than the context takes.
  std::span<const float> become(std::span<const Token> tokens);
  const std::vector<Token> &tokens() const { return tokens_; }
  const LanguageModel &model() const { return *model_; }

private:
  void compute(std::span<const Token> tokens);
  void reserve(int64_t tokens);

  std::shared_ptr<const LanguageModel> model_;
  const LanguageModel::Part &step_, &several_;
  std::vector<Token> tokens_;
  std::vector<std::vector<std::byte>> caches_; // keys and values by turns, of each layer
  std::vector<float> logits_;
};

struct GenerationSettings {
  SamplingSettings sampling;
  int64_t most = 128; // tokens
};

struct Generated {
  std::vector<Token> tokens; // without the prompt
  std::string text;
  bool ended = false; // by a token that ends
  double promptSeconds = 0, stepSeconds = 0;
};

/// Continues the prompt. `give` has each token's bytes as they come (they may end in the middle of
/// a character), and false from it ends the text.
Generated generate(Context &context, std::span<const Token> prompt,
                   const GenerationSettings &settings,
                   const std::function<bool(Token, const std::string &)> &give);

} // namespace tensmith::generation
