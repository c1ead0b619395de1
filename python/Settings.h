// What Python says of a compilation, as objects that it fills.
#pragma once

#include "client/TunedOption.h"
#include "python/Conversion.h"

#include <tensmith/compiler.h>

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

struct Derivative {
  bool tangent = false, takesCotangent = false;
  std::vector<std::string> of, by;
};

struct Training {
  std::string loss = "cross_entropy", optimiser = "sgd", schedule = "constant";
  std::optional<std::string> of;
  std::vector<std::string> settingNames, trainable, outputs;
  std::vector<double> settingValues;
  double clipNorm = 0, emaDecay = 0;
  std::optional<double> weightDecay; // none: the optimiser's own
};

/// What options point into, for as long as they are used.
struct Pointers {
  ts_training_options training{};
  std::vector<const char *> names;
  std::vector<ts_derivative> derivatives;
  std::vector<Owned<ts_tensor>> tensors;
  std::vector<ts_tensor *> handles;
  std::unique_ptr<tensmith::tune::TunedPoints> tuned;
};

struct Settings {
  std::vector<std::string> shapes, overridable, casts;
  std::vector<Derivative> derivatives;
  std::optional<Training> training;
  std::optional<std::string> target, cache, dump, schedules, libraries, recomputation, device,
      function;
  std::optional<std::string> tuned; // none: the user's
  int64_t memory = 0;               // bytes of a run; 0: any
  bool reference = false, fuse = true, forEvaluation = false, fastMath = false, debugInfo = true,
       resident = false;
  int precision = TS_PRECISION_FAST;
  int calibration = TS_CALIBRATE_NONE;
  std::vector<std::string> calibrationNames;
  nanobind::list calibrationValues; // arrays
  std::optional<std::string> calibrationSource;

  /// With the interpreter's lock.
  ts_compile_options options(Pointers &pointers) const;
};

/// Their classes in the extension module.
void bindSettings(nanobind::module_ &m);
