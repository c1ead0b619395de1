// By the bits of what is stored; see JoinedSums.h.
#include "compiler/targets/cpu/templates/JoinedSums.h"

#include "compiler/kernel/ElementEmitter.h"

using namespace mlir;

namespace tensmith::kernel {

int64_t joinedVectors(graph::KernelOp kernel, const Contraction &contraction, int64_t lanes) {
  constexpr int64_t kFilledBits = 128;
  int64_t bits = contraction.accumulator.getIntOrFloatBitWidth(), vectors = 1;
  for (Type type : kernel.getResultTypes()) {
    auto element = dyn_cast_or_null<IntegerType>(storageType(getElementTypeOrSelf(type)));
    int64_t stored = element ? element.getWidth() : bits;
    if (stored * 2 <= bits)
      vectors = std::max({vectors, int64_t(2), kFilledBits / (stored * lanes)});
  }
  return vectors;
}

} // namespace tensmith::kernel
