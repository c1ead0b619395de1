// What values of object types are made of: of each type the constructors, and of each constructor
// the fields' types.
//
// An object type is a name for the compiler, and a value tells the machine what it is. A pass that
// builds values of a type which it has only seen from outside, as the change of a tree that another
// function makes, needs to know what there is to build.
#pragma once

#include "compiler/program/Program.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/MapVector.h"

namespace tensmith::program {

/// The fields' types by constructor. Sizes in them that have a name have it everywhere.
using Constructors = llvm::SmallVector<llvm::SmallVector<mlir::Type>>;

/// The type without sizes that only one procedure has a name for.
mlir::Type withoutLocalSizes(mlir::Type type);

class Structures {
public:
  /// Those that the module has.
  explicit Structures(mlir::ModuleOp module);
  /// Null where nothing is known of the type, as of functions and references.
  const Constructors *find(mlir::Type type) const;
  /// Takes the place of what was known.
  void add(ObjectType type, Constructors constructors);
  size_t size() const { return known_.size(); }
  void store(mlir::ModuleOp module) const;

private:
  llvm::MapVector<mlir::Type, Constructors> known_;
};

} // namespace tensmith::program
