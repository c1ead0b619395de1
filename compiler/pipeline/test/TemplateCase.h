// A small graph through the whole pipeline and run, against the evaluation of the same graph: what
// the tests of the kernels' templates draw their cases with.
//
// Floats are small whole numbers unless a test asks for more, so that sums of products are exact in
// whatever order they are made: then nothing but equality passes, and no tolerance hides a missing
// or repeated element.
#pragma once

#include "compiler/graph/GraphBuilder.h"
#include "compiler/pipeline/test/GuardedMemory.h"
#include "runtime/Session.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tensmith::pipeline {

/// What the elements of an operand are drawn from.
enum class Fill : uint8_t {
  Whole,  // -3 ... 3, and 0 ... 3 for what has no sign
  Signs,  // 1, -1 and few 2: products of many stay finite and exact
  Real,   // of [-2, 2)
  Masked, // of [-2, 2), and one in four is -inf
  Index,  // of [-bound, bound)
};

/// A size, or the name of one that only the run knows.
struct Dim {
  int64_t size = 0;
  std::string symbol;
  Dim(int64_t size) : size(size) {}
  Dim(int size) : size(size) {}
  Dim(const char *symbol) : symbol(symbol) {}
};
using Dims = std::vector<Dim>;
Dims dimsOf(const Shape &shape);

/// The symbols' values of one run.
using Sizes = std::map<std::string, int64_t>;

class TemplateCase {
public:
  explicit TemplateCase(unsigned seed);

  // Drawing.
  int64_t among(std::initializer_list<int64_t> values) {
    return *(values.begin() + random() % values.size());
  }
  int64_t between(int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  }
  bool chance(int percent) { return int(random() % 100) < percent; }

  // Building.
  mlir::Value input(DataType type, const Dims &dims, Fill fill = Fill::Whole, int64_t bound = 0);
  mlir::Value constant(DataType type, const Shape &shape, Fill fill = Fill::Whole,
                       int64_t bound = 0);
  mlir::Value scalar(DataType type, double value);
  mlir::Value none() { return graph.none(); }
  /// The first result; null, and a failure noted, where the operands don't fit.
  mlir::Value op(llvm::StringRef name, mlir::ValueRange operands,
                 llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  mlir::Value transposeLast(mlir::Value x);
  Shape shape(mlir::Value value) const;
  DataType type(mlir::Value value) const;
  int64_t rank(mlir::Value value) const { return int64_t(shape(value).size()); }
  mlir::NamedAttribute i64(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute i64s(llvm::StringRef name, llvm::ArrayRef<int64_t> values);
  mlir::NamedAttribute flag(llvm::StringRef name, bool value);
  mlir::NamedAttribute text(llvm::StringRef name, llvm::StringRef value);

  /// Compiles the graph with that result and compares its runs, on one thread and on three. `kind`:
  /// what one of its kernels has to be (empty: any); `tolerance`: relative to the result and 1.
  void check(mlir::Value result, llvm::StringRef kind, double tolerance = 0,
             const std::vector<Sizes> &runs = {{}});

  std::string target; // that it is compiled for, which has to run here; empty: the host
  std::mt19937 random;
  mlir::MLIRContext *context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  mlir::OpBuilder builder;
  graph::ShapeContext shapes;
  graph::GraphBuilder graph;

private:
  struct Input {
    DataType type;
    Dims dims;
    Fill fill;
    int64_t bound;
  };
  struct Run {
    Sizes sizes;
    std::vector<HostTensor> inputs, expected;
  };

  HostTensor draw(DataType type, const Shape &shape, Fill fill, int64_t bound);
  void evaluate(const Sizes &sizes, std::vector<Run> &runs);
  void compare(std::span<const std::byte> module, std::span<const Run> runs, double tolerance);
  void compare(runtime::Session &session, const Run &run, Against side, double tolerance,
               const std::string &at);

  unsigned seed_;
  std::vector<Input> inputs_;
  bool broken_ = false;
  std::string text_;
};

/// The rounding unit that results of the type are compared to.
double roundingOf(DataType type);

} // namespace tensmith::pipeline
