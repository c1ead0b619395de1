// The dialect itself: its registration, types, attributes, interfaces and what all operators'
// verifiers share.
#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/NormalForms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "compiler/graph/GraphDialect.cpp.inc"
#include "compiler/graph/GraphInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/graph/GraphAttributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/graph/GraphTypes.cpp.inc"

namespace tensmith::graph {

void GraphDialect::initialize() {
  addInterfaces<NormalForms>();
  addTypesAndAttributes();
  addElementwise();
  addReduction();
  addMovement();
  addGather();
  addContraction();
  addConvolution();
  addResampling();
  addNormalization();
  addRecurrent();
  addCreation();
  addQuantization();
  addText();
  addStructure();
}

void GraphDialect::addTypesAndAttributes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/graph/GraphTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/graph/GraphAttributes.cpp.inc"
      >();
}

Operation *GraphDialect::materializeConstant(OpBuilder &builder, mlir::Attribute value, Type type,
                                             Location location) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return builder.create<ConstantOp>(location, type, elements);
}

LogicalResult DimsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<StringAttr> symbols, AffineMap map) {
  if (map.getNumDims() != 0 || map.getNumSymbols() != symbols.size())
    return emitError() << "#graph.dims has " << symbols.size() << " names for "
                       << map.getNumSymbols() << " symbols and " << map.getNumDims()
                       << " dimensions of its map";
  for (size_t i = 1; i < symbols.size(); ++i)
    if (symbols[i - 1].getValue() >= symbols[i].getValue())
      return emitError() << "#graph.dims: symbol names are not sorted and distinct";
  return success();
}

/// Whether a declared type can be the inferred one: equal where both are known.
static bool compatible(Type declared, Type inferred) {
  if (declared == inferred)
    return true;
  auto a = dyn_cast<TensorType>(declared), b = dyn_cast<TensorType>(inferred);
  if (!a || !b)
    return isa<SequenceType, OptionalType>(declared) &&
           declared.getTypeID() == inferred.getTypeID();
  if (a.getElementType() != b.getElementType())
    return false;
  return !a.hasRank() || !b.hasRank() ||
         succeeded(verifyCompatibleShape(a.getShape(), b.getShape()));
}

LogicalResult verifyShapes(Operation *op) {
  ShapeContext shapes(op->getContext());
  SmallVector<Type> inferred;
  if (failed(cast<ShapeFunction>(op).inferResults(shapes, inferred)))
    return failure();
  if (inferred.size() != op->getNumResults())
    return op->emitOpError() << "has " << op->getNumResults()
                             << " results where its shape function gives " << inferred.size();
  for (auto [declared, type] : llvm::zip_equal(op->getResultTypes(), inferred))
    if (!compatible(declared, type))
      return op->emitOpError() << "has a result of type " << declared << " where its operands give "
                               << type;
  return success();
}

Table<OperatorDialect> &operatorDialects() {
  static Table<OperatorDialect> all("dialect");
  return all;
}

void registerDialects(DialectRegistry &registry) {
  registry.insert<GraphDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect,
                  scf::SCFDialect>();
  for (const OperatorDialect *dialect : operatorDialects().rows())
    dialect->insert(registry);
}

bool isOperator(Operation *op) {
  return op && (isa_and_nonnull<GraphDialect>(op->getDialect()) || isa<ShapeFunction>(op));
}

llvm::StringRef operatorName(OperationName name) {
  bool isOwn = name.getDialectNamespace() == GraphDialect::getDialectNamespace();
  return isOwn ? name.stripDialect() : name.getStringRef();
}

} // namespace tensmith::graph
