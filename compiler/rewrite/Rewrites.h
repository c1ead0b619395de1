// Graph to graph: each rewrite is one function in the file of its name, and one pass of
// tensmith-opt.
#pragma once

#include "base/Precision.h"
#include "base/Table.h"
#include "compiler/kernel/Machine.h"
#include "compiler/kernel/Schedule.h"
#include "compiler/libraries/Libraries.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Support/LogicalResult.h"

#include <functional>
#include <limits>
#include <span>
#include <string_view>

namespace tensmith::rewrite {

struct Options {
  kernel::Machine machine;
  /// Largest constant that folding may make, in bytes, beyond the size of what it is made from.
  int64_t foldedBytes = 1 << 20;
  /// Off: every operator is a kernel of its own.
  bool fuse = true;
  /// Off: each value lies in memory of its own.
  bool joinInPlace = true;
  /// Loops and branches stay.
  bool keepControl = false;
  Precision precision = Precision::Fast;
  /// Expressions are simplified by rules of real numbers, too.
  bool fastMath = false;
  /// What is asked for kernels, and is told what was made; null: nothing.
  kernel::Schedules *schedules = nullptr;

  /// Kernels say why fusion ended where it did (kRefusalsAttribute).
  bool explains = false;
  /// Told, where kernels say why, which library doesn't do the operator, and why not.
  std::function<void(mlir::Operation *, llvm::StringRef library, llvm::StringRef why)>
      libraryRefused;

  /// Told of each kernel's operators and results, as they are when its key is taken.
  std::function<void(const kernel::Key &, llvm::ArrayRef<mlir::Operation *>, mlir::ValueRange)>
      regionTaken;

  /// Who does operators that libraries do, too.
  libraries::Policy libraries;
  /// Seconds of a function `main` if that library does the operator in it, by the choices of a
  /// schedules file's text (empty: by estimates); an error where it can't be run here. None:
  /// nothing can be measured.
  std::function<Result<double>(mlir::ModuleOp, const std::string &library,
                               const std::string &schedules)>
      measure;

  /// What a layer may err by beside the policy's bound (RoundingError.h): less, where a whole model
  /// missed its own.
  double layerBound = std::numeric_limits<double>::infinity();

