# LLVM and MLIR as archives, for packages that bring them along: only what is used of them ends up in the compiler's library,
# stripped 120 MB in the place of 240 MB of shared libraries. They come last in the link, behind all that needs them; lld looks
# into every archive for every name, so their order among each other doesn't count. Plug-ins can't be loaded by such a library,
# since they are linked with the shared ones.
file(GLOB TENSMITH_LLVM_ARCHIVES ${LLVM_LIBRARY_DIRS}/libMLIR*.a ${LLVM_LIBRARY_DIRS}/libLLVM*.a)
list(FILTER TENSMITH_LLVM_ARCHIVES EXCLUDE REGEX "CAPI|ExecutionEngine|LspServer")
if(NOT TENSMITH_LLVM_ARCHIVES)
  message(FATAL_ERROR "TENSMITH_STATIC_LLVM needs LLVM's and MLIR's archives (Debian: llvm-19-dev, libmlir-19-dev)")
endif()
