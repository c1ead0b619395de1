// Candidates by a command: files in, files and JSON out; see Measure.h.
#include "compiler/pipeline/Measure.h"

#include "base/Cpus.h"
#include "base/Hash.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/ChildProcess.h"
#include "compiler/vm/Signature.h"
#include "files/Failure.h"
#include "files/Npy.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/TargetParser/Host.h"

#include <cmath>
#include <dlfcn.h>
#include <filesystem>
#include <stdlib.h>

using namespace mlir;

namespace tensmith::pipeline {
namespace {

namespace fs = std::filesystem;
using Outcome = Measurement::Outcome;

/// Gone with it.
class Folder {
public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "tensmith-measure-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
      fail(pattern, "can't be made; set TMPDIR to a folder that can be written");
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string file(const std::string &name) const { return (path_ / name).string(); }

private:
  fs::path path_;
};

/// How a result differs; empty where it doesn't.
std::string difference(const HostTensor &got, const HostTensor &wanted, double tolerance) {
  if (got.type() != wanted.type() || got.shape() != wanted.shape())
    return "has another type or shape";
  double largest = 0;
  for (int64_t i = 0; i < wanted.size(); ++i)
    if (double value = std::abs(wanted.getDouble(i)); std::isfinite(value))
      largest = std::max(largest, value);
  for (int64_t i = 0; i < wanted.size(); ++i) {
    double a = got.getDouble(i), b = wanted.getDouble(i);
    bool isSame = a == b || (std::isnan(a) && std::isnan(b));
    if (!isSame && !(isFloat(wanted.type()) && std::abs(a - b) <= tolerance * largest))
      return "element " + std::to_string(i) + " is " + std::to_string(a) + ", not " +
             std::to_string(b);
  }
  return {};
}

/// "tensmith-run: FILE: what" without what stands before it.
std::string withoutPath(std::string message, const std::string &file) {
  if (size_t at = message.find(file + ": "); at != message.npos)
    message.erase(0, at + file.size() + 2);
  message.resize(message.find_last_not_of("\n ") + 1);
  return message;
}

class CommandMeasurer : public Measurer {
public:
  CommandMeasurer(std::vector<std::string> command, const CommandLimits &limits)
      : command_(std::move(command)), limits_(limits) {}

  std::vector<Measurement> measure(std::span<const Candidate> candidates) override {
    std::vector<Measurement> all;
    for (const Candidate &candidate : candidates)
      try {
        all.push_back(measureOne(candidate));
      } catch (const Failure &failure) { // of a file
        all.push_back({Outcome::NotStarted, 0, {}, failure.what()});
      }
    return all;
  }

private:
  Measurement measureOne(const Candidate &candidate) const {
    Folder folder;
    std::string module = folder.file("module.so");
    writeFile(module, std::as_bytes(std::span(candidate.module)));
    int threads = limits_.threads > 0 ? limits_.threads : availableCpus();
    std::vector<std::string> words(command_);
    words.insert(words.end(), {module, "--threads", std::to_string(threads), "--seconds",
                               std::to_string(limits_.repeatSeconds)});
    if (candidate.wantsResults || !candidate.expected.empty())
      words.insert(words.end(), {"--out", folder.file("results")});
    int64_t inputBytes = 0;
    for (size_t i = 0; i < candidate.inputs.size(); ++i) {
      std::string path = folder.file(std::to_string(i) + ".npy");
      writeFile(path, writeNpy(candidate.inputs[i].value));
      words.insert(words.end(), {"--input", candidate.inputs[i].name + "=" + path});
      inputBytes += candidate.inputs[i].value.bytes();
    }
    auto ended = runChild(words, {limits_.seconds, limits_.memoryBytes + 4 * inputBytes, threads});
    if (!ended.ok())
      return {Outcome::NotStarted, 0, {}, ended.status().message()};
    if (ended->end == ChildResult::End::TimedOut)
      return {Outcome::TimedOut,
              0,
              {},
              llvm::formatv("takes more than {0} seconds", limits_.seconds).str()};
    if (ended->errors.find("not enough memory") != std::string::npos ||
        ended->errors.find("bad_alloc") != std::string::npos)
      return {Outcome::OutOfMemory,
              0,
              {},
              "wants more than " + std::to_string(limits_.memoryBytes >> 20) + " MiB"};
    if (ended->end == ChildResult::End::Killed)
      return {Outcome::Crashed,
              0,
              {},
              "its process was ended by signal " + std::to_string(ended->status)};
    if (ended->status == kFailure)
      return {Outcome::Refused, 0, {}, withoutPath(ended->errors, module)};
    if (ended->status != kSuccess) // an emulator's or a shell's, of a program that was killed, too
      return {Outcome::Crashed,
              0,
              {},
              "its process ended with status " + std::to_string(ended->status) + ": " +
                  ended->errors};
    return read(ended->output, candidate);
  }

