// Several sequences in one model at a time, each of which gets the tokens that it gets alone.
//
// A step computes a piece of one prompt, then the next token of all sequences whose prompts are
// done, in one run: weights, which a single token waits for, are read once for all of them.
// Sequences come and go between any two steps (continuous batching: Orca, OSDI 2022). Keys and
// values are in pages that equal beginnings share (Pages.h). Where pages run out, the sequence that
// came last gives up its own and waits; what it had is computed again later.
//
// Fair: requests begin in the order that they came in, prompts take turns by pieces, and no
// sequence waits for more than one piece between two of its tokens.
//
// Invariant: what a run computes for a sequence depends on that sequence alone, and not on who else
// is in it: rows of products are independent of one another, keys stand where their positions are,
// those of others are masked, and pages are cleared before they are used again, so that no infinity
// of one sequence reaches another. A token is computed by one of two modules, which is that of its
// place in a request: prompts by pieces, what follows one by one; again, too, and pages are shared
// where both have computed them alike. How long the pieces of a prompt are decides the order of
// sums over keys, and nothing else. Guesses (Drafts.h) are rows of the same run, of which each sees
// the pages and the rows before it: they are computed as they are one by one, too.
#pragma once

#include "generation/Drafts.h"
#include "generation/LanguageModel.h"
#include "generation/Pages.h"

#include <list>

namespace tensmith::generation {

struct BatchSettings {
  int64_t sequences = 8;   // that are computed at a time
  int64_t cacheTokens = 0; // of all pages; 0: four times the context
  int64_t promptPiece = 256;
  DraftSettings drafts;
};

enum class BatchEnd { Stopped, Length, Cancelled };

struct BatchRequest {
  std::vector<Token> prompt;
  GenerationSettings settings;
  /// Has the logits as the model gives them, before a token is drawn; optional.
  std::function<void(std::span<const float>)> look;
  /// Has the logits behind that, and may lower some; optional.
  std::function<void(std::span<float>)> constrain;
  /// Has each token but one that ends; false ends the text. Called within `step`, as `end` is.
  std::function<bool(Token)> give;
  std::function<void(BatchEnd)> end;
  /// Of a request for no text: has the hidden rows of the prompt's tokens from `first` on, f32
  /// [tokens, width]. They begin with 0 again where the request had to give way to others.
  std::function<void(int64_t first, std::span<const float>)> hidden;
};

struct BatchCounts {
  int64_t running = 0, waiting = 0, heldPages = 0, pages = 0;
  int64_t promptTokens = 0, reusedTokens = 0, tokens = 0, steps = 0, preempted = 0; // so far
  int64_t drafted = 0, accepted = 0; // tokens that were guessed, and those of them that were right
};

/// Used by one thread at a time.
class Batch {
public:
  /// Throws Failure where a setting is out of its range.
  Batch(std::shared_ptr<const LanguageModel> model, const BatchSettings &settings);
  Batch(const Batch &) = delete;
  Batch &operator=(const Batch &) = delete;

  /// The request's number. Throws Failure where the prompt is empty, or longer than the context.
  uint64_t add(BatchRequest request);
  /// Its pages are free at once, and `end` has been called; false where it is no more.
  bool cancel(uint64_t number);
  void cancelAll();
  /// False where there was nothing to compute.
  bool step();
  BatchCounts counts() const;
  const LanguageModel &model() const { return *model_; }

private:
  struct Sequence {
    uint64_t number = 0;
    BatchRequest request;
    Sampler sampler;
    std::vector<Token> tokens; // prompt and text
    PagedSequence cache;
    bool isAdmitted = false;          // for the first time
    std::unique_ptr<Drafter> drafter; // where there are guesses, from the first on

    bool givesText() const { return !request.hidden; }
    /// Tokens from `begin` on as pages know them: numbers of which those of texts, which another
    /// module computes, are below 0.
    std::vector<Token> keys(int64_t begin, int64_t count) const;
    /// The last token of a prompt is computed as those behind it are.
    int64_t leftOfPrompt() const {
      return int64_t(request.prompt.size()) - cache.length - (givesText() ? 1 : 0);
    }
  };
  using Sequences = std::list<Sequence>;
  /// A sequence's tokens in a run, which stand behind those that its pages have.
  struct Part {
    Sequence *sequence = nullptr;
    std::vector<Token> tokens;
    int64_t first = 0; // row of the run
    int64_t count() const { return int64_t(tokens.size()); }
  };
  /// What is computed together.
  struct Run {
    std::vector<Part> parts;
    bool isSpan = false;         // of a prompt
    int64_t rows = 0, pages = 1; // pages: of the longest
    void add(Sequence &sequence, std::vector<Token> tokens);
  };

  void admit();
  bool computePiece();
  bool computeTokens();
  bool reserve(Sequence &sequence, int64_t end);
  void preemptLast();
  void write(const std::vector<FreshPage> &fresh);
  void run(const Run &run);
  void keepNews(const Part &part, int64_t from, int64_t count);
  std::vector<Token> guesses(Sequence &sequence);
  void drawTokens(const Part &part);
  void addTokens(const Run &run, std::vector<Tensor> &inputs) const;
  void addLists(const Run &run, std::vector<Tensor> &inputs) const;
  std::vector<Tensor> outputsOf(const Run &run);
  std::optional<Token> draw(Sequence &sequence, std::span<float> logits);
  void finish(Sequences &of, Sequences::iterator sequence, BatchEnd end);
  Sequences::iterator iteratorOf(const Sequence *sequence);

  std::shared_ptr<const LanguageModel> model_;
  BatchSettings settings_;
  PagePool pool_;
  const LanguageModel::Part &step_, &span_;
  CacheFormat format_;
  std::vector<std::unique_ptr<std::byte[], void (*)(void *)>> caches_; // as Context's
  std::vector<std::vector<std::byte>> news_; // keys and values of a run's tokens
  std::vector<float> logits_, hidden_;
  Sequences running_, waiting_;
  uint64_t numbers_ = 0;
  BatchCounts counts_;
};

} // namespace tensmith::generation
