// Changes to an ONNX model that leave it a model: to its graph, its tensors, its types and
// attributes.
//
// Flipped bits rarely get past protobuf, and never past the check that every name is defined. So
// the model is parsed, changed in its own terms (a node gets another operator, an edge another
// source, a tensor another size than its data) and written again.
#pragma once

#include "onnx-ml.pb.h"
#include "tests/fuzz/Draw.h"

namespace tensmith::fuzz {

/// The operators of the standard, with the names of their parameters and attributes.
const onnx::ModelProto &schemas();

/// One change, somewhere. Some have no effect.
void mutate(onnx::ModelProto &model, Draw &draw);
/// A part of `other` becomes a part of the model.
void graft(onnx::ModelProto &model, const onnx::ModelProto &other, Draw &draw);

// The families, by what they change.
void mutateTensor(onnx::TensorProto &tensor, Draw &draw);
void mutateType(onnx::TypeProto &type, Draw &draw);
void mutateAttribute(onnx::AttributeProto &attribute, Draw &draw);
/// An attribute that the node's operator has, or not, with any value.
void addAttribute(onnx::NodeProto &node, Draw &draw);

} // namespace tensmith::fuzz
