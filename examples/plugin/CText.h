// LLVM's IR of a kernel as a translation unit of C.
#pragma once

#include "base/Status.h"

#include "llvm/IR/Module.h"

#include <string>

namespace example {

/// All functions of the module; `entry` is called `symbol`, and the others are static. Unsupported,
/// with the instruction, where C has nothing for it yet.
tensmith::Result<std::string> cText(const llvm::Module &module, llvm::StringRef entry,
                                    llvm::StringRef symbol);

} // namespace example
