// The procedures as they were, and the versions of them that are made.
#pragma once

#include "compiler/program/Knowledge.h"
#include "compiler/program/PartialEvaluation.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <deque>

namespace tensmith::program {

/// The procedures of a module, which are taken out of it.
class Sources {
public:
  explicit Sources(mlir::ModuleOp module);

  /// Null where there is none.
  mlir::func::FuncOp find(llvm::StringRef symbol) const { return procedures_.lookup(symbol); }
  llvm::ArrayRef<mlir::func::FuncOp> all() const { return all_; }
  bool isEffectful(llvm::StringRef symbol) const { return effectful_.contains(symbol); }
  /// Whether nothing but tensor code, building and taking apart is left of it once its calls are
  /// unfolded, and not much of that.
  bool isShort(llvm::StringRef symbol);
  int64_t size() const { return size_; } // operators

private:
  int64_t lengthOf(llvm::StringRef symbol);

  mlir::OwningOpRef<mlir::ModuleOp> holder_;
  llvm::StringMap<mlir::func::FuncOp> procedures_;
  llvm::SmallVector<mlir::func::FuncOp> all_;
  llvm::StringSet<> effectful_;
  llvm::StringMap<int64_t> lengths_;
  int64_t size_ = 0;
};

struct Version {
  mlir::func::FuncOp source, residual; // residual: null until it is built
  std::vector<Knowledge> known;
  std::string key, symbol;
  Version *maker = nullptr; // whose code called for it first
  bool reached = false, forwards = false;
};

class Versions {
public:
  Versions(Sources &sources, const PartialEvaluationBounds &bounds)
      : sources_(sources), bounds_(bounds) {}

  /// The one for what is known of arguments, made where there is none; with fewer of them known
  /// where there are too many.
  Version &of(mlir::func::FuncOp source, std::vector<Knowledge> known, Version *maker);
  /// Null where the symbol has none; one that nothing is known for has its function's name.
  Version *named(llvm::StringRef symbol);
  std::deque<Version> &all() { return versions_; }

private:
  Sources &sources_;
  const PartialEvaluationBounds bounds_;
  std::deque<Version> versions_;
  llvm::StringMap<Version *> byKey_, bySymbol_;
  llvm::StringMap<int> counts_; // of versions for which something is known, by function
};

} // namespace tensmith::program
