// A template: how kernels of one kind are made. Each stands beside its code, and is a row of the
// table that its machines name (`Machine::templates`); those of vectors are in Templates.cpp.
//
// Fusion builds a region around a root, by what the template says of itself. When the region is
// done, the first template that takes it is noted on the op (`matchTemplate`), and is asked for all
// that follows: its space, its code, where it may store.
#pragma once

#include "base/Table.h"
#include "compiler/graph/KernelStoring.h"
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
  /// It multiplies rows by panels, both of one width. A row may be computed where it is multiplied:
  /// of an image, or as attention's weights.
  bool contracts = false;

  bool multiplies = false; // most of its time goes into products: for estimates
  graph::Storing storing = graph::Storing::Element;
};

/// Whether the operator may be part of a kernel: it is element-wise or indexed or a root of a
/// template of the machine, of known rank, with types that kernels have, and its broadcasting is
/// certain at compile time.
bool canEmit(mlir::Operation *op, const Machine &machine);
/// The same of one that is element-wise or indexed, which every machine's kernels may have; false
/// of others.
bool canEmitElements(mlir::Operation *op);

/// Around which fusion may build a kernel with the operator as its root; null: none.
const Template *templateBefore(mlir::Operation *op, const Machine &machine);
/// Of which an operator in a region is the root; null: none, it is a part of loops.
const Template *templateOf(mlir::Operation *op, const Machine &machine);
/// Finds the template that takes the region, and notes it on the op: when the region is done, and
/// again where a rewrite changes what is in it.
void matchTemplate(graph::KernelOp kernel, const Machine &machine);
/// That was noted; null: there is none of that name, or it doesn't take the region. A file may say
/// what it likes.
const Template *matchedTemplate(graph::KernelOp kernel, const Machine &machine);

} // namespace tensmith::kernel
