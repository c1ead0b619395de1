// The stages of a compilation, each with why it stands there; see Compilation.h.
#include "compiler/pipeline/Compilation.h"

#include "base/Budget.h"
#include "base/FileMapping.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/ConvolutionPasses.h"
#include "compiler/graph/Precision.h"
#include "compiler/kernel/CostModel.h"
#include "compiler/kernel/Template.h"
#include "compiler/pipeline/Explanation.h"
#include "compiler/pipeline/KernelModule.h"
#include "compiler/pipeline/MemoryBudget.h"
#include "compiler/pipeline/ReferenceWarnings.h"
#include "compiler/pipeline/ScheduleSource.h"
#include "compiler/pipeline/SourceNodes.h"
#include "compiler/pipeline/Stages.h"
#include "compiler/pipeline/Verification.h"
#include "compiler/program/Batching.h"
#include "compiler/program/PartialEvaluation.h"
#include "compiler/program/Program.h"
#include "compiler/program/Segments.h"
#include "compiler/rewrite/Rewrites.h"
#include "reference/Companion.h"

#include "mlir/IR/Verifier.h"

#include "llvm/Support/MemoryBuffer.h"

#include <set>

using namespace mlir;

namespace tensmith::pipeline {

Result<std::vector<std::string>> parseDevices(std::string_view text) {
  // A device's library is opened where the module runs; what kinds there are is known here.
  constexpr llvm::StringLiteral kKinds[] = {"separate"};
  std::vector<std::string> devices;
  std::set<std::pair<StringRef, unsigned>> known;
  for (StringRef name : llvm::split(StringRef(text), ',')) {
    if (text.empty())
      break;
    auto [kind, number] = name.split(':');
    unsigned parsed = 0;
    bool isNumber = kind.size() == name.size() || !number.getAsInteger(10, parsed);
    if (!isNumber || !llvm::is_contained(kKinds, kind))
      return invalidArgument("there is no device '" + name.str() +
                             "'; \"separate\" is the only kind, \"separate:1\" its second, and "
                             "several stand with commas between");
    if (!known.insert({kind, parsed}).second)
      return invalidArgument("the device '" + name.str() + "' is named twice");
    devices.push_back(name.str());
  }
  return devices;
}

std::string pipelineText(const CompileOptions &options) {
  std::string text;
  for (const Stage &stage : rewritesInOrder())
    if (!options.byReference)
      text += std::string(stage.name) + ", ";
  return text + "kernels, plan";
}

Result<modules::ModuleParts> Compilation::run() {
  auto target = targets::openTarget(options_.target.empty() ? "host" : options_.target);
  if (!target.ok())
    return target.status();
  if (Status status = checkBudget(options_); !status.ok())
    return status;
  target_ = std::move(*target);
  machine_ = target_->machine();
  machine_.checksBounds = options_.checkBounds;
  if (Status status = readSchedules(); !status.ok())
    return status;
  schedules_.setConditions(machine_.name + " " +
                           std::string(kPrecisionNames[size_t(options_.precision)]));
  if (options_.offered || options_.explained)
    schedules_.keepSpaces();
  takeTuned();
  auto policy = libraries::parsePolicy(options_.libraries);
  if (!policy.ok())
    return policy.status();
  libraries_ = *policy;
  const kernel::Intrinsic *products =
      machine_.products(kernel::Number::BF16, kernel::Number::BF16, kernel::Number::F32);
  machine_.flushesBfloats = options_.precision == Precision::Bfloat && products &&
                            products->has(kernel::FlushesSubnormals);
  if (Status status = dump_.makeFolder(); !status.ok())
    return status;
  function_ = module_.lookupSymbol<func::FuncOp>("main");
  if (!function_)
    return Status(StatusCode::InvalidModel, options_.model + ": has no function @main");
  for (auto stage :
       {&Compilation::rewriteGraph, &Compilation::emitKernels, &Compilation::compileKernels,
        &Compilation::planMemory, &Compilation::planExecution})
    if (Status status = (this->*stage)(); !status.ok())
      return status;
  warn();
  return parts_;
}

Result<modules::ModuleParts> Compilation::tell(std::string finding) {
  finding_ = std::move(finding);
  parts_.weights.clear();
  Status status = planExecution();
  return status.ok() ? Result<modules::ModuleParts>(parts_) : status;
}

void Compilation::report(const char *stage, double fraction) {
  if (options_.progress)
    options_.progress(stage, fraction);
}

Status Compilation::readSchedules() {
  if (options_.schedules.empty())
    return {};
  auto text = llvm::MemoryBuffer::getFile(options_.schedules, /*IsText=*/true);
  if (!text)
    return {StatusCode::IoError, options_.schedules + ": " + text.getError().message()};
  auto schedules = kernel::Schedules::parse((*text)->getBuffer(), options_.schedules, machine_);
  if (!schedules.ok())
    return schedules.status();
  schedules_ = std::move(*schedules);
  return {};
}

void Compilation::takeTuned() {
  if (!options_.source)
    return;
  schedules_.setTuned([this](const kernel::Key &key) {
    auto [known, isNew] = tuned_.try_emplace(key);
    std::string choices =
        isNew ? options_.source->choicesOf(schedules_.conditions(), key) : std::string();
    if (choices.empty())
      return known->second;
    auto parsed = kernel::Schedules::parse(
        R"({"schedules":[{"key":")" + key + "\"," + choices + "}]}", "tuned points", machine_);
    if (parsed.ok())
      known->second = parsed->all();
    else if (options_.warn)
      options_.warn(options_.model + ": the tuned point of kernel " + key +
                    " can't be read, and estimates choose: " + parsed.status().message());
    return known->second;
  });
}

