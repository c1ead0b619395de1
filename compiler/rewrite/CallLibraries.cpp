// Who does an operator: a kernel that is generated, or a library (compiler/libraries/Libraries.h).
//
// before: y = max(x @ transpose(w) + b, 0)      after: y = kernel "call.onednn" (x, w, b) { the
// same }
//
// A schedule decides for its kernels; elsewhere the first library of the policy's list that takes
// the operator does it, with as much of what follows as it takes; or, where it is measured, whoever
// is fastest. What is measured is a function with the operator and what stands around it, compiled
// for each of them in turn: what a library leaves is generated there too, as is all of it for
// `generated`, with the transforms and fusion of any other model. A library has to be faster by a
// few hundredths, which is what measurements differ by.
//
// Means over processes are libtensmith_mpi.so's, whatever is asked for: nobody else has them.
//
// Policies of fewer bits leave libraries out, which compute in f32. Measured choices leave alone
// what is one kernel with more than libraries have patterns for: attention, and loops.
#include "compiler/graph/Graph.h"
#include "compiler/graph/ProcessReduction.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/MeasuredChoice.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using libraries::Library;
using libraries::Pattern;

constexpr double kFasterBy = 0.97;

class Choice {
public:
  Choice(const libraries::Pattern &pattern, const Options &options)
      : pattern_(pattern), options_(options) {}

  /// Null: it is generated.
  const libraries::Library *run() {
    SmallVector<int64_t> takers{0};
    for (const libraries::Library &library : libraries::knownLibraries())
      if (libraries::partTaken(library, pattern_))
        takers.push_back(*libraries::libraryNumber(library.name));
    options_.offer(pattern_.root, kernel::choice::library, takers);
    if (auto asked = options_.asked(pattern_.root)[kernel::choice::library]) {
      const libraries::Library *library =
          *asked ? libraries::findLibrary(libraries::libraryName(*asked)) : nullptr;
      if (!library || libraries::partTaken(*library, pattern_))
        return tell(library);
    }
    if (options_.libraries.measured)
      return canBeMeasured(pattern_, options_) ? tell(fastest()) : nullptr;
    for (const libraries::Library *library : options_.libraries.order)
      if (libraries::partTaken(*library, pattern_))
        return tell(library);
    return nullptr;
  }

private:
  const libraries::Library *tell(const libraries::Library *library) {
    kernel::Point schedule;
    schedule.set(kernel::choice::library, library ? libraries::libraryNumber(library->name) : 0);
    options_.made(pattern_.root, schedule, 0);
    return library;
  }

  const libraries::Library *fastest() {
    OwningOpRef<ModuleOp> module = functionAround(pattern_);
    auto generated = options_.measure(*module, libraries::kGenerated.str(), "");
    if (!generated.ok())
      return nullptr;
    const libraries::Library *best = nullptr;
    double least = *generated * kFasterBy;
    for (const libraries::Library &library : libraries::knownLibraries()) {
      if (!libraries::partTaken(library, pattern_))
        continue;
      auto seconds = options_.measure(*module, library.name, "");
      if (!seconds.ok() || *seconds >= least)
        continue;
      least = *seconds;
      best = &library;
    }
    return best;
  }

  const libraries::Pattern &pattern_;
  const Options &options_;
};

/// What runs in every process has to come by each of these, as often as in the others.
LogicalResult callProcesses(func::FuncOp function) {
  SmallVector<graph::AllReduceMeanOp> means;
  function.walk([&](graph::AllReduceMeanOp op) { means.push_back(op); });
  for (graph::AllReduceMeanOp op : means) {
    if (op->getBlock() != &function.front())
      return op.emitError("a mean over processes stands in a branch or a loop, which some of them "
                          "may not come to");
    if (!hasKnownSizes(op))
      return op.emitError("a mean over processes is of unknown sizes");
    libraries::makeCall({op, false, false, {}}, graph::kProcesses);
  }
  return success();
}

} // namespace

LogicalResult callLibraries(func::FuncOp function, const Options &options) {
  if (failed(callProcesses(function)))
    return failure();
  if (options.precision == Precision::Bfloat || options.precision == Precision::Half)
    return success();
  SmallVector<Operation *> roots;
  function.walk([&](Operation *op) {
    if (!op->getParentOfType<graph::KernelOp>())
      roots.push_back(op);
  });
  // A call takes in no other root.
  llvm::erase_if(roots,
                 [](Operation *op) { return !libraries::matchPattern(op) || !hasKnownSizes(op); });
  for (Operation *root : roots) {
    auto pattern = libraries::matchPattern(root);
    if (const libraries::Library *library = Choice(*pattern, options).run())
      libraries::makeCall(*libraries::partTaken(*library, *pattern), library->name);
  }
  return success();
}

} // namespace tensmith::rewrite
