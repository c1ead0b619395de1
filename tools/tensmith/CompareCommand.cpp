// tensmith compare: whether two ways to the same tensors agree, and the first one that differs.
#include "client/Compiler.h"
#include "client/Progress.h"
#include "files/Npy.h"
#include "files/Npz.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Inputs.h"
#include "tools/tensmith/Report.h"
#include "tools/tensmith/TensorComparison.h"
#include "tools/tensors/Values.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iostream>
#include <map>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string file, other;
  bool reference = false, json = false;
  Tolerance tolerance;
  int threads = 0;
  InputSettings inputs;
  CompileSettings compile;
};

/// What a comparison found: outputs, and where one side was evaluated node by node, the tensors on
/// the way as well.
struct Findings {
  std::vector<Difference> outputs, intermediates;
};

std::vector<NamedTensor> named(const Module &module, std::vector<Tensor> tensors) {
  std::vector<NamedTensor> result;
  std::vector<Port> ports = module.outputs();
  for (size_t i = 0; i < tensors.size(); ++i)
    result.push_back({ports[i].name, std::move(tensors[i])});
  return result;
}

/// What random operators draw by, on either side alike.
constexpr uint64_t kSeed = 0;

std::vector<NamedTensor> runModule(const Module &module, const std::string &file,
                                   const std::vector<Tensor> &inputs, int threads) {
  Progress progress("running " + file);
  try {
    return named(module, Session(module, {.threads = threads, .seed = kSeed}).run(inputs));
  } catch (const Error &error) {
    fail(file, error.what());
  }
}

/// The expected tensors of a file: an .npz by name, an .npy for the only output.
std::vector<NamedTensor> readReference(const std::string &path, const std::vector<Port> &outputs) {
  std::vector<NamedTensor> result;
  if (path.ends_with(".npy")) {
    if (outputs.size() != 1)
      fail(path, fmt::format("holds one array, but there are {} outputs; give an .npz with each "
                             "under its name",
                             outputs.size()));
    result.push_back(
        {outputs[0].name, toTensor(readNpy(readFile(path), path, DataType(outputs[0].type)))});
    return result;
  }
  Npz archive(path);
  for (const Port &output : outputs)
    if (archive.has(output.name)) {
      std::string where = path + ": '" + printable(output.name) + "'";
      result.push_back({output.name, toTensor(readNpy(archive.read(output.name), where,
                                                      DataType(output.type)))});
    }
  if (result.empty())
    fail(path, "has none of the outputs; name its arrays as 'tensmith inspect' names them");
  return result;
}

bool isProgram(const std::string &path) {
  return !path.ends_with(".npy") && !path.ends_with(".npz");
}

/// The other side: from a file, or from another model or module.
std::vector<NamedTensor> otherSide(const Settings &settings, const Module &module,
                                   const std::vector<Tensor> &inputs) {
  if (!isProgram(settings.other))
    return readReference(settings.other, module.outputs());
  Module other = loadOrCompile(settings.other, settings.compile);
  if (other.inputs().size() != inputs.size())
    fail(settings.other, fmt::format("has {} inputs, but {} has {}; compare what is made from the "
                                     "same model",
                                     other.inputs().size(), settings.file, inputs.size()));
  return runModule(other, settings.other, inputs, settings.threads);
}

