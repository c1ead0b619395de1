// The program around the function, and runs of its module on memory of the caller's.
#include "trees/CompiledLoss.h"

#include "client/Compiler.h"
#include "files/Failure.h"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>

namespace tensmith::trees {

namespace {

constexpr char kFile[] = ".tsm", kFunction[] = "loss";

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

SessionOptions optionsOf(int threads) {
  SessionOptions options;
  options.threads = threads;
  return options;
}

} // namespace

bool isLoss(const std::string &word) {
  size_t at = word.rfind(kFile);
  if (isText(word))
    return true;
  size_t end = at == std::string::npos ? 0 : at + std::string(kFile).size();
  return end > 0 && (end == word.size() || word[end] == ':');
}

/// Of one number of rows at a time, which is that of the training data or of a validation set.
struct CompiledLoss::Compiled {
  Module module;
  Session session;
  int64_t channels;
  std::vector<float> tangents, products; // rows × channels
  std::vector<float> losses;             // by row
  std::vector<float> gradients;          // where the caller has no place for them

  Compiled(Module given, int64_t channels, int threads)
      : module(std::move(given)), session(module, optionsOf(threads)), channels(channels) {}

  /// `to`: of the losses, their sum, gradients and products.
  void run(std::span<const float> outputs, std::span<const float> labels,
           std::span<const float> along, std::span<float> losses, std::span<float> first,
           std::span<float> second) {
    auto rows = int64_t(labels.size());
    std::vector<int64_t> shape = {rows};
    if (channels > 1)
      shape.push_back(channels);
    float sum = 0;
    std::vector<Tensor> results = {borrowed(losses, {rows}), Tensor::borrow(&sum, {}),
                                   borrowed(first, shape), borrowed(second, shape)};
    session.run({borrowed(outputs, shape), borrowed(labels, {rows}), borrowed(along, shape)},
                results);
  }
  /// Ones in that channel.
  void pointAlong(int64_t channel, size_t size) {
    tangents.assign(size, channels == 1 ? 1.f : 0.f);
    for (size_t at = size_t(channel); channels > 1 && at < size; at += size_t(channels))
      tangents[at] = 1;
  }
};

CompiledLoss::CompiledLoss() = default;
CompiledLoss::~CompiledLoss() = default;

Result<std::unique_ptr<CompiledLoss>> CompiledLoss::compile(const std::string &loss,
                                                            int64_t channels, int threads) {
  Bytes module;
  Status status = guarded([&] { module = compiled(loss, channels); });
  return status.ok() ? load(module, channels, threads)
                     : Result<std::unique_ptr<CompiledLoss>>(status);
}

Result<std::unique_ptr<CompiledLoss>> CompiledLoss::load(std::span<const std::byte> module,
                                                         int64_t channels, int threads) {
  std::unique_ptr<CompiledLoss> loss(new CompiledLoss);
  Status status = guarded([&] {
    loss->compiled_ =
        std::make_unique<Compiled>(Module::load(module.data(), module.size()), channels, threads);
  });
  if (!status.ok())
    return status;
  return loss;
}

Status CompiledLoss::derive(std::span<const float> outputs, std::span<const float> labels,
                            std::span<float> gradients, std::span<float> hessians) {
  return guarded([&] {
    Compiled &own = *compiled_;
    own.losses.resize(labels.size());
    if (own.channels == 1) {
      if (own.tangents.size() != outputs.size())
        own.pointAlong(0, outputs.size());
      return own.run(outputs, labels, own.tangents, own.losses, gradients, hessians);
    }
    own.products.resize(outputs.size());
    for (int64_t channel = 0; channel < own.channels; ++channel) {
      own.pointAlong(channel, outputs.size());
      own.run(outputs, labels, own.tangents, own.losses, gradients, own.products);
      for (size_t at = size_t(channel); at < outputs.size(); at += size_t(own.channels))
        hessians[at] = own.products[at];
    }
  });
}

Status CompiledLoss::evaluate(std::span<const float> outputs, std::span<const float> labels,
                              std::span<float> losses) {
  return guarded([&] {
    Compiled &own = *compiled_;
    own.pointAlong(0, outputs.size());
    own.products.resize(outputs.size());
    own.gradients.resize(outputs.size());
    own.run(outputs, labels, own.tangents, losses, own.gradients, own.products);
  });
}

} // namespace tensmith::trees