  kernel::Point asked(mlir::Operation *root) const {
    return schedules ? schedules->of(root) : kernel::Point();
  }
  /// What may be decided for the operator.
  void offer(mlir::Operation *op, const kernel::Choice &choice,
             llvm::ArrayRef<int64_t> values) const {
    if (schedules)
      schedules->offer(op, choice, values);
  }
  void made(mlir::Operation *root, const kernel::Point &schedule, double error,
            llvm::ArrayRef<kernel::Refused> refused = {}) const {
    if (schedules)
      schedules->made(root, schedule, error, refused);
  }
};

/// An attribute of kernels: a text for each input, why what computes it is no part of the kernel;
/// empty where fusion didn't ask.
inline constexpr char kRefusalsAttribute[] = "tensmith.refusals";

/// What operators require of sizes that only a run tells becomes checks.
mlir::LogicalResult checkSizes(mlir::func::FuncOp function, const Options &options);
/// At the end: what operators of kernels require follows from sizes and checks; else an error. For
/// those who look for faults of rewrites: the plan checks what isn't proved.
mlir::LogicalResult proveSizes(mlir::func::FuncOp function, const Options &options);
/// Operators on constants become constants, by their reference evaluation.
mlir::LogicalResult foldConstants(mlir::func::FuncOp function, const Options &options);
/// Products of dequantised codes become products of integers, scaled afterwards.
mlir::LogicalResult multiplyIntegers(mlir::func::FuncOp function, const Options &options);
/// The largest of scaled codes becomes the largest code, scaled.
mlir::LogicalResult poolCodes(mlir::func::FuncOp function, const Options &options);
/// Scales of what is rounded are multiplied into the constants before them.
mlir::LogicalResult mergeScales(mlir::func::FuncOp function, const Options &options);
/// Numbers that become codes are limited as integers.
mlir::LogicalResult limitCodes(mlir::func::FuncOp function, const Options &options);
/// Removes what does nothing: transpositions that cancel, reshapes of reshapes, broadcasts that
/// their users do anyway.
mlir::LogicalResult simplify(mlir::func::FuncOp function, const Options &options);
/// Chains of products are multiplied in the order that takes the fewest operations.
mlir::LogicalResult orderProducts(mlir::func::FuncOp function, const Options &options);
/// Larger operators that no kernel takes whole become graphs of smaller ones.
mlir::LogicalResult decompose(mlir::func::FuncOp function, const Options &options);
/// Convolutions and pooling become channels-last, and the transpositions that this needs are moved
/// out of the way.
mlir::LogicalResult chooseLayout(mlir::func::FuncOp function, const Options &options);
/// Operators that a library is to do become calls of it.
mlir::LogicalResult callLibraries(mlir::func::FuncOp function, const Options &options);
/// Convolutions with large windows become products of Fourier transforms where that is faster.
mlir::LogicalResult fourier(mlir::func::FuncOp function, const Options &options);
/// Convolutions become products over frequencies where that is faster.
mlir::LogicalResult winograd(mlir::func::FuncOp function, const Options &options);
/// Products of large matrices become seven of quarters, where that is faster than eight.
mlir::LogicalResult strassen(mlir::func::FuncOp function, const Options &options);
/// Operands of products are kept in fewer bits, where it is faster: codes in bytes, and floats, if
/// the policy allows it, in bf16.
mlir::LogicalResult narrowOperands(mlir::func::FuncOp function, const Options &options);
/// Neighbouring groups of few channels become one, where a matrix unit multiplies them.
mlir::LogicalResult mergeGroups(mlir::func::FuncOp function, const Options &options);
/// Results that products read rounded are rounded for the element-wise operators that read them,
/// too, if the policy allows it: one form of them lies in memory.
mlir::LogicalResult narrowResults(mlir::func::FuncOp function, const Options &options);
/// What is rounded after it was moved is rounded before, where that makes fewer bytes.
mlir::LogicalResult roundEarly(mlir::func::FuncOp function, const Options &options);
/// Of a step of training, factors of products become numbers of 16 bits, if the policy says so.
mlir::LogicalResult mixPrecision(mlir::func::FuncOp function, const Options &options);
/// Branches that are known become straight code, as do loops of few trips.
mlir::LogicalResult straighten(mlir::func::FuncOp function, const Options &options);
/// Equal rows that a loop stacks are stacked once, and only what is read.
mlir::LogicalResult mergeScans(mlir::func::FuncOp function, const Options &options);
/// Products with a row of ones become sums of columns, where nothing is packed for them anyway.
mlir::LogicalResult sumColumns(mlir::func::FuncOp function, const Options &options);
/// Products of one row with matrices that are no constants become sums of rows.
mlir::LogicalResult sumRows(mlir::func::FuncOp function, const Options &options);
/// Products with transpositions of matrices that only a run knows are turned around, where less is
/// packed then.
mlir::LogicalResult turnProducts(mlir::func::FuncOp function, const Options &options);
/// Sums over a row of which one element alone isn't zero become that element.
mlir::LogicalResult pickOneHot(mlir::func::FuncOp function, const Options &options);
/// Loops whose bodies are small become kernels.
mlir::LogicalResult compileLoops(mlir::func::FuncOp function, const Options &options);
/// Results of a function with states that are made of the same elements become one kernel.
mlir::LogicalResult fuseUpdates(mlir::func::FuncOp function, const Options &options);
/// Cheap element-wise values are computed again by their readers.
mlir::LogicalResult repeatElementwise(mlir::func::FuncOp function, const Options &options);
/// Attention's gradient makes its scores again, in one kernel, where that is faster.
mlir::LogicalResult fuseAttentionGradients(mlir::func::FuncOp function, const Options &options);
/// Row operators whose result is an intermediate become kernels with all that is made of it.
mlir::LogicalResult fuseRows(mlir::func::FuncOp function, const Options &options);
/// Cuts the graph into kernels.
mlir::LogicalResult fuse(mlir::func::FuncOp function, const Options &options);
/// Moves kernels out of loops that give the same in each iteration.
mlir::LogicalResult hoist(mlir::func::FuncOp function, const Options &options);
/// Puts what updates a state behind the last use of its old value.
mlir::LogicalResult orderUpdates(mlir::func::FuncOp function, const Options &options);
/// What is joined is computed where it lies in the result.
mlir::LogicalResult joinInPlace(mlir::func::FuncOp function, const Options &options);
/// Of a kernel whose result is computed where it lies in a join: one behind it that copies it
/// there, so that it is computed elsewhere. Null of others.
graph::KernelOp copyToPlace(graph::KernelOp part, const kernel::Machine &machine);

struct Rewrite {
  std::string_view name; // as a pass: "graph-fold-constants"
  std::string_view summary;
  mlir::LogicalResult (*run)(mlir::func::FuncOp, const Options &);
  /// Of a plug-in: the rewrite behind whose first run the pipeline runs it. The place of the
  /// project's own is in the pipeline's table.
  std::string_view after = {};
};
/// All of them; the pipeline has the order in which they run.
Table<Rewrite> &rewrites();

/// Whether the sizes of the results are known before the operator runs: over symbols of its
/// operands, or of the function's parameters. A kernel can't find out a size.
bool hasKnownSizes(mlir::Operation *op);

/// Of all constants of the function, those of its loops and branches included.
int64_t bytesOfConstants(mlir::func::FuncOp function);

/// The value as a constant, if it is one or is computed from constants alone by a few operators:
/// then they are evaluated, whatever the size of the result, and left as they are. For operands
/// that a kernel has packed, whose operators may be too large to be folded before.
mlir::Value foldedConstant(mlir::Value value, mlir::OpBuilder &builder);

} // namespace tensmith::rewrite
