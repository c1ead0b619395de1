// Draws graphs: operators from the dialect's registered ones, operands from the values so far or
// from fresh inputs and constants, and evaluates each node as it is drawn.
//
// Because values are known while the graph grows, no operator needs a table of its domain: a node
// that the reference refuses, or whose result is infinite, not a number or enormous, is dropped and
// another drawn. An operator of one, two or three tensors and well-known attributes (`axis`,
// `axes`, `keepdims`, ...) takes part as soon as it has a record; one with structured operands
// needs a recipe, and those without are named on the error output.
#pragma once

#include "compiler/graph/GraphBuilder.h"
#include "tests/random/Evaluation.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::random_graphs {

using Dims = llvm::SmallVector<mlir::AffineExpr>;

class Generator {
public:
  Generator(mlir::MLIRContext *context, uint64_t seed);

  mlir::OwningOpRef<mlir::ModuleOp> run();
  /// One operator of that name, with what it needs, and up to so many others behind it; null where
  /// it didn't come to one.
  mlir::OwningOpRef<mlir::ModuleOp> runOperator(llvm::StringRef name, int64_t behind = 0);

  // What recipes are written with.

  /// A value so far of that element type (any of the graph's where null) and rank, or a fresh one.
  mlir::Value tensor(int64_t leastRank, int64_t mostRank, mlir::Type element = {});
  /// Of that shape.
  mlir::Value like(mlir::Type element, llvm::ArrayRef<mlir::AffineExpr> dims,
                   llvm::StringRef kind = {});
  /// The same, of finite numbers where it is a new one.
  mlir::Value finiteLike(mlir::Type element, llvm::ArrayRef<mlir::AffineExpr> dims);
  mlir::Value fresh(mlir::Type element, llvm::ArrayRef<mlir::AffineExpr> dims,
                    llvm::StringRef kind = {}, bool constant = false);
  mlir::Value integers(llvm::ArrayRef<int64_t> values);
  mlir::Value integer(int64_t value);
  mlir::Value reals(mlir::Type element, llvm::ArrayRef<double> values);
  mlir::Value none() { return graph.none(); }
  mlir::Operation *create(llvm::StringRef name, mlir::ValueRange operands,
                          llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  mlir::Operation *createTyped(llvm::StringRef name, mlir::Type result, mlir::ValueRange operands,
                               llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  /// An operator that a recipe needs before the drawn one; null where it can't be evaluated.
  mlir::Value helper(mlir::Operation *op);

  Dims dims(mlir::Value value) { return shapes.dims(value.getType()); }
  int64_t rank(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType()).getRank();
  }
  mlir::Type element(mlir::Value value) { return mlir::getElementTypeOrSelf(value.getType()); }
  /// The least that the size is in any run.
  int64_t least(mlir::AffineExpr size);
  std::optional<int64_t> known(mlir::AffineExpr size) const;
  mlir::AffineExpr size(int64_t value) const { return shapes.constant(value); }
  /// A drawn dimension, perhaps a symbol.
  mlir::AffineExpr drawDim();
  Dims drawDims(int64_t rank);
  mlir::Type drawFloat();
  mlir::Type drawInteger();
  mlir::Type drawElement();
  int64_t between(int64_t low, int64_t high) { return random.integer(low, high); }
  bool chance(double probability) { return random.chance(probability); }

  mlir::NamedAttribute i64(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute i64s(llvm::StringRef name, llvm::ArrayRef<int64_t> values);
  mlir::NamedAttribute flag(llvm::StringRef name, bool value);
  mlir::NamedAttribute text(llvm::StringRef name, llvm::StringRef value);
  mlir::NamedAttribute real(llvm::StringRef name, double value);
  mlir::NamedAttribute type(llvm::StringRef name, mlir::Type value);
  llvm::SmallVector<int64_t> permutation(int64_t rank);

  Random random;
  mlir::MLIRContext *context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  mlir::OpBuilder builder;
  graph::ShapeContext shapes;
  graph::GraphBuilder graph;
  /// Whether the operator being drawn takes exact operands alone.
  bool exactOnly = false;
  /// Whether an operator was asked for by its name, to be followed by others: rare operands, too.
  bool drawsRare = false;

private:
  struct Known {
    HostTensor tensor;
    bool exact;
  };

  void drawSymbols();
  bool drawNode();
  bool drawNode(const struct DrawnOperator &drawn);
  bool accept(mlir::Operation *op);
  bool isSane(mlir::Operation *op, llvm::ArrayRef<HostTensor> results);
  void nameNode();
  void finish();
  HostTensor valuesFor(DataType type, const Shape &shape, llvm::StringRef kind, uint64_t seed);

  llvm::SmallVector<mlir::Type> elements_;
  std::vector<Sizes> runs_;
  Sizes sizes_; // of the first run, with the symbols that the graph made
  llvm::SmallVector<mlir::AffineExpr> symbols_;
  llvm::DenseMap<mlir::Value, Known> known_;
  llvm::SmallVector<mlir::Value> values_;                     // that later nodes may use
  llvm::SmallVector<std::pair<int64_t, std::string>> inputs_; // seed and kind
  int64_t largest_ = 4096;
  int nodes_ = 0;
  bool special_ = false;
};

/// Draws one operator of that name; null where it didn't come to one. Of no weight: where it is
/// asked for by its name alone (Generator::runOperator).
using Recipe = mlir::Operation *(*)(Generator &, llvm::StringRef name);

struct NamedRecipe {
  llvm::StringRef name;
  Recipe recipe;
  double weight = 1;
};
/// The families' tables, each in the file that it is named after.
llvm::ArrayRef<NamedRecipe> contractionRecipes();
llvm::ArrayRef<NamedRecipe> creationRecipes();
llvm::ArrayRef<NamedRecipe> elementwiseRecipes();
llvm::ArrayRef<NamedRecipe> gatherRecipes();
llvm::ArrayRef<NamedRecipe> movementRecipes();
llvm::ArrayRef<NamedRecipe> normalizationRecipes();
llvm::ArrayRef<NamedRecipe> resamplingRecipes();
llvm::ArrayRef<NamedRecipe> transformRecipes();
llvm::ArrayRef<NamedRecipe> windowRecipes();

/// Operators of tensors alone and of attributes that its name says how to draw.
mlir::Operation *drawByRecord(Generator &generator, llvm::StringRef name);

struct DrawnOperator {
  mlir::OperationName name;
  Recipe recipe;
  double weight;
};
/// What may be drawn: the dialect's registered operators but for those of sequences, control flow
/// and the compiler's own.
const std::vector<DrawnOperator> &operatorsToDraw(mlir::MLIRContext *context);

} // namespace tensmith::random_graphs
