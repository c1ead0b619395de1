// Debian's archives of LLVM were configured with Polly, an extension of its passes, and call it
// where they register extensions (LTO.cpp, by Extension.def). Polly's own archives are in another
// package, and nothing here wants its passes, so that it stands here as an extension of none.
#include "llvm/Config/llvm-config.h"
#include "llvm/Passes/PassPlugin.h"

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Polly", LLVM_VERSION_STRING, [](llvm::PassBuilder &) {}};
}
