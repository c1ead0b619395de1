// A kernel as its template emits it, and the names by which code generation knows its parts.
#pragma once

#include "compiler/kernel/Space.h"
#include "compiler/kernel/Work.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace tensmith::kernel {

struct EmittedKernel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The symbols whose values the kernel takes in `sizes`, in that order.
  std::vector<std::string> sizes;
  /// The messages of `fail` codes 0, 1, ...
  std::vector<std::string> messages;
  /// The template that took the region, in words: for `inspect`.
  std::string summary;
  bool usesMatrixUnit = false;
  /// The choices that it was made by, as far as the compilation makes them: those over symbolic
  /// sizes are made by each run. Several where it chooses between points by its sizes.
  llvm::SmallVector<SizedPoint, 1> points;
  Work work;
};

inline constexpr char kKernelSymbol[] = "tensmith_kernel";
/// `void tensmith_kernel.extent(pointer, i64 bytes)`, which has no code: what follows reads and
/// writes at most so many bytes from there. In kernels whose bounds are checked.
inline constexpr char kExtentSymbol[] = "tensmith_kernel.extent";
/// A unit attribute of a kernel's module, by `Machine::flushesBfloats`.
inline constexpr char kFlushesBfloatsAttribute[] = "tensmith.flushes_bfloats";

} // namespace tensmith::kernel
