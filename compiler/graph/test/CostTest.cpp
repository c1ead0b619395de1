// What records say that operators have to do, over sizes.
#include "compiler/graph/Dialects.h"
#include "compiler/graph/GraphBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tensmith::graph {
namespace {

class CostOf : public testing::Test {
protected:
  CostOf() : context(registry(), MLIRContext::Threading::DISABLED), shapes(&context) {
    context.loadAllAvailableDialects();
    n = shapes.symbol(StringAttr::get(&context, "n"));
    function = func::FuncOp::create(UnknownLoc::get(&context), "main",
                                    FunctionType::get(&context, {}, {}));
    builder = std::make_unique<OpBuilder>(function->addEntryBlock(), Block::iterator());
    builder->setInsertionPointToEnd(&function->getBody().front());
    graph = std::make_unique<GraphBuilder>(*builder, shapes, UnknownLoc::get(&context));
  }

  Value input(std::initializer_list<AffineExpr> dims) {
    return function->getBody().front().addArgument(
        shapes.tensorType(Float32Type::get(&context), SmallVector<AffineExpr>(dims)),
        UnknownLoc::get(&context));
  }
  AffineExpr size(int64_t value) { return shapes.constant(value); }

  /// With n of 10.
  int64_t operations(Operation *op) {
    AffineExpr all = cast<Cost>(op).operations(shapes).replaceSymbols({size(10)});
    return cast<AffineConstantExpr>(shapes.simplify(all)).getValue();
  }
  NamedAttribute integers(StringRef name, ArrayRef<int64_t> values) {
    return graph->named(name, builder->getDenseI64ArrayAttr(values));
  }

  static DialectRegistry registry() {
    DialectRegistry registry;
    registerDialects(registry);
    registry.insert<func::FuncDialect>();
    return registry;
  }

  MLIRContext context;
  ShapeContext shapes;
  AffineExpr n;
  OwningOpRef<func::FuncOp> function;
  std::unique_ptr<OpBuilder> builder;
  std::unique_ptr<GraphBuilder> graph;
};

TEST_F(CostOf, ProductsIsTwoForEachMultiplyAdd) {
  EXPECT_EQ(operations(graph->create("matmul", {input({n, size(3)}), input({size(3), size(5)})})),
            10 * 3 * 5 * 2);
}

TEST_F(CostOf, WindowsIsThatOfTheirTaps) {
  Value x = input({n, size(4), size(8), size(8)});
  Operation *conv = graph->create(
      "conv", {x, input({size(6), size(4), size(3), size(3)}), graph->none()},
      {integers("strides", {1, 1}), integers("pads", {1, 1, 1, 1}), integers("dilations", {1, 1})});
  EXPECT_EQ(operations(conv), 10 * 6 * 64 * 4 * 9 * 2);
  Operation *pool = graph->create("max_pool", {x},
                                  {integers("kernel", {2, 2}), integers("strides", {2, 2}),
                                   integers("pads", {0, 0, 0, 0}), integers("dilations", {1, 1})});
  EXPECT_EQ(operations(pool), 10 * 4 * 16 * 4);
}

// Breaks if an operator's own record no longer overrides that of its kind.
TEST_F(CostOf, RecordsOverThatOfTheirKind) {
  Value x = input({n, size(4)});
  EXPECT_EQ(operations(graph->create("exp", {x})), 40);
  EXPECT_EQ(operations(graph->create("softmax", {x},
                                     {graph->named("axis", builder->getI64IntegerAttr(1))})),
            200);
  EXPECT_EQ(operations(graph->create("reduce_sum", {x}, {integers("axes", {1})})), 40);
  EXPECT_EQ(operations(graph->create("transpose", {x}, {integers("permutation", {1, 0})})), 0);
}

// Breaks if a head counts its batch or its neighbours.
TEST_F(CostOf, AttentionIsTwoProductsOfItsHeads) {
  Value q = input({n, size(3), size(5), size(8)}), k = input({n, size(3), size(7), size(8)});
  Value none = graph->none();
  EXPECT_EQ(operations(graph->create("attention", {q, k, k, none, none, none, none})),
            2 * (10 * 3 * 5 * 7 * 8 * 2));
}

TEST_F(CostOf, RecurrencesIsThatOfTheirProducts) {
  Value x = input({size(6), n, size(4)}), w = input({size(1), size(20), size(4)}),
        r = input({size(1), size(20), size(5)}), none = graph->none();
  Operation *lstm = graph->create(
      "lstm", {x, w, r, none, none, none, none, none},
      {graph->named("hidden_size", builder->getI64IntegerAttr(5)),
       graph->named("activations", builder->getStrArrayAttr({"Sigmoid", "Tanh", "Tanh"}))});
  EXPECT_EQ(operations(lstm), 6 * 10 * 20 * (4 + 5) * 2);
}

TEST_F(CostOf, AnElementIsWhatItsCodeIs) {
  Value x = input({n});
  auto additions = [&](const char *name, ValueRange operands) {
    return cast<Elementwise>(graph->create(name, operands)).additions();
  };
  EXPECT_EQ(additions("add", {x, x}), 1);
  EXPECT_EQ(additions("div", {x, x}), 4);
  EXPECT_EQ(additions("tanh", {x}), 12);
  EXPECT_EQ(additions("pow", {x, x}), kAdditionsOfFunction);
}

} // namespace
} // namespace tensmith::graph
