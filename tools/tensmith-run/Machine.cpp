// What this machine is, in the words of `--target` and of a module that is refused.
#include "runtime/CpuFeatures.h"
#include "runtime/ElfFile.h"
#include "tools/tensmith-run/Commands.h"

#include "base/Cpus.h"

#include <nlohmann/json.hpp>

#include <iostream>

namespace tensmith::cli {

void describeMachine() {
  nlohmann::ordered_json json = {{"machine", runtime::machineName(runtime::kHostMachine)},
                                 {"cpus", availableCpus()},
                                 {"features", runtime::cpuFeatures()}};
  std::cout << json.dump(2) << '\n';
}

} // namespace tensmith::cli