const vm::KernelBinding &Compilation::binding(graph::KernelOp op) const {
  return kernels_[size_t(op->getAttrOfType<IntegerAttr>(kKernelNumber).getInt())];
}

void Compilation::warn() {
  if (!options_.warn)
    return;
  for (const std::string &warning : schedules_.warnings())
    options_.warn(warning);
  if (!options_.byReference)
    for (const std::string &warning : referenceWarnings(functions_, machine_))
      options_.warn(options_.model + ": " + warning);
  std::set<std::string> symbols, missing;
  for (const vm::KernelBinding &kernel : kernels_)
    symbols.insert(kernel.symbol);
  for (const std::string &symbol : symbols) {
    size_t end = symbol.find(':');
    if (end == symbol.npos)
      continue;
    std::string library = "libtensmith_" + symbol.substr(0, end) + ".so";
    if (!reference::companionFunction(library.c_str(), symbol.c_str() + end + 1))
      missing.insert(library);
  }
  for (const std::string &library : missing)
    options_.warn(options_.model + ": the module calls " + library +
                  ", which can't be loaded here: where it runs, that has to be beside the "
                  "runtime's library (docs/libraries.md says how it is built)");
}

Status Compilation::rewriteGraph() {
  if (Status status = dump_.write(module_, "imported"); !status.ok())
    return status;
  rewrite::Options options;
  if (options_.byReference) {
    Status status = outlineProgram();
    for (func::FuncOp function : functions_)
      if (status.ok() && failed(rewrite::checkSizes(function, options)))
        return {StatusCode::Internal, options_.model + ": its sizes could not be checked"};
    return status;
  }
  options.machine = machine_;
  options.fuse = options_.fuse;
  // Recomputation and devices have values moved, each by itself.
  options.joinInPlace =
      options_.devices.empty() && !options_.memoryBudget && options_.recomputation.empty();
  options.keepControl = options_.keepControl;
  options.precision = options_.precision;
  options.fastMath = options_.fastMath;
  options.schedules = &schedules_;
  options.explains = options_.explained != nullptr;
  options.regionTaken = regionTaken;
  if (options.explains)
    options.libraryRefused = [this](Operation *op, StringRef library, StringRef why) {
      libraryRefusals_.emplace_back(op, library, why);
    };
  options.libraries = libraries_;
  options.layerBound = layerBound_;
  if (options_.measurer)
    options.measure = [this](ModuleOp module, const std::string &library,
                             const std::string &schedules) {
      return measure(module, library, schedules);
    };
  if (Status status = outlineProgram(); !status.ok())
    return status;
  std::vector<PassVerification> verifications(functions_.size());
  for (size_t i = 0; options_.verifyEachPass && i < functions_.size(); ++i)
    if (Status status = verifications[i].begin(functions_[i]); !status.ok())
      return status.within(options_.model);
  // Both before anything is rounded otherwise; the later, the more of the layers are there.
  auto marksBefore =
      calibration_ && hasCodes(module_) ? rewrite::multiplyIntegers : rewrite::poolCodes;
  bool isRounded = options.precision == Precision::Bfloat || options.precision == Precision::Half;
  auto casts = graph::parseCasts(options_.casts);
  if (!casts.ok())
    return casts.status();
  if (Status status = graph::askForCasts(functions_, *casts); !status.ok())
    return status.within(options_.model);
  graph::ConstantScope constants;
  const std::vector<Stage> stages = rewritesInOrder();
  auto first = llvm::find_if(stages, [&](const Stage &stage) {
    return firstRewrite_.empty() || stage.name == firstRewrite_;
  });
  for (size_t number = size_t(first - stages.begin()); number < stages.size(); ++number) {
    const Stage &stage = stages[number];
    const std::string name(stage.name);
    auto *rewrite = stage.run;
    report("rewriting the graph", double(number) / double(stages.size()));
    if (Status status = checkTime(); !status.ok())
      return status.within(options_.model);
    if (rewrite == rewrite::proveSizes && !options_.checkBounds)
      continue;
    if (calibration_ && rewrite == marksBefore)
      if (Status status = markLayers(); !status.ok())
        return status.within(options_.model);
    if (rewrite == rewrite::mixPrecision && isRounded)
      casts_ = graph::castTable(functions_);
    for (func::FuncOp function : functions_)
      if (Status status = runStage(stage, function, options); !status.ok())
        return status.within(options_.model);
    if (rewrite == rewrite::narrowOperands)
      Calibration::unmark(module_);
    if (!calibration_ && !options_.verifyEachPass && !regionTaken) // which keep graphs as they were
      constants.release(module_);
    if (Status status = dump_.write(module_, name); !status.ok())
      return status;
    // Policies of fewer bits change results on purpose: what follows is held against those.
    bool rounds = rewrite == rewrite::narrowOperands || rewrite == rewrite::narrowResults ||
                  rewrite == rewrite::mixPrecision;
    bool begins = rounds && isRounded;
    for (size_t i = 0; options_.verifyEachPass && i < functions_.size(); ++i)
      if (Status status = begins ? verifications[i].begin(functions_[i])
                                 : verifications[i].check(functions_[i], name);
          !status.ok())
        return status.within(options_.model);
  }
  return {};
}

