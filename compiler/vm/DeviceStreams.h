// Kernels of devices and copies, put on streams.
//
// An instruction comes after those that make what it reads, and after those that have to do with
// the buffer that it writes: results may be written over operands. Control flow and procedures come
// after everything before them. From that planStreams (Streams.h) finds streams and waits.
#pragma once

#include "compiler/vm/Arenas.h"

namespace tensmith::vm {

/// Gives instructions their streams and waits: of each, those that are done before it begins.
std::vector<llvm::BitVector> putOnStreams(const plan::ModuleT &module, plan::FunctionT &function,
                                          const Arena &arena);

} // namespace tensmith::vm
