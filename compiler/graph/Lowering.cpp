// The element types that values have inside kernels; see Lowering.h for why they differ from the
// tensors'.
#include "compiler/graph/Graph.h"

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

} // namespace tensmith::graph
