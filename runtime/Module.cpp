// Loading: the file is read and checked through one descriptor, and code is mapped from that same
// one, which is closed then.
#include "runtime/Module.h"

#include "reference/Companion.h"
#include "runtime/CpuFeatures.h"
#include "runtime/Interpreter.h"
#include "runtime/ModuleImage.h"
#include "runtime/Verify.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tensmith::runtime {
namespace {

Status ioError(const std::string &what) {
  return {StatusCode::IoError, what + ": " + std::strerror(errno)};
}

void *inLibrary(const std::string &library, const char *name) {
  return reference::companionFunction(("libtensmith_" + library + ".so").c_str(), name);
}

/// By its name in the module's image, or in a library beside the runtime's: "onednn:name". What a
/// library does that can't be loaded, plain loops do, and `warning` says so. `forgets` gets what a
/// library that is called has to be told in the end. The name is the file's: one that leads out of
/// the folder is refused, and nothing opens a library by it but this function.
void *findKernel(const CodeImage &image, const CodeLayout &layout, const char *symbol,
                 std::string &warning, std::set<TensmithForget> &forgets) {
  const char *name = std::strchr(symbol, ':');
  if (!name) {
    auto found = layout.functions.find(symbol);
    return found == layout.functions.end() ? nullptr : image.at(found->second);
  }
  std::string library(symbol, name);
  if (library.find('/') != library.npos)
    return nullptr;
  if (void *found = inLibrary(library, name + 1)) {
    if (void *forget = inLibrary(library, TENSMITH_FORGET))
      forgets.insert(reinterpret_cast<TensmithForget>(forget));
    return found;
  }
  void *plain = inLibrary("plain", name + 1);
  if (plain)
    warning = missingLibrary(library) + "; until then plain loops do its operators, which is slow";
  return plain;
}

/// A whole file, readable, for as long as it takes to check it.
class ReadMapping {
public:
  explicit ReadMapping(int file) {
    struct stat status;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
      return;
    regular_ = true;
    if (uint64_t(status.st_size) > uint64_t(PTRDIFF_MAX)) { // of a machine of 32 bits
      errno = EFBIG;
      size_ = SIZE_MAX;
      return;
    }
    size_ = size_t(status.st_size);
    void *data = size_ ? mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0) : nullptr;
    data_ = data == MAP_FAILED ? nullptr : data;
  }
  ReadMapping(const ReadMapping &) = delete;
  ReadMapping &operator=(const ReadMapping &) = delete;
  ~ReadMapping() {
    if (data_)
      munmap(data_, size_);
  }

  bool regular() const { return regular_; }
  bool ok() const { return data_ || !size_; }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte *>(data_), data_ ? size_ : 0};
  }

private:
  void *data_ = nullptr;
  size_t size_ = 0;
  bool regular_ = false;
};

Status checkFeatures(const plan::Module &module) {
  std::string absent, unknown;
  for (uint32_t i = 0; module.features() && i < module.features()->size(); ++i) {
    std::string name = module.features()->Get(i)->str();
    FeatureState state = cpuFeature(name);
    if (state != FeatureState::Present)
      (state == FeatureState::Absent ? absent : unknown) += " " + name;
  }
  if (!absent.empty()) {
    bool matrixUnit = absent.find(" amx-") != std::string::npos;
    return {StatusCode::InvalidModule,
            "the module's code needs CPU features that this machine lacks:" + absent +
                (matrixUnit ? " (or that the system refuses this process)" : "") +
                "; compile the model for this machine"};
  }
  if (!unknown.empty())
    return {StatusCode::InvalidModule,
            "the module's code needs CPU features that this runtime does not know:" + unknown +
                "; update the runtime, or compile the model for this machine"};
  return {};
}

Status writeAll(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return ioError("can't copy the module's bytes");
    bytes = bytes.subspan(size_t(written));
  }
  return {};
}

} // namespace

Module::~Module() {
  for (TensmithForget forget : forgets_)
    forget(weights_.data(), weights_.data() + weights_.size());
  if (weightsMapping_)
    munmap(weightsMapping_, weightsMappingSize_);
}

std::string_view Module::location(uint32_t index) const {
  if (!plan_->locations() || index >= plan_->locations()->size())
    return {};
  const flatbuffers::String *text = plan_->locations()->Get(index);
  return {text->c_str(), text->size()};
}

