// One module, one set of inputs: outputs to files, times and memory as JSON.
//
// The first run works out the sizes and reads the weights from the file, so that it has a time of
// its own. The runs that are counted come after it, into the same outputs.
#include "files/Failure.h"
#include "tools/tensmith-run/Commands.h"
#include "tools/tensors/Arguments.h"
#include "tools/tensors/Results.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <sys/resource.h>

namespace tensmith::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void print(const Json &json) {
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json describe(const std::string &name, const Tensor &tensor) {
  if (tensor.kind() != TS_TENSOR)
    return {{"name", name}, {"type", typeText(tensor)}};
  return {{"name", name}, {"type", ts_type_name(tensor.type())}, {"shape", tensor.shape()}};
}

Json describe(const Port &port) {
  Json json = {{"name", port.name}, {"type", typeText(port)}};
  if (port.kind == TS_TENSOR && port.ranked)
    json = {{"name", port.name}, {"type", ts_type_name(port.type)}, {"shape", port.dims}};
  return json;
}

Json describeAll(const std::vector<Port> &ports, const std::vector<Tensor> &tensors) {
  Json json = Json::array();
  for (size_t i = 0; i < tensors.size(); ++i)
    json.push_back(describe(ports[i].name, tensors[i]));
  return json;
}

int64_t peakMemory() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t(usage.ru_maxrss) * 1024;
}

/// Tensors that the runs may write into; what is none is made anew by each.
std::vector<Tensor> reusable(const std::vector<Tensor> &outputs) {
  std::vector<Tensor> kept;
  for (const Tensor &output : outputs)
    kept.push_back(output.kind() == TS_TENSOR && output.type() != TS_STRING ? output : Tensor());
  return kept;
}

/// In milliseconds. Runs until there are so many, and they have taken so long together.
Json timesOf(const Session &session, const std::vector<Tensor> &inputs,
             const std::vector<Tensor> &outputs, size_t runs, double seconds) {
  std::vector<double> times;
  double spent = 0;
  while (times.size() < runs || spent < seconds * 1e3) {
    std::vector<Tensor> results = reusable(outputs);
    Clock::time_point begin = Clock::now();
    session.run(inputs, results);
    times.push_back(millisecondsSince(begin));
    spent += times.back();
  }
  std::ranges::sort(times);
  size_t middle = times.size() / 2;
  double median = times.size() % 2 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  return {{"runs", times.size()},
          {"median_ms", median},
          {"min_ms", times[0]},
          {"max_ms", times.back()}};
}

Json runAll(const RunSettings &settings, const Module &module, Json result) {
  InputWords words = {
      settings.inputs, settings.shapes, settings.seed, settings.file, false, {}, {}};
  std::vector<Tensor> inputs = makeInputs(module.inputs(), words);
  Session session(module, {.threads = settings.threads, .seed = settings.seed});
  Clock::time_point begin = Clock::now();
  std::vector<Tensor> outputs = session.run(inputs);
  result["first_ms"] = millisecondsSince(begin);
  constexpr int kFewest = 5; // of a time that is given
  if (settings.repeat > 0 || settings.seconds > 0)
    result.update(timesOf(session, inputs, outputs,
                          size_t(settings.repeat > 0 ? settings.repeat : kFewest),
                          settings.seconds));
  result["threads"] = session.threads();
  result["inputs"] = describeAll(module.inputs(), inputs);
  result["outputs"] = describeAll(module.outputs(), outputs);
  if (settings.outputFolder.empty())
    return result;
  makeFolder(settings.outputFolder);
  std::set<std::string> names;
  for (size_t i = 0; i < outputs.size(); ++i)
    result["outputs"][i]["file"] =
        save(outputs[i], settings.outputFolder, fileName(module.outputs()[i].name, names));
  return result;
}

} // namespace

void run(const RunSettings &settings) {
  Clock::time_point begin = Clock::now();
  Module module = Module::load(settings.file, settings.verify);
  if (std::string warning = module.warning(); !warning.empty())
    std::fprintf(stderr, "tensmith-run: warning: %s: %s\n", settings.file.c_str(), warning.c_str());
  Json result = {{"file", settings.file}, {"load_ms", millisecondsSince(begin)}};
  try {
    result = runAll(settings, module, std::move(result));
  } catch (const Error &error) {
    fail(settings.file, error.what());
  }
  result["peak_memory_bytes"] = peakMemory();
  print(result);
}

void describeSignature(const RunSettings &settings) {
  Module module = Module::load(settings.file, settings.verify);
  Json inputs = Json::array(), outputs = Json::array();
  for (const Port &port : module.inputs())
    inputs.push_back(describe(port));
  for (const Port &port : module.outputs())
    outputs.push_back(describe(port));
  print({{"file", settings.file}, {"inputs", inputs}, {"outputs", outputs}});
}

} // namespace tensmith::cli
