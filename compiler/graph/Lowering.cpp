// The element types that values have inside kernels, and what element code asks for as code; see
// Lowering.h.
#include "compiler/graph/Graph.h"
#include "compiler/graph/IndexCode.h"

using namespace mlir;

namespace tensmith::graph {

Type kernelElementType(Type element) {
  MLIRContext *context = element.getContext();
  if (element.isF32() || element.isF64())
    return element;
  if (element.isF16() || element.isBF16())
    return Float32Type::get(context);
  if (auto integer = dyn_cast<IntegerType>(element)) {
    unsigned width = integer.getWidth();
    return IntegerType::get(context, width == 1 || width >= 8 ? width : 8);
  }
  bool isByteFloat = isa<F4E2M1Type, F8E8M0Type>(element) ||
                     (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8);
  return isByteFloat ? IntegerType::get(context, 8) : Type();
}

bool isUnsigned(Type element) {
  return element.isUnsignedInteger() || element.isSignlessInteger(1);
}

Value ElementContext::read(unsigned number, ValueRange indices, ArrayRef<unsigned> guarded,
                           Value otherwise) {
  IndexCode code(*this);
  SmallVector<Value> clamped(indices);
  Value inside;
  bool mayBeEmpty = false;
  for (unsigned dim : guarded) {
    Value size = operandSize(number, dim);
    llvm::APInt known;
    mayBeEmpty |= !matchPattern(size, m_ConstantInt(&known)) || known.isZero();
    inside = code.both(inside, code.within(indices[dim], size));
    clamped[dim] = code.clamp(indices[dim], size);
  }
  assert((otherwise || !mayBeEmpty) && "an empty dimension has no element");
  if (!inside || !otherwise)
    return operand(number, clamped);
  return readWhere(code, inside, mayBeEmpty, otherwise,
                   [&] { return operand(number, mayBeEmpty ? indices : ValueRange(clamped)); });
}

Value ElementContext::reduce(Join, ValueRange extents, Value initial, Term term, Combine combine) {
  auto body = [&](ValueRange indices, ValueRange carried) -> SmallVector<Value> {
    return {combine(carried[0], term(indices))};
  };
  return loop(extents, initial, body)[0];
}

} // namespace tensmith::graph