Status Compilation::markLayers() {
  if (functions_.size() != 1 || functions_[0] != function_)
    return unsupported("a program that isn't one graph can't be calibrated");
  report("calibrating", 0);
  return calibration_->mark(function_, [this](ModuleOp module) -> Result<std::string> {
    CompileOptions options;
    options.cacheFolder = options_.cacheFolder;
    options.threads = options_.threads;
    options.precision = Precision::Exact;
    options.model = options_.model;
    Compilation compilation(module, options);
    auto parts = compilation.run();
    return parts.ok() ? modules::moduleBytes(*parts) : Result<std::string>(parts.status());
  });
}

Status Compilation::outlineProgram() {
  functions_ = {function_};
  if (llvm::none_of(module_.getOps<func::FuncOp>(), program::isProcedure))
    return {};
  if (options_.evaluatePartially)
    program::evaluatePartially(module_);
  if (Status status = dump_.write(module_, "partially-evaluated"); !status.ok())
    return status;
  if (failed(program::simplifyProgram(module_)))
    return {StatusCode::Internal, options_.model + ": the program could not be simplified"};
  program::outlineSegments(module_);
  if (!options_.byReference)
    program::batchSegments(module_);
  if (failed(verify(module_)))
    return {StatusCode::Internal, options_.model + ": the program's segments are not valid"};
  functions_.clear();
  for (auto function : module_.getOps<func::FuncOp>())
    if (program::isSegment(function))
      functions_.push_back(function);
  return dump_.write(module_, "segments");
}

