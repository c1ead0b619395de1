// Rates of products bit by bit; see BitProducts.h.
#include "compiler/kernel/BitProducts.h"

#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

const Intrinsic *bitProducts(const Machine &machine) {
  if (const Intrinsic *words = machine.products(Number::U1, Number::U1, Number::I64))
    return words;
  const Intrinsic *bytes = machine.products(Number::U1, Number::U1, Number::U8);
  return bytes && bytes->widen ? bytes : nullptr;
}

bool bitsAreFaster(const Machine &machine, int64_t xBits, int64_t wBits, int64_t channels) {
  constexpr int64_t kWordBits = 64;
  // What is done beside the products, of which bytes have less: on ResNet-18's convolutions 1 by 1
  // bit takes 2.2 times less than bytes, where the rates say 2.5 (bench/bits).
  constexpr double kOfPeak = 0.9;
  const Intrinsic *bits = bitProducts(machine);
  if (!bits || !machine.templates->find(kBitSerialName))
    return false;
  double wholeRate = 1;
  for (Number left : {Number::U8, Number::I8})
    if (const Intrinsic *bytes = machine.matrixProducts(left, Number::I8, Number::I32))
      wholeRate = std::max(wholeRate, bytes->rate);
  if (const Intrinsic *pairs = machine.products(Number::I16, Number::I16, Number::I32))
    wholeRate = std::max(wholeRate, pairs->rate);
  if (const Intrinsic *tiles = machine.tileProducts(Number::U8, Number::I8, Number::I32))
    wholeRate = std::max(wholeRate, tiles->rate);
  double filled = double(channels) / double(llvm::divideCeil(channels, kWordBits) * kWordBits);
  return bits->rate * filled * kOfPeak / double(xBits * wBits) > wholeRate;
}

} // namespace tensmith::kernel
