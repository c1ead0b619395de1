// tensmith inspect: what a model or a module is: signature, operators, kernels, memory.
#include "client/Compiler.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Report.h"
#include "tools/tensors/Values.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>
#include <map>
#include <set>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string file;
  bool verify = false, noCompile = false, json = false, schedules = false, spaces = false;
  CompileSettings compile;
};

/// "f32 batchx3x224x224" of a port in a description.
std::string portText(const Json &port) {
  std::string kind = port.value("kind", "Tensor"), type = port.value("type", "?");
  if (kind != "Tensor" && kind != "tensor")
    return kind + " of " + type;
  if (!port.contains("dims"))
    return type;
  if (port["dims"].is_null())
    return type + " of any rank";
  std::string dims;
  for (const Json &dim : port["dims"])
    dims += (dims.empty() ? "" : "x") + cellText(dim);
  return type + " " + (dims.empty() ? "scalar" : dims);
}

void printPorts(const Json &description, const char *key) {
  std::cout << key << ":\n";
  if (description.contains(key))
    for (const Json &port : description[key])
      std::cout << "  " << cellText(port.value("name", Json())) << ": " << portText(port) << '\n';
}

/// What the functions' instructions are, and how often: [{"operator", "count"}].
Json countInstructions(const Json &module) {
  std::map<std::string, int64_t> counts;
  for (const Json &function : module.value("functions", Json::array()))
    for (const Json &instruction : function.value("instructions", Json::array())) {
      std::string opcode = instruction.value("opcode", "");
      ++counts[opcode == "routine" ? instruction.value("label", "") : opcode];
    }
  Json result = Json::array();
  for (const auto &[name, count] : counts)
    result.push_back({{"operator", name}, {"count", count}});
  return result;
}

/// Bytes that a number or, with symbols, an expression says.
Json arenaOf(const Json &module) {
  for (const Json &function : module.value("functions", Json::array()))
    return function.value("arena_bytes", Json(0));
  return 0;
}

/// Operators that an instruction stands for, each of which would have a tensor by itself: of a
/// kernel those that its label names, which are the first few dozen.
int64_t operatorsOf(const Json &instruction) {
  std::string opcode = instruction.value("opcode", ""), label = instruction.value("label", "");
  if (opcode == "kernel")
    return 1 + std::count(label.begin(), label.end(), '+');
  return opcode == "routine";
}

/// Results whose memory is planned by an upper bound, since only the run tells their sizes.
int64_t boundedOf(const Json &instruction) {
  Json results = instruction.value("results", Json::array());
  return std::count_if(results.begin(), results.end(),
                       [](const Json &value) { return value.contains("bytes_at_most"); });
}

Json memoryOf(const Json &module) {
  int64_t planned = 0, heap = 0, tensors = 0, allocations = 0, most = 0, operators = 0, bounded = 0;
  for (const Json &function : module.value("functions", Json::array())) {
    planned += function.value("planned_allocations", 0);
    heap += function.value("heap_values", 0);
    tensors += function.value("tensors", 0);
    allocations += function.value("allocations", 0);
    most += function.value("allocations_at_most", 0);
    for (const Json &instruction : function.value("instructions", Json::array()))
      operators += operatorsOf(instruction), bounded += boundedOf(instruction);
  }
  return {{"weights_bytes", module.value("weights_bytes", Json(0))},
          {"arena_bytes", arenaOf(module)},
          {"planned_values", planned},
          {"heap_values", heap},
          {"bounded_values", bounded},
          {"tensors", tensors},
          {"operators", operators},
          {"allocations_at_most", most},
          {"allocations", allocations}};
}

