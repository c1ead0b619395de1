// Forests in files of other systems, from bytes and to bytes. All that is read is verified.
//
// Readers give InvalidModel where a file is damaged, and Unsupported with what to do where it holds
// what a forest has no place for (linear leaves, leaves of vectors in XGBoost's own form).
#pragma once

#include "trees/Forest.h"

#include "base/Status.h"

#include <string>
#include <string_view>

namespace tensmith::trees {

/// XGBoost's JSON and UBJSON, of gbtree and dart. `base_score` may be a number or, as since 3.1, a
/// vector by channel; both are predictions, which become outputs here.
Result<Forest> readXgboost(std::string_view bytes);
enum class XgboostForm { Json, Ubjson };
/// What XGBoost loads again, with the same predictions. Unsupported where trees don't come in
/// rounds of one for each channel, or XGBoost has no such objective.
Result<std::string> writeXgboost(const Forest &forest, XgboostForm form);

/// LightGBM's text. Its thresholds are f64, of x <= t: here x < the next f32 above t, which sends
/// each f32 the same way.
Result<Forest> readLightgbm(std::string_view text);

/// ONNX: the one TreeEnsembleRegressor, TreeEnsembleClassifier or TreeEnsemble of a model, as
/// skl2onnx, onnxmltools and writeOnnx have it, with what stands around it there: casts,
/// identities, ZipMap, Normalizer. A leaf with several weights becomes as many trees.
Result<Forest> readOnnx(std::string_view bytes);
inline constexpr char kProducer[] = "tensmith"; // of what writeOnnx makes
enum class OnnxResults {
  Task,        // predictions; of a classifier "label" and "probabilities" of all classes
  Predictions, // "y", [rows, channels]
  Outputs      // "margin", before the transform
};
Result<std::string> writeOnnx(const Forest &forest, OnnxResults results = OnnxResults::Task);

} // namespace tensmith::trees
