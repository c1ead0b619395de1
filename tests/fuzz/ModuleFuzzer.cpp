// Mutated modules through the loader and, where they are loaded, a run.
//
// An input is a module's plan and weights (ModuleParts.h); the code around them, and the hashes,
// are made anew. A few of the inputs are instead taken as changes to the file around the plan, of
// which everything is checked that is read before the dynamic loader maps the code: the loader
// itself trusts what it maps, as the hashes and ModuleFormat.h say.
#include "runtime/ModuleImage.h"
#include "runtime/Verify.h"
#include "runtime/test/TestModule.h"
#include "tests/fuzz/ModuleParts.h"
#include "tests/fuzz/ModuleRun.h"
#include "tests/fuzz/PlanMutator.h"

using namespace tensmith;
using namespace tensmith::runtime;
using runtime::test::Bytes;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

constexpr char kFileMark[] = "file"; // an input that begins so is of the second kind

std::span<const std::byte> bytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Kernels of a module that was compiled are not in this one: they get the names of those that are.
void nameKernels(plan::ModuleT &module) {
  for (auto &kernel : module.kernels)
    if (kernel && !kernel->symbol.starts_with("fuzz_"))
      kernel->symbol = "fuzz_kernel";
  module.features.clear();
}

bool isPlan(std::string_view bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  return plan::VerifyModuleBuffer(verifier);
}

std::string packed(const plan::ModuleT &module) {
  Bytes bytes = test::serialise(module);
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

/// A union may name a kind and hold nothing, which can be read but not be written again.
void fillAttributes(std::vector<std::unique_ptr<plan::AttributeT>> &attributes) {
  for (auto &attribute : attributes)
    if (!attribute->value.value)
      attribute->value.Set(plan::IntegerT());
}

std::unique_ptr<plan::ModuleT> unpacked(const std::string &bytes) {
  auto module = std::make_unique<plan::ModuleT>();
  if (!isPlan(bytes))
    return module;
  plan::GetModule(bytes.data())->UnPackTo(module.get());
  fillAttributes(module->metadata);
  for (auto &routine : module->routines)
    fillAttributes(routine->attributes);
  return module;
}

/// Bytes of the input, four each: where in a good file, and what.
void checkFile(std::string_view changes) {
  static const Bytes good = test::addModule(64, std::vector<float>(64, 2.0f));
  Bytes file = good;
  for (; changes.size() >= 4; changes.remove_prefix(4)) {
    auto byte = [&](size_t i) { return size_t(uint8_t(changes[i])); };
    // The headers of the file lie at its beginning, its tables at its end.
    size_t at = (byte(0) | byte(1) << 8) % std::min<size_t>(file.size(), 4096);
    file[byte(2) % 2 ? file.size() - 1 - at : at] = std::byte(byte(3));
  }
  auto sections = findSections(file);
  if (!sections)
    return;
  (void)checkImage(file, *sections, true); // with hashes that are wrong
  (void)hashImage(file, *sections);
  (void)hashWeights(file, *sections);
  (void)readCodeLayout(file);
  (void)verifyPlan(std::span(file).subspan(sections->plan.offset, sections->plan.size),
                   sections->weights.size);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view input(reinterpret_cast<const char *>(data), size);
  fuzz::count(fuzz::Stage::Given);
  if (input.starts_with(kFileMark))
    return checkFile(input.substr(sizeof(kFileMark) - 1)), 0;
  fuzz::ModuleParts parts = fuzz::splitParts(input);
  if (isPlan(parts.plan)) {
    auto module = unpacked(parts.plan);
    nameKernels(*module);
    parts.plan = packed(*module);
  }
  if (parts.plan.empty())
    return 0;
  auto loaded = Module::loadBytes(test::assemble(bytesOf(parts.plan), bytesOf(parts.weights)), {});
  if (!loaded)
    return 0;
  fuzz::count(fuzz::Stage::Accepted);
  fuzz::runModule(*loaded);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned int seed) {
  fuzz::Draw draw(seed);
  std::string_view input(reinterpret_cast<const char *>(data), size);
  if (draw.oneIn(100) || input.starts_with(kFileMark))
    return LLVMFuzzerMutate(data, size, maxSize);
  fuzz::ModuleParts parts = fuzz::splitParts(input);
  auto module = unpacked(parts.plan);
  for (uint64_t count = draw.below(4); count < 4; ++count)
    fuzz::mutate(*module, draw);
  if (draw.oneIn(10) && parts.weights.size() >= 8) { // an element, of eight bytes
    int64_t value = draw.integer();
    std::memcpy(parts.weights.data() + draw.below(parts.weights.size() / 8) * 8, &value, 8);
  }
  parts.plan = packed(*module);
  std::string joined = fuzz::joinParts(parts);
  if (joined.size() > maxSize)
    return size;
  std::memcpy(data, joined.data(), joined.size());
  return joined.size();
}
