// From a graph.kernel region to a module of vector code: the entry to the kernel layer.
//
// The emitted module has one exported function, `tensmith_kernel`, of the contract in
// runtime/KernelAbi.h, whatever the region is called: regions of the same structure give the same
// text, which is how they come to be compiled once. The template is chosen by the region's root: a
// contraction (ContractionKernel.cpp), a depthwise convolution (DepthwiseKernel.cpp), a chain of
// both (ChainKernel.cpp), attention's gradient, a normalisation along rows (RowKernel.cpp), a
// concatenation (ConcatKernel.cpp), a loop of the model (RecurrenceKernel.cpp), trees
// (TreeKernel.cpp), Fourier transforms (FourierKernel.cpp), or loops over the results' elements
// (LoopKernel.cpp), which take every region that the others refuse.
#pragma once

#include "base/Status.h"
#include "compiler/graph/Graph.h"
#include "compiler/kernel/Intrinsic.h"
#include "compiler/kernel/Schedule.h"
#include "compiler/kernel/Work.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tensmith::kernel {

/// What the templates need to know of the machine.
struct MachineShape {
  int64_t vectorBytes = 32;
  int64_t vectorRegisters = 16;
  /// Whether any instruction takes a mask at no cost (AVX-512), and not masked loads and stores
  /// alone.
  bool maskRegisters = false;
  int64_t l1Bytes = 32 << 10;
  int64_t l2Bytes = 512 << 10;
  // For estimates, in cycles of one core that multiplies and adds two vectors in each: measured
  // where the machine was, these otherwise.
  double nearBytesPerCycle = 16;  // of the second-level cache
  double farBytesPerCycle = 6;    // beyond it
  double memoryBytesPerCycle = 3; // of the memory
  int64_t lastCacheBytes = 16 << 20;
  /// Lines of a panel ahead that a tile prefetches where it is the only one to read them.
  int64_t linesAhead = 256;
  /// Instructions that templates may ask for, the better of two that do the same first.
  llvm::SmallVector<const Intrinsic *, 4> intrinsics;
  const MatrixUnit *matrixUnit = nullptr; // that has the tiles of `intrinsics`
  Hold hold = nullptr;                    // null: the optimiser needs no such thing
  /// Whether rounding to bf16 may take subnormal numbers for zero, as that instruction does.
  bool flushesBfloats = false;
  /// Whether kernels say where their operands end, by which code generation checks each access.
  bool checksBounds = false;

  int64_t lanes(int64_t elementBytes) const { return vectorBytes / elementBytes; }

  /// The instruction that adds up products of such numbers, several to a lane; null: none.
  const Intrinsic *products(mlir::Type left, mlir::Type right, mlir::Type sum) const;
  const Intrinsic *products(Number left, Number right, Number sum) const;
  /// The same of a matrix unit.
  const Intrinsic *tileProducts(mlir::Type left, mlir::Type right, mlir::Type sum) const;
  const Intrinsic *tileProducts(Number left, Number right, Number sum) const;
};

/// Columns of a panel of a packed right operand whose products accumulate in elements of so many
/// bytes.
int64_t panelWidth(const MachineShape &machine, int64_t accumulatorBytes,
                   const Schedule &asked = {});
/// Rows of the register tile that goes with it: 6 x 2 accumulators, 2 vectors of B and a broadcast
/// of A are 15 of 16 registers; 6 x 4 + 4 + 1 are 29 of 32.
inline constexpr int64_t kTileRows = 6;

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
  /// sizes are made by each run.
  Schedule schedule;
  Work work;
};

inline constexpr char kKernelSymbol[] = "tensmith_kernel";
/// `void tensmith_kernel.extent(pointer, i64 bytes)`, which has no code: what follows reads and
/// writes at most so many bytes from there. In kernels whose bounds are checked.
inline constexpr char kExtentSymbol[] = "tensmith_kernel.extent";
/// A unit attribute of a kernel's module, by `MachineShape::flushesBfloats`.
inline constexpr char kFlushesBfloatsAttribute[] = "tensmith.flushes_bfloats";

/// Emits the region, by the choices in `asked` where there are any. Unsupported where an operator
/// in it has no kernel code for its types.
Result<EmittedKernel> emitKernel(graph::KernelOp kernel, const MachineShape &machine,
                                 const Schedule &asked = {});
/// Whether its template can store the result's rows at a pitch (`graph.kernel`), and is the same
/// then.
bool storesAtPitch(graph::KernelOp kernel, const MachineShape &machine);
/// The operator that a kernel's schedule goes by: its template's root, or what gives the first
/// result.
mlir::Operation *scheduledOperator(graph::KernelOp kernel);

/// Whether the operator may be part of a kernel: it is element-wise or indexed or a root of a
/// template, of known rank, with types that kernels have, and its broadcasting is certain at
/// compile time.
bool canEmit(mlir::Operation *op);

/// The operator that a template is built around, of which a kernel has at most one; that of loops
/// needs none.
enum class RootKind {
  Loops,
  Contraction,
  Depthwise,
  Row,
  Concat,
  Winograd,
  Recurrence,
  Trees,
  Scatter,
  Fourier
};
/// Of an operator in a kernel's region.
RootKind rootKind(mlir::Operation *op);
/// "loops", "contraction", ...
llvm::StringRef name(RootKind kind);

} // namespace tensmith::kernel
