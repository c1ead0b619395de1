// The checkpoints of a run: files from which it goes on as if it had not ended.
//
//   checkpoints/step-000001234.safetensors     states, and as metadata where the run was
//
// One is there whole or not at all, whenever the process ends; the last few are kept.
#pragma once

#include "train/Safetensors.h"

#include <functional>
#include <optional>

namespace tensmith::train {

/// Over samples.
struct Sums {
  double loss = 0, correct = 0;
  int64_t samples = 0;
};

/// Where a run is, besides its states.
struct Position {
  int64_t step = 0;    // done
  int64_t epoch = 0;   // the one that is going on, from 0
  int64_t batch = 0;   // of that epoch, done
  Sums ofEpoch, ofLog; // of the epoch so far, and since the last line of the log
  double seconds = 0;  // of training, of all processes so far

  Metadata toMetadata() const;
  static Position fromMetadata(const Metadata &metadata, const std::string &where);
};

struct Checkpoint {
  std::filesystem::path path;
  Safetensors contents;
  Position position;
};

class Checkpoints {
public:
  /// In that folder, which is made when the first is written.
  Checkpoints(std::filesystem::path folder, int64_t keep);

  /// The newest that is whole; of those that are not, `warn` is told.
  std::optional<Checkpoint> newest(const std::function<void(const std::string &)> &warn) const;
  /// Writes one and removes those that are too many. After a failure those before still stand.
  std::filesystem::path write(const std::vector<NamedTensor> &states, const Position &position,
                              Metadata metadata);
  /// Steps that there are checkpoints of, newest first.
  std::vector<int64_t> steps() const;
  /// All of them, for a run that starts anew; and what killed processes left of others.
  void removeAll();
  void removePartial();

private:
  std::filesystem::path pathOf(int64_t step) const;
  std::filesystem::path folder_;
  int64_t keep_;
};

} // namespace tensmith::train
