// The processor by the compiler's words, or the system's where there is no compiler; what was
// measured of it; and what the system lets this process have.
#include "base/Cpus.h"
#include "client/Compiler.h"
#include "tools/tensmith/Report.h"
#include "tools/tensmith/doctor/Findings.h"

#include <fmt/format.h>
#include <fstream>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace tensmith::cli::doctor {
namespace {

constexpr double kGiB = 0x1p30;
constexpr rlim_t kLeastAddresses = 4ull << 30; // LLVM's libraries map the most of it
constexpr rlim_t kFewestFiles = 256;

/// The number that a file of the control group holds; nothing where it says "max" or isn't there.
std::optional<double> numberIn(const char *path) {
  std::ifstream file(path);
  double number;
  return file >> number ? std::optional(number) : std::nullopt;
}

double machineMemory() {
  return double(::sysconf(_SC_PHYS_PAGES)) * double(::sysconf(_SC_PAGESIZE));
}

std::string ratesText(const Json &limits) {
  double most = 0;
  for (const Json &limit : limits["arithmetic"])
    if (limit["type"] == "f32")
      most = std::max(most, limit["operations_per_second"]["all"].get<double>());
  double memory = 0;
  for (const Json &limit : limits["memory"])
    if (limit["name"] == "memory")
      memory = limit["bytes_per_second"]["read"]["all"].get<double>();
  return fmt::format("{:.0f} Gflop/s in f32, {:.1f} GB/s from memory, by {} threads", most * 1e-9,
                     memory * 1e-9, limits["threads"].get<int64_t>());
}

void examineProcessor(Section &section) {
  Json machine = client::parseJson(client::describeMachine(), "machine");
  section.fine("processor", cellText(machine["processor"]));
  section.fine("compiled for", cellText(machine["cpu"]));
  section.fine("features", cellText(machine["features"]));
  if (const Json &limits = machine["limits"]; limits.is_null())
    section.note(
        "measured limits", "none",
        "`tensmith machine` measures them, in some seconds; kernels are then chosen by them");
  else
    section.fine("measured limits", ratesText(limits));
}

std::string limitText(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : bytesText(double(limit));
}

} // namespace

void examineMachine(Section section) {
  try {
    examineProcessor(section);
  } catch (const std::exception &) {
    section.note("processor", "not known", "the compiler's library tells of it");
  }
  int available = availableCpus();
  auto all = int(std::thread::hardware_concurrency());
  section.fine("CPUs",
               fmt::format("{} for this process, of {}", available, std::max(available, all)));
  section.fine("memory", bytesText(machineMemory()));
}

void examineLimits(Section section) {
  rlimit limit{};
  auto of = [&](auto which) {
    return ::getrlimit(which, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
  };
  rlim_t addresses = of(RLIMIT_AS);
  if (addresses < kLeastAddresses)
    section.problem(
        "address space", limitText(addresses),
        "compiling maps LLVM's libraries and the weights; raise it: ulimit -v unlimited");
  else
    section.fine("address space", limitText(addresses));
  rlim_t files = of(RLIMIT_NOFILE);
  std::string count = files == RLIM_INFINITY ? "unlimited" : std::to_string(files);
  if (files < kFewestFiles)
    section.problem("open files", count, "raise it: ulimit -n 1024");
  else
    section.fine("open files", count);
  section.fine("stack", limitText(of(RLIMIT_STACK)));
  section.fine("file size", limitText(of(RLIMIT_FSIZE)));
  rlim_t processes = of(RLIMIT_NPROC);
  section.fine("processes and threads",
               processes == RLIM_INFINITY ? "unlimited" : std::to_string(processes));
  auto group = numberIn("/sys/fs/cgroup/memory.max");
  if (!group)
    group = numberIn("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  if (!group || *group > machineMemory())
    section.fine("memory of the control group", "unlimited");
  else if (*group < kGiB)
    section.problem("memory of the control group", bytesText(*group),
                    "compiling larger models takes more; give the container or the service more");
  else
    section.fine("memory of the control group", bytesText(*group));
}

} // namespace tensmith::cli::doctor
