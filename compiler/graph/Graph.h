// The graph dialect: types, attributes, interfaces and operators. See the .td of each family.
#pragma once

#include "compiler/graph/Lowering.h"
#include "compiler/graph/Shape.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tensmith::graph {
class GraphBuilder;
}

#include "compiler/graph/GraphDialect.h.inc"
#include "compiler/graph/GraphInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/graph/GraphAttributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/graph/GraphTypes.h.inc"
#define GET_OP_CLASSES
#include "compiler/graph/GraphOps.h.inc"
