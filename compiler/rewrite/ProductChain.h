// Chains of products in a graph: found, and built in another order.
//
// A chain goes through what stands between its products and moves out of it: transpositions of
// matrices, which turn round what is behind them, reshapes between vectors and matrices of one row
// or column, negation, and multiplication with or division by one number. So
//
//   matmul(transpose(matmul(s * matmul(a, b), c)), v)   is   s * (c' b' a' v)
//
// A product that several read is a part of all their chains, which is given once it is computed.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphCode.h"
#include "compiler/rewrite/ProductOrder.h"

#include "llvm/ADT/SetVector.h"

namespace tensmith::rewrite {

/// A matrix, or a stack of them, or a vector; a vector is a column unless it is turned.
struct Factor {
  mlir::Value value;
  bool isTurned, isVector;
};

struct Scale {
  mlir::Value number; // of one element
  bool divides;
};

/// A product as it stands in the graph: of the factors from first to last, or the transpose of
/// that.
struct ChainPart {
  unsigned first, last;
  mlir::Value value;
  bool isTurned;
};

struct ProductChain {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<FactorSizes> sizes; // of each factor
  llvm::SmallVector<Scale> scales;
  bool isNegative = false, keepsPrecision = false;
  size_t products = 0;  // that it was collected from
  OperationCount count; // as it stands, but for parts that others have, too
  llvm::SmallVector<ChainPart> parts;

  bool hasStacks() const;
  bool isConstant(unsigned first, unsigned last) const;
};

/// Values of parts by their factors, either way round: the product of transposes is the transpose
/// of the product.
class KnownProducts {
public:
  using Text = llvm::SmallVector<std::pair<void *, bool>>;

  bool has(const ProductChain &chain, unsigned first, unsigned last) const;
  void add(const ProductChain &chain, const ChainPart &part);
  /// Null: none; `isTurned`: it is the transpose of the part.
  mlir::Value find(const ProductChain &chain, unsigned first, unsigned last, bool &isTurned) const;

private:
  std::map<Text, std::pair<mlir::Value, bool>> values_;
};

/// Of one block.
class ProductGraph {
public:
  /// `keepsSums`: floating-point sums stay as they are; those of integers have no rounding.
  ProductGraph(mlir::Block &block, graph::ShapeContext &shapes, bool keepsSums);

  llvm::ArrayRef<graph::MatMulOp> products() const { return products_; }
  /// Whether the product is an inner part of one chain alone.
  bool isInner(graph::MatMulOp product) const;
  /// Those that read the product, if all do so as a part of their chain, and if there are several:
  /// the last products of these chains. Else none.
  llvm::SetVector<mlir::Operation *> chainsThatShare(graph::MatMulOp product) const;
  ProductChain chainOf(graph::MatMulOp last) const;
  /// The product is not computed for itself any more: each chain has its factors.
  void expand(graph::MatMulOp product) { expanded_.insert(product); }
  void keep(graph::MatMulOp product) { expanded_.erase(product); }

  /// The product of a sum as the sum of two products, by the distributive law.
  struct Distribution {
    mlir::Operation *sum; // an addition or a subtraction
    ProductChain terms[2];
    std::vector<ProductChain> own; // products that are terms of the sum as it stands
  };
  /// One for each factor that is a sum of a product which it alone reads, and of what broadcasts as
  /// it does.
  std::vector<Distribution> distributions(const ProductChain &chain) const;

private:
  bool isPart(mlir::Operation *op) const;
  bool isShared(graph::MatMulOp product) const;
  mlir::Operation *chainEnd(mlir::Operation *product) const;
  void collect(mlir::Value value, bool isTurned, bool counts, ProductChain &chain) const;
  void collectProduct(graph::MatMulOp product, bool isTurned, bool counts,
                      ProductChain &chain) const;
  bool collectScaled(mlir::Operation *op, bool isTurned, bool counts, ProductChain &chain) const;
  void addFactor(mlir::Value value, bool isTurned, ProductChain &chain) const;
  std::optional<Distribution> distribution(const ProductChain &chain, unsigned position) const;
  bool addTerm(mlir::Value term, const ProductChain &whole, unsigned position,
               ProductChain &chain) const;

  mlir::Block &block_;
  graph::ShapeContext &shapes_;
  bool keepsSums_;
  llvm::SmallVector<graph::MatMulOp> products_;
  llvm::SmallPtrSet<mlir::Operation *, 8> expanded_;
};

/// Builds chains at a place.
class ChainBuilder {
public:
  /// `notes`: what is built is there for all that follows.
  ChainBuilder(graph::GraphBuilder &graph, const ProductChain &chain, KnownProducts &known,
               bool notes)
      : graph_(graph), code_(graph), chain_(chain), known_(known), notes_(notes) {}

  /// The product in that order, with scale and sign; null after an error.
  mlir::Value build(const ProductTree &tree);
  /// How many multiplications the order takes, as a scalar of i64.
  mlir::Value count(const ProductTree &tree);

private:
  mlir::Value part(const ProductTree &tree);
  mlir::Value product(const ProductTree &tree);
  mlir::Value factor(unsigned number);
  mlir::Value given(const ProductTree &part);
  mlir::Value turned(mlir::Value part);
  mlir::Value sizeOf(unsigned factor, bool isRows);
  mlir::Value stackSize(unsigned first, unsigned last);

  graph::GraphBuilder &graph_;
  graph::GraphCode code_;
  const ProductChain &chain_;
  KnownProducts &known_;
  bool notes_;
};

/// The value as one of the type where it is that but for dimensions of 1; else null.
mlir::Value asType(graph::GraphBuilder &graph, mlir::Value value, mlir::RankedTensorType type);

} // namespace tensmith::rewrite