Status Compilation::emitKernels() {
  SmallVector<graph::KernelOp> kernels;
  module_.walk([&](graph::KernelOp op) { kernels.push_back(op); });
  if (Status status = emitFamilies(kernels); !status.ok())
    return status;
  for (size_t number = 0; number < kernels.size(); ++number) { // more may come
    graph::KernelOp op = kernels[number];
    if (op->hasAttr(kKernelNumber))
      continue;
    report("emitting kernels", double(number) / double(kernels.size()));
    if (Status status = checkTime(); !status.ok())
      return status.within(options_.model);
    Operation *root = kernel::scheduledOperator(op, machine_);
    kernel::Key key = kernel::keyOf(op, schedules_.conditions());
    kernel::CanonicalKernel structure(op);
    // Code is that of a structure, but trees are followed by tables that were looked at alone.
    bool hasTrees = !op.getBody().front().getOps<graph::TreeEnsembleOp>().empty();
    if (const Emitted *equal = hasTrees ? nullptr : findEqual(structure)) {
      bind(op, *equal, structure);
      offer(key, root, structure);
      for (const kernel::SizedPoint &point : equal->points)
        schedules_.made(key, root, point);
      continue;
    }
    std::string label = graph::describe(op.getLoc());
    if (!libraries::libraryOf(op).empty()) {
      if (Status status = bindCall(op); !status.ok())
        return status.within(options_.model + ": " + label);
      continue;
    }
    auto emitted = kernel::emitKernel(
        structure.op(), machine_,
        schedules_.pointsOf(key, root, kernel::kernelSymbols(structure.op()).size()));
    bool isOfRewrites = // no runtime has it
        isa<graph::FourierInputOp, graph::FourierOutputOp, graph::FourierConvOp,
            graph::FourierChangingWeightsOp, graph::FourierGradientOp,
            graph::FourierImageGradientOp, graph::FourierWeightsGradientOp>(root);
    if (emitted.status().code() == StatusCode::Unsupported && !isOfRewrites) {
      unemitted_.push_back(label + ": " + emitted.status().message());
      if (graph::KernelOp copy = rewrite::copyToPlace(op, machine_))
        kernels.push_back(copy);
      inlineRegion(op);
      continue;
    }
    if (!emitted.ok())
      return emitted.status().within(options_.model + ": " + label);
    offer(key, root, structure);
    if (codeEmitted)
      codeEmitted(key, *emitted);
    for (const kernel::SizedPoint &point : emitted->points)
      schedules_.made(key, root, point);
    size_t kernel = addSource(*emitted, op, std::move(label));
    auto &known = emitted_[structure.hash()];
    known.push_back({std::move(structure), kernel, emitted->points});
    rename(kernels_[kernel], known.back().structure);
    op->setAttr(kKernelNumber, Builder(op).getI64IntegerAttr(int64_t(kernel)));
  }
  emitted_.clear();
  if (options_.offered)
    options_.offered(schedules_);
  if (options_.explained)
    options_.explained(
        explanation(functions_, planInput(), schedules_, libraryRefusals_, machine_));
  dropMappedPages(); // the weights are packed
  if (Status status = dump_.write(module_, "kernels"); !status.ok())
    return status;
  return dump_.write(sources_);
}

void Compilation::offer(const kernel::Key &key, Operation *root,
                        const kernel::CanonicalKernel &structure) {
  if (!schedules_.keepsSpaces())
    return;
  std::vector<std::string> sizes;
  for (StringAttr symbol : kernel::kernelSymbols(structure.op()))
    sizes.push_back(structure.nameOf(symbol).str());
  schedules_.offer(key, root, structure.op().getKind(), kernel::spaceOf(structure.op(), machine_),
                   std::move(sizes));
}

size_t Compilation::addSource(kernel::EmittedKernel &emitted, graph::KernelOp op,
                              std::string label) {
  generated_.push_back(kernels_.size());
  targets::KernelSource source{std::move(label), {}};
  llvm::raw_string_ostream stream(source.text);
  emitted.module->print(stream);
  sources_.push_back(std::move(source));
  vm::KernelBinding binding;
  binding.sizes = std::move(emitted.sizes);
  binding.messages = std::move(emitted.messages);
  binding.label = op.getLabel().str();
  binding.schedule = std::move(emitted.summary);
  usesMatrixUnit_ |= emitted.usesMatrixUnit;
  binding.flops = emitted.work.flops;
  binding.bytes = emitted.work.bytes;
  binding.workSymbols = std::move(emitted.work.symbols);
  binding.multiplies = kernel::multiplies(op, machine_);
  kernels_.push_back(std::move(binding));
  return kernels_.size() - 1;
}

