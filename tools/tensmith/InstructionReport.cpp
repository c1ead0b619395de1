// Sums of a profile's entries under several keys; see InstructionReport.h.
#include "tools/tensmith/InstructionReport.h"
#include "tools/tensmith/KernelReport.h"

#include <algorithm>
#include <fmt/format.h>
#include <iostream>
#include <map>

namespace tensmith::cli {
namespace {

/// Entries that are alike in the keys, added up, the slowest first.
class Sums {
public:
  explicit Sums(std::vector<const char *> keys) : keys_(std::move(keys)) {}

  void add(const Json &entry) {
    std::string id;
    for (const char *key : keys_)
      id += entry[key].dump();
    Json &sum = byId_[id];
    if (sum.is_null()) {
      for (const char *key : keys_)
        sum[key] = entry[key];
      sum["count"] = 0;
      sum["seconds"] = 0.0;
    }
    sum["count"] = sum["count"].get<int64_t>() + entry["count"].get<int64_t>();
    sum["seconds"] = sum["seconds"].get<double>() + entry["nanoseconds"].get<double>() * 1e-9;
  }

  Json list(double total) const {
    std::vector<Json> all;
    for (const auto &[id, sum] : byId_) {
      all.push_back(sum);
      double seconds = sum["seconds"].get<double>();
      all.back()["mean_seconds"] = seconds / double(sum["count"].get<int64_t>());
      all.back()["share"] = total > 0 ? seconds / total : 0;
    }
    std::stable_sort(all.begin(), all.end(), [](const Json &a, const Json &b) {
      return a["seconds"].get<double>() > b["seconds"].get<double>();
    });
    return all;
  }

private:
  std::vector<const char *> keys_;
  std::map<std::string, Json> byId_;
};

constexpr size_t kMostRows = 25;

template <typename Name>
void print(const char *title, const char *what, const Json &entries, Name name) {
  if (entries.empty())
    return;
  Table table({"time", "share", "count", "mean", what});
  for (size_t i = 0; i < std::min(entries.size(), kMostRows); ++i) {
    const Json &entry = entries[i];
    table.add({timeText(entry["seconds"].get<double>()),
               fmt::format("{:.1f}%", 100 * entry["share"].get<double>()), cellText(entry["count"]),
               timeText(entry["mean_seconds"].get<double>()), name(entry)});
  }
  std::cout << '\n' << title << ":\n" << table.text();
  if (entries.size() > kMostRows)
    std::cout << fmt::format("... and {} more; --json has them\n", entries.size() - kMostRows);
}

} // namespace

Json instructionsOf(const Json &profile) {
  bool program = std::any_of(profile.begin(), profile.end(),
                             [](const Json &entry) { return entry["kind"] == "instruction"; });
  Sums machine({"label"}), plan({"kind"}), places({"procedure", "location"}),
      kernels({"kind", "label", "location"});
  double total = 0;
  for (const Json &entry : profile) {
    bool instruction = entry["kind"] == "instruction";
    // What a function's bodies do is in its own time already.
    bool counts = program ? instruction : entry["function"] == 0;
    if (counts) {
      (program ? machine : plan).add(entry);
      total += entry["nanoseconds"].get<double>() * 1e-9;
    }
    if (instruction)
      places.add(entry);
    else if (entry["kind"] == "kernel" || entry["kind"] == "routine")
      kernels.add(entry);
  }
  Json kinds = (program ? machine : plan).list(total);
  for (Json &kind : kinds)
    if (!program)
      kind["label"] = kind["kind"];
  return {{"seconds", total},
          {"kinds", std::move(kinds)},
          {"places", places.list(total)},
          {"kernels", kernels.list(total)}};
}

void printInstructions(const Json &report) {
  std::cout << fmt::format("\nprofile: {} in instructions\n",
                           timeText(report["seconds"].get<double>()));
  print("instructions", "kind", report["kinds"], [](const Json &entry) {
    std::string label = cellText(entry["label"]);
    return label == "Invoke" ? label + ", with its kernels" : label;
  });
  print("places", "procedure", report["places"], [](const Json &entry) {
    return cellText(entry["procedure"]) + " at " + cellText(entry["location"]);
  });
  print("kernels", "kernel", report["kernels"], nodesText);
}

} // namespace tensmith::cli
