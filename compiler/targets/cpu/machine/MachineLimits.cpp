// The limits as JSON in the user's cache folder; see MachineLimits.h.
#include "compiler/targets/cpu/machine/MachineLimits.h"

#include "base/Cpus.h"
#include "base/Hash.h"
#include "cache/Store.h"
#include "compiler/module/OutputFile.h"
#include "compiler/targets/cpu/machine/HostCaches.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <unistd.h>

namespace tensmith::targets::cpu {

namespace json = llvm::json;

// Found by json::ObjectMapper in the namespace of what they read.

static bool fromJSON(const json::Value &value, Rate &rate, json::Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("one", rate.one) && map.map("all", rate.all);
}

static bool fromJSON(const json::Value &value, ArithmeticLimit &limit, json::Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("type", limit.type) && map.map("instruction", limit.instruction) &&
         map.map("operations_per_second", limit.operations);
}

static bool fromJSON(const json::Value &value, Bandwidth &bandwidth, json::Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("read", bandwidth.read) && map.map("write", bandwidth.write) &&
         map.map("copy", bandwidth.copy);
}

static bool fromJSON(const json::Value &value, MemoryLimit &limit, json::Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("name", limit.name) && map.map("bytes", limit.bytes) &&
         map.map("shared_by", limit.sharedBy) && map.map("bytes_per_second", limit.bandwidth);
}

static bool fromJSON(const json::Value &value, MachineLimits &limits, json::Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("processor", limits.processor) && map.map("cpu", limits.cpu) &&
         map.map("threads", limits.threads) && map.map("arithmetic", limits.arithmetic) &&
         map.map("memory", limits.memory) && map.map("hand_over_seconds", limits.handOverSeconds) &&
         map.map("call_seconds", limits.callSeconds);
}

namespace {

constexpr int64_t kFormat = 1;

json::Value toValue(const Rate &rate) { return json::Object{{"one", rate.one}, {"all", rate.all}}; }

json::Value toValue(const ArithmeticLimit &limit) {
  return json::Object{{"type", limit.type},
                      {"instruction", limit.instruction},
                      {"operations_per_second", toValue(limit.operations)}};
}

json::Value toValue(const MemoryLimit &limit) {
  return json::Object{{"name", limit.name},
                      {"bytes", limit.bytes},
                      {"shared_by", limit.sharedBy},
                      {"bytes_per_second", json::Object{{"read", toValue(limit.bandwidth.read)},
                                                        {"write", toValue(limit.bandwidth.write)},
                                                        {"copy", toValue(limit.bandwidth.copy)}}}};
}

template <typename Limit> json::Array arrayOf(const std::vector<Limit> &limits) {
  json::Array array;
  for (const Limit &limit : limits)
    array.push_back(toValue(limit));
  return array;
}

json::Object figures(const MachineLimits &limits) {
  return json::Object{{"format", kFormat},
                      {"processor", limits.processor},
                      {"cpu", limits.cpu},
                      {"threads", limits.threads},
                      {"arithmetic", arrayOf(limits.arithmetic)},
                      {"memory", arrayOf(limits.memory)},
                      {"hand_over_seconds", limits.handOverSeconds},
                      {"call_seconds", limits.callSeconds}};
}

std::string textOf(json::Object object) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}", json::Value(std::move(object))) << '\n';
  return text;
}

bool usable(const Rate &rate) {
  return std::isfinite(rate.one) && std::isfinite(rate.all) && rate.one > 0 && rate.all > 0;
}

/// Whether estimates can divide by everything that is in it.
bool usable(const MachineLimits &limits) {
  auto arithmetic = [](const ArithmeticLimit &limit) { return usable(limit.operations); };
  auto memory = [](const MemoryLimit &limit) {
    return usable(limit.bandwidth.read) && usable(limit.bandwidth.write) &&
           usable(limit.bandwidth.copy);
  };
  return limits.threads > 0 && limits.handOverSeconds > 0 && limits.callSeconds > 0 &&
         llvm::all_of(limits.arithmetic, arithmetic) && llvm::all_of(limits.memory, memory) &&
         !limits.memory.empty();
}

double rounded(double figure) { return std::exp2(std::round(4 * std::log2(figure)) / 4); }

} // namespace

std::string MachineLimits::identity() const {
  return toHex(hash128(textOf(figures(*this)))).substr(0, 8);
}

/// All cores at once may be slower than one alone, but not by so much.
constexpr double kLeastOfTwo = 1.5, kLeastOfEach = 0.4;

bool plausible(const Rate &arithmetic, int cores) {
  double least = cores > 1 ? std::max(kLeastOfTwo, kLeastOfEach * cores) : 0;
  return arithmetic.all >= least * arithmetic.one;
}