Status Compilation::emitFamilies(ArrayRef<graph::KernelOp> kernels) {
  // Choices may be for nodes by name, and spaces are each kernel's.
  if (!options_.schedules.empty() || schedules_.keepsSpaces())
    return {};
  SmallVector<graph::KernelOp> untuned;
  llvm::copy_if(kernels, std::back_inserter(untuned), [&](graph::KernelOp op) {
    return schedules_.tuned(kernel::keyOf(op, schedules_.conditions())).empty();
  });
  for (kernel::SizeFamily &family : kernel::findSizeFamilies(untuned)) {
    if (Status status = checkTime(); !status.ok())
      return status.within(options_.model);
    auto first = cast<graph::KernelOp>(family.values.begin()->first);
    kernel::matchTemplate(family.open, machine_);
    // Without known sizes it may be computed in another way, which stores rows side by side alone:
    // then each is compiled for its own.
    if (family.open.getKind() != first.getKind() ||
        (first.getPitch() && !kernel::storesAtPitch(family.open, machine_)))
      continue;
    auto emitted = kernel::emitKernel(family.open, machine_);
    if (!emitted.ok())
      continue;
    auto points = emitted->points;
    size_t code = addSource(*emitted, first, graph::describe(first.getLoc()));
    for (auto &[member, values] : family.values) {
      auto constant = [&](StringRef symbol) {
        return getAffineConstantExpr(values[kernel::canonicalNumber(symbol)], member->getContext());
      };
      vm::KernelBinding own = kernels_[code];
      for (const std::string &symbol : own.sizes)
        own.numbers.push_back(constant(symbol));
      own.sizes.clear();
      SmallVector<AffineExpr> sizes;
      for (StringAttr symbol : own.workSymbols)
        sizes.push_back(constant(symbol));
      own.workSymbols.clear();
      if (own.flops) {
        own.flops = own.flops.replaceSymbols(sizes);
        own.bytes = own.bytes.replaceSymbols(sizes);
      }
      auto op = cast<graph::KernelOp>(member);
      own.label = op.getLabel().str();
      for (const kernel::SizedPoint &point : points)
        schedules_.made(kernel::keyOf(op, schedules_.conditions()),
                        kernel::scheduledOperator(op, machine_), point);
      op->setAttr(kKernelNumber, Builder(op).getI64IntegerAttr(int64_t(kernels_.size())));
      renamed_.push_back({kernels_.size(), code});
      kernels_.push_back(std::move(own));
    }
  }
  return {};
}

Status Compilation::bindCall(graph::KernelOp op) {
  // A device has a copy of them, which goes with its session.
  auto call = libraries::callOf(op, /*keepsConstants=*/options_.devices.empty());
  if (!call.ok())
    return call.status();
  vm::KernelBinding binding;
  binding.symbol = call->symbol;
  std::string library = libraries::libraryOf(op).str();
  binding.messages = {library + " refused the operator, with status {}",
                      library + " was told of no other processes, though this one was started as "
                                "one of several, and can't take the mean of {} numbers; run the "
                                "step by tensmith train, or alone"};
  binding.label = op.getLabel().str();
  binding.schedule = call->summary;
  binding.numbers = std::move(call->sizes);
  binding.numberSymbols = std::move(call->symbols);
  kernel::Work work = kernel::workOf(op);
  binding.flops = work.flops;
  binding.bytes = work.bytes;
  binding.workSymbols = std::move(work.symbols);
  binding.multiplies = kernel::multiplies(op, machine_);
  op->setAttr(kKernelNumber, Builder(op).getI64IntegerAttr(int64_t(kernels_.size())));
  kernels_.push_back(std::move(binding));
  return {};
}

Result<double> Compilation::measure(ModuleOp module, const std::string &library,
                                    const std::string &schedules) {
  std::string text = library + "\n" + schedules + "\n";
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().elideLargeElementsAttrs(16).elideLargeResourceString(16));
  auto known = measured_.find(text);
  return known != measured_.end()
             ? known->second
             : measured_.emplace(text, measureAfresh(module, library, schedules)).first->second;
}