const NamedTensor *find(const std::vector<NamedTensor> &tensors, const std::string &name) {
  for (const NamedTensor &tensor : tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

/// A result of an instruction, and the model's nodes that the instruction was made from.
struct Step {
  NamedTensor result;
  std::string source;
};

std::vector<Step> stepsOf(const Module &module, const std::string &file,
                          const std::vector<Tensor> &inputs, int threads) {
  Progress progress("running " + file + " step by step");
  std::vector<Step> steps;
  try {
    Session(module, {.threads = threads, .seed = kSeed})
        .observe(inputs,
                 [&](const std::string &name, const std::string &location, const Tensor &tensor) {
                   steps.push_back({{name, tensor}, location});
                 });
  } catch (const Error &error) {
    fail(file, error.what());
  }
  return steps;
}

using Occurrences = std::map<std::string, std::vector<const Step *>>;

Occurrences occurrencesOf(const std::vector<Step> &steps) {
  Occurrences occurrences;
  for (const Step &step : steps)
    occurrences[step.result.name].push_back(&step);
  return occurrences;
}

/// Of the language: what it computes on the way has no names, and can't be kept.
bool isProgramText(const std::string &path) { return path.ends_with(".tsm"); }

CompileSettings keepingAll(const Settings &settings, const std::string &model) {
  CompileSettings result = settings.compile;
  if (!isProgramText(model))
    result.keep = {"*"};
  result.seed = kSeed;
  return result;
}

/// A model that keeps all of its tensors, or a module as it is.
std::vector<Step> stepsOf(const std::string &file, const Settings &settings,
                          const std::vector<Tensor> &inputs) {
  return stepsOf(loadOrCompile(file, keepingAll(settings, file)), file, inputs, settings.threads);
}

/// What a node computes has the node's name in both programs, and in a loop's body occurs once for
/// each iteration. Where one program computes it in more steps than the other, or in another
/// layout, there is nothing to compare.
std::vector<Difference> compareSteps(const std::vector<Step> &left, const std::vector<Step> &right,
                                     const Tolerance &tolerance) {
  Occurrences ours = occurrencesOf(left), theirs = occurrencesOf(right);
  std::map<std::string, size_t> seen;
  std::vector<Difference> result;
  for (const Step &step : left) {
    const auto &same = ours[step.result.name], &others = theirs[step.result.name];
    size_t number = seen[step.result.name]++;
    if (same.size() != others.size() ||
        typeText(step.result.tensor) != typeText(others[number]->result.tensor))
      continue;
    result.push_back(compareTensors(step.result, others[number]->result, tolerance));
    result.back().source = step.source;
    if (same.size() > 1)
      result.back().source += fmt::format(", time {} of {}", number + 1, same.size());
  }
  return result;
}

Findings compareWithOther(const Settings &settings, const Module &module,
                          const std::vector<Tensor> &inputs) {
  Findings findings;
  if (isProgram(settings.other))
    findings.intermediates =
        compareSteps(stepsOf(settings.file, settings, inputs),
                     stepsOf(settings.other, settings, inputs), settings.tolerance);
  std::vector<NamedTensor> right = otherSide(settings, module, inputs);
  for (const NamedTensor &tensor : runModule(module, settings.file, inputs, settings.threads))
    if (const NamedTensor *other = find(right, tensor.name))
      findings.outputs.push_back(compareTensors(tensor, *other, settings.tolerance));
  return findings;
}

/// Keeping every tensor undoes fusion, so what is compared is both: each tensor of a module that
/// keeps them all, and the outputs of the module as it is.
Findings compareWithReference(const Settings &settings, const Module &module,
                              const std::vector<Tensor> &inputs) {
  std::vector<NamedTensor> outputs = runModule(module, settings.file, inputs, settings.threads);
  std::vector<NamedTensor> kept;
  if (kindOf(settings.file) == FileKind::Model && !isProgramText(settings.file))
    kept = runModule(loadOrCompile(settings.file, keepingAll(settings, settings.file)),
                     settings.file, inputs, settings.threads);
  Findings findings;
  auto compare = [&](const std::vector<NamedTensor> &tensors, const NamedTensor &expected,
                     const std::string &source, std::vector<Difference> &into) {
    if (const NamedTensor *tensor = find(tensors, expected.name)) {
      into.push_back(compareTensors(*tensor, expected, settings.tolerance));
      into.back().source = source;
    }
  };
  const std::string &evaluated = settings.other.empty() ? settings.file : settings.other;
  evaluateByReference(
      evaluated, keepingAll(settings, evaluated), inputs, 0,
      [&](const std::string &name, const std::string &source, const Tensor &tensor) {
        compare(kept, {name, tensor}, source, findings.intermediates);
        compare(outputs, {name, tensor}, source, findings.outputs);
      });
  return findings;
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}

Json asJson(const Difference &difference) {
  Json entry = {{"name", difference.name},
                {"agrees", difference.agrees()},
                {"largest_difference", number(difference.largest)},
                {"allowed", number(difference.allowed)},
                {"index", difference.index}};
  if (!difference.source.empty())
    entry["source"] = difference.source;
  if (!difference.agrees())
    entry["reason"] = difference.reason;
  return entry;
}

Json asJson(const std::vector<Difference> &differences) {
  Json result = Json::array();
  for (const Difference &difference : differences)
    result.push_back(asJson(difference));
  return result;
}

/// The first that differs in the order of the program, and how many agree before it. A wrong output
/// whose tensors are all right when they are kept is fusion's doing.
const Difference *firstDifference(const Findings &findings, int64_t &agreeing) {
  agreeing = 0;
  for (const auto *differences : {&findings.intermediates, &findings.outputs})
    for (const Difference &difference : *differences) {
      if (!difference.agrees())
        return &difference;
      ++agreeing;
    }
  return nullptr;
}

std::string lineOf(const Difference &difference) {
  return fmt::format("{}: {}, largest difference {:.3g} of {:.3g} allowed{}\n",
                     printable(difference.name), difference.agrees() ? "agrees" : "differs",
                     difference.largest, difference.allowed,
                     difference.agrees() ? "" : ", " + difference.reason);
}

void printFindings(const Findings &findings, const std::string &other, const Settings &settings) {
  int64_t agreeing = 0;
  const Difference *first = firstDifference(findings, agreeing);
  for (const Difference &difference : findings.outputs)
    std::cout << lineOf(difference);
  auto wrong = std::count_if(findings.intermediates.begin(), findings.intermediates.end(),
                             [](const Difference &difference) { return !difference.agrees(); });
  if (!findings.intermediates.empty())
    std::cout << fmt::format("tensor by tensor: {} of {} agree\n",
                             findings.intermediates.size() - size_t(wrong),
                             findings.intermediates.size());
  if (!first) {
    std::cout << settings.file << " agrees with " << other << '\n';
    return;
  }
  std::cout << "the first tensor that differs is " << lineOf(*first);
  if (!first->source.empty())
    std::cout << fmt::format("  computed by {}; {} compared before it agree\n",
                             printable(first->source), agreeing);
  if (!findings.intermediates.empty() && wrong == 0)
    std::cout << "  only outputs differ: what was not compared on the way, as what is fused, is at "
                 "fault\n";
}

int reportFindings(const Findings &findings, const std::string &other, const Settings &settings) {
  int64_t agreeing = 0;
  const Difference *first = firstDifference(findings, agreeing);
  if (!settings.json) {
    printFindings(findings, other, settings);
    return first ? kFailure : kSuccess;
  }
  Json all = {{"file", settings.file},
              {"other", other},
              {"agrees", first == nullptr},
              {"first_difference", first ? asJson(*first) : Json()},
              {"tensors", asJson(findings.outputs)},
              {"intermediates", asJson(findings.intermediates)}};
  if (first)
    all["first_difference"]["agree_before"] = agreeing;
  printJson(all);
  return first ? kFailure : kSuccess;
}

int compare(const Settings &settings) {
  if (!settings.reference && settings.other.empty())
    failUsage("compare: name what to compare with, or say --reference");
  std::string other = settings.other.empty() ? settings.file : settings.other;
  if (settings.reference &&
      (other.ends_with(".npy") || other.ends_with(".npz") || kindOf(other) == FileKind::Module))
    failUsage(other +
              ": is no model, which the reference evaluator needs: "
              "tensmith compare model.onnx --reference, or compare " +
              settings.file + " model.onnx --reference");
  Module module = loadOrCompile(settings.file, settings.compile);
  auto inputs =
      makeInputs(module.inputs(), settings.inputs, settings.compile.shapes, settings.file);
  Findings findings = settings.reference ? compareWithReference(settings, module, inputs)
                                         : compareWithOther(settings, module, inputs);
  if (findings.outputs.empty() && findings.intermediates.empty() && !module.outputs().empty())
    fail(other, "has no output of the same name; compare what is made from one model");
  if (settings.reference)
    other = settings.other.empty() ? "the reference evaluator"
                                   : "the reference evaluation of " + settings.other;
  return reportFindings(findings, other, settings);
}

} // namespace

void addCompare(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command =
      app.add_subcommand("compare", "Compare outputs with another's, a file's or the reference's");
  command->add_option("A", settings->file, "A model (compiled first) or a module")->required();
  command->add_option("B", settings->other, "A model, a module, or expected outputs (.npz, .npy)");
  command->add_flag("--reference", settings->reference,
                    "Compare with the reference evaluation of B, or of A where there is no B: each "
                    "tensor on the way");
  command
      ->add_option("--tolerance", settings->tolerance.relative,
                   "Of the largest absolute value of B's tensor (default 1e-4; integers are exact)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--absolute", settings->tolerance.absolute, "Allowed on top of it (default 0)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--threads", settings->threads, "Default: as many as CPUs")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--json", settings->json, "As JSON");
  settings->inputs.addTo(*command);
  addCompilation(*command, settings->compile, false);
  command->footer("Examples:\n"
                  "  tensmith compare model.onnx --reference\n"
                  "  tensmith compare model.so model.onnx --reference\n"
                  "  tensmith compare old.so new.so --input x=photo.png\n"
                  "  tensmith compare model.so expected.npz --input inputs.npz --tolerance 1e-3\n"
                  "Exit status: 0 where all agree, 1 where a tensor differs.");
  command->callback([settings, &chosen] { chosen = [settings] { return compare(*settings); }; });
}

} // namespace tensmith::cli
