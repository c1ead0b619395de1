// The program around the function, and runs of its module on memory of the caller's.
#include "trees/CompiledLoss.h"

#include "client/Compiler.h"
#include "files/Failure.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace tensmith::trees {

namespace {

constexpr char kFile[] = ".tsm", kFunction[] = "loss";
/// Numbers of a block: what the module reads and writes of it, seven arrays of f32, fits a core's
/// second-level cache, and a call's microsecond is little beside it.
constexpr int64_t kNumbers = 1 << 12;

bool isText(const std::string &word) { return word.find("fn ") != std::string::npos; }

/// The results by rows, and their sum, whose derivatives are asked for.
std::string mainOf(const std::string &function, int64_t channels) {
  return fmt::format("\nfn main(output: f32[n{}], label: f32[n]) = {{\n"
                     "  let each = ({}(output, label) : f32[n]);\n"
                     "  (each, reduce_sum(each, axes = [0]))\n"
                     "}}\n",
                     channels > 1 ? fmt::format(", {}", channels) : "", function);
}

/// "losses.tsm:focal"
struct Named {
  std::filesystem::path file;
  std::string function = kFunction;
};

Named namedBy(const std::string &word) {
  size_t end = word.rfind(kFile) + std::string(kFile).size();
  Named named{word.substr(0, end)};
  if (end < word.size())
    named.function = word.substr(end + 1);
  return named;
}

Bytes compiled(const std::string &loss, int64_t channels) {
  client::CompileSettings settings;
  settings.progress = false;
  const client::Derivative derivatives[] = {
      {TS_GRADIENT, {"result1"}, {"output"}},
      {TS_TANGENT, {"gradient.output"}, {"output"}},
  };
  if (isText(loss))
    return client::compileProgram(loss + mainOf(kFunction, channels), "the loss.tsm", "",
                                  derivatives, settings);
  Named named = namedBy(loss);
  (void)readFile(named.file.string()); // that there is no such file is told best by this
  std::string folder = std::filesystem::absolute(named.file).parent_path().string();
  return client::compileProgram(
      fmt::format("import \"{}\"\n", named.file.filename().string()) +
          mainOf(named.function, channels),
      (named.file.parent_path() / (named.function + " of " + named.file.filename().string()))
          .string(),
      folder, derivatives, settings);
}

template <typename Work> Status guarded(Work work) {
  try {
    work();
    return {};
  } catch (const std::bad_alloc &) {
    return {StatusCode::ResourceExhausted, "there is not enough memory for the loss"};
  } catch (const std::exception &failure) {
    return invalidArgument(failure.what());
  }
}

Tensor borrowed(std::span<const float> values, const std::vector<int64_t> &shape) {
  return Tensor::borrow(const_cast<float *>(values.data()), shape);
}

} // namespace

bool isLoss(const std::string &word) {
  size_t at = word.rfind(kFile);
  if (isText(word))
    return true;
  size_t end = at == std::string::npos ? 0 : at + std::string(kFile).size();
  return end > 0 && (end == word.size() || word[end] == ':');
}

namespace {

SessionOptions ofOneThread() {
  SessionOptions options;
  options.threads = 1;
  return options;
}

/// A block of rows of one thread.
struct Block {
  explicit Block(int64_t channels) : channels(channels) {}

  /// Fills `losses`, `first` and `second`.
  void run(const Session &session, std::span<const float> outputs, std::span<const float> labels,
           int64_t channel) {
    auto rows = int64_t(labels.size());
    losses.resize(labels.size());
    first.resize(outputs.size()), second.resize(outputs.size());
    pointAlong(channel, outputs.size());
    std::vector<int64_t> shape = {rows};
    if (channels > 1)
      shape.push_back(channels);
    float sum = 0;
    std::vector<Tensor> results = {borrowed(losses, {rows}), Tensor::borrow(&sum, {}),
                                   borrowed(first, shape), borrowed(second, shape)};
    session.run({borrowed(outputs, shape), borrowed(labels, {rows}), borrowed(tangents, shape)},
                results);
  }
  /// Ones in that channel.
  void pointAlong(int64_t channel, size_t size) {
    if (tangents.size() == size && along == channel)
      return;
    along = channel;
    tangents.assign(size, channels == 1 ? 1.f : 0.f);
    for (size_t at = size_t(channel); channels > 1 && at < size; at += size_t(channels))
      tangents[at] = 1;
  }

  int64_t channels, along = -1;
  std::vector<float> tangents;      // rows × channels
  std::vector<float> losses;        // by row
  std::vector<float> first, second; // rows × channels
};

} // namespace

struct CompiledLoss::Compiled {
  Compiled(Module given, int64_t channels)
      : module(std::move(given)), session(module, ofOneThread()), channels(channels) {}

  /// work(block, begin, end) for ranges of rows.
  template <typename Work> void overBlocks(int64_t rows, Threads &threads, Work work) {
    blocks.resize(size_t(threads.count()), Block(channels));
    threads.ranges(
        rows, std::max<int64_t>(kNumbers / channels, 1),
        [&](int64_t begin, int64_t end, int thread) { work(blocks[size_t(thread)], begin, end); });
  }

  Module module;
  Session session;
  int64_t channels;
  std::vector<Block> blocks; // by thread
};

CompiledLoss::CompiledLoss() = default;
CompiledLoss::~CompiledLoss() = default;

Result<std::unique_ptr<CompiledLoss>> CompiledLoss::compile(const std::string &loss,
                                                            int64_t channels) {
  Bytes module;
  Status status = guarded([&] { module = compiled(loss, channels); });
  return status.ok() ? load(module, channels) : Result<std::unique_ptr<CompiledLoss>>(status);
}

Result<std::unique_ptr<CompiledLoss>> CompiledLoss::load(std::span<const std::byte> module,
                                                         int64_t channels) {
  std::unique_ptr<CompiledLoss> loss(new CompiledLoss);
  Status status = guarded([&] {
    loss->compiled_ =
        std::make_unique<Compiled>(Module::load(module.data(), module.size()), channels);
  });
  if (!status.ok())
    return status;
  return loss;
}

Status CompiledLoss::derive(std::span<const float> outputs, std::span<const float> labels,
                            std::span<Gradient> gradients, Threads &threads) {
  return guarded([&] {
    int64_t channels = compiled_->channels;
    compiled_->overBlocks(
        int64_t(labels.size()), threads, [&](Block &block, int64_t begin, int64_t end) {
          auto size = size_t((end - begin) * channels);
          Gradient *to = gradients.data() + begin * channels;
          for (int64_t channel = 0; channel < channels; ++channel) {
            block.run(compiled_->session, outputs.subspan(size_t(begin * channels), size),
                      labels.subspan(size_t(begin), size_t(end - begin)), channel);
            for (auto at = size_t(channel); at < size; at += size_t(channels))
              to[at] = {block.first[at], block.second[at]};
          }
        });
  });
}

Status CompiledLoss::evaluate(std::span<const float> outputs, std::span<const float> labels,
                              std::span<float> losses, Threads &threads) {
  return guarded([&] {
    int64_t channels = compiled_->channels;
    compiled_->overBlocks(
        int64_t(labels.size()), threads, [&](Block &block, int64_t begin, int64_t end) {
          block.run(compiled_->session,
                    outputs.subspan(size_t(begin * channels), size_t((end - begin) * channels)),
                    labels.subspan(size_t(begin), size_t(end - begin)), 0);
          std::ranges::copy(block.losses, losses.begin() + begin);
        });
  });
}

} // namespace tensmith::trees
