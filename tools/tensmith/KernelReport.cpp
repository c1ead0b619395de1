// The kernels of a profile added up, as a table, and as a timeline.
#include "tools/tensmith/KernelReport.h"

#include <algorithm>
#include <fmt/format.h>
#include <iostream>
#include <map>

namespace tensmith::cli {
namespace {

constexpr const char *kSums[] = {"flops", "bytes", "constant_bytes"};

std::string rate(const Json &kernel, const char *key) {
  double seconds = kernel["seconds"].get<double>();
  if (!kernel[key].is_number() || kernel[key].get<double>() == 0 || seconds == 0)
    return "-";
  return fmt::format("{:.1f}", kernel[key].get<double>() / seconds * 1e-9);
}

std::string percent(const Json &share) {
  return share.is_number() ? fmt::format("{:.0f}%", 100 * share.get<double>()) : "-";
}

} // namespace

std::string nodesText(const Json &kernel) {
  std::string label = cellText(kernel["label"]), nodes = cellText(kernel["location"]);
  for (std::string_view before :
       {": node ", ": nodes "}) { // after the name of the model, which is the same for all
    size_t at = nodes.find(before);
    if (at != std::string::npos)
      nodes.erase(0, at + before.size());
  }
  std::string text =
      nodes.empty() || label.find(nodes) != std::string::npos ? label : label + " at " + nodes;
  double own = kernel["seconds"].get<double>(), inside = kernel.value("whole_seconds", own) - own;
  return inside > 0 ? text + ", beside " + timeText(inside) + " of those in it" : text;
}

Json kernelsOf(const Json &profile, int runs) {
  std::map<std::string, Json> byNodes;
  for (const Json &entry : profile) {
    if (entry["kind"] == "instruction") // of the machine, which does the kernels besides
      continue;
    Json &sum = byNodes[entry["kind"].dump() + entry["label"].dump() + entry["location"].dump()];
    if (sum.is_null())
      sum = {{"label", entry["label"]},
             {"location", entry["location"]},
             {"kind", entry["kind"]},
             {"type", entry["type"]},
             {"calls", 0.0},
             {"seconds", 0.0},
             {"whole_seconds", 0.0},
             {"flops", 0.0},
             {"bytes", 0.0},
             {"constant_bytes", 0.0}};
    auto add = [&](const char *key, const Json &value, double scale) {
      sum[key] = value.is_number() && sum[key].is_number()
                     ? Json(sum[key].get<double>() + value.get<double>() * scale)
                     : Json();
    };
    add("calls", entry["count"], 1.0 / runs);
    add("seconds", entry["own_nanoseconds"], 1e-9 / runs);
    add("whole_seconds", entry["nanoseconds"], 1e-9 / runs);
    for (const char *key : kSums)
      add(key, entry[key], 1.0 / runs);
  }
  Json kernels = Json::array();
  for (auto &[nodes, sum] : byNodes)
    kernels.push_back(std::move(sum));
  std::sort(kernels.begin(), kernels.end(), [](const Json &a, const Json &b) {
    return std::pair(-a["seconds"].get<double>(), a["label"].dump()) <
           std::pair(-b["seconds"].get<double>(), b["label"].dump());
  });
  return kernels;
}

void printKernels(const Json &kernels) {
  double total = 0;
  for (const Json &kernel : kernels)
    total += kernel["seconds"].get<double>();
  Table table(
      {"time", "share", "calls", "Gflop/s", "GB/s", "of limit", "waits for", "kind", "kernel"});
  for (const Json &kernel : kernels) {
    double seconds = kernel["seconds"].get<double>();
    table.add({timeText(seconds), fmt::format("{:.1f}%", total > 0 ? 100 * seconds / total : 0),
               fmt::format("{:g}", kernel["calls"].get<double>()), rate(kernel, "flops"),
               rate(kernel, "bytes"), percent(kernel["limit_share"]), cellText(kernel["waits_for"]),
               cellText(kernel["kind"]), nodesText(kernel)});
  }
  std::cout << '\n' << table.text();
  double byReference = 0;
  for (const Json &kernel : kernels)
    byReference += kernel["kind"] == "routine" ? kernel["seconds"].get<double>() : 0;
  if (total > 0 && byReference > 0)
    std::cout << fmt::format("operators without a kernel, done by the reference evaluator (kind "
                             "routine): {:.1f}% of the time\n",
                             100 * byReference / total);
}

} // namespace tensmith::cli
