// What the classifiers and regressors of ai.onnx.ml share: what is done with scores at the end, and
// the names of classes.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

enum class Transform : int64_t { None, Softmax, Logistic, SoftmaxZero, Probit };

/// The node's `post_transform`; fails, with an error, of a name that is none.
FailureOr<Transform> transformOf(NodeImport &n);

/// Scores [rows, classes] after the transformation of each row.
Value transformed(NodeImport &n, Value scores, Transform transform);

/// The names of classes that a node lists: strings or numbers, of the attributes of those names.
struct ClassLabels {
  std::vector<std::string> strings;
  Ints numbers;

  int64_t count() const { return int64_t(strings.empty() ? numbers.size() : strings.size()); }
};

ClassLabels classLabels(NodeImport &n, StringRef numbers);

/// The label of each class number; the number itself where there are no labels.
Value labelled(NodeImport &n, const ClassLabels &labels, Value numbers);

/// A list of numbers as a constant of that type and shape.
Value constantOf(NodeImport &n, Type element, ArrayRef<double> values, Shape shape);

/// The operand as [rows, features] of f32, or of f64 where it is that; a vector is one row. Null,
/// with an error, of other ranks.
Value featuresOf(NodeImport &n);

/// The number of the largest of each row, the first of several.
Value largestOfRows(NodeImport &n, Value scores);

} // namespace tensmith::onnx_import
