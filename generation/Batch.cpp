// Steps of several sequences; see Batch.h.
#include "generation/Batch.h"

#include "files/Failure.h"
#include "generation/Rotations.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>

namespace tensmith::generation {
namespace {

constexpr int64_t kPositions = 16; // of a page
constexpr int64_t kGuesses = 4;
constexpr int64_t kMostSequences = 1024, kMostCacheTokens = int64_t(1) << 24;

int64_t pagesFor(int64_t tokens) { return (tokens + kPositions - 1) / kPositions; }

BatchSettings checked(BatchSettings settings, const LanguageModel &model) {
  if (settings.sequences < 1 || settings.sequences > kMostSequences)
    failUsage(fmt::format("sequences that are computed at a time are 1 to {}", kMostSequences));
  if (settings.promptPiece < 1)
    failUsage("a piece of a prompt has at least one token");
  if (!settings.cacheTokens)
    settings.cacheTokens = 4 * model.contextLength();
  if (settings.cacheTokens < model.contextLength() || settings.cacheTokens > kMostCacheTokens)
    failUsage(fmt::format("the pages of all sequences take {} tokens, the context, to {}",
                          model.contextLength(), kMostCacheTokens));
  checkDrafts(settings.drafts, model);
  return settings;
}

} // namespace

Batch::Batch(std::shared_ptr<const LanguageModel> model, const BatchSettings &settings)
    : model_(std::move(model)), settings_(checked(settings, *model_)),
      // One more than the context takes, for a page that is copied.
      pool_(pagesFor(settings_.cacheTokens) + 1, kPositions),
      step_(model_->part(DecoderForm::PagedStep, kPositions)),
      span_(model_->part(DecoderForm::PagedSpan, kPositions)), format_(model_->cacheFormat()) {
  const Architecture &a = model_->architecture();
  auto size = size_t((pool_.pages() + 1) * kPositions * format_.bytesOfToken());
  for (int64_t i = 0; i < 2 * a.layers; ++i) {
    // Memory that the system gives when it is first written.
    caches_.emplace_back(static_cast<std::byte *>(std::calloc(size, 1)), &std::free);
    if (!caches_.back())
      failUsage(fmt::format("there is no memory for keys and values of {} tokens",
                            settings_.cacheTokens));
  }
  news_.resize(size_t(2 * a.layers));
}

uint64_t Batch::add(BatchRequest request) {
  if (request.prompt.empty())
    failUsage("there are no tokens to continue");
  if (int64_t(request.prompt.size()) > model_->contextLength())
    failUsage(fmt::format("{} tokens are more than the context of {} takes", request.prompt.size(),
                          model_->contextLength()));
  model_->check(request.prompt);
  Sampler sampler(request.settings.sampling, int64_t(request.prompt.size()));
  std::vector<Token> tokens = request.prompt;
  waiting_.push_back(
      {++numbers_, std::move(request), std::move(sampler), std::move(tokens), {}, false, {}});
  return numbers_;
}

BatchCounts Batch::counts() const {
  BatchCounts counts = counts_;
  counts.running = int64_t(running_.size()), counts.waiting = int64_t(waiting_.size());
  counts.heldPages = pool_.held(), counts.pages = pool_.pages();
  return counts;
}

std::vector<Token> Batch::Sequence::keys(int64_t begin, int64_t count) const {
  std::vector<Token> keys(tokens.begin() + begin, tokens.begin() + begin + count);
  int64_t ofPrompt = int64_t(request.prompt.size()) - (givesText() ? 1 : 0);
  for (int64_t i = std::max<int64_t>(ofPrompt - begin, 0); i < count; ++i)
    keys[size_t(i)] = ~keys[size_t(i)];
  return keys;
}

bool Batch::cancel(uint64_t number) {
  for (Sequences *list : {&running_, &waiting_})
    for (auto at = list->begin(); at != list->end(); ++at)
      if (at->number == number) {
        finish(*list, at, BatchEnd::Cancelled);
        return true;
      }
  return false;
}

void Batch::cancelAll() {
  for (Sequences *list : {&running_, &waiting_})
    while (!list->empty())
      finish(*list, list->begin(), BatchEnd::Cancelled);
}

void Batch::finish(Sequences &of, Sequences::iterator sequence, BatchEnd end) {
  pool_.release(sequence->cache);
  Sequences done;
  done.splice(done.end(), of, sequence);
  if (done.front().request.end)
    done.front().request.end(end);
}

/// A step: what waits begins, then a piece of a prompt, then a token of every text.
bool Batch::step() {
  admit();
  bool isWork = computePiece();
  isWork |= computeTokens();
  counts_.steps += isWork;
  return isWork;
}

void Batch::admit() {
  while (!waiting_.empty() && int64_t(running_.size()) < settings_.sequences) {
    Sequence &next = waiting_.front();
    if (next.givesText() && next.request.settings.most < 1) {
      finish(waiting_, waiting_.begin(), BatchEnd::Length);
      continue;
    }
    if (next.givesText())
      pool_.adopt(next.cache, next.keys(0, int64_t(next.tokens.size()) - 1));
    if (!running_.empty() &&
        pool_.missing(next.cache, int64_t(next.tokens.size()) + 1) > pool_.available()) {
      pool_.release(next.cache);
      return;
    }
    if (!next.isAdmitted) {
      counts_.promptTokens += int64_t(next.tokens.size());
      counts_.reusedTokens += next.cache.length;
      next.isAdmitted = true;
    }
    running_.splice(running_.end(), waiting_, waiting_.begin());
  }
}

Batch::Sequences::iterator Batch::iteratorOf(const Sequence *sequence) {
  return std::ranges::find_if(running_, [&](const Sequence &s) { return &s == sequence; });
}

/// The one that came last begins again, as the first of those that wait.
void Batch::preemptLast() {
  auto last = std::ranges::max_element(running_, {}, &Sequence::number);
  pool_.release(last->cache);
  waiting_.splice(waiting_.begin(), running_, last);
  ++counts_.preempted;
}

/// Room up to `end`. False where the sequence itself had to give way.
bool Batch::reserve(Sequence &sequence, int64_t end) {
  uint64_t number = sequence.number;
  std::vector<FreshPage> fresh;
  while (!pool_.reserve(sequence.cache, end, fresh)) {
    bool isItself = std::ranges::all_of(
        running_, [&](const Sequence &other) { return other.number <= number; });
    preemptLast();
    if (isItself)
      return false;
  }
  write(fresh);
  return true;
}

void Batch::write(const std::vector<FreshPage> &fresh) {
  auto ofPage = size_t(kPositions * format_.bytesOfToken());
  for (const FreshPage &page : fresh)
    for (auto &cache : caches_) {
      std::byte *to = cache.get() + size_t(page.page) * ofPage;
      auto kept = size_t(page.positions * format_.bytesOfToken());
      if (kept)
        std::copy_n(cache.get() + size_t(page.from) * ofPage, kept, to);
      std::fill(to + kept, to + ofPage, std::byte(0));
    }
}

bool Batch::computePiece() {
  auto next =
      std::ranges::find_if(running_, [](const Sequence &s) { return s.leftOfPrompt() > 0; });
  if (next == running_.end())
    return false;
  Sequence *sequence = &*next;
  int64_t count = std::min(sequence->leftOfPrompt(), settings_.promptPiece);
  if (!reserve(*sequence, sequence->cache.length + count))
    return true;
  // The others' turn is first now.
  running_.splice(running_.end(), running_, iteratorOf(sequence));
  int64_t first = sequence->cache.length;
  Run piece;
  piece.isSpan = true;
  auto from = sequence->tokens.begin() + first;
  piece.add(*sequence, {from, from + count});
  run(piece);
  keepNews(piece.parts[0], 0, count);
  if (sequence->givesText())
    return true;
  sequence->request.hidden(first, hidden_);
  if (!sequence->leftOfPrompt())
    finish(running_, iteratorOf(sequence), BatchEnd::Length);
  return true;
}

bool Batch::computeTokens() {
  std::vector<uint64_t> numbers;
  for (const Sequence &sequence : running_)
    if (sequence.givesText() && sequence.leftOfPrompt() <= 0)
      numbers.push_back(sequence.number);
  std::ranges::sort(numbers);
  // Who came first has pages first. Room for one may send others, that came later, away.
  std::vector<uint64_t> ready;
  for (uint64_t number : numbers)
    for (Sequence &sequence : running_)
      if (sequence.number == number) {
        if (reserve(sequence, sequence.cache.length + 1))
          ready.push_back(number);
        break;
      }
  Run step;
  for (Sequence &sequence : running_)
    if (std::ranges::find(ready, sequence.number) != ready.end()) {
      std::vector<Token> tokens = {sequence.tokens[size_t(sequence.cache.length)]};
      std::ranges::copy(guesses(sequence), std::back_inserter(tokens));
      step.add(sequence, std::move(tokens));
    }
  if (step.parts.empty())
    return !numbers.empty();
  run(step);
  for (const Part &part : step.parts)
    drawTokens(part);
  return true;
}

/// What may come behind the sequence's last token, where that is next and there is room for more.
std::vector<Token> Batch::guesses(Sequence &sequence) {
  const DraftSettings &drafts = settings_.drafts;
  auto size = int64_t(sequence.tokens.size());
  if (!drafts.isOn() || sequence.cache.length + 1 != size)
    return {};
  const BatchRequest &request = sequence.request;
  int64_t left = request.settings.most - (size - int64_t(request.prompt.size())) - 1;
  int64_t most =
      std::min({drafts.most ? drafts.most : kGuesses, left, model_->contextLength() - size});
  if (most < 1)
    return {};
  if (!sequence.drafter)
    sequence.drafter = drafterOf(drafts, *model_);
  std::vector<Token> guessed = sequence.drafter->guess(sequence.tokens, most, sequence.sampler);
  int64_t end = size + int64_t(guessed.size());
  std::vector<FreshPage> fresh;
  // Nobody has to give way for a guess.
  if (guessed.empty() || !pool_.reserve(sequence.cache, end, fresh))
    return {};
  write(fresh);
  counts_.drafted += int64_t(guessed.size());
  return guessed;
}

/// The first row's token, and as long as it is what was guessed, the next row's.
void Batch::drawTokens(const Part &part) {
  auto vocabulary = size_t(model_->architecture().vocabulary);
  Sequence &sequence = *part.sequence;
  for (int64_t row = 0; row < part.count(); ++row) {
    keepNews(part, row, 1);
    if (sequence.cache.length != int64_t(sequence.tokens.size()))
      return;
    auto at = size_t(part.first + row) * vocabulary;
    auto token = draw(sequence, std::span(logits_).subspan(at, vocabulary));
    bool isGuessed = token && row + 1 < part.count() && *token == part.tokens[size_t(row + 1)];
    counts_.accepted += isGuessed;
    if (!isGuessed)
      return;
  }
}

/// The token, if the text goes on; otherwise the sequence is no more.
std::optional<Token> Batch::draw(Sequence &sequence, std::span<float> logits) {
  BatchRequest &request = sequence.request;
  if (request.look)
    request.look(logits);
  if (request.constrain)
    request.constrain(logits);
  Token token = sequence.sampler.next(logits, sequence.tokens);
  bool ends = model_->tokenizer().ends(token), isLast = false;
  if (!ends) {
    sequence.tokens.push_back(token);
    ++counts_.tokens;
    auto size = int64_t(sequence.tokens.size());
    isLast = size - int64_t(request.prompt.size()) >= request.settings.most ||
             size > model_->contextLength();
    ends = request.give && !request.give(token);
  }
  if (!ends && !isLast)
    return token;
  finish(running_, iteratorOf(&sequence), ends ? BatchEnd::Stopped : BatchEnd::Length);
  return std::nullopt;
}

void Batch::Run::add(Sequence &sequence, std::vector<Token> tokens) {
  parts.push_back({&sequence, std::move(tokens), rows});
  rows += parts.back().count();
  pages = std::max(pages, pagesFor(sequence.cache.length + parts.back().count()));
}

/// The tokens, and by which angles their places turn keys and queries.
void Batch::addTokens(const Run &run, std::vector<Tensor> &inputs) const {
  const Architecture &a = model_->architecture();
  Tensor ids(TS_I64, {run.rows});
  for (const Part &part : run.parts)
    std::ranges::copy(part.tokens, ids.as<int64_t>() + part.first);
  inputs.push_back(ids);
  for (bool windowed : {false, true}) {
    if (windowed && !a.rotatesTwice())
      break;
    int64_t pairs = a.rotated / 2;
    Tensor cosines(TS_F32, {run.rows, pairs}), sines(TS_F32, {run.rows, pairs});
    for (const Part &part : run.parts)
      rotations(a, windowed, part.sequence->cache.length, part.count(),
                cosines.as<float>() + part.first * pairs, sines.as<float>() + part.first * pairs);
    inputs.push_back(cosines), inputs.push_back(sines);
  }
}

/// The pages of each row, how many former keys it has in them, and where its part begins.
void Batch::addLists(const Run &run, std::vector<Tensor> &inputs) const {
  Tensor table(TS_I64, {run.rows, run.pages}), lengths(TS_I64, {run.rows}),
      firsts(TS_I64, {run.rows});
  std::fill_n(table.as<int64_t>(), run.rows * run.pages, 0);
  for (const Part &part : run.parts) {
    const PagedSequence &cache = part.sequence->cache;
    for (int64_t row = part.first; row < part.first + part.count(); ++row) {
      std::copy_n(cache.pages.begin(), pagesFor(cache.length),
                  table.as<int64_t>() + row * run.pages);
      lengths.as<int64_t>()[row] = cache.length, firsts.as<int64_t>()[row] = part.first;
    }
  }
  for (const Tensor &each : {table, lengths, firsts})
    inputs.push_back(each);
}

/// Where the run's results go: hidden rows, logits of single tokens, keys and values.
std::vector<Tensor> Batch::outputsOf(const Run &run) {
  const Architecture &a = model_->architecture();
  std::vector<Tensor> outputs;
  hidden_.resize(size_t(run.rows * a.width));
  outputs.push_back(Tensor::borrow(hidden_.data(), {run.rows, a.width}));
  if (!run.isSpan) {
    logits_.resize(size_t(run.rows * a.vocabulary));
    outputs.push_back(Tensor::borrow(logits_.data(), {run.rows, a.vocabulary}));
  }
  for (std::vector<std::byte> &news : news_) {
    news.resize(size_t(run.rows * format_.bytesOfToken()));
    outputs.push_back(format_.view(news.data(), {run.rows}));
  }
  return outputs;
}

/// Computes the tokens, for which there are pages.
void Batch::run(const Run &run) {
  std::vector<Tensor> inputs;
  addTokens(run, inputs);
  addLists(run, inputs);
  for (auto &cache : caches_)
    inputs.push_back(format_.view(cache.get(), {pool_.pages() + 1, kPositions}));
  const LanguageModel::Part &part = run.isSpan ? span_ : step_;
  inputs.insert(inputs.end(), part.weights.begin(), part.weights.end());
  std::vector<Tensor> outputs = outputsOf(run);
  part.session->run(inputs, outputs);
}

/// Writes keys and values of some of the part's tokens, which follow those that are there, to the
/// pages.
void Batch::keepNews(const Part &part, int64_t from, int64_t count) {
  PagedSequence &cache = part.sequence->cache;
  for (int64_t i = 0; i < count; ++i) {
    int64_t position = cache.length + i, row = part.first + from + i;
    int64_t slot = cache.pages[size_t(position / kPositions)] * kPositions + position % kPositions;
    int64_t bytes = format_.bytesOfToken();
    for (size_t of = 0; of < caches_.size(); ++of)
      std::copy_n(news_[of].data() + row * bytes, bytes, caches_[of].get() + slot * bytes);
  }
  pool_.append(cache, part.sequence->keys(cache.length, count));
}

} // namespace tensmith::generation
