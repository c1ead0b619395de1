// Building operators with regions whose types follow from what is in them.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

/// Gets the arguments (iteration, condition, carried...) and returns (condition, carried...,
/// scanned...). May be called more than once.
using LoopBody = llvm::function_ref<FailureOr<SmallVector<Value>>(mlir::ValueRange arguments)>;

/// A loop (graph.loop), given as the node's results. Where a carried value's type changes from one
/// iteration to the next, its argument gets a type that holds both.
LogicalResult buildLoop(NodeImport &n, Value trips, Value condition, ArrayRef<Value> initial,
                        size_t scanned, LoopBody body);

/// The value of one of two regions (graph.if); each function builds at the insertion point.
Value buildIf(NodeImport &n, Value condition, llvm::function_ref<Value()> then,
              llvm::function_ref<Value()> otherwise);

/// Creates the operator and infers its results' types.
mlir::Operation *finishRegions(NodeImport &n, mlir::OperationState &state);

} // namespace tensmith::onnx_import