  static Measurement read(const std::string &output, const Candidate &candidate) {
    auto json = llvm::json::parse(output);
    const llvm::json::Object *object = json ? json->getAsObject() : nullptr;
    if (!json)
      llvm::consumeError(json.takeError());
    auto least = object ? object->getNumber("min_ms") : std::nullopt;
    const llvm::json::Array *files = object ? object->getArray("outputs") : nullptr;
    if (!least || !files || (files->size() < candidate.expected.size()))
      return {Outcome::Crashed, 0, {}, "prints no times or outputs: " + output.substr(0, 200)};
    Measurement result{Outcome::Timed, *least / 1e3, {}, {}};
    bool keepsResults = candidate.wantsResults || !candidate.expected.empty();
    for (size_t i = 0; keepsResults && i < files->size(); ++i) {
      const llvm::json::Object *file = (*files)[i].getAsObject();
      auto path = file ? file->getString("file") : std::nullopt;
      if (!path)
        return {Outcome::Crashed, 0, {}, "saves no outputs"};
      auto type =
          i < candidate.expected.size() ? candidate.expected[i].type() : DataType::Undefined;
      result.results.push_back(readNpy(readFile(path->str()), path->str(), type));
      std::string how =
          i < candidate.expected.size()
              ? difference(result.results.back(), candidate.expected[i], candidate.tolerance)
              : "";
      if (!how.empty())
        return {Outcome::Wrong, 0, {}, "output " + std::to_string(i) + ": " + how};
    }
    return result;
  }

  std::vector<std::string> command_;
  CommandLimits limits_;
};

} // namespace

std::string_view nameOf(Outcome outcome) {
  constexpr std::string_view kNames[] = {"timed",     "wrong",         "refused",    "crashed",
                                         "timed out", "out of memory", "not started"};
  return kNames[size_t(outcome)];
}

Result<double> secondsOf(const Candidate &candidate, Measurer &measurer, cache::Store &store) {
  Hasher hasher;
  hasher.add(candidate.module);
  hasher.add(std::string_view(llvm::sys::getHostCPUName()));
  hasher.add(int64_t(availableCpus()));
  Hash128 key = hasher.finish();
  if (auto kept = store.find(cache::Kind::Time, key))
    if (double seconds = 0; llvm::to_float(*kept, seconds))
      return seconds;
  Measurement timed = measurer.measure(candidate);
  if (timed.outcome != Outcome::Timed)
    return unsupported(timed.why);
  store.insert(cache::Kind::Time, key, llvm::formatv("{0:e17}", timed.seconds).str());
  return timed.seconds;
}

std::vector<Candidate::Input> drawnInputs(func::FuncOp function) {
  std::vector<Candidate::Input> inputs;
  for (auto [number, port] : llvm::enumerate(vm::inputsOf(function))) {
    auto type = cast<RankedTensorType>(function.getArgument(unsigned(number)).getType());
    HostTensor tensor(port.type, Shape(type.getShape().begin(), type.getShape().end()));
    auto state = uint32_t(number + 1);
    for (int64_t i = 0; i < tensor.size(); ++i) {
      state = state * 1664525 + 1013904223;
      tensor.setDouble(
          i, port.type != DataType::F32 ? 0 : (double(int32_t(state >> 16) - 32768) + 0.5) / 32768);
    }
    inputs.push_back({port.name, std::move(tensor)});
  }
  return inputs;
}

std::vector<HostTensor> quickReference(func::FuncOp function,
                                       std::span<const Candidate::Input> inputs) {
  constexpr double kMostProducts = 2e8; // of a second
  double products = 0;
  auto elements = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.hasStaticShape() ? double(type.getNumElements()) : 1;
  };
  function.walk([&](Operation *op) {
    if (isa<graph::ConvOp, graph::MatMulOp>(op)) {
      auto right = cast<RankedTensorType>(op->getOperand(1).getType());
      double columns =
          isa<graph::ConvOp>(op) ? double(right.getDimSize(0)) : double(right.getShape().back());
      products += elements(op->getResult(0)) * elements(op->getOperand(1)) / std::max(columns, 1.0);
    } else if (op->getNumResults() == 1) {
      products += elements(op->getResult(0));
    }
  });
  if (products > kMostProducts)
    return {};
  std::vector<graph::RuntimeValue> values;
  for (const Candidate::Input &input : inputs)
    values.push_back(input.value);
  auto results = graph::evaluate(function, std::move(values));
  std::vector<HostTensor> expected;
  for (size_t i = 0; results.ok() && i < results->size(); ++i)
    expected.push_back((*results)[i].tensor);
  return expected;
}

std::unique_ptr<Measurer> commandMeasurer(std::vector<std::string> command,
                                          const CommandLimits &limits) {
  return std::make_unique<CommandMeasurer>(std::move(command), limits);
}

std::unique_ptr<Measurer> measurerHere(const CommandLimits &limits) {
  Dl_info here{};
  ::dladdr(reinterpret_cast<const void *>(&measurerHere), &here);
  fs::path folder = here.dli_fname ? fs::path(here.dli_fname).parent_path() : fs::path();
  return commandMeasurer({(folder / "tensmith-measure").string()}, limits);
}

} // namespace tensmith::pipeline
