// tensmith compare: whether two ways to the same tensors agree, and the first one that differs.
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Compiler.h"
#include "tools/tensmith/Inputs.h"
#include "tools/tensmith/Npy.h"
#include "tools/tensmith/Npz.h"
#include "tools/tensmith/Progress.h"
#include "tools/tensmith/Report.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string file, other;
  bool reference = false, json = false;
  double tolerance = 1e-4, absolute = 0;
  int threads = 0;
  InputSettings inputs;
  CompileSettings compile;
};

struct Named {
  std::string name;
  Tensor tensor;
};

/// What came of one tensor.
struct Difference {
  std::string name, reason; // no reason: they agree
  double largest = 0, allowed = 0;
  int64_t index = -1; // of the largest difference
};

bool isExact(const HostTensor &tensor) {
  TypeClass kind = info(tensor.type()).kind;
  return kind != TypeClass::Float && kind != TypeClass::Complex;
}

bool sameElement(const HostTensor &a, const HostTensor &b, int64_t i) {
  return a.type() == DataType::String ? a.getString(i) == b.getString(i)
                                      : a.getInt(i) == b.getInt(i);
}

std::string indexText(const Shape &shape, int64_t index) {
  std::string text;
  for (size_t d = shape.size(); d-- > 0; index /= shape[d])
    text = std::to_string(index % shape[d]) + (text.empty() ? "" : ", ") + text;
  return "[" + text + "]";
}

/// Complex elements as twice as many floats.
HostTensor asReal(const HostTensor &tensor) {
  if (info(tensor.type()).kind != TypeClass::Complex)
    return tensor;
  auto part = tensor.type() == DataType::C64 ? DataType::F32 : DataType::F64;
  Shape shape = tensor.shape();
  shape.push_back(2);
  return HostTensor(part, shape, tensor.data(), nullptr);
}

/// The distance of two floats; equal infinities and two NaNs are equal, one alone is infinitely
/// far.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b)))
    return 0;
  double difference = std::abs(a - b);
  return std::isnan(difference) ? INFINITY : difference;
}

void compareElements(const HostTensor &a, const HostTensor &b, const Settings &settings,
                     Difference &result) {
  double largestOfB = 0;
  bool exact = isExact(a);
  for (int64_t i = 0; i < a.size(); ++i) {
    double difference =
        exact ? (sameElement(a, b, i) ? 0 : 1) : distance(a.getDouble(i), b.getDouble(i));
    if (difference > result.largest || (difference > 0 && result.index < 0))
      result.largest = difference, result.index = i;
    if (!exact && std::isfinite(b.getDouble(i)))
      largestOfB = std::max(largestOfB, std::abs(b.getDouble(i)));
  }
  result.allowed = exact ? 0 : settings.absolute + settings.tolerance * largestOfB;
  if (result.largest > result.allowed)
    result.reason = fmt::format("at {}: {} and {}", indexText(a.shape(), result.index),
                                elementText(a, result.index), elementText(b, result.index));
}

Difference compareTensors(const Named &left, const Named &right, const Settings &settings) {
  Difference result = {left.name, ""};
  const Tensor &a = left.tensor, &b = right.tensor;
  if (typeText(a) != typeText(b)) {
    result.reason = typeText(a) + " and " + typeText(b);
    return result;
  }
  if (a.kind() == TS_TENSOR)
    compareElements(asReal(view(a)), asReal(view(b)), settings, result);
  if (a.kind() != TS_SEQUENCE)
    return result;
  for (size_t i = 0; i < ts_tensor_sequence_length(a.handle()); ++i) {
    ts_tensor *elements[] = {ts_tensor_sequence_at(a.handle(), i),
                             ts_tensor_sequence_at(b.handle(), i)};
    std::string name = fmt::format("{}[{}]", left.name, i);
    ts_tensor_retain(elements[0]);
    ts_tensor_retain(elements[1]);
    Difference one =
        compareTensors({name, Tensor(elements[0])}, {name, Tensor(elements[1])}, settings);
    if (!one.reason.empty())
      return one;
  }
  return result;
}

std::vector<Named> named(const Module &module, std::vector<Tensor> tensors) {
  std::vector<Named> result;
  std::vector<Port> ports = module.outputs();
  for (size_t i = 0; i < tensors.size(); ++i)
    result.push_back({ports[i].name, std::move(tensors[i])});
  return result;
}

std::vector<Named> runModule(const Module &module, const std::string &file,
                             const std::vector<Tensor> &inputs, int threads) {
  Progress progress("running " + file);
  try {
    return named(module, Session(module, threads).run(inputs));
  } catch (const Error &error) {
    fail(file, error.what());
  }
}

