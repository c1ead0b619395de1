// What an operator demands of its operands' types, and what it gives: the shape function of its
// record, asked as soon as the operands' types are known.
#pragma once

#include "frontends/text/Operators.h"
#include "frontends/text/Types.h"

#include "compiler/graph/GraphBuilder.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::text {

/// An attribute that follows from the types of the function: integers from sizes, as `strides =
/// [stride, stride]`, or an element type, as `to = t` and `to = wide(t)`.
struct ComputedAttribute {
  std::string name;
  bool list = false;
  bool wide = false; // f32 where the element type is a float that is narrower
  std::vector<Term *> values;
};

/// One use of an operator, or of arithmetic on sizes that callers decide.
struct Relation {
  const OperatorInfo *info = nullptr; // null: of sizes
  DimExpr::Kind arithmetic = DimExpr::Kind::Size;
  Place place;
  /// In the order of the record; null: absent. Those of a variadic operand one after another.
  std::vector<Term *> operands;
  /// The numbers among the operands, whose contents a shape may depend on.
  std::vector<const Expr *> numbers;
  std::vector<mlir::NamedAttribute> attributes;
  std::vector<ComputedAttribute> computed;
  Term *result = nullptr; // a tuple where there are several
};

/// Whether the operator's result type can't be inferred, and is what the program says.
bool isTyped(const OperatorInfo &info);

class Relations {
public:
  explicit Relations(Types &types);

  enum class Outcome : uint8_t { Solved, Waiting, Wrong };
  /// Tells the result's type. Wrong: `error` says why.
  Outcome solve(const Relation &relation, std::string &error);

  /// The operator over operands of its types, that nothing has computed: what its attributes and
  /// results are. Null, with the reason in `error`, where its operands contradict it.
  mlir::Operation *stand(const Relation &relation, std::string &error);

  /// The type of a tensor value. Unknown sizes get names of their own, unless the type is one that
  /// callers see.
  mlir::Type lower(Term *tensor, bool named = true);
  mlir::Type elementType(DataType type);
  /// The other way round: only sizes over the symbols of inputs have a meaning everywhere.
  Term *raise(mlir::Type type);
  /// A number as a scalar of the type.
  HostTensor number(const Expr &expr, DataType type);

  /// Builds the operator; null, with the reason in `error`, where its operands contradict it.
  mlir::Operation *build(mlir::OpBuilder &builder, mlir::Location location,
                         const Relation &relation, mlir::ValueRange operands, mlir::Type typed,
                         std::string &error);

private:
  mlir::Type plainType(Term *tensor);
  bool prepareNumbers(const Relation &relation, std::string &error);
  Outcome solveSizes(const Relation &relation);
  bool solveNumbers(const Relation &relation);
  bool addComputed(const Relation &relation,
                   llvm::SmallVectorImpl<mlir::NamedAttribute> &attributes, std::string &error);

  Types &types_;
  mlir::OwningOpRef<mlir::ModuleOp> scratch_; // stays, since contents are remembered by value
};

} // namespace tensmith::text