void Module::releaseWeights(std::span<const std::byte> bytes) const {
  auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  uintptr_t first = reinterpret_cast<uintptr_t>(bytes.data());
  uintptr_t begin = (first + page - 1) / page * page, end = (first + bytes.size()) / page * page;
  if (begin < end)
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

Status Module::mapWeights(int file, uint64_t offset, uint64_t size) {
  if (size == 0)
    return {};
  uint64_t page = uint64_t(sysconf(_SC_PAGESIZE)), before = offset % page;
  if (before % kAlignment)
    return {StatusCode::InvalidModule, "not a valid module: its weights are not aligned"};
  weightsMappingSize_ = size_t(size + before);
  void *mapping =
      mmap(nullptr, weightsMappingSize_, PROT_READ, MAP_PRIVATE, file, off_t(offset - before));
  if (mapping == MAP_FAILED)
    return ioError("can't map the module's weights");
  weightsMapping_ = mapping;
  // Where the file system's cache has large pages, weights are read into such, and mapped by them.
  madvise(mapping, weightsMappingSize_, MADV_HUGEPAGE);
  madvise(mapping, weightsMappingSize_, MADV_WILLNEED);
  weights_ = {static_cast<const std::byte *>(mapping) + before, size_t(size)};
  return {};
}

Result<std::shared_ptr<const Module>> Module::loadFile(int file, const LoadOptions &options) {
  std::shared_ptr<Module> module(new Module);
  ReadMapping mapping(file);
  if (!mapping.regular())
    return Status(StatusCode::InvalidModule, "not a valid module: it is no regular file");
  if (!mapping.ok())
    return ioError("can't read the module");
  std::span<const std::byte> bytes = mapping.bytes();
  if (options.bytes > bytes.size())
    return Status(StatusCode::InvalidModule, "not a valid module: it is shorter than it should be");
  if (options.bytes)
    bytes = bytes.first(options.bytes);
  auto sections = findSections(bytes);
  if (!sections)
    return sections.status();
  module->canRun_ = !options.onlyDescribed;
  if (Status status = module->canRun_ ? checkMachine(*sections) : Status(); !status.ok())
    return status;
  if (Status status = checkImage(bytes, *sections, options.verifyWeights); !status.ok())
    return status;
  auto planBytes = bytes.subspan(sections->plan.offset, sections->plan.size);
  module->planBytes_.resize((planBytes.size() + 7) / 8);
  std::memcpy(module->planBytes_.data(), planBytes.data(), planBytes.size());
  auto plan =
      verifyPlan({reinterpret_cast<std::byte *>(module->planBytes_.data()), planBytes.size()},
                 sections->weights.size);
  if (!plan)
    return plan.status();
  module->plan_ = *plan;
  if (Status status = module->canRun_ ? checkFeatures(**plan) : Status(); !status.ok())
    return status;

  if (Status status = module->mapWeights(file, sections->weights.offset, sections->weights.size);
      !status.ok())
    return status;
  std::optional<CodeLayout> layout;
  if (module->canRun_) {
    auto read = readCodeLayout(bytes);
    auto code = read ? CodeImage::map(file, *read) : Result<CodeImage>(read.status());
    if (!code)
      return code.status();
    layout = std::move(*read);
    module->code_ = std::move(*code);
  }
  auto program = decodePlan(module->plan(), [&](const char *symbol) -> TensmithKernel {
    if (!module->canRun_)
      return [](const TensmithCall *) -> int32_t { return 1; };
    return reinterpret_cast<TensmithKernel>(
        findKernel(module->code_, *layout, symbol, module->warning_, module->forgets_));
  });
  if (!program)
    return program.status();
  for (const RoutineCode &routine : program->routines) {
    program->readsRunKey |= routine.name == kRunKey;
    if (routine.name != kRunKey && !reference::find(routine.name) &&
        !findSequenceOperator(routine.name))
      return Status(StatusCode::InvalidModule,
                    "the module uses the operator '" + routine.name +
                        "', which this runtime does not have; " +
                        (routine.name.find('.') == std::string::npos
                             ? "update the runtime, or compile the model again"
                             : "load the plug-in that it is of first"));
  }
  module->program_ = std::move(*program);
  return std::shared_ptr<const Module>(std::move(module));
}

Result<std::shared_ptr<const Module>> Module::load(const std::string &path,
                                                   const LoadOptions &options) {
  // Not blocking: a named pipe would wait for its writer before it can be refused.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return ioError("can't open the module " + path);
  auto module = loadFile(file, options);
  close(file);
  return module ? module : Result<std::shared_ptr<const Module>>(module.status().within(path));
}

Result<std::shared_ptr<const Module>> Module::loadBytes(std::span<const std::byte> bytes,
                                                        const LoadOptions &options) {
  int file = memfd_create("tensmith-module", MFD_CLOEXEC);
  if (file < 0)
    return ioError("can't make memory for the module's code");
  Status status = writeAll(file, bytes);
  auto module = status.ok() ? loadFile(file, options) : std::move(status);
  close(file);
  return module;
}

} // namespace tensmith::runtime
