// The program dialect; see ProgramOps.td.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/program/ProgramDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/program/ProgramTypes.h.inc"
#define GET_OP_CLASSES
#include "compiler/program/ProgramOps.h.inc"

namespace tensmith::program {

/// Marks functions of a program, and functions of graph operators alone that segments became.
inline constexpr char kProcedure[] = "program.procedure", kSegment[] = "program.segment";
/// Of a module: an array of dictionaries {name, params, constructors: [{name, fields}]}.
inline constexpr char kDataTypes[] = "program.data_types";

inline bool isProcedure(mlir::func::FuncOp function) { return function->hasAttr(kProcedure); }
inline bool isSegment(mlir::func::FuncOp function) { return function->hasAttr(kSegment); }

} // namespace tensmith::program
