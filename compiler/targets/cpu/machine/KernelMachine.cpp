// The machine's sizes, and those of its instructions that templates know; see KernelMachine.h.
#include "compiler/targets/cpu/machine/KernelMachine.h"

#include "compiler/targets/cpu/intrinsics/Intrinsics.h"

namespace tensmith::targets::cpu {

kernel::Machine kernelMachine(const Machine &machine) {
  kernel::Machine shape;
  shape.vectorBytes = machine.vectorBits / 8;
  shape.vectorRegisters = machine.vectorRegisters;
  shape.inOrder = machine.inOrder;
  shape.l1Bytes = machine.l1Bytes;
  shape.l2Bytes = machine.l2Bytes;
  shape.maskRegisters = machine.has("avx512vl");
  // The core's own prefetcher reads one stream as fast as memory gives it, and a third slower where
  // requests far ahead of it are a second one.
  if (machine.cpu.starts_with("znver"))
    shape.linesAhead = 0;
  shape.intrinsics = llvm::SmallVector<const kernel::Intrinsic *, 4>(intrinsicsOf(machine));
  shape.matrixUnit = matrixUnitOf(machine);
  shape.hold = holdOf(machine);
  return shape;
}

} // namespace tensmith::targets::cpu
