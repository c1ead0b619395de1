// Kernels copied out of a compilation, and compiled again by points; see TuningSession.h.
#include "compiler/pipeline/TuningSession.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Outputs.h"
#include "compiler/module/ModuleWriter.h"
#include "compiler/pipeline/Compilation.h"
#include "compiler/rewrite/RoundingError.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

/// Where a kernel's graph takes up the rewrites: the first that makes kernels.
constexpr std::string_view kFirstRewrite = "fuse-rows";

bool isConstant(Value value) {
  return isa_and_nonnull<graph::ConstantOp, graph::NoneOp>(value.getDefiningOp());
}

/// The operators with the constants that they read; everything else that they read is an input.
OwningOpRef<ModuleOp> graphOf(ArrayRef<Operation *> operators, ValueRange results) {
  llvm::SetVector<Value> inputs;
  llvm::SetVector<Operation *> constants;
  llvm::SmallPtrSet<Operation *, 16> inside(operators.begin(), operators.end());
  for (Operation *op : operators)
    op->walk([&](Operation *each) {
      for (Value operand : each->getOperands()) {
        Operation *made = operand.getDefiningOp();
        if (inside.contains(made) || op->isAncestor(operand.getParentRegion()->getParentOp()))
          continue;
        if (isConstant(operand))
          constants.insert(made);
        else
          inputs.insert(operand);
      }
    });
  SmallVector<Operation *> all(constants.begin(), constants.end());
  llvm::append_range(all, operators);
  return graph::moduleOf(all, inputs.getArrayRef(), results);
}

bool isStatic(func::FuncOp function) {
  auto isFixed = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape();
  };
  return llvm::all_of(function.getArgumentTypes(), isFixed) &&
         llvm::all_of(function.getResultTypes(), isFixed);
}

double amount(AffineExpr expression) {
  auto constant = dyn_cast_or_null<AffineConstantExpr>(expression);
  return constant ? double(constant.getValue()) : 0;
}

std::string fileOf(const kernel::Key &key, const std::string &choices) {
  return R"({"schedules":[{"key":")" + key + "\"" + (choices.empty() ? "" : ",") + choices + "}]}";
}

} // namespace

Result<std::unique_ptr<TuningSession>> TuningSession::open(ModuleOp module,
                                                           const CompileOptions &options) {
  std::unique_ptr<TuningSession> session(new TuningSession(options));
  session->options_.explained = nullptr;
  session->options_.memoryBudget = 0;
  session->options_.recomputation.clear();
  auto target = targets::openTarget(options.target.empty() ? "host" : options.target);
  if (!target.ok())
    return target.status();
  session->target_ = std::move(*target);
  if (Status status = session->collect(module); !status.ok())
    return status;
  session->options_.source = nullptr; // of a candidate all is asked for
  session->options_.schedules.clear();
  for (Kernel &kernel : session->kernels_)
    session->checkAlone(kernel);
  return session;
}

Status TuningSession::collect(ModuleOp module) {
  CompileOptions options = options_;
  options.offered = [](const kernel::Schedules &) {};
  Compilation compilation(module, options, /*generateCode=*/false);
  std::map<kernel::Key, OwningOpRef<ModuleOp>> graphs;
  compilation.regionTaken = [&](const kernel::Key &key, ArrayRef<Operation *> operators,
                                ValueRange results) {
    if (OwningOpRef<ModuleOp> &graph = graphs[key]; !graph)
      graph = graphOf(operators, results);
  };
  auto parts = compilation.run();
  if (!parts.ok())
    return parts.status();
  conditions_ = compilation.choices().conditions();
  llvm::StringMap<size_t> numbers;
  llvm::json::Value offers = llvm::cantFail(llvm::json::parse(compilation.choices().spacesJson()));
  collectDecisions(*offers.getAsArray(), compilation.choices());
  for (llvm::json::Value &offered : *offers.getAsArray()) {
    llvm::json::Object &object = *offered.getAsObject();
    std::string key = object.getString("key")->str();
    auto graph = graphs.find(key);
    if (graph == graphs.end() || !object.getString("template")) // what rewrites decide
      continue;
    numbers[key] = kernels_.size();
    kernels_.push_back({key, std::move(object), 0, 0, 0, {}, {}, std::move(graph->second)});
  }
  module.walk([&](graph::KernelOp op) {
    auto number = numbers.find(kernel::keyOf(op, conditions_));
    if (number == numbers.end())
      return;
    Kernel &kernel = kernels_[number->second];
    const vm::KernelBinding &binding = compilation.binding(op);
    ++kernel.uses;
    kernel.flops = amount(binding.flops);
    kernel.bytes = amount(binding.bytes);
  });
  llvm::erase_if(kernels_, [](const Kernel &kernel) { return kernel.uses == 0; });
  return {};
}

