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
  const Library *run() {
    findTakers();
    SmallVector<int64_t> numbers{0};
    for (const Library *library : takers_)
      numbers.push_back(*libraries::libraryNumber(library->name));
    options_.offer(pattern_.root, kernel::choice::library, numbers);
    if (auto asked = options_.asked(pattern_.root)[kernel::choice::library]) {
      const Library *library =
          *asked ? libraries::findLibrary(libraries::libraryName(*asked)) : nullptr;
      if (!library || takes(*library))
        return tell(library, "a schedule asks for another");
    }
    if (options_.libraries.measured)
      return canBeMeasured(pattern_, options_)
                 ? tell(fastest(), "another was faster when it was measured")
                 : refuse(nullptr, "it is one kernel with more than libraries have patterns for");
    for (const Library *library : options_.libraries.order)
      if (takes(*library))
        return tell(library, "another comes before it");
    return refuse(nullptr, "it is not asked for");
  }

private:
  void findTakers() {
    for (const Library &library : libraries::knownLibraries()) {
      libraries::Refusal why;
      if (libraries::partTaken(library, pattern_, &why))
        takers_.push_back(&library);
      else if (options_.libraryRefused)
        options_.libraryRefused(pattern_.root, library.name, why);
    }
  }
  bool takes(const Library &library) const { return llvm::is_contained(takers_, &library); }

  const Library *tell(const Library *library, StringRef whyNoOther) {
    kernel::Point schedule;
    schedule.set(kernel::choice::library, library ? libraries::libraryNumber(library->name) : 0);
    options_.made(pattern_.root, schedule, 0);
    return refuse(library, whyNoOther);
  }

  /// All but that one, of those that could do it.
  const Library *refuse(const Library *chosen, StringRef why) {
    for (const Library *library : takers_)
      if (library != chosen && options_.libraryRefused)
        options_.libraryRefused(pattern_.root, library->name, why);
    return chosen;
  }

  const Library *fastest() {
    OwningOpRef<ModuleOp> module = functionAround(pattern_);
    auto generated = options_.measure(*module, libraries::kGenerated.str(), "");
    if (!generated.ok())
      return nullptr;
    const Library *best = nullptr;
    double least = *generated * kFasterBy;
    for (const Library *library : takers_) {
      auto seconds = options_.measure(*module, library->name, "");
      if (!seconds.ok() || *seconds >= least)
        continue;
      least = *seconds;
      best = library;
    }
    return best;
  }

  SmallVector<const Library *, 2> takers_;
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

/// Of an operator that no library can be asked for.
void refuseAll(Operation *op, StringRef why, const Options &options) {
  for (const Library &library : libraries::knownLibraries())
    options.libraryRefused(op, library.name, why);
}

} // namespace

LogicalResult callLibraries(func::FuncOp function, const Options &options) {
  if (failed(callProcesses(function)))
    return failure();
  bool isNarrow = options.precision == Precision::Bfloat || options.precision == Precision::Half;
  SmallVector<Operation *> roots;
  function.walk([&](Operation *op) {
    if (!op->getParentOfType<graph::KernelOp>())
      roots.push_back(op);
  });
  // A call takes in no other root.
  llvm::erase_if(roots, [&](Operation *op) {
    if (!libraries::mayBeCalled(op))
      return true;
    StringRef why = isNarrow             ? "libraries compute in f32, and the precision is less"
                    : !hasKnownSizes(op) ? "its sizes are known only once it has run"
                                         : libraries::refusalOf(op);
    if (!why.empty() && options.libraryRefused)
      refuseAll(op, why, options);
    return !why.empty();
  });
  for (Operation *root : roots) {
    auto pattern = libraries::matchPattern(root);
    if (const Library *library = Choice(*pattern, options).run())
      libraries::makeCall(*libraries::partTaken(*library, *pattern), library->name);
  }
  return success();
}

} // namespace tensmith::rewrite
