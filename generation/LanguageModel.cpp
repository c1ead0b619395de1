// Compiling and running a decoder; see LanguageModel.h.
#include "generation/LanguageModel.h"

#include "client/Compiler.h"
#include "client/ModuleCache.h"
#include "files/Failure.h"
#include "generation/Rotations.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>

namespace tensmith::generation {
namespace {

constexpr int64_t kContext = 4096; // unasked
constexpr int64_t kTogether = 512; // tokens of a prompt that are computed at once
constexpr int64_t kLeastCache = 256;

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

/// The module of a graph: from the cache, or compiled and kept there.
Module moduleOf(GraphOf &graph, const ModelSettings &settings) {
  ts_compile_options options = client::defaultOptions();
  if (settings.noCache || !settings.cacheDir.empty())
    options.cache_dir = settings.noCache ? "" : settings.cacheDir.c_str();
  std::string key = graph.text();
  client::ModuleCache cache("decoder.mlir", std::as_bytes(std::span(key)), options);
  try {
    if (auto found = cache.find())
      return Module::load(found->module.path(), false, found->module.bytes());
  } catch (const Error &) { // of another version: it is made again
  }
  cache.begin(options);
  std::string bytes = graph.compile(options);
  cache.keepBytes(bytes, "");
  return Module::load(bytes.data(), bytes.size());
}

/// A view of the file, which the model keeps mapped; a copy where rows are no whole blocks, and
/// have to be filled up.
Tensor viewOf(const GgufTensor &tensor) {
  bool isVector = tensor.shape.size() == 1;
  std::vector<int64_t> shape = tensor.shape;
  if (!isVector)
    shape = {tensor.rows(), tensor.blockBytes()};
  if (!isVector && tensor.blockBytes() != tensor.rowBytes()) {
    Tensor filled(TS_U8, shape);
    auto bytes = size_t(tensor.rowBytes()), missing = size_t(tensor.blockBytes()) - bytes;
    uint8_t *to = filled.as<uint8_t>();
    for (int64_t row = 0; row < tensor.rows(); ++row, to += bytes + missing) {
      std::memcpy(to, tensor.bytes.data() + size_t(row) * bytes, bytes);
      std::memset(to + bytes, 0, missing);
    }
    return filled;
  }
  ts_tensor *handle = nullptr;
  detail::check(ts_tensor_borrow(isVector ? TS_F32 : TS_U8, shape.data(), shape.size(),
                                 const_cast<std::byte *>(tensor.bytes.data()), nullptr, nullptr,
                                 &handle));
  return Tensor(handle);
}

} // namespace

std::shared_ptr<LanguageModel> LanguageModel::load(const std::string &path,
                                                   const ModelSettings &settings) {
  return std::shared_ptr<LanguageModel>(
      new LanguageModel(readModel(path, settings.weights), settings));
}

LanguageModel::LanguageModel(ModelFiles files, const ModelSettings &settings)
    : file_(std::move(files.file)), architecture_(architectureOf(file_)),
      tokenizer_(std::move(files.tokenizer)), settings_(settings),
      cache_(cacheFormatOf(settings.cacheType, architecture_, file_.name())) {
  const std::string &path = file_.name();
  // Embeddings are often more than there are tokens, for their number to be a round one.
  if (int64_t(tokenizer_.size()) > architecture_.vocabulary)
    fail(path, fmt::format("has {} tokens and embeddings of {}", tokenizer_.size(),
                           architecture_.vocabulary));
  tokenizer_.fill(size_t(architecture_.vocabulary));
  context_ = settings.context ? settings.context : std::min(architecture_.context, kContext);
  if (settings.shorter)
    context_ = std::min(context_, architecture_.context);
  if (context_ < 1 || context_ > architecture_.context)
    fail(path, fmt::format("takes contexts of 1 to {} tokens, not of {}", architecture_.context,
                           context_));
  chooseRotations(architecture_, context_);
}

const LanguageModel::Part &LanguageModel::part(DecoderForm form, int64_t positions) const {
  std::lock_guard lock(mutex_);
  Part &part = parts_[{form, positions}];
  if (part.session)
    return part;
  GraphOf graph;
  DecoderInputs inputs =
      buildDecoder(graph, architecture_, file_, {form, settings_.exact, positions, cache_});
  SessionOptions options;
  options.threads = settings_.threads;
  for (const GgufTensor *tensor : inputs.weights) {
    auto [found, isNew] = views_.try_emplace(tensor);
    if (isNew)
      found->second = viewOf(*tensor);
    part.weights.push_back(found->second);
  }
  part.session = std::make_unique<Session>(moduleOf(graph, settings_), options);
  return part;
}

std::vector<Token> LanguageModel::encode(std::string_view text, bool control, bool begins) const {
  // Twice: what parts names is none of the text.
  auto most = 2 * double(context_ + 1) * double(tokenizer_.longest() + 1);
  if (double(text.size()) > most)
    failUsage(fmt::format("a text of {} bytes is longer than the context of {} tokens", text.size(),
                          context_));
  return tokenizer_.encode(text, control, begins);
}

void LanguageModel::check(std::span<const Token> tokens) const {
  for (Token token : tokens)
    if (token < 0 || token >= architecture_.vocabulary)
      failUsage(fmt::format("token {} is none of {}", token, architecture_.vocabulary));
}

// ---- Conversations

Context::Context(std::shared_ptr<const LanguageModel> model)
    : model_(std::move(model)), step_(model_->part(DecoderForm::Step)),
      several_(model_->part(DecoderForm::Several)) {
  caches_.resize(size_t(2 * model_->architecture().layers));
  logits_.resize(size_t(model_->architecture().vocabulary));
}

void Context::reserve(int64_t tokens) {
  int64_t ofToken = model_->cacheFormat().bytesOfToken();
  int64_t have = int64_t(caches_[0].size()) / ofToken;
  if (tokens <= have)
    return;
  int64_t want = std::min(std::max({tokens, 2 * have, kLeastCache}), model_->contextLength());
  for (std::vector<std::byte> &cache : caches_)
    cache.resize(size_t(want * ofToken));
}

std::span<const float> Context::become(std::span<const Token> tokens) {
  if (tokens.empty())
    failUsage("there are no tokens to continue");
  if (int64_t(tokens.size()) > model_->contextLength())
    failUsage(fmt::format("{} tokens are more than the context of {} takes", tokens.size(),
                          model_->contextLength()));
  model_->check(tokens);
  size_t same = size_t(std::ranges::mismatch(tokens_, tokens).in1 - tokens_.begin());
  // The last one's logits are wanted in any case.
  tokens_.resize(std::min(same, tokens.size() - 1));
  reserve(int64_t(tokens.size()));
  while (tokens_.size() + 1 < tokens.size())
    compute(tokens.subspan(tokens_.size(),
                           std::min(tokens.size() - 1 - tokens_.size(), size_t(kTogether))));
  compute(tokens.last(1));
  return logits_;
}

void Context::compute(std::span<const Token> tokens) {
  const Architecture &a = model_->architecture();
  bool isStep = tokens.size() == 1;
  auto count = int64_t(tokens.size()), past = int64_t(tokens_.size());
  const LanguageModel::Part &part = isStep ? step_ : several_;
  std::vector<Tensor> inputs;
  Tensor ids(TS_I64, {count});
  std::ranges::copy(tokens, ids.as<int64_t>());
  inputs.push_back(ids);
  for (bool windowed : {false, true}) {
    if (windowed && !a.rotatesTwice())
      break;
    Tensor cosines(TS_F32, {count, a.rotated / 2}), sines(TS_F32, {count, a.rotated / 2});
    rotations(a, windowed, past, count, cosines.as<float>(), sines.as<float>());
    inputs.push_back(cosines), inputs.push_back(sines);
  }
  std::vector<Tensor> outputs;
  // What there is lies in one page, and the run's rows begin with its first.
  Tensor table(TS_I64, {count, 1}), lengths(TS_I64, {count}), firsts(TS_I64, {count});
  std::fill_n(table.as<int64_t>(), count, 0), std::fill_n(firsts.as<int64_t>(), count, 0);
  std::fill_n(lengths.as<int64_t>(), count, past);
  for (const Tensor &each : {table, lengths, firsts})
    inputs.push_back(each);
  if (isStep)
    outputs.push_back(Tensor::borrow(logits_.data(), {1, a.vocabulary}));
  const CacheFormat &format = model_->cacheFormat();
  for (std::vector<std::byte> &cache : caches_) {
    inputs.push_back(format.view(cache.data(), {past}));
    outputs.push_back(format.view(cache.data() + past * format.bytesOfToken(), {count}));
  }
  inputs.insert(inputs.end(), part.weights.begin(), part.weights.end());
  part.session->run(inputs, outputs);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

Generated generate(Context &context, std::span<const Token> prompt,
                   const GenerationSettings &settings,
                   const std::function<bool(Token, const std::string &)> &give) {
  Sampler sampler(settings.sampling, int64_t(prompt.size()));
  const Tokenizer &tokenizer = context.model().tokenizer();
  int64_t most = context.model().contextLength();
  Generated result;
  std::vector<Token> all(prompt.begin(), prompt.end());
  double start = now();
  std::span<const float> logits = context.become(all);
  result.promptSeconds = now() - start;
  start = now();
  while (int64_t(result.tokens.size()) < settings.most) {
    Token token = sampler.next(logits, all);
    result.ended = tokenizer.ends(token);
    if (result.ended)
      break;
    std::string bytes = tokenizer.bytesOf(token);
    result.tokens.push_back(token);
    all.push_back(token);
    result.text += bytes;
    bool isLast = int64_t(result.tokens.size()) == settings.most || int64_t(all.size()) > most;
    if (!give(token, bytes) || isLast)
      break;
    logits = context.become(all);
  }
  result.stepSeconds = now() - start;
  return result;
}

} // namespace tensmith::generation