Result<double> Compilation::measureAfresh(ModuleOp module, const std::string &library,
                                          const std::string &schedules) {
  report("measuring operators", 0);
  CompileOptions options;
  options.target = options_.target;
  options.cacheFolder = options_.cacheFolder;
  options.threads = options_.threads;
  options.fuse = options_.fuse;
  options.precision = options_.precision;
  options.libraries = library;
  options.model = "an operator to be measured";
  OwningOpRef<ModuleOp> copy = module.clone();
  Compilation compilation(*copy, options);
  if (!schedules.empty()) {
    auto choices = kernel::Schedules::parse(schedules, options.model, machine_);
    if (!choices.ok())
      return choices.status();
    compilation.schedules_ = std::move(*choices);
  }
  auto parts = compilation.run();
  if (!parts.ok())
    return parts.status();
  auto bytes = modules::moduleBytes(*parts);
  if (!bytes.ok())
    return bytes.status();
  MeasuredFunction &measured = measuredFunction(module);
  // Rounding of the algorithms is bounded by their choice; this is for what is wrong.
  constexpr double kTolerance = 1e-3, kTolerated16 = 1.0 / 16;
  Measurement timed = options_.measurer->measure(
      {std::move(*bytes), measured.inputs, measured.expected,
       options_.precision == Precision::Bfloat ? kTolerated16 : kTolerance,
       /*wantsResults=*/true});
  if (timed.outcome == Measurement::Outcome::Timed) {
    if (measured.expected.empty()) // where the reference would take long: what came first
      measured.expected = std::move(timed.results);
    return timed.seconds;
  }
  // A library that isn't here is said once; of a fault each is of interest.
  bool isFault = timed.outcome == Measurement::Outcome::Wrong ||
                 timed.outcome == Measurement::Outcome::Crashed;
  std::string who = isFault && !schedules.empty() ? library + " by " + schedules : library;
  if (options_.warn && told_.insert(who).second)
    options_.warn(
        options_.model + ": " + who + " is not measured: " +
        (isFault ? "an operator's results are " + std::string(nameOf(timed.outcome)) + ": " : "") +
        timed.why);
  return unsupported(timed.why);
}

Compilation::MeasuredFunction &Compilation::measuredFunction(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().elideLargeElementsAttrs(16).elideLargeResourceString(16));
  auto [it, isNew] = measuredFunctions_.try_emplace(text);
  if (isNew) {
    auto function = module.lookupSymbol<func::FuncOp>("main");
    it->second.inputs = drawnInputs(function);
    it->second.expected = quickReference(function, it->second.inputs);
  }
  return it->second;
}

const Compilation::Emitted *Compilation::findEqual(const kernel::CanonicalKernel &structure) {
  auto known = emitted_.find(structure.hash());
  if (known == emitted_.end() || !options_.schedules.empty())
    return nullptr; // choices may be for nodes by name
  auto it = llvm::find_if(
      known->second, [&](const Emitted &emitted) { return emitted.structure.equals(structure); });
  return it == known->second.end() ? nullptr : &*it;
}

void Compilation::rename(vm::KernelBinding &binding, const kernel::CanonicalKernel &structure) {
  for (std::string &name : binding.sizes)
    name = structure.nameOf(name).str();
  for (StringAttr &name : binding.workSymbols)
    name = structure.nameOf(name);
}

void Compilation::bind(graph::KernelOp op, const Emitted &equal,
                       const kernel::CanonicalKernel &structure) {
  size_t number = equal.kernel;
  const vm::KernelBinding &first = kernels_[number];
  vm::KernelBinding own = first;
  auto ofFirst = [&](StringRef name) { return equal.structure.numberOf(name); };
  for (std::string &name : own.sizes)
    name = structure.name(ofFirst(name)).str();
  for (StringAttr &name : own.workSymbols)
    name = structure.name(ofFirst(name));
  if (own.sizes != first.sizes || own.workSymbols != first.workSymbols) {
    number = kernels_.size();
    renamed_.push_back({number, equal.kernel});
    kernels_.push_back(std::move(own));
  }
  op->setAttr(kKernelNumber, Builder(op).getI64IntegerAttr(int64_t(number)));
}

void Compilation::inlineRegion(graph::KernelOp op) {
  Block &block = op.getBody().front();
  for (auto [argument, input] : llvm::zip_equal(block.getArguments(), op.getInputs()))
    argument.replaceAllUsesWith(input);
  auto yield = cast<graph::YieldOp>(block.getTerminator());
  op->replaceAllUsesWith(yield.getValues());
  op->getBlock()->getOperations().splice(op->getIterator(), block.getOperations(), block.begin(),
                                         yield->getIterator());
  op->erase();
}

