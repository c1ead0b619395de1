// The graph dialect: types, attributes, interfaces and operators. See the .td of each family.
#pragma once

#include "compiler/graph/ChannelOrder.h"
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

/// Whether the operator's result types are those that its shape function gives, as far as both are
/// known.
mlir::LogicalResult verifyShapes(mlir::Operation *op);

template <typename Op> class ShapesVerified : public mlir::OpTrait::TraitBase<Op, ShapesVerified> {
public:
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) { return verifyShapes(op); }
};

// What records say costs by.

/// Of a ranked tensor, the elements of its dimensions from `from` on.
mlir::AffineExpr elements(ShapeContext &shapes, mlir::Value value, size_t from = 0);
/// Those of all dimensions but the last.
mlir::AffineExpr rows(ShapeContext &shapes, mlir::Value value);
int64_t product(llvm::ArrayRef<int64_t> sizes);
/// Of an element-wise operator an operation for each element of its result, of one that reads
/// elements several times one for each element of its first operand, else none.
mlir::AffineExpr operationsOfKind(mlir::Operation *op, ShapeContext &shapes);
/// Of a function of which nothing else is said.
inline constexpr int64_t kAdditionsOfFunction = 30;
} // namespace tensmith::graph

#include "compiler/graph/GraphDialect.h.inc"
#include "compiler/graph/GraphInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/graph/GraphAttributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/graph/GraphTypes.h.inc"
#define GET_OP_CLASSES
#include "compiler/graph/GraphOps.h.inc"
