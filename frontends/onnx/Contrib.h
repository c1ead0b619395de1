// What the import rules of ONNX Runtime's own operators (domain com.microsoft) share. Exporters and
// graph optimisers fuse into them what ONNX says by several nodes; here they become those again,
// and the compiler fuses as it sees fit.
//
// Their meaning is ONNX Runtime's documentation (docs/ContribOperators.md of microsoft/onnxruntime)
// and what its CPU provider computes, which tests/python/test_contrib_operators.py compares with.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

inline constexpr std::string_view kContrib = "com.microsoft";

/// Imports the node as the standard's operator of that name, newest opset, on its present operands.
LogicalResult importAs(NodeImport &n, std::string_view standard);

/// x after the function that a fused operator's `activation` names, with its parameters; x where it
/// names none. Null, with an error, of a name that is none.
Value activated(NodeImport &n, Value x, ArrayRef<double> parameters);

Value tanhGelu(NodeImport &n, Value x);
Value erfGelu(NodeImport &n, Value x);

/// Operands of that number have to be there, the first `ranked` of them with a known rank.
LogicalResult needOperands(NodeImport &n, size_t count, size_t ranked = 0);

/// [a, b, ..., z] to [a, z, b, ...], and back: from channels last to first.
Value channelsFirst(NodeImport &n, Value x);
Value channelsLast(NodeImport &n, Value x);

} // namespace tensmith::onnx_import