/// The expected tensors of a file: an .npz by name, an .npy for the only output.
std::vector<Named> readReference(const std::string &path, const std::vector<Port> &outputs) {
  std::vector<Named> result;
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

/// The other side: by reference evaluation, from a file, or from another model or module.
std::vector<Named> otherSide(const Settings &settings, const Module &module,
                             const std::vector<Tensor> &inputs) {
  if (settings.reference)
    return named(module, evaluateByReference(settings.file, settings.compile, inputs,
                                             module.outputs().size(), nullptr));
  if (settings.other.ends_with(".npy") || settings.other.ends_with(".npz"))
    return readReference(settings.other, module.outputs());
  Module other = loadOrCompile(settings.other, settings.compile);
  if (other.inputs().size() != inputs.size())
    fail(settings.other, fmt::format("has {} inputs, but {} has {}; compare what is made from the "
                                     "same model",
                                     other.inputs().size(), settings.file, inputs.size()));
  return runModule(other, settings.other, inputs, settings.threads);
}

std::vector<Difference> compareAll(const std::vector<Named> &left, const std::vector<Named> &right,
                                   const Settings &settings) {
  std::vector<Difference> result;
  for (const Named &tensor : left)
    for (const Named &other : right)
      if (other.name == tensor.name)
        result.push_back(compareTensors(tensor, other, settings));
  if (result.empty() && !left.empty())
    fail(settings.other, "has no output of the same name; compare what is made from one model");
  return result;
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}

int reportAll(const std::vector<Difference> &differences, const std::string &other,
              const Settings &settings) {
  Json tensors = Json::array(), first;
  std::string text;
  for (const Difference &difference : differences) {
    bool same = difference.reason.empty();
    Json entry = {{"name", difference.name},
                  {"agrees", same},
                  {"largest_difference", number(difference.largest)},
                  {"allowed", number(difference.allowed)}};
    if (!same)
      entry["reason"] = difference.reason;
    if (!same && first.is_null())
      first = difference.name;
    tensors.push_back(entry);
    text += fmt::format("{}: {}, largest difference {:.3g} of {:.3g} allowed{}\n",
                        printable(difference.name), same ? "agrees" : "differs", difference.largest,
                        difference.allowed, same ? "" : ", " + difference.reason);
  }
  if (settings.json)
    printJson({{"file", settings.file},
               {"other", other},
               {"agrees", first.is_null()},
               {"first_difference", first},
               {"tensors", tensors}});
  else
    std::cout << text
              << (first.is_null() ? settings.file + " agrees with " + other + "\n"
                                  : "the first tensor that differs is " + cellText(first) + "\n");
  return first.is_null() ? kSuccess : kFailure;
}

int compare(const Settings &settings) {
  if (settings.reference != settings.other.empty())
    failUsage("compare: name what to compare with, or say --reference: one of the two");
  if (settings.reference && kindOf(settings.file) == FileKind::Module)
    failUsage(settings.file +
              ": is a module; the reference evaluator needs the model: "
              "tensmith compare model.onnx --reference, or compare model.onnx " +
              settings.file);
  Module module = loadOrCompile(settings.file, settings.compile);
  auto inputs =
      makeInputs(module.inputs(), settings.inputs, settings.compile.shapes, settings.file);
  std::vector<Named> left = runModule(module, settings.file, inputs, settings.threads);
  std::vector<Named> right = otherSide(settings, module, inputs);
  return reportAll(compareAll(left, right, settings),
                   settings.reference ? "the reference evaluator" : settings.other, settings);
}

} // namespace

void addCompare(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command =
      app.add_subcommand("compare", "Compare outputs with another's, a file's or the reference's");
  command->add_option("A", settings->file, "A model (compiled first) or a module")->required();
  command->add_option("B", settings->other, "A model, a module, or expected outputs (.npz, .npy)");
  command->add_flag("--reference", settings->reference,
                    "Compare with the reference evaluator instead of with B");
  command
      ->add_option("--tolerance", settings->tolerance,
                   "Of the largest absolute value of B's tensor (default 1e-4; integers are exact)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--absolute", settings->absolute, "Allowed on top of it (default 0)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--threads", settings->threads, "Default: as many as CPUs")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--json", settings->json, "As JSON");
  settings->inputs.addTo(*command);
  settings->compile.addTo(*command, false);
  command->footer("Examples:\n"
                  "  tensmith compare model.onnx --reference\n"
                  "  tensmith compare old.so new.so --input x=photo.png\n"
                  "  tensmith compare model.so expected.npz --input inputs.npz --tolerance 1e-3\n"
                  "Exit status: 0 where all agree, 1 where a tensor differs.");
  command->callback([settings, &chosen] { chosen = [settings] { return compare(*settings); }; });
}

} // namespace tensmith::cli
