// The winners of a database, for whoever compiles: looked up by key, and counted.
#pragma once

#include "tune/database/Database.h"

#include <map>
#include <set>

namespace tensmith::tune {

class TunedPoints {
public:
  /// Throws Failure where the file can't be read.
  explicit TunedPoints(const std::string &path);

  /// The choices of the winner; null where there is none.
  const std::string *find(const std::string &machine, const std::string &key);

  const std::string &path() const { return path_; }
  /// A word that is another one whenever winners are.
  const std::string &state() const { return state_; }
  /// Kernels and operators for which there was a winner.
  size_t found() const { return found_.size(); }
  /// Whether there are winners, but all of other machines than what was asked for.
  bool isOfOtherMachines() const { return asked_ && !fits_ && !winners_.empty(); }

private:
  std::string path_, state_;
  std::map<std::string, std::map<std::string, std::string>> winners_; // by machine and key
  std::set<std::string> found_;
  bool asked_ = false, fits_ = false;
};

} // namespace tensmith::tune
