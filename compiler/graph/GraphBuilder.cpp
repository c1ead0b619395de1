// Building operators with inferred types; see GraphBuilder.h.
#include "compiler/graph/GraphBuilder.h"

#include "compiler/graph/Constants.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

size_t resultCount(OperationName name) {
  if (name.hasTrait<OpTrait::NResults<2>::Impl>())
    return 2;
  if (name.hasTrait<OpTrait::NResults<3>::Impl>())
    return 3;
  if (name.hasTrait<OpTrait::NResults<4>::Impl>())
    return 4;
  return 1;
}

/// Whether the operator's own constraints take operands that are no tensors: an absent value where
/// one is required, a sequence. Shape functions look into their operands' types and rely on it; of
/// tensors they check themselves what they need. Operands are verified before results, which have
/// no types yet.
bool takesOperands(Operation *op) {
  if (llvm::all_of(op->getOperandTypes(), llvm::IsaPred<TensorType>))
    return true;
  std::string problem;
  {
    ScopedDiagnosticHandler handler(op->getContext(), [&](Diagnostic &diagnostic) {
      problem = diagnostic.str();
      return success();
    });
    // A note with the operator as text would number the values of the whole function.
    bool prints = op->getContext()->shouldPrintOpOnDiagnostic();
    op->getContext()->printOpOnDiagnostic(false);
    bool isGood = succeeded(op->getName().verifyInvariants(op));
    op->getContext()->printOpOnDiagnostic(prints);
    if (isGood || !StringRef(problem).contains(" op operand #"))
      return true;
  }
  emitError(op->getLoc()) << problem;
  return false;
}

/// The results' types. Fails, with an error, where the operands contradict the record, or there is
/// no such operator.
LogicalResult inferTypes(Operation *op, ShapeContext &shapes, SmallVectorImpl<Type> &types) {
  auto function = dyn_cast<ShapeFunction>(op);
  if (!function)
    return emitError(op->getLoc()) << "there is no operator '" << op->getName() << "'";
  if (!takesOperands(op))
    return failure();
  bool hasSaid = false;
  ScopedDiagnosticHandler handler(op->getContext(), [&](Diagnostic &diagnostic) {
    hasSaid |= diagnostic.getSeverity() == DiagnosticSeverity::Error;
    return failure(); // it goes on to who else listens
  });
  if (failed(function.inferResults(shapes, types))) {
    if (!hasSaid)
      emitError(op->getLoc()) << "the shape function of '" << op->getName()
                              << "' refuses the operands, and doesn't say why";
    return failure();
  }
  if (types.size() != op->getNumResults())
    return emitError(op->getLoc())
           << "the shape function of '" << op->getName() << "' gives " << types.size()
           << " types, and it has " << op->getNumResults() << " results";
  return success();
}

} // namespace

Operation *GraphBuilder::create(StringRef name, ValueRange operands,
                                ArrayRef<NamedAttribute> attributes) {
  std::string full = name.contains('.') ? name.str() : ("graph." + name).str();
  if (llvm::is_contained(operands, Value()))
    return nullptr; // an error before this one has been reported
  OperationState state(location, full, operands, {}, attributes);
  // The types are inferred from the operator itself, so it is made with none at first.
  SmallVector<Type> placeholder(resultCount(state.name), builder.getNoneType());
  state.addTypes(placeholder);
  Operation *op = builder.create(state);
  shapes.forget(op);
  SmallVector<Type> types;
  if (failed(inferTypes(op, shapes, types))) {
    op->erase();
    return nullptr;
  }
  for (auto [result, type] : llvm::zip_equal(op->getResults(), types)) {
    result.setType(type);
    shapes.contents(result);
  }
  return op;
}

Operation *GraphBuilder::createTyped(StringRef name, Type result, ValueRange operands,
                                     ArrayRef<NamedAttribute> attributes) {
  std::string full = name.contains('.') ? name.str() : ("graph." + name).str();
  if (llvm::is_contained(operands, Value()))
    return nullptr;
  OperationState state(location, full, operands, result, attributes);
  Operation *op = builder.create(state);
  shapes.forget(op);
  SmallVector<Type> types;
  if (failed(inferTypes(op, shapes, types))) {
    op->erase();
    return nullptr;
  }
  shapes.contents(op->getResult(0));
  return op;
}

Value GraphBuilder::cast(Value x, Type to) {
  if (!x || getElementTypeOrSelf(x.getType()) == to)
    return x;
  return first(create("cast", x, named("to", TypeAttr::get(to))));
}

Value GraphBuilder::reshape(Value x, ArrayRef<AffineExpr> dims) {
  if (!x)
    return {};
  Type type = shapes.tensorType(getElementTypeOrSelf(x.getType()), dims);
  return type == x.getType() ? x : first(createTyped("reshape", type, x));
}

Value GraphBuilder::broadcast(Value x, ArrayRef<AffineExpr> dims) {
  if (!x)
    return {};
  Type type = shapes.tensorType(getElementTypeOrSelf(x.getType()), dims);
  return type == x.getType() ? x : first(createTyped("broadcast", type, x));
}

Value GraphBuilder::transpose(Value x, ArrayRef<int64_t> permutation) {
  return first(
      create("transpose", x, named("permutation", builder.getDenseI64ArrayAttr(permutation))));
}

Value GraphBuilder::slice(Value x, ArrayRef<int64_t> starts, ArrayRef<int64_t> steps,
                          ArrayRef<AffineExpr> sizes) {
  if (!x)
    return {};
  Type type = shapes.tensorType(getElementTypeOrSelf(x.getType()), sizes);
  return first(createTyped("slice", type, x,
                           {named("starts", builder.getDenseI64ArrayAttr(starts)),
                            named("steps", builder.getDenseI64ArrayAttr(steps))}));
}

Value GraphBuilder::concat(ValueRange inputs, int64_t axis) {
  return first(create("concat", inputs, named("axis", builder.getI64IntegerAttr(axis))));
}

Value GraphBuilder::reduce(StringRef name, Value x, ArrayRef<int64_t> axes, bool keepdims) {
  return first(create(name, x,
                      {named("axes", builder.getDenseI64ArrayAttr(axes)),
                       named("keepdims", builder.getBoolAttr(keepdims))}));
}

Value GraphBuilder::constant(const HostTensor &tensor) {
  return first(create("constant", {}, named("value", elementsAttr(builder.getContext(), tensor))));
}

Value GraphBuilder::scalar(Type element, double value) {
  if (!element)
    return {}; // an error before this one has been reported
  if (byteSize(dataType(element)) == 0) {
    emitError(location) << "an operand's elements are " << element << ", which are no numbers";
    return {};
  }
  HostTensor tensor(dataType(element), {});
  if (isa<FloatType>(element))
    tensor.setDouble(0, value);
  else
    tensor.setInt(0, int64_t(value));
  return constant(tensor);
}

Value GraphBuilder::none() { return builder.create<NoneOp>(location, builder.getNoneType()); }

} // namespace tensmith::graph
