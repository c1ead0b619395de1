// Axes and sizes that the model computes: the dimensions' numbers are data, the ranks still known.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

/// For each dimension of a tensor of that rank, whether it is among the axes: a vector of booleans.
/// `noneAreAll`: where there are no axes, all are.
Value amongAxes(NodeImport &n, Value axes, AffineExpr rank, bool noneAreAll = false);

/// Without the dimensions among the axes, which all have size 1; of unknown rank where the number
/// of axes is.
Value removeComputedAxes(NodeImport &n, Value x, Value axes, bool noneAreAll = false);

/// With dimensions of size 1 at the axes, a vector; of unknown rank where the number of axes is.
Value insertComputedAxes(NodeImport &n, Value x, Value axes);

} // namespace tensmith::onnx_import