Status Compilation::compileKernels() {
  if (!generateCode_) {
    for (size_t number : generated_)
      kernels_[number].symbol = "kernel_" + std::to_string(number);
    for (auto [number, first] : renamed_)
      kernels_[number].symbol = kernels_[first].symbol;
    return {};
  }
  targets::CodeOptions options;
  options.threads = options_.threads;
  // What is found in the cache goes through no stages.
  options.cacheFolder = options_.dumpFolder.empty() ? options_.cacheFolder : "";
  options.dumpFolder = options_.dumpFolder;
  options.warn = options_.warn;
  options.progress = [&](int64_t done, int64_t total) {
    report("compiling kernels", double(done) / double(total));
  };
  auto compiled = target_->compile(sources_, options);
  if (!compiled.ok())
    return compiled.status().within(options_.model);
  for (auto [number, symbol] : llvm::zip_equal(generated_, compiled->symbols)) {
    vm::KernelBinding &binding = kernels_[number];
    binding.symbol = symbol;
    parts_.labels[symbol] = binding.label;
  }
  for (auto [number, first] : renamed_)
    kernels_[number].symbol = kernels_[first].symbol;
  if (options_.debugInfo)
    noteNodes();
  parts_.objects = std::move(compiled->objects);
  return {};
}

void Compilation::noteNodes() {
  for (func::FuncOp function : functions_)
    function.walk([&](graph::KernelOp op) {
      auto number = op->getAttrOfType<IntegerAttr>(kKernelNumber);
      auto known = number ? parts_.labels.find(kernels_[size_t(number.getInt())].symbol)
                          : parts_.labels.end();
      if (known != parts_.labels.end()) // else a library does it
        addSourceNodes(op.getLoc(), options_.model, parts_.nodes[known->first]);
    });
  for (auto &[symbol, label] : parts_.labels)
    label = labelWithNodes(label, parts_.nodes[symbol]);
}

Status Compilation::planMemory() {
  if (!options_.memoryBudget && options_.recomputation.empty())
    return {};
  report("planning memory", 0);
  vm::PlanInput input = planInput();
  cache::Store store(options_.cacheFolder), nothing("");
  KernelSeconds seconds;
  if (generateCode_ && options_.measurer)
    seconds = [&](graph::KernelOp op) -> Result<double> {
      report("measuring kernels", 0);
      auto candidate = kernelModule(op, input, parts_.objects, target_->triple());
      if (!candidate.ok())
        return candidate.status();
      // Which library it is that a call finds is told by nothing in the module.
      bool isCall = !libraries::libraryOf(op).empty();
      return secondsOf(*candidate, *options_.measurer, isCall ? nothing : store);
    };
  if (Status status = meetBudget(module_, options_, input, seconds); !status.ok())
    return status;
  recomputation_ = input.recomputation;
  return dump_.write(module_, "recomputed");
}

vm::PlanInput Compilation::planInput() {
  vm::PlanInput input;
  input.function = function_;
  input.kernel = [this](graph::KernelOp op) -> const vm::KernelBinding & { return binding(op); };
  input.model = options_.model;
  input.recomputation = recomputation_;
  input.madeOf = options_.madeOf;
  input.unemitted = unemitted_;
  input.triple = target_->triple();
  input.cpu = target_->cpu();
  input.limits = target_->limits();
  input.casts = casts_;
  input.schedules = schedules_.json();
  input.calibration = finding_;
  input.features = target_->codeFeatures(usesMatrixUnit_);
  input.devices = options_.devices;
  input.resident = options_.resident;
  input.cycles = [this](double operations, double bytes, bool multiplies) {
    using Kind = kernel::KernelWork::Kind;
    return kernel::cyclesOf(
        kernel::KernelWork{operations, bytes, multiplies ? Kind::Products : Kind::Elements},
        machine_);
  };
  input.deviceOf = options_.deviceOf;
  return input;
}

Status Compilation::planExecution() {
  report("planning memory", 0);
  plan_ = vm::buildPlan(planInput());
  if (!plan_.ok())
    return plan_.status();
  addPlan(parts_, *plan_);
  parts_.triple = target_->triple();
  report("writing the module", 0);
  return {};
}

} // namespace tensmith::pipeline
