// A program of the language as the forward model that a step is made of.
//
// before: main(x, w {graph.initial}) -> enter @main.program      after: main(x) -> graph operators,
//         w a constant that is marked (graph::kInitialiser), batch norm and dropout in training
//
// So what makes steps of ONNX models makes those of programs.
#pragma once

#include "base/Status.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::training {

/// The module was read with its parameters as inputs (text::ImportOptions::parameters).
/// What is left of the program that is no tensor code once its sizes are known, as recursion that
/// the data decides, stands in main as it is (program/Inlining.h).
Status makeTrainable(mlir::ModuleOp module);

} // namespace tensmith::training
