// A template: how kernels of one kind are made. Each is a row of the table in Templates.cpp, and
// stands beside its code.
//
// Fusion builds a region around a root, by what the template says of itself; when the region is
// done, the first template that takes it emits it.
#pragma once

#include "base/Table.h"
#include "compiler/kernel/KernelFrame.h"
#include "compiler/kernel/Machine.h"
#include "compiler/kernel/Space.h"

namespace tensmith::kernel {

struct Template {
  llvm::StringLiteral name; // of a kernel's kind: "contraction"
  /// Whether fusion may build a kernel around the operator, as it is before its operands are laid
  /// out; null: around none.
  bool (*mayBeRoot)(mlir::Operation *) = nullptr;
  /// Whether an operator in a region is the one that the kernel is built around; null: the region
  /// is looked at as a whole.
  bool (*isRoot)(mlir::Operation *) = nullptr;
  /// Of a region with that main operator; null: all that have a root of it.
  bool (*takes)(graph::KernelOp kernel, mlir::Operation *main, const Machine &machine) = nullptr;
  KernelParts (*parts)(graph::KernelOp kernel, mlir::Operation *main, const Machine &machine,
                       const Point &asked);
  /// What points may say of its kernels, beside `choice::grain`, which all have.
  llvm::ArrayRef<const Choice *> choices = {};
  /// Those that a kernel has, and the values of each.
  void (*space)(graph::KernelOp kernel, mlir::Operation *main, const Machine &machine,
                Space &space) = nullptr;
  /// Whether it can store rows at a pitch (graph.kernel), and is the same then; null: never.
  bool (*storesAtPitch)(mlir::Operation *main) = nullptr;

  // What fusion may do around a root of it.
  bool laysOutRight = false;     // its right operand is laid out before the kernel
  bool takesFirstResult = false; // of a root that has several
  bool computesOperands = false; // element-wise operators before it are computed where it reads
  bool movesOperands = false;    // and so are movements
  bool completesAtEnd = false;   // no element is done before the last: nothing can follow it

  bool multiplies = false; // most of its time goes into products: for estimates
};

/// Whether the operator may be part of a kernel: it is element-wise or indexed or a root of a
/// template, of known rank, with types that kernels have, and its broadcasting is certain at
/// compile time.
bool canEmit(mlir::Operation *op);

/// All of them, in order of preference; the last takes everything.
Table<Template> &allTemplates();
inline llvm::ArrayRef<const Template *> templates() { return allTemplates().rows(); }

/// Around which fusion may build a kernel with the operator as its root; null: none.
const Template *templateBefore(mlir::Operation *op);
/// Of which an operator in a region is the root; null: none, it is a part of loops.
const Template *templateOf(mlir::Operation *op);
/// That takes a region.
const Template &templateFor(graph::KernelOp kernel, const Machine &machine);
/// Of that name; null: there is none.
const Template *templateNamed(llvm::StringRef name);
/// Of a kernel that is built around none.
llvm::StringRef loopsName();

} // namespace tensmith::kernel
