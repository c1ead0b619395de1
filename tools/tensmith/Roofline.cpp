// Roofs from the machine's limits, and where each kernel is below them; see Roofline.h.
#include "tools/tensmith/Roofline.h"

#include <algorithm>
#include <limits>

namespace tensmith::cli {
namespace {

/// Of the time that a kernel takes: from where on it is mostly overhead, and below which share its
/// limit is no explanation.
constexpr double kMostlyOverhead = 0.5, kUnexplained = 1.0 / 3;

/// The rate of so many threads between that of one and that of all.
double between(const Json &rate, int threads, int all) {
  double one = rate["one"], together = rate["all"];
  if (threads >= all)
    return together;
  return one + (together - one) * double(threads - 1) / double(all - 1);
}

double number(const Json &kernel, const char *key) {
  return kernel.contains(key) && kernel[key].is_number() ? kernel[key].get<double>() : 0;
}

bool isRepeated(const Json &kernel) { return number(kernel, "calls") > 1.5; }

} // namespace

Roofline::Roofline(const Json &limits, int threads, double weightsBytes)
    : callSeconds_(limits["call_seconds"]),
      handOverSeconds_(threads > 1 ? limits["hand_over_seconds"].get<double>() : 0),
      weightsBytes_(weightsBytes) {
  int all = limits["threads"];
  for (const Json &limit : limits["arithmetic"])
    peaks_.emplace_back(limit["type"].get<std::string>(),
                        between(limit["operations_per_second"], threads, all));
  for (const Json &limit : limits["memory"]) {
    double bytes = limit["bytes"], sharedBy = limit["shared_by"];
    double bandwidth = 0;
    for (const char *way : {"read", "write", "copy"})
      bandwidth = std::max(bandwidth, between(limit["bytes_per_second"][way], threads, all));
    double copies = (threads - 1) / int(std::max(sharedBy, 1.0)) + 1;
    levels_.push_back({limit["name"].get<std::string>(),
                       bytes > 0 ? bytes * copies : std::numeric_limits<double>::infinity(),
                       bandwidth});
  }
}

double Roofline::peak(const std::string &type) const {
  double standard = 0, best = 0; // of several instructions for a type
  for (const auto &[name, rate] : peaks_) {
    bool same = name == type || (name == "i8" && type == "u8") || (name == "i16" && type == "u16");
    if (same)
      best = std::max(best, rate);
    if (name == "f32")
      standard = rate;
  }
  return best > 0 ? best : standard;
}

const Roofline::Level &Roofline::levelFor(double bytes) const {
  for (const Level &level : levels_)
    if (bytes <= level.capacity)
      return level;
  return levels_.back();
}

void Roofline::annotate(Json &kernel, double repeatedWeights) const {
  double calls = number(kernel, "calls"), seconds = number(kernel, "seconds");
  if (calls <= 0 || seconds <= 0 || kernel["kind"] != "kernel") {
    kernel["limit_seconds"] = kernel["limit_share"] = kernel["waits_for"] = Json();
    if (kernel["kind"] == "routine")
      kernel["waits_for"] = "reference";
    return;
  }
  double operations = number(kernel, "flops") / peak(kernel["type"]);
  double weights = number(kernel, "constant_bytes"), rest = number(kernel, "bytes") - weights;
  const Level &near = levelFor(rest / calls);
  const Level &far = levelFor(isRepeated(kernel) ? repeatedWeights : weightsBytes_);
  bool sameLevel = weights == 0 || near.name == far.name;
  double nearSeconds = (sameLevel ? rest + weights : rest) / near.bandwidth;
  double farSeconds = sameLevel ? 0 : weights / far.bandwidth;
  double traffic = std::max(nearSeconds, farSeconds);
  double called = calls * callSeconds_, limit = std::max({operations, traffic, called});
  kernel["limit_seconds"] = limit;
  kernel["limit_share"] = limit / seconds;
  if (calls * (callSeconds_ + handOverSeconds_) >= kMostlyOverhead * seconds)
    kernel["waits_for"] = "overhead";
  else if (limit < kUnexplained * seconds)
    kernel["waits_for"] = "latency";
  else if (limit == called)
    kernel["waits_for"] = "overhead";
  else if (operations >= traffic)
    kernel["waits_for"] = "flops";
  else
    kernel["waits_for"] = nearSeconds >= farSeconds ? near.name : far.name;
}

void Roofline::annotate(Json &kernels) const {
  double repeatedWeights = 0;
  for (const Json &kernel : kernels)
    if (isRepeated(kernel))
      repeatedWeights += number(kernel, "constant_bytes") / number(kernel, "calls");
  for (Json &kernel : kernels)
    annotate(kernel, std::min(repeatedWeights, weightsBytes_));
}

} // namespace tensmith::cli
