// What a run of training is told: one struct, which a configuration file and the command line fill
// from one table (SettingTable.h), and which a checkpoint remembers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tensmith::train {

struct ByteCount {
  int64_t bytes = 0;
  bool operator==(const ByteCount &) const = default;
};

struct Settings {
  std::string model;  // ONNX
  std::string output; // the folder of the run; empty: the model's name with "-run", here
  int64_t epochs = 10, batch = 32, seed = 1, threads = 0;
  std::vector<std::string> shapes; // "sequence=128"
  std::vector<std::string> plugins;
  bool resume = false, overwrite = false;
  ByteCount memory; // that a step may hold; 0: any
  std::string precision = "fast";
  std::vector<std::string> casts; // "head*=never": in place of operators' own rules
  std::string libraries = "generated";
  std::string recomputation; // cost, segments, recursive; empty: cost, where the memory asks for it

  // [data]; what the words may be is in Dataset.h
  std::vector<std::string> data, test;
  std::string format = "auto", target;
  double validation = 0; // the part of `data` that is kept apart for it
  std::optional<double> scale;
  std::vector<double> mean, deviation;
  bool shuffle = true;
  int64_t workers = 1, queue = 4;

  // [augmentation]
  int64_t crop = 0;
  bool flip = false;

  // [loss]
  std::string loss = "cross_entropy", of;

  // [optimiser]
  std::string optimiser = "adam";
  double learningRate = 1e-3, clipNorm = 0, emaDecay = 0;
  std::optional<double> weightDecay; // else the optimiser's own, if it has one
  std::vector<std::string> trainable;
  std::map<std::string, double> hyperparameters; // the optimiser's own: "beta1"

  // [schedule]
  std::string schedule = "constant";
  int64_t warmUp = 0, stepEvery = 0; // steps; epochs
  double stepFactor = 0.1, finalRate = 0;

  // [processes]
  int64_t processes = 0;         // that there have to be; 0: as many as were started
  int64_t zero = 0;              // what they share out, see ParallelTrainee.h
  ByteCount bucket = {25 << 20}; // of gradients that are summed at once
  double processTimeout = 600;   // seconds

  // [checkpoints]
  int64_t checkpointEvery = 0, keep = 3; // steps; 0: at the end of each epoch
  // [log]
  int64_t logEvery = 50; // steps
  bool tensorboard = true;
  std::string trace; // file; empty: none

  /// Where a setting was made: "config.toml:12", "--batch"; of one that wasn't, its option.
  std::string origin(const std::string &option) const;
  std::map<std::string, std::string> origins; // by option
};

} // namespace tensmith::train
