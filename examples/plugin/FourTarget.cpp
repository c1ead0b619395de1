// "four": machines whose vectors have four floats, and that exist as C alone.
//
// A kernel is emitted for vectors of 16 bytes, lowered to LLVM's IR, written as C (CText.h) and
// compiled by the system's compiler, $CC or cc, so that it runs wherever that one's code runs. What
// is shown is how a target comes in from outside: a description, and a way from kernels to objects.
#include "compiler/targets/PlainCode.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/TargetParser/Host.h"

#include "CText.h"
#include "Example.h"

#include <cstdlib>
#include <map>

using namespace tensmith;

namespace example {
namespace {

constexpr int64_t kVectorBytes = 16;

/// Files of one compilation, gone with it.
struct TemporaryFiles {
  std::string base;
  ~TemporaryFiles() {
    for (const char *ending : {".c", ".o", ".txt"})
      llvm::sys::fs::remove(base + ending);
    llvm::sys::fs::remove(base);
  }
};

Result<std::string> contents(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? Result<std::string>((*buffer)->getBuffer().str())
                : Status(StatusCode::IoError, path + ": " + buffer.getError().message());
}

/// The object of a translation unit. It stands alone: a loop is never turned into a call.
Result<std::string> compileC(const std::string &text) {
  const char *asked = std::getenv("CC");
  auto compiler = llvm::sys::findProgramByName(asked && *asked ? asked : "cc");
  if (!compiler)
    return unsupported("the target 'four' needs a compiler of C: there is no $CC and no cc");
  llvm::SmallString<128> base;
  if (auto error = llvm::sys::fs::createTemporaryFile("tensmith-four", "", base))
    return Status(StatusCode::IoError, "no temporary file: " + error.message());
  TemporaryFiles files{base.str().str()};
  std::string source = files.base + ".c", object = files.base + ".o", said = files.base + ".txt";
  std::error_code error;
  llvm::raw_fd_ostream(source, error) << text;
  if (error)
    return Status(StatusCode::IoError, source + ": " + error.message());
  int failed = llvm::sys::ExecuteAndWait(
      *compiler,
      {*compiler, "-std=gnu11", "-O1", "-fPIC", "-w", "-c", "-ffp-contract=off", "-fno-math-errno",
       "-ffreestanding", "-fno-stack-protector", "-fno-strict-aliasing", "-fwrapv", "-o", object,
       source},
      std::nullopt, {std::nullopt, llvm::StringRef(said), llvm::StringRef(said)});
  if (!failed)
    return contents(object);
  auto why = contents(said);
  return Status(StatusCode::Internal, *compiler + " refuses the C of a kernel: " +
                                          (why.ok() ? why->substr(0, 2000) : ""));
}

class FourTarget : public targets::Target {
public:
  explicit FourTarget(std::string name) : triple_(llvm::sys::getDefaultTargetTriple()) {
    machine_.name = std::move(name);
    machine_.vectorBytes = kVectorBytes;
    machine_.templates = &targets::vectorTemplates();
  }

  const kernel::Machine &machine() const override { return machine_; }
  const std::string &triple() const override { return triple_; }
  const std::string &cpu() const override { return machine_.name; }
  const std::string &limits() const override { return limits_; }
  std::vector<std::string> codeFeatures(bool) const override { return {}; }

  Result<targets::CompiledKernels> compile(std::span<const targets::KernelSource> sources,
                                           const targets::CodeOptions &options) const override {
    std::map<std::string, std::string> objects; // by symbol
    targets::CompiledKernels result;
    for (const targets::KernelSource &source : sources) {
      std::string symbol = "k_" + toHex(hash128(source.text));
      result.symbols.push_back(symbol);
      if (objects.count(symbol))
        continue;
      auto object = compileOne(source, symbol, options);
      if (!object.ok())
        return object.status().within("kernel of " + source.label);
      objects[symbol] = std::move(*object);
      if (options.progress)
        options.progress(int64_t(result.symbols.size()), int64_t(sources.size()));
    }
    for (auto &[symbol, object] : objects)
      result.objects.push_back({symbol, object});
    return result;
  }

private:
  static Result<std::string> compileOne(const targets::KernelSource &source,
                                        const std::string &symbol,
                                        const targets::CodeOptions &options) {
    llvm::LLVMContext context;
    auto module = targets::plainCode(source, kVectorBytes * 8, context);
    if (!module.ok())
      return module.status();
    auto text = cText(**module, "tensmith_kernel", symbol);
    if (!text.ok())
      return text.status();
    if (!options.dumpFolder.empty()) {
      std::error_code ignored;
      llvm::raw_fd_ostream(options.dumpFolder + "/" + symbol + ".c", ignored) << *text;
    }
    return compileC(*text);
  }

  kernel::Machine machine_;
  std::string triple_, limits_;
};

} // namespace

Result<std::unique_ptr<targets::Target>> openFour(std::string_view name) {
  if (name != "four:plain")
    return invalidArgument("there is no machine '" + std::string(name) +
                           "'; four:plain is the only one of its kind");
  return std::unique_ptr<targets::Target>(std::make_unique<FourTarget>(std::string(name)));
}

} // namespace example
