// Axes and sizes that the model computes: the dimensions' numbers are data, the ranks still known.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

/// For each dimension of a tensor of that rank, whether it is among the axes: a vector of booleans.
/// `noneAreAll`: where there are no axes, all are.
Value amongAxes(NodeImport &n, Value axes, int64_t rank, bool noneAreAll = false);

/// Without the dimensions among the axes, which all have size 1; of unknown rank where the number
/// of axes is.
Value removeComputedAxes(NodeImport &n, Value x, Value axes, bool noneAreAll = false);

/// With dimensions of size 1 at the axes, of which there is a known number.
Value insertComputedAxes(NodeImport &n, Value x, Value axes);

/// Whether the value is a vector of known length, which those need that are inserted.
bool isCountedVector(NodeImport &n, Value axes);

} // namespace tensmith::onnx_import
