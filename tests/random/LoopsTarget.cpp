// The machine of another target, with a table of templates of its own; see LoopsTarget.h.
#include "tests/random/LoopsTarget.h"

#include "compiler/kernel/LoopKernel.h"
#include "compiler/nest/NestTemplate.h"
#include "compiler/targets/Target.h"

namespace tensmith {
namespace {

/// What has no nest must be of the kinds that the page names (docs/nests.md): loops would hide that
/// nothing is a nest.
Result<kernel::EmittedKernel> nestOrKnownReason(graph::KernelOp kernel, mlir::Operation *main,
                                                const kernel::Machine &machine,
                                                llvm::ArrayRef<kernel::SizedPoint> asked) {
  auto emitted = nest::kNests.emit(kernel, main, machine, asked);
  if (emitted.ok())
    return emitted;
  llvm::StringRef why = emitted.status().message();
  // What is checked of open sizes before the kernel runs isn't known to the nest.
  bool isOpen = !kernel::kernelSymbols(kernel).empty();
  if (isOpen && why.contains("outside of its extents for some sizes"))
    return emitted;
  for (const char *known : {"no code", "lp_pool: its code has", "bit_pack: its code has",
                            "bit_conv: its code has", "of i8 have"})
    if (why.contains(known))
      return emitted;
  return Status(StatusCode::Internal, "this must be a nest: " + why.str());
}

/// That of nests takes all regions.
const Table<kernel::Template> &nestTemplates() {
  static const kernel::Template kAll = [] {
    kernel::Template all = nest::kNests;
    all.takes = [](graph::KernelOp, mlir::Operation *, const kernel::Machine &) { return true; };
    all.emit = nestOrKnownReason;
    return all;
  }();
  static const Table<kernel::Template> both("template", {&kAll, &kernel::kLoops});
  return both;
}

class LoopsTarget : public targets::Target {
public:
  LoopsTarget(std::unique_ptr<targets::Target> other, bool ofNests) : other_(std::move(other)) {
    machine_ = other_->machine();
    machine_.name = (ofNests ? "nests of " : "loops of ") + machine_.name;
    machine_.templates = ofNests ? &nestTemplates() : &kernel::loopTemplates();
    machine_.images = graph::kChannelsFirst;
  }

  const kernel::Machine &machine() const override { return machine_; }
  const std::string &triple() const override { return other_->triple(); }
  const std::string &cpu() const override { return other_->cpu(); }
  const std::string &limits() const override { return other_->limits(); }
  std::vector<std::string> codeFeatures(bool usesMatrixUnit) const override {
    return other_->codeFeatures(usesMatrixUnit);
  }
  Result<targets::CompiledKernels> compile(std::span<const targets::KernelSource> sources,
                                           const targets::CodeOptions &options) const override {
    return other_->compile(sources, options);
  }

private:
  std::unique_ptr<targets::Target> other_;
  kernel::Machine machine_;
};

template <bool ofNests> Result<std::unique_ptr<targets::Target>> open(std::string_view name) {
  auto other = targets::openTarget(name.substr(name.find(':') + 1));
  if (!other.ok())
    return other.status();
  return std::unique_ptr<targets::Target>(
      std::make_unique<LoopsTarget>(std::move(*other), ofNests));
}

} // namespace

void addLoopsTarget() {
  static const targets::TargetKind kLoops{"loops", open<false>}, kNests{"nests", open<true>};
  static const targets::TargetKind *const kRows[] = {&kLoops, &kNests};
  (void)targets::targetKinds().add(kRows);
}

} // namespace tensmith