std::string MachineLimits::doubt() const {
  int ofCore = memory.empty() ? 1 : std::max(memory.front().sharedBy, 1);
  for (const ArithmeticLimit &limit : arithmetic)
    if (!plausible(limit.operations, threads / ofCore))
      return llvm::formatv(
          "{0} threads together do {1} arithmetic only {2:f2} times as fast as one: "
          "something else had the CPUs while this machine was measured",
          threads, limit.type, limit.operations.all / limit.operations.one);
  return {};
}

std::optional<CostFigures> costFigures(const MachineLimits &limits, const Cpu &machine) {
  auto f32 = llvm::find_if(limits.arithmetic,
                           [](const ArithmeticLimit &limit) { return limit.type == "f32"; });
  auto near =
      llvm::find_if(limits.memory, [](const MemoryLimit &limit) { return limit.name == "L2"; });
  if (f32 == limits.arithmetic.end() || near == limits.memory.end())
    return std::nullopt;
  double operationsOfCycle = 2 * 2 * double(machine.vectorBits) / 32;
  double cycles = f32->operations.one / operationsOfCycle;
  auto far = std::next(near) == limits.memory.end() ? near : std::next(near);
  const MemoryLimit &memory = limits.memory.back();
  int64_t lastCache = std::prev(limits.memory.end(), memory.bytes == 0 ? 2 : 1)->bytes;
  return CostFigures{rounded(near->bandwidth.copy.one / cycles),
                     rounded(far->bandwidth.copy.one / cycles),
                     rounded(std::max(memory.bandwidth.read.one, 1.0) / cycles), lastCache};
}

static json::Object described(const MachineLimits &limits) {
  json::Object object = figures(limits);
  object["identity"] = limits.identity();
  std::string doubt = limits.doubt();
  object["doubt"] = doubt.empty() ? json::Value(nullptr) : json::Value(doubt);
  return object;
}

std::string describe(const Cpu &machine, const MachineLimits *limits) {
  json::Object object{{"triple", machine.triple},
                      {"cpu", machine.cpu},
                      {"processor", hostProcessor()},
                      {"vector_bits", machine.vectorBits},
                      {"vector_registers", machine.vectorRegisters},
                      {"l1_bytes", machine.l1Bytes},
                      {"l2_bytes", machine.l2Bytes},
                      {"features", machine.codeFeatures()},
                      {"threads", availableCpus()},
                      {"limits", nullptr}};
  if (limits)
    object["limits"] = described(*limits);
  return textOf(std::move(object));
}

std::string toJson(const MachineLimits &limits) { return textOf(described(limits)); }

Result<MachineLimits> limitsFromJson(std::string_view text) {
  auto damaged = [](const char *what) {
    return invalidArgument(std::string("the machine's limits ") + what +
                           "; 'tensmith machine --again' measures them anew");
  };
  auto value = json::parse(llvm::StringRef(text));
  if (!value) {
    llvm::consumeError(value.takeError());
    return damaged("are no JSON");
  }
  const json::Object *object = value->getAsObject();
  if (!object || object->getInteger("format") != kFormat)
    return damaged("are of another format");
  MachineLimits limits;
  json::Path::Root root;
  if (!fromJSON(*value, limits, root) || !usable(limits))
    return damaged("are incomplete");
  return limits;
}

std::string limitsPath(const Cpu &machine) {
  std::string folder = cache::machinesFolder();
  if (folder.empty())
    return {};
  Hasher hasher;
  hasher.add(hostProcessor());
  hasher.add(toJson(machine));
  hasher.add(int64_t(sysconf(_SC_NPROCESSORS_ONLN)));
  for (const HostCache &cache : hostCaches()) {
    hasher.add(cache.level);
    hasher.add(cache.bytes);
    hasher.add(cache.sharedBy);
  }
  return folder + "/" + toHex(hasher.finish()).substr(0, 16) + ".json";
}

std::optional<MachineLimits> keptLimits(const Cpu &machine) {
  std::string path = limitsPath(machine);
  auto file = path.empty() ? nullptr : llvm::MemoryBuffer::getFile(path);
  if (path.empty() || !file)
    return std::nullopt;
  auto limits = limitsFromJson(std::string_view((*file)->getBuffer()));
  return limits.ok() ? std::optional(std::move(*limits)) : std::nullopt;
}

Status keepLimits(const MachineLimits &limits, const Cpu &machine) {
  std::string path = limitsPath(machine), text = toJson(limits);
  if (path.empty())
    return {StatusCode::IoError,
            "there is no folder to keep the machine's limits in; set TENSMITH_CACHE to one"};
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  modules::OutputFile file;
  if (Status status = file.open(path, int64_t(text.size())); !status.ok())
    return status;
  if (Status status = file.write(0, std::as_bytes(std::span(text))); !status.ok())
    return status;
  return file.commit();
}

} // namespace tensmith::targets::cpu
