// A template: how kernels of one kind are made. Each stands beside its code, in the folder of its
// target, and is a row of the table that its machines name (`Machine::templates`).
//
// Fusion builds a region around a root, by what the template says of itself. When the region is
// done, the first template that takes it is noted on the op (`matchTemplate`), and is asked for all
// that follows: its space, its code, where it may store.
#pragma once

#include "base/Table.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/KernelStoring.h"
#include "compiler/kernel/KernelFrame.h"
#include "compiler/kernel/Machine.h"
#include "compiler/kernel/Space.h"

#include "llvm/ADT/SetVector.h"

namespace tensmith::kernel {

class Schedules;
struct Template;

/// Operators of a kernel, above which no more are taken in: what is emitted for one element walks
/// all of them.
inline constexpr size_t kMostOfKernel = 256;

/// Why an operator isn't taken into a kernel, in the words of `--why`; null: it is.
using Refusal = const char *;

/// What a template asks while fusion builds a kernel around a root of it.
struct Surroundings {
  const Machine &machine;
  Schedules *schedules; // that ask, and are told what was decided; null: none
  /// The template that may build a kernel around the operator; null: none.
  llvm::function_ref<const Template *(mlir::Operation *)> templateOf;
  /// Whether the operator may be a root, also of the template of loops.
  llvm::function_ref<bool(mlir::Operation *)> isHeavy;
  /// Whether the operator may be in the kernel, as far as it alone tells.
  llvm::function_ref<bool(mlir::Operation *)> mayComeIn;
};

/// Operators before a root that its template computes in a way of its own: the scores of attention,
/// the convolutions of a chain, what normalises the rows of a product.
struct Companions {
  using IsTaken = llvm::function_ref<bool(mlir::Operation *)>;

  /// They come in when fusion meets them and all their uses are inside, whatever their shapes.
  llvm::SetVector<mlir::Operation *> ops;
  /// Products among them, whose right operands are laid out before the kernel as the root's is.
  llvm::SmallVector<mlir::Operation *> products;
  /// Why another operator whose result they or the root read stays outside; null: as if there were
  /// no companions. `isTaken`: of an operator, whether it is in the kernel before the root and none
  /// of the companions.
  std::function<Refusal(mlir::Operation *op, IsTaken isTaken)> others;
};

/// The right operand of a root as its template takes it: in panels, for instance.
struct LaidOut {
  mlir::Value value; // that the kernel takes
  /// In the kernel, so that its region says what it computes: the operand in its own form, from the
  /// argument that stands for `value`.
  std::function<mlir::Value(mlir::OpBuilder &inside, mlir::Value argument)> restored;
};

/// On kernels that are nests because a schedule asks for that (choice::asNest).
inline constexpr llvm::StringLiteral kNestAttribute = "tensmith.nest";

/// Names of templates whose operators rewrites make, where the machine has them.
namespace algorithm {
inline constexpr llvm::StringLiteral winograd = "winograd", fourier = "fourier",
                                     attentionGradient = "attention gradient";
} // namespace algorithm

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
  /// Its parts, which the frame makes a kernel of (KernelFrame.h); null: it has `emit`.
  KernelParts (*parts)(graph::KernelOp kernel, mlir::Operation *main, const Machine &machine,
                       const Point &asked) = nullptr;
  /// The kernel as a whole, where one parallel loop over items is not all of it. Where it is
  /// Unsupported or ResourceExhausted, loops over the elements take its place.
  Result<EmittedKernel> (*emit)(graph::KernelOp kernel, mlir::Operation *main,
                                const Machine &machine, llvm::ArrayRef<SizedPoint> asked) = nullptr;
  /// What points may say of its kernels, beside `choice::grain`, which all have.
  llvm::ArrayRef<const Choice *> choices = {};
  /// Those that a kernel has, and the values of each.
  void (*space)(graph::KernelOp kernel, mlir::Operation *main, const Machine &machine,
                Space &space) = nullptr;
  /// Whether it can store rows at a pitch (graph.kernel), and is the same then; null: never.
  bool (*storesAtPitch)(mlir::Operation *main) = nullptr;

  /// Why a region with that operator, which may come from a file, is none that the template's code
  /// can be trusted with; null: it is one.
  const char *(*distrusts)(graph::KernelOp kernel, mlir::Operation *op,
                           const Machine &machine) = nullptr;

  // What fusion may do around a root of it.
  /// Lays its right operand out before the kernel, where `graph` builds; null: that stays as it is.
  LaidOut (*layOutRight)(mlir::Operation *root, graph::GraphBuilder &graph, const Machine &machine,
                         const Point &asked) = nullptr;
  Companions (*companions)(mlir::Operation *root, const Surroundings &around) = nullptr;
  /// All operators of the kernel that ends in that one, if it is one that the template makes as a
  /// whole; null, or empty: it makes none.
  llvm::SetVector<mlir::Operation *> (*whole)(mlir::Operation *end,
                                              const Machine &machine) = nullptr;
  /// Whether all iterations of the loop are better one kernel; null: of no loop.
  bool (*takesLoop)(graph::LoopOp loop, const Machine &machine) = nullptr;
  /// It goes over rows along the last dimension, each of which has all that is made of it there.
  bool sweepsRows = false;
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
/// Whether the operator says its elements, alone or by `emitWindowElement`: then it may be part of
/// a nest (compiler/nest/RegionNest.h).
bool saysElement(mlir::Operation *op);
/// The same, also of an operator that is made of others (graph::Decomposable).
bool mayBeInNest(mlir::Operation *op);

/// Around which fusion may build a kernel with the operator as its root; null: none.
const Template *templateBefore(mlir::Operation *op, const Machine &machine);
/// That makes one kernel of all iterations of the loop; null: none.
const Template *templateOfLoop(graph::LoopOp loop, const Machine &machine);
/// Of which an operator in a region is the root; null: none, it is a part of loops.
const Template *templateOf(mlir::Operation *op, const Machine &machine);
/// Finds the template that takes the region, and notes it on the op: when the region is done, and
/// again where a rewrite changes what is in it.
void matchTemplate(graph::KernelOp kernel, const Machine &machine);
/// That was noted; null: there is none of that name, or it doesn't take the region. A file may say
/// what it likes.
const Template *matchedTemplate(graph::KernelOp kernel, const Machine &machine);

} // namespace tensmith::kernel
