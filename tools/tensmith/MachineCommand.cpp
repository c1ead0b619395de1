// tensmith machine: what is compiled for when no target is named, and what it can do at most.
#include "client/Compiler.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Report.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

struct Settings {
  bool again = false, json = false;
};

std::string giga(const Json &rate, const char *which) {
  return fmt::format("{:.1f}", rate[which].get<double>() * 1e-9);
}

std::string together(int64_t threads) {
  return threads == 1 ? "1 thread" : fmt::format("{} threads", threads);
}

void printArithmetic(const Json &limits) {
  int64_t threads = limits["threads"];
  Table table({"1 thread", together(threads), "type", "instruction"});
  for (const Json &limit : limits["arithmetic"]) {
    const Json &rate = limit["operations_per_second"];
    table.add({giga(rate, "one"), giga(rate, "all"), cellText(limit["type"]),
               cellText(limit["instruction"])});
  }
  std::cout << "\narithmetic, in 10^9 operations a second (a multiply-add is two):\n"
            << table.text();
}

void printMemory(const Json &limits) {
  Table table({"size", "read", "write", "copy", "threads", "from"});
  for (const char *which : {"one", "all"})
    for (const Json &limit : limits["memory"]) {
      const Json &rates = limit["bytes_per_second"];
      int64_t bytes = limit["bytes"];
      bool one = which == std::string("one");
      table.add({bytes ? bytesText(double(bytes)) : "-", giga(rates["read"], which),
                 giga(rates["write"], which), giga(rates["copy"], which),
                 one ? "1" : fmt::format("{}", limits["threads"].get<int64_t>()),
                 cellText(limit["name"])});
    }
  std::cout << "\nbandwidth, in 10^9 bytes a second (a copy reads one half and writes the other):\n"
            << table.text();
}

int describe(const Settings &settings) {
  Json machine = parseJson(measureMachine(settings.again), "machine");
  if (settings.json) {
    printJson(machine);
    return kSuccess;
  }
  const Json limits = machine["limits"];
  machine.erase("limits");
  Table table({"property", "value"});
  for (const auto &[key, value] : machine.items())
    table.add({key, cellText(value)});
  std::cout << table.text();
  printArithmetic(limits);
  printMemory(limits);
  std::cout << fmt::format(
      "\na kernel that does nothing takes {}, a parallel loop over {} that "
      "does nothing {}\nthese limits are {}; modules are compiled by them\n",
      timeText(limits["call_seconds"].get<double>()), together(limits["threads"].get<int64_t>()),
      timeText(limits["hand_over_seconds"].get<double>()), cellText(limits["identity"]));
  return kSuccess;
}

} // namespace

void addMachine(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand(
      "machine", "Describe the machine: CPU, caches, threads, and what it can do at most");
  command->add_flag("--json", settings->json, "As JSON; rates in a second");
  command->add_flag("--again", settings->again, "Measure anew, whatever was measured before");
  command->footer(
      "The limits (arithmetic by type, bandwidth by cache, the cost of sharing out work) are\n"
      "measured the first time, in some seconds, and kept in the folder of compiled kernels.\n"
      "Example:\n  tensmith machine --json");
  command->callback([settings, &chosen] { chosen = [settings] { return describe(*settings); }; });
}

} // namespace tensmith::cli
