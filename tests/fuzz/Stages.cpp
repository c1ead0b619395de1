// The stages of a fuzzed model; see Stages.h.
#include "tests/fuzz/Stages.h"

#include "base/Hash.h"
#include "compiler/graph/Dialects.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/program/Program.h"
#include "compiler/targets/Target.h"
#include "runtime/Verify.h"
#include "tests/fuzz/ModuleParts.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

using namespace mlir;

namespace tensmith::fuzz {
namespace {

constexpr int kInputsOfContext = 64;
std::span<const std::byte> bytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

[[noreturn]] void broken(const char *what, const Status &status) {
  std::fprintf(stderr, "broken: %s: %s\n", what, status.message().c_str());
  std::abort();
}

pipeline::CompileOptions compileOptions() {
  pipeline::CompileOptions options;
  options.model = "fuzz";
  options.threads = 1;
  return options;
}

} // namespace

MLIRContext &context() {
  static std::unique_ptr<MLIRContext> current;
  static int uses = 0;
  if (current && ++uses < kInputsOfContext)
    return *current;
  DialectRegistry registry;
  graph::registerDialects(registry);
  registry.insert<program::ProgramDialect>();
  targets::registerDialects(registry);
  current = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  current->loadAllAvailableDialects();
  // Diagnostics are part of what is tested, but thousands a second are no use to anyone.
  current->getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
    (void)diagnostic.str();
    return success();
  });
  uses = 0;
  return *current;
}

bool isCompiled(std::string_view input) {
  static const char *share = std::getenv("TENSMITH_FUZZ_COMPILE");
  static const uint64_t wanted = share ? std::strtoull(share, nullptr, 10) : 5;
  return hash128(bytesOf(input)).low % 1000 < wanted;
}

ResourceScope limits() {
  return ResourceScope({std::make_shared<Budget>(int64_t(256) << 20), deadlineIn(3)});
}

void compileAndRun(ModuleOp module, std::string_view input) {
  bool whole = isCompiled(input);
  OwningOpRef<ModuleOp> copy = whole ? module.clone() : OwningOpRef<ModuleOp>();
  auto planned = pipeline::compileWithoutCode(module, compileOptions());
  if (!planned.ok()) {
    if (planned.status().code() == StatusCode::Internal)
      broken("the compiler blames itself", planned.status());
    return;
  }
  count(Stage::Planned);
  auto verified = runtime::verifyPlan(bytesOf(planned->plan), planned->weights.size());
  if (!verified)
    broken("the runtime refuses a plan of the compiler's", verified.status());
  writeSeed("TENSMITH_FUZZ_PLANS", input, joinParts({planned->plan, planned->weights}));
  if (!whole)
    return;
  auto compiled = pipeline::compileToBytes(*copy, compileOptions());
  if (!compiled.ok()) {
    if (compiled.status().code() == StatusCode::Internal)
      broken("the compiler blames itself", compiled.status());
    return;
  }
  count(Stage::Compiled);
  auto loaded = runtime::Module::loadBytes(bytesOf(*compiled), {});
  if (!loaded)
    broken("the runtime refuses a module of the compiler's", loaded.status());
  runModule(*loaded);
}

void writeSeed(const char *variable, std::string_view input, std::string_view bytes) {
  const char *folder = std::getenv(variable);
  if (!folder)
    return;
  char name[32];
  std::snprintf(name, sizeof(name), "/%016llx", (unsigned long long)hash128(bytesOf(input)).low);
  std::ofstream(folder + std::string(name), std::ios::binary) << bytes;
}

} // namespace tensmith::fuzz
