// What tuning has measured and found, in one SQLite file.
//
// Of each kernel (its key, and the machine and precision that the key was made with) there are
// trials: a point, what became of it, and every repetition of its time; and at most one winner, the
// point that compilations take. Each trial is a transaction, so that a process that is killed loses
// the one that it was measuring and nothing else; several processes may write at a time
// (write-ahead log). Nothing here knows what a choice means.
#pragma once

#include "tune/database/Connection.h"

#include <optional>
#include <span>

namespace tensmith::tune {

struct KernelName {
  std::string machine; // all that a key depends on beside the graph, in words
  std::string key;
  std::string structure; // "conv 1x14x14x256:f32 ...": for people
};

struct Trial {
  std::string choices; // members of a schedule file's entry
  std::string outcome; // "timed", or how it failed
  std::string why;     // it failed
  std::string search, compiler;
  int64_t at = 0;              // seconds since 1970
  std::vector<double> seconds; // all repetitions, each a process's fastest run
  std::vector<double> features;
};

struct Winner {
  std::string choices;
  double seconds = 0, before = 0; // medians; `before` is what estimates' choices took beside it
  double confidence = 0;          // that it is faster than those
  std::string compiler;
  int64_t at = 0;
};

struct TunedKernel {
  KernelName name;
  std::optional<Winner> winner;
};

/// What is to go.
struct Pruning {
  std::string otherThan;    // kernels of all machines but this one; empty: of none
  int64_t olderThan = 0;    // trials from before that time, winners stay; 0: none
  int64_t keepFastest = -1; // of each kernel's trials; below 0: all
};

class Database {
public:
  /// For writing a file that is not there is made, and a damaged one is an error (SQLite's quick
  /// check); for reading it must be there.
  Database(const std::string &path, Access access);

  /// A trial of the same point by the same compiler gets the repetitions in addition.
  void add(const KernelName &kernel, const Trial &trial);
  /// In the order in which they were made.
  std::vector<Trial> trials(const std::string &machine, const std::string &key) const;

  void setWinner(const KernelName &kernel, const Winner &winner);
  void removeWinner(const KernelName &kernel);
  std::optional<Winner> winner(const std::string &machine, const std::string &key) const;

  /// Trials are not looked at, so that what is damaged of them harms no compilation.
  std::vector<TunedKernel> kernels() const;
  int64_t countTrials(const KernelName &kernel) const;
  /// A word that is another one whenever winners are.
  std::string state() const;
  /// How many trials went.
  int64_t prune(const Pruning &pruning);

  const Connection &connection() const { return connection_; }

private:
  void makeTables();
  void checkFormat() const;
  int64_t idOf(const KernelName &kernel);

  Connection connection_;
};

} // namespace tensmith::tune