void TuningSession::collectDecisions(llvm::json::Array &offers, const kernel::Schedules &choices) {
  llvm::json::Value made = llvm::cantFail(llvm::json::parse(choices.json()));
  llvm::StringMap<const llvm::json::Object *> chosen; // by key, the first of each
  for (const llvm::json::Value &each : *made.getAsArray())
    chosen.try_emplace(*each.getAsObject()->getString("key"), each.getAsObject());
  for (const llvm::json::Value &offer : offers) {
    llvm::json::Object object = *offer.getAsObject();
    if (object.getString("template"))
      continue;
    std::string key = object.getString("key")->str();
    const kernel::Offered &offered = choices.spaces().find(key)->second;
    const llvm::json::Object *told = chosen.lookup(key);
    kernel::Point estimated;
    for (const kernel::Space::Dimension &dimension : offered.space.dimensions())
      if (auto value = told ? told->getInteger(dimension.choice->name) : std::nullopt;
          value && dimension.choice != &kernel::choice::library)
        estimated.set(*dimension.choice, *value);
    llvm::json::Array tuned; // what is made unasked is told of all but what shares a kernel
    for (const llvm::json::Value &choice : *object.getArray("choices")) {
      StringRef name = *choice.getAsObject()->getString("choice");
      if (llvm::any_of(estimated, [&](const auto &entry) { return entry.first->name == name; }))
        tuned.push_back(choice);
    }
    if (tuned.empty())
      continue;
    object["choices"] = std::move(tuned);
    object.erase("points"); // of all choices
    decisions_.push_back({key, std::move(object), estimated.text()});
  }
}

void TuningSession::checkAlone(Kernel &kernel) {
  if (!isStatic(kernel.graph->lookupSymbol<func::FuncOp>("main"))) {
    kernel.untunable = "its sizes are those of a run; fix them (--shape)";
    return;
  }
  auto compiled = compile(kernel, "", /*withCode=*/false, [&](const kernel::EmittedKernel &code) {
    kernel.estimated = code.points.empty() ? "" : code.points.front().point.text();
  });
  if (!compiled.ok())
    kernel.untunable = compiled.status().message();
}

const TuningSession::Kernel *TuningSession::find(const kernel::Key &key) const {
  auto found = llvm::find_if(kernels_, [&](const Kernel &kernel) { return kernel.key == key; });
  return found == kernels_.end() ? nullptr : &*found;
}

Result<std::string> TuningSession::compile(const Kernel &kernel, const std::string &choices,
                                           bool withCode, const Emitted &codeEmitted) {
  auto asked = kernel::Schedules::parse(fileOf(kernel.key, choices), "kernel " + kernel.key,
                                        target_->machine());
  if (!asked.ok())
    return asked.status();
  graph::ConstantScope constants;
  OwningOpRef<ModuleOp> copy = kernel.graph.get().clone();
  CompileOptions options = options_;
  options.model = "kernel " + kernel.key;
  options.progress = nullptr;
  options.warn = nullptr;
  Compilation compilation(*copy, options, withCode);
  compilation.resumeAt(kFirstRewrite, std::move(*asked));
  bool isThere = false;
  compilation.codeEmitted = [&](const kernel::Key &key, const kernel::EmittedKernel &code) {
    if (key != kernel.key)
      return;
    isThere = true;
    if (codeEmitted)
      codeEmitted(code);
  };
  auto parts = compilation.run();
  Result<std::string> bytes = std::string();
  if (!parts.ok())
    bytes = parts.status();
  else if (!isThere)
    bytes = unsupported("alone, its operators become other kernels");
  else if (withCode)
    bytes = modules::moduleBytes(*parts);
  copy->getBody()->clear();
  constants.release(*copy); // what was packed for this candidate
  return bytes;
}

