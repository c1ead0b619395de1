// From a model of floats to one of codes: annotate, calibrate, realise.
//
//   1. layers are found, and formats chosen for them by rules (Layers.h)
//   2. the model runs on samples, and the inputs of layers are observed (Statistics.h)
//   3. channels are scaled where that is asked for (Equalisation.h)
//   4. weights are rounded (Rounding.h)
//   5. layers that cost too much accuracy are kept in float, as far as a budget asks for it
//   6. codes are written into the model (Realise.h), and it is run beside the model of floats
//
// Models are run through an interface, since the compiler is above this.
#pragma once

#include "quantize/Settings.h"

#include "base/HostTensor.h"

#include <functional>
#include <map>
#include <memory>

namespace tensmith::quantize {

using Feed = std::map<std::string, HostTensor>;

struct Port {
  std::string name;
  std::vector<int64_t> shape; ///< -1: open
};

/// A compiled model.
class Executable {
public:
  virtual ~Executable() = default;
  virtual const std::vector<Port> &inputs() const = 0;
  /// Outputs by name; inputs by name, all of which there must be.
  virtual Result<Feed> run(const Feed &inputs) = 0;
};

struct Engine {
  /// An ONNX model, with tensors that become outputs, too, and constants that become inputs.
  std::function<Result<std::unique_ptr<Executable>>(const std::string &model,
                                                    const std::vector<std::string> &keep,
                                                    const std::vector<std::string> &overridable)>
      open;
  std::function<void(const std::string &stage, double fraction)> progress;
  std::function<void(const std::string &message)> warn;
};

struct Quantised {
  std::string model;  ///< the bytes of an ONNX model
  std::string report; ///< JSON; see docs/quantisation.md
};

/// `samples`: for each input of the model an array of samples along its first dimension; and
/// "labels", the right answers, where they are known. None: weights alone can be quantised.
/// Errors don't name the model.
Result<Quantised> quantise(const std::string &model, const Settings &settings, const Feed &samples,
                           const Engine &engine);

} // namespace tensmith::quantize
