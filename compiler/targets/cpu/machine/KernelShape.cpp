// The machine's sizes, and those of its instructions that templates know; see KernelShape.h.
#include "compiler/targets/cpu/machine/KernelShape.h"

namespace tensmith::targets::cpu {

kernel::MachineShape kernelShape(const Machine &machine) {
  kernel::MachineShape shape{machine.vectorBits / 8, machine.vectorRegisters};
  shape.l1Bytes = machine.l1Bytes;
  shape.l2Bytes = machine.l2Bytes;
  shape.maskRegisters = machine.has("avx512vl");
  // The core's own prefetcher reads one stream as fast as memory gives it, and a third slower where
  // requests far ahead of it are a second one.
  if (machine.cpu.starts_with("znver"))
    shape.linesAhead = 0;
  bool addsPairs =
      machine.triple.starts_with("x86_64") && (machine.vectorBits == 256   ? machine.has("avx2")
                                               : machine.vectorBits == 512 ? machine.has("avx512bw")
                                                                           : false);
  shape.integerStep = addsPairs ? 2 : 1;
  bool addsBytes =
      machine.vectorBits == 512
          ? machine.has("avx512vnni")
          : machine.has("avxvnni") || (machine.has("avx512vnni") && machine.has("avx512vl"));
  if (addsPairs && addsBytes)
    shape.byteProducts = kernel::ByteProducts::Vnni;
  bool addsBfloats = machine.vectorBits == 512
                         ? machine.has("avx512bf16")
                         : machine.has("avx512bf16") && machine.has("avx512vl");
  if (addsPairs && addsBfloats)
    shape.bfloatProducts = kernel::BfloatProducts::Dot;
  if (machine.vectorBits == 512 && machine.has("amx-tile")) {
    if (machine.has("amx-int8") && addsBytes)
      shape.byteProducts = kernel::ByteProducts::Tiles;
    if (machine.has("amx-bf16") && addsBfloats)
      shape.bfloatProducts = kernel::BfloatProducts::Tiles;
  }
  return shape;
}

} // namespace tensmith::targets::cpu