/// A number, or the beginning of an expression, of which --json has all.
std::string workText(const Json &work) {
  constexpr size_t kLongest = 60;
  std::string text = work.is_null() ? "" : cellText(work);
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

std::string memoryText(const Json &bytes) {
  return bytes.is_number() ? bytesText(bytes.get<double>()) : workText(bytes) + " bytes";
}

/// Counts as [{"operator", "count"}] or {"name": count}.
void printOperators(const Json &operators) {
  Table table({"count", "operator"});
  for (const auto &[key, entry] : operators.items()) {
    bool record = entry.is_object();
    table.add({cellText(record ? entry.value("count", Json()) : entry),
               record ? cellText(entry.value("operator", Json())) : printable(key)});
  }
  std::cout << "operators:\n" << table.text();
}

void printKernels(const Json &kernels) {
  Table table({"uses", "flops", "bytes", "schedule",
               "kernel"}); // of one call; empty where the calls differ
  for (const Json &kernel : kernels) {
    std::string label = cellText(kernel.value("label", Json("")));
    table.add({cellText(kernel.value("uses", Json())), workText(kernel.value("flops", Json())),
               workText(kernel.value("bytes", Json())),
               cellText(kernel.value("schedule", Json(""))),
               label.empty() ? cellText(kernel.value("symbol", Json())) : label});
  }
  std::cout << fmt::format("kernels: {}\n", kernels.size());
  if (!table.empty())
    std::cout << table.text();
}

/// Which is slow, and nothing that the model's author could see otherwise.
void printUnemitted(const Json &module) {
  Json kernels = module.value("metadata", Json::object()).value("unemitted_kernels", Json::array());
  if (kernels.empty())
    return;
  std::cout << fmt::format("evaluated by reference, for want of code: {}\n", kernels.size());
  for (const Json &kernel : kernels)
    std::cout << "  " << cellText(kernel) << '\n';
}

/// Instructions that the reference evaluator does: [{"operator", "node"}].
Json routinesOf(const Json &module) {
  Json routines = Json::array();
  for (const Json &function : module.value("functions", Json::array()))
    for (const Json &instruction : function.value("instructions", Json::array()))
      if (instruction.value("opcode", "") == "routine")
        routines.push_back({{"operator", instruction.value("label", "")},
                            {"node", instruction.value("location", "")}});
  return routines;
}

void printRoutines(const Json &routines) {
  if (routines.empty())
    return;
  Table table({"operator", "at"});
  for (const Json &routine : routines)
    table.add({cellText(routine["operator"]), cellText(routine["node"])});
  std::cout << fmt::format("by reference, without a kernel: {}\n", routines.size()) << table.text();
}

/// What runs give one another, and which of it is not written over in place.
void printStates(const Json &module) {
  Json states = module.value("states", Json::array());
  if (states.empty())
    return;
  std::string copied;
  int64_t inPlace = 0, read = 0;
  for (const Json &state : states)
    if (state.value("in_place", 0))
      ++inPlace;
    else if (state.value("output", 0) < 0)
      ++read;
    else
      copied += "\n  " + printable(state.value("name", ""));
  std::cout << fmt::format("states: {}, {} of them updated in place", states.size(), inPlace)
            << (read ? fmt::format(", {} only read", read) : "")
            << (copied.empty() ? "" : "; copied after each run:" + copied) << '\n';
}

/// How many fewer it is than one for each.
std::string fewer(const Json &memory, const char *than) {
  auto made = memory["allocations"].get<double>(), all = memory[than].get<double>();
  return fmt::format("{:.0f} % fewer than {}", all > 0 ? 100 * (all - made) / all : 0.0, than);
}

/// Of one call of each function.
void printAllocations(const Json &memory) {
  std::cout << fmt::format("allocations: {} for {} tensors of {} operators: {}, {}\n",
                           cellText(memory["allocations"]), cellText(memory["tensors"]),
                           cellText(memory["operators"]), fewer(memory, "tensors"),
                           fewer(memory, "operators"));
  if (memory["allocations_at_most"] != memory["allocations"])
    std::cout << fmt::format("  at most {}, where others refer to operands that results could be "
                             "written over\n",
                             cellText(memory["allocations_at_most"]));
}

/// Of each function the copies that a call makes, with the reason of each.
void printCopies(const Json &module) {
  if (module.value("devices", Json::array()).empty())
    return;
  int64_t onHost = 0, onDevice = 0, copies = 0, waits = 0;
  std::set<std::tuple<std::string, int64_t, int64_t>> streams; // of functions
  Table table({"bytes", "function", "copy"});
  for (const Json &function : module.value("functions", Json::array())) {
    onHost += function.value("host_values", 0);
    onDevice += function.value("device_values", 0);
    for (const Json &instruction : function.value("instructions", Json::array())) {
      waits += int64_t(instruction.value("waits", Json::array()).size());
      if (instruction.contains("stream"))
        streams.emplace(function.value("name", ""), instruction.value("device", 0),
                        instruction.value("stream", 0));
      if (instruction.value("opcode", "") != "copy")
        continue;
      ++copies;
      table.add({workText(instruction.value("bytes", Json())), cellText(function["name"]),
                 cellText(instruction.value("location", Json()))});
    }
  }
  std::vector<std::string> devices = module["devices"];
  std::cout << fmt::format(
      "device {}: {} values lie there, {} on the host; {} streams, {} waits; {} "
      "copies, by function (of one call):\n",
      fmt::join(devices, ", "), onDevice, onHost, streams.size(), waits, copies);
  if (!table.empty())
    std::cout << table.text();
}

/// What is stored again in another order; see vm/LayoutConversions.h.
Json conversionsOf(const Json &module, const std::string &file) {
  Json metadata = module.value("metadata", Json::object());
  return parseJson(metadata.value("layout_conversions", "[]"), file);
}

void printConversions(const Json &conversions) {
  double bytes = 0;
  Table table({"bytes", "from", "to", "at"});
  for (const Json &conversion : conversions) {
    Json stored = conversion.value("bytes", Json());
    bytes += stored.is_number() ? stored.get<double>() : 0;
    table.add({workText(stored), cellText(conversion["from"]), cellText(conversion["to"]),
               cellText(conversion["value"])});
  }
  std::cout << fmt::format("layout conversions: {}, of {}\n", conversions.size(), bytesText(bytes));
  if (!table.empty())
    std::cout << table.text();
}

/// By which rules a step of training was rounded; nothing where none was.
void printCasts(const Json &module, const std::string &file) {
  Json metadata = module.value("metadata", Json::object());
  if (!metadata.contains("casts"))
    return;
  Table table({"operator", "casts to 16 bits", "operators", ""});
  for (const Json &row : parseJson(metadata["casts"].get<std::string>(), file))
    table.add({cellText(row["operator"]), cellText(row["rule"]), cellText(row["count"]),
               row["asked"] ? "as asked" : ""});
  std::cout << table.text();
}

void printModule(const Json &module, const std::string &file) {
  std::cout << fmt::format("module: format {}, made by {} from {}\n", cellText(module["format"]),
                           cellText(module["producer"]), cellText(module["model"]));
  std::string features;
  for (const Json &feature : module.value("features", Json::array()))
    features += " " + cellText(feature);
  std::cout << fmt::format("target: {} {}{}\n", cellText(module["triple"]), cellText(module["cpu"]),
                           features.empty() ? "" : ", needs" + features);
  printKernels(module.value("kernels", Json::array()));
  printUnemitted(module);
  printRoutines(routinesOf(module));
  printConversions(conversionsOf(module, file));
  printStates(module);
  printCasts(module, file);
  Json memory = memoryOf(module);
  std::string planned = cellText(memory["arena_bytes"]);
  if (!planned.starts_with("placed ")) // whose bytes are the run's to tell
    planned = "planned " + memoryText(memory["arena_bytes"]);
  std::cout << fmt::format("memory: weights {}, {} for {} values, {} values allocated "
                           "as they come\n",
                           memoryText(memory["weights_bytes"]), planned,
                           cellText(memory["planned_values"]), cellText(memory["heap_values"]));
  if (memory["bounded_values"] != 0)
    std::cout << fmt::format("  {} of the planned values have sizes that only the run tells, and "
                             "memory for the most that they can be\n",
                             cellText(memory["bounded_values"]));
  printAllocations(memory);
  printCopies(module);
  Json metadata = module.value("metadata", Json::object());
  if (metadata.contains("run_bytes_planned"))
    std::cout << fmt::format("a run holds {}: in the arena at most {} are alive at a time\n",
                             memoryText(metadata["run_bytes_planned"]),
                             memoryText(metadata.value("arena_bytes_alive", Json(0))));
  if (metadata.contains("recomputation"))
    std::cout << "computed again: " << cellText(metadata["recomputation"]) << '\n';
}

/// In the form that --schedules reads, an entry a line.
void printSchedules(const std::string &file, const Json &module) {
  std::string text = module.value("metadata", Json::object()).value("schedules", "[]");
  std::cout << "{\"schedules\": [";
  const char *separator = "\n  ";
  for (const Json &entry : parseJson(text, file)) {
    std::cout << separator << entry.dump();
    separator = ",\n  ";
  }
  std::cout << "\n]}\n";
}

/// The values of a choice, and where it exists: "tile_rows 1 2 3 ... 16 where matrix_unit is 0".
std::string choiceText(const Json &choice) {
  std::string text = printable(choice.value("choice", ""));
  for (const Json &value : choice.value("values", Json::array()))
    text += " " + (value.is_string() ? printable(value.get<std::string>()) : value.dump());
  Json where = choice.value("where", Json::object());
  for (const auto &[name, values] : where.items()) {
    text += " where " + printable(name) + " is";
    for (const Json &value : values)
      text += " " + value.dump();
  }
  return text;
}

/// What may be chosen of each kernel, then what may be decided for each operator.
void printSpaces(const Json &spaces) {
  for (bool isKernel : {true, false})
    for (const Json &space : spaces) {
      if (space.contains("template") != isKernel)
        continue;
      std::cout << fmt::format("{} {}: {}, {} points\n", cellText(space["key"]),
                               isKernel ? cellText(space["template"]) : "decision",
                               cellText(space["kernel"]), cellText(space["points"]));
      std::string nodes;
      for (const Json &node : space.value("nodes", Json::array()))
        nodes += (nodes.empty() ? "" : ", ") + cellText(node);
      if (!nodes.empty())
        std::cout << "  of " << nodes << '\n';
      if (space.contains("sizes")) {
        std::string names;
        for (const Json &size : space["sizes"])
          names += " " + cellText(size);
        std::cout << "  sizes that the run tells:" << names << '\n';
      }
      for (const Json &choice : space.value("choices", Json::array()))
        std::cout << "  " << choiceText(choice) << '\n';
    }
}

int inspect(const Settings &settings) {
  bool isModel = kindOf(settings.file) == FileKind::Model;
  if (isModel && settings.verify)
    failUsage(settings.file + ": is a model; --verify checks the weights of compiled modules");
  if (!isModel && settings.spaces)
    failUsage(settings.file + ": is a module; --spaces is for models");
  if (!isModel && settings.noCompile)
    failUsage(settings.file + ": is a module; --no-compile is for models");
  if (settings.spaces) {
    Json spaces = parseJson(describeSpaces(settings.file, settings.compile), settings.file);
    settings.json ? printJson(spaces) : printSpaces(spaces);
    return kSuccess;
  }
  Json model =
      isModel ? parseJson(describeModel(settings.file, settings.compile), settings.file) : Json();
  Json module;
  if (!settings.noCompile)
    module =
        parseJson(loadOrCompile(settings.file, settings.compile, settings.verify, Purpose::Describe)
                      .describe(),
                  settings.file);
  if (settings.schedules) {
    printSchedules(settings.file, module);
    return kSuccess;
  }
  const Json &signature = module.is_null() ? model : module;
  Json operators = isModel ? model.value("operators", Json::array()) : countInstructions(module);
  if (settings.json) {
    Json all = {
        {"file", settings.file},
        {"kind", isModel ? "model" : "module"},
        {"inputs", signature.value("inputs", Json::array())},
        {"outputs", signature.value("outputs", Json::array())},
        {"operators", operators},
        {"kernels", module.is_null() ? Json() : module["kernels"]},
        {"by_reference", module.is_null() ? Json() : routinesOf(module)},
        {"memory", module.is_null() ? Json() : memoryOf(module)},
        {"layout_conversions", module.is_null() ? Json() : conversionsOf(module, settings.file)},
        {"model", model},
        {"module", module}};
    if (settings.verify)
      all["weights_verified"] = true;
    printJson(all);
    return kSuccess;
  }
  std::cout << printable(settings.file) << ": a " << (isModel ? "model" : "module") << '\n';
  printPorts(signature, "inputs");
  printPorts(signature, "outputs");
  printOperators(operators);
  if (!module.is_null())
    printModule(module, settings.file);
  if (settings.verify)
    std::cout << "the weights match their hash\n";
  return kSuccess;
}

} // namespace

