// A model's file with other contents of some of its weights: what training gives back.
#pragma once

#include "base/HostTensor.h"

#include <map>
#include <string>

namespace tensmith {

/// The bytes of the ONNX model at `path`, where initialisers of the main graph have the values of
/// those names, whose types and shapes must be theirs. What lay in files beside the model is within
/// them; operators have the form for evaluation (EvaluationForm.h); everything else is as it was.
Result<std::string> replaceInitialisers(const std::string &path,
                                        const std::map<std::string, HostTensor> &values);

} // namespace tensmith
