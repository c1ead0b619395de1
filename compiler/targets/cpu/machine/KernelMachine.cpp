// The machine's sizes, and those of its instructions that templates know; see KernelMachine.h.
#include "compiler/targets/cpu/machine/KernelMachine.h"

#include "compiler/targets/cpu/intrinsics/Intrinsics.h"
#include "compiler/targets/cpu/templates/Templates.h"

namespace tensmith::targets::cpu {

kernel::Machine kernelMachine(const Cpu &machine) {
  kernel::Machine result;
  result.name = toJson(machine);
  result.vectorBytes = machine.vectorBits / 8;
  result.vectorRegisters = machine.vectorRegisters;
  result.inOrder = machine.inOrder;
  // NEON's do so; SVE loads a number into all lanes as fast as into one.
  result.multipliesLanes = machine.isArm64() && machine.vectorBits == 128;
  result.l1Bytes = machine.l1Bytes;
  result.l2Bytes = machine.l2Bytes;
  result.maskRegisters = machine.has("avx512vl");
  // The core's own prefetcher reads one stream as fast as memory gives it, and a third slower where
  // requests far ahead of it are a second one.
  if (machine.cpu.starts_with("znver"))
    result.linesAhead = 0;
  result.templates = &templates();
  result.intrinsics = intrinsicsOf(machine);
  result.matrixUnit = matrixUnitOf(machine);
  result.hold = holdOf(machine);
  result.lookup = lookupOf(machine);
  return result;
}

} // namespace tensmith::targets::cpu