void addInspect(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command =
      app.add_subcommand("inspect", "Show signature, operators, kernels and memory");
  command->add_option("FILE", settings->file, "A model (compiled too) or a module")->required();
  command->add_flag("--verify", settings->verify, "Check the hash of a module's weights, too");
  auto *noCompile = command->add_flag("--no-compile", settings->noCompile,
                                      "Of a model: signature and operators only");
  auto *json = command->add_flag("--json", settings->json, "All that is known, as JSON");
  auto *spaces =
      command
          ->add_flag("--spaces", settings->spaces,
                     "Of a model: what may be chosen of each kernel, and decided for each operator")
          ->excludes(noCompile);
  command
      ->add_flag("--chosen-schedules", settings->schedules,
                 "The kernels' schedules alone, in the form that --schedules reads")
      ->excludes(noCompile)
      ->excludes(json)
      ->excludes(spaces);
  addCompilation(*command, settings->compile, false);
  command->footer("Examples:\n"
                  "  tensmith inspect model.onnx --no-compile\n"
                  "  tensmith inspect model.so --verify\n"
                  "  tensmith inspect model.so --json | jq '.inputs'\n"
                  "  tensmith inspect model.so --chosen-schedules > schedules.json\n"
                  "  tensmith inspect model.onnx --spaces");
  command->callback([settings, &chosen] { chosen = [settings] { return inspect(*settings); }; });
}

} // namespace tensmith::cli
