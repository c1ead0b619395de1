// All kernels of a model to objects: on all cores, each structure once, and only those that the
// cache doesn't have.
//
// A kernel's key is the hash of its text, of what the machine's code depends on, and of this
// compiler; its symbol is derived from the key. So an object serves every model that has the
// kernel, and the names of a model's nodes have no part in it.
#pragma once

#include "compiler/targets/Target.h"
#include "compiler/targets/cpu/machine/Cpu.h"

namespace tensmith::targets::cpu {

/// The first source's error, in the order given, where one doesn't compile.
Result<CompiledKernels> compileKernels(std::span<const KernelSource> sources, const Cpu &machine,
                                       const CodeOptions &options);

} // namespace tensmith::targets::cpu
