// Changes of values that are no tensors: what tangents and cotangents of data are.
//
// A change has the structure of the value, or is nothing at all, so that what does not change costs
// nothing however large it is:
//
//   type Change[T] = None | for each constructor of T one of the same number of fields, changes
//   type Change[tensor] = None | Some(tensor)
//   type Change[matrix] = None | Some(matrix) | Rows(a, b, None | Some(matrix))
//
// The change of a matrix that many calls multiply by, each some rows, is not added up call by call:
// that would go through the whole of it each time. Rows(a, b, more) stands for a^T b + more, and is
// multiplied when there are enough rows to make it worth while.
//
// A null value is no change, too: one that is known to be none when code is made. What is built
// here is taken apart by partial evaluation where both ends meet.
#pragma once

#include "compiler/graph/Gradient.h"
#include "compiler/program/Structures.h"

#include "llvm/ADT/StringMap.h"

namespace tensmith::autodiff {

class Changes {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  /// Builds where the code's builder stands.
  Changes(mlir::ModuleOp module, const graph::GradientCode &code);

  /// A value of the type may change: it is a tensor of floats or may have some inside. What a
  /// reference refers to isn't: that has its change where it lies.
  bool isPossible(Type type) const;
  /// What the changes of values of the type are.
  program::ObjectType typeOf(Type type);
  Value none(Type type);
  Value orNone(Value change, Type type) { return change ? change : none(type); }
  /// Of a tensor that changes by so much.
  Value some(Value change, Type type);
  /// Of a matrix, the product of a's transpose and b, which have rows alike.
  Value rows(Value a, Value b, Type type);
  /// Whether changes of the type may be rows.
  static bool mayBeRows(Type type);
  /// Of a value built by the constructor `tag`, given its fields' changes.
  Value construct(Type type, uint64_t tag, llvm::ArrayRef<Value> fields);
  /// The changes of the fields of such a value; null where nothing is known of the type.
  llvm::SmallVector<Value> fields(Value change, Type type, uint64_t tag);
  Value add(Value a, Value b, Type type);
  /// Zeros of the shape of a tensor, which is asked for where only its procedure has the sizes.
  Value zeros(Value like) const;
  /// Of a tensor as a tensor, zeros like it where there is none.
  Value tensor(Value change, Value like);
  /// A change with the value's own structure, zeros and all: what a caller is given, and back.
  Value dense(Value change, Value like);
  Value fromDense(Value dense);

  /// Whether functions may be inside, of which a caller can be given no change.
  bool hasFunctions(Type type) const;
  /// The constructors of a type, or an error at the operator.
  mlir::FailureOr<program::Constructors> structureOf(Type type, mlir::Operation *op);
  /// What a reference to values of the type refers to when its program is differentiated: such a
  /// value and its change (References.cpp).
  program::ObjectType cellOf(Type type);
  Value cell(Value value, Value change);
  Value readCell(Value reference, Type type);
  /// The change in a cell, for a value of the type.
  Value changeIn(Value cell, Type type) { return field(cell, 1, typeOf(type)); }
  /// A type of its own.
  program::ObjectType newType(llvm::StringRef name, program::Constructors constructors);
  Value field(Value value, uint64_t index, Type type, uint64_t tag = 0);
  program::Structures &structures() { return structures_; }

private:
  using Build = llvm::function_ref<Value(unsigned)>;
  /// The type and all that a value of it may have inside.
  llvm::SetVector<Type> typesWithin(Type type) const;
  Value match(Value value, Type result, size_t constructors, Build build);
  Value call(llvm::StringRef name, Type result, llvm::ArrayRef<Value> operands);
  /// Whether the procedure is there already; else it is begun, and finished by `build`.
  void procedure(llvm::StringRef name, llvm::ArrayRef<Type> parameters,
                 llvm::function_ref<Value(mlir::Block &)> build);
  Value addInside(Value a, Value b, Type type);
  Value addMatrices(Value a, Value b, Type type);
  struct Rows {
    Value a, b, more;
  };
  Rows rowsOf(Value change, Type type);
  Value joinRows(Value x, Value y, Type type);
  Value product(const Rows &rows);
  Value denseInside(Value change, Value like);
  Value fromDenseInside(Value dense);
  std::string nameOf(Type type);

  mlir::ModuleOp module_;
  const graph::GradientCode &code_;
  program::Structures structures_;
  llvm::StringMap<unsigned> names_; // of types that were made
};

} // namespace tensmith::autodiff