Result<std::vector<double>> TuningSession::features(const kernel::Key &key,
                                                    const std::string &choices) {
  if (last_.key == key && last_.choices == choices)
    return last_.features;
  const Kernel *kernel = find(key);
  if (!kernel)
    return invalidArgument("the model has no kernel " + key);
  std::vector<double> features;
  auto compiled =
      compile(*kernel, choices, /*withCode=*/false,
              [&](const kernel::EmittedKernel &code) { features = loopFeatures(code); });
  return compiled.ok() ? Result<std::vector<double>>(std::move(features)) : compiled.status();
}

Result<std::vector<LoopNode>> TuningSession::loops(const kernel::Key &key,
                                                   const std::string &choices) {
  const Kernel *kernel = find(key);
  if (!kernel)
    return invalidArgument("the model has no kernel " + key);
  std::vector<LoopNode> tree;
  auto compiled = compile(*kernel, choices, /*withCode=*/false,
                          [&](const kernel::EmittedKernel &code) { tree = loopTree(code); });
  return compiled.ok() ? Result<std::vector<LoopNode>>(std::move(tree)) : compiled.status();
}

Result<TuningSession::Built> TuningSession::build(const kernel::Key &key,
                                                  const std::string &choices) {
  const Kernel *kernel = find(key);
  if (!kernel)
    return invalidArgument("the model has no kernel " + key);
  last_ = {};
  std::vector<double> features;
  auto bytes = compile(*kernel, choices, /*withCode=*/true,
                       [&](const kernel::EmittedKernel &code) { features = loopFeatures(code); });
  if (!bytes.ok())
    return bytes.status();
  last_ = {key, choices, std::move(features)};
  // Rounding of sums in another order is well below this; it is for what is wrong.
  constexpr double kTolerance = 1e-3, kTolerated16 = 1.0 / 16;
  return Built{kernel,
               {std::move(*bytes),
                runOf(*kernel).inputs,
                {},
                options_.precision == Precision::Fast || options_.precision == Precision::Exact
                    ? kTolerance
                    : kTolerated16,
                /*wantsResults=*/true}};
}

TuningSession::Run &TuningSession::runOf(const Kernel &kernel) {
  auto [run, isNew] = runs_.try_emplace(kernel.key);
  if (isNew) {
    OwningOpRef<ModuleOp> copy = kernel.graph.get().clone();
    auto function = copy->lookupSymbol<func::FuncOp>("main");
    run->second.inputs = drawnInputs(function);
    run->second.expected = quickReference(function, run->second.inputs);
  }
  return run->second;
}

Measurement TuningSession::measure(const Built &built, Measurer &measurer) {
  Run &run = runOf(*built.kernel);
  Candidate candidate = built.candidate;
  candidate.expected = run.expected;
  Measurement timed = measurer.measure(candidate);
  if (timed.outcome == Measurement::Outcome::Timed && run.expected.empty())
    run.expected = timed.results;
  return timed;
}

std::string TuningSession::json() const {
  llvm::json::Array list;
  for (const Kernel &kernel : kernels_) {
    llvm::json::Object object = kernel.offered;
    object["uses"] = kernel.uses;
    object["flops"] = kernel.flops;
    object["bytes"] = kernel.bytes;
    object["estimated"] = kernel.estimated;
    object["untunable"] = kernel.untunable;
    list.push_back(std::move(object));
  }
  llvm::json::Array decisions;
  for (const Decision &decision : decisions_) {
    llvm::json::Object object = decision.offered;
    object["estimated"] = decision.estimated;
    decisions.push_back(std::move(object));
  }
  bool isNarrow = options_.precision != Precision::Fast && options_.precision != Precision::Exact;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(
      llvm::json::Object{{"machine", conditions_},
                         {"kernels", std::move(list)},
                         {"decisions", std::move(decisions)},
                         {"most_error", isNarrow ? rewrite::kBfloatBound : rewrite::kFastBound}});
  return text;
}

} // namespace tensmith::pipeline
