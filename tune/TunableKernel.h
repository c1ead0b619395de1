// A kernel as the compiler tells of it (ts_tuning_describe).
#pragma once

#include "tune/SearchSpace.h"
#include "tune/database/Database.h"

namespace tensmith::tune {

struct TunableKernel {
  KernelName name;
  std::vector<std::string> nodes;
  std::string kind;      // its template
  std::string estimated; // choices
  std::string untunable; // why it can't be; empty: it can
  double uses = 1, flops = 0, bytes = 0;
  SearchSpace space;
};

} // namespace tensmith::tune
