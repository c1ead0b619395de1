// Mutated ONNX models through the front end and the compiler; see Stages.h.
//
// A model that names external data is read from a folder beside which lies a secret: whatever the
// model says, the secret must not become a part of it.
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "frontends/onnx/Import.h"
#include "tests/fuzz/OnnxMutator.h"
#include "tests/fuzz/Stages.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace tensmith;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

constexpr char kSecret[] = "a secret that lies beside the model's folder, at least 64 bytes long.";

ImportOptions importOptions() {
  ImportOptions options;
  options.maxNodes = 10'000;
  options.maxInstanceBytes = 64 << 20;
  return options;
}

/// The folder in which a model with external data is read: files, links of each kind, a pipe.
const std::filesystem::path &folder() {
  static const std::filesystem::path made = [] {
    auto outside =
        std::filesystem::temp_directory_path() / ("fuzz-onnx-" + std::to_string(getpid()));
    auto inside = outside / "model";
    std::filesystem::create_directories(inside / "sub");
    std::ofstream(outside / "secret") << kSecret;
    for (auto name : {"weights", "sub/weights"})
      std::ofstream(inside / name) << std::string(4096, '\1');
    std::filesystem::create_symlink("../secret", inside / "link");
    std::filesystem::create_symlink("..", inside / "folder");
    std::filesystem::create_hard_link(outside / "secret", inside / "hard");
    mkfifo((inside / "pipe").c_str(), 0600);
    static std::filesystem::path toRemove = outside;
    std::atexit([] { std::filesystem::remove_all(toRemove); });
    return inside;
  }();
  return made;
}

bool hasExternalData(std::string_view input) {
  onnx::ModelProto model;
  if (!model.ParseFromArray(input.data(), int(input.size())))
    return false;
  for (const auto &tensor : model.graph().initializer())
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL)
      return true;
  return input.find("location") != input.npos;
}

void checkForSecret(mlir::ModuleOp module) {
  module.walk([](graph::ConstantOp op) {
    auto tensor = graph::hostTensor(op.getValue());
    if (!tensor.ok() || tensor->type() == DataType::String || !tensor->bytes())
      return;
    std::string_view bytes(reinterpret_cast<const char *>(tensor->data()), size_t(tensor->bytes()));
    if (bytes.find(std::string_view(kSecret, 8)) == bytes.npos)
      return;
    std::fprintf(stderr, "broken: a model has read a file outside its folder\n");
    std::abort();
  });
}

Result<mlir::OwningOpRef<mlir::ModuleOp>> import(std::string_view input) {
  if (!hasExternalData(input))
    return importBytes(std::as_bytes(std::span(input.data(), input.size())), "fuzz.onnx",
                       fuzz::context(), importOptions());
  std::string path = folder() / "model.onnx";
  std::ofstream(path, std::ios::binary) << input;
  auto module = importFile(path, fuzz::context(), importOptions());
  if (module.ok())
    checkForSecret(**module);
  return module;
}

size_t store(const onnx::ModelProto &model, uint8_t *data, size_t size, size_t maxSize) {
  size_t wanted = model.ByteSizeLong();
  if (wanted > maxSize)
    return size;
  model.SerializeToArray(data, int(wanted));
  return wanted;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view input(reinterpret_cast<const char *>(data), size);
  fuzz::count(fuzz::Stage::Given);
  ResourceScope limits = fuzz::limits();
  auto module = import(input);
  if (!module.ok())
    return 0;
  fuzz::count(fuzz::Stage::Accepted);
  if (std::getenv("TENSMITH_FUZZ_TEXTS")) {
    std::string text;
    llvm::raw_string_ostream(text) << **module;
    fuzz::writeSeed("TENSMITH_FUZZ_TEXTS", input, text);
  }
  fuzz::compileAndRun(**module, input);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned int seed) {
  fuzz::Draw draw(seed);
  onnx::ModelProto model;
  if (draw.oneIn(100) || !model.ParseFromArray(data, int(size)))
    return LLVMFuzzerMutate(data, size, maxSize);
  for (uint64_t count = draw.below(4); count < 4; ++count)
    fuzz::mutate(model, draw);
  return store(model, data, size, maxSize);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t firstSize,
                                            const uint8_t *second, size_t secondSize, uint8_t *out,
                                            size_t maxSize, unsigned int seed) {
  fuzz::Draw draw(seed);
  onnx::ModelProto model, other;
  if (!model.ParseFromArray(first, int(firstSize)) ||
      !other.ParseFromArray(second, int(secondSize)))
    return 0;
  fuzz::graft(model, other, draw);
  return store(model, out, 0, maxSize);
}
