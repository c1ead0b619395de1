// All winners at once, since a compilation asks for many keys; see TunedPoints.h.
#include "tune/database/TunedPoints.h"

namespace tensmith::tune {

TunedPoints::TunedPoints(const std::string &path) : path_(path) {
  Database database(path, Access::Read);
  state_ = database.state();
  for (const TunedKernel &kernel : database.kernels())
    if (kernel.winner)
      winners_[kernel.name.machine][kernel.name.key] = kernel.winner->choices;
}

const std::string *TunedPoints::find(const std::string &machine, const std::string &key) {
  asked_ = true;
  auto ofMachine = winners_.find(machine);
  if (ofMachine == winners_.end())
    return nullptr;
  fits_ = true;
  auto winner = ofMachine->second.find(key);
  if (winner == ofMachine->second.end())
    return nullptr;
  found_.insert(key);
  return &winner->second;
}

} // namespace tensmith::tune
