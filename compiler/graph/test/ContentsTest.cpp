// What is remembered of contents is of the operation, not of whatever has its place in memory
// later.
#include "compiler/graph/Dialects.h"
#include "compiler/graph/GraphBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tensmith::graph {
namespace {

class ContentsOf : public testing::Test {
protected:
  ContentsOf() : context(registry(), MLIRContext::Threading::DISABLED), shapes(&context) {
    context.loadAllAvailableDialects();
    auto size = [&](const char *name) { return shapes.symbol(StringAttr::get(&context, name)); };
    auto type = [&](AffineExpr size) {
      return shapes.tensorType(Float32Type::get(&context), size);
    };
    n = size("n"), m = size("m");
    Location location = UnknownLoc::get(&context);
    function =
        func::FuncOp::create(location, "main", FunctionType::get(&context, {type(n), type(m)}, {}));
    builder = std::make_unique<OpBuilder>(function->addEntryBlock(), Block::iterator());
    builder->setInsertionPointToEnd(&function->getBody().front());
    graph = std::make_unique<GraphBuilder>(*builder, shapes, location);
  }

  static DialectRegistry registry() {
    DialectRegistry registry;
    registerDialects(registry);
    registry.insert<func::FuncDialect>();
    return registry;
  }

  Value input(unsigned number) { return function->getArgument(number); }
  AffineExpr only(Value value) {
    auto contents = shapes.contents(value);
    return contents && contents->size() == 1 ? contents->front() : AffineExpr();
  }

  MLIRContext context;
  ShapeContext shapes;
  AffineExpr n, m;
  OwningOpRef<func::FuncOp> function;
  std::unique_ptr<OpBuilder> builder;
  std::unique_ptr<GraphBuilder> graph;
};

constexpr int kTries = 1000; // until memory is given out again: at once, by the usual allocators

// Breaks if the builder takes what it asks for from what was remembered.
TEST_F(ContentsOf, AnOperationAtTheAddressOfAnErasedOne) {
  for (int i = 0; i < kTries; ++i) {
    unsigned number = unsigned(i % 3 == 0);
    Value shape = graph->unary("graph.shape", input(number));
    ASSERT_EQ(only(shape), number ? m : n) << "operation " << i;
    shape.getDefiningOp()->erase();
  }
}

// Breaks if copies are not listened to.
TEST_F(ContentsOf, ACopyAtTheAddressOfAnErasedOne) {
  Operation *ofN = graph->unary("graph.shape", input(0)).getDefiningOp();
  Operation *ofM = graph->unary("graph.shape", input(1)).getDefiningOp();
  ForgettingListener forgetting(shapes);
  builder->setListener(&forgetting);
  for (int i = 0; i < kTries; ++i) {
    Operation *copy = builder->clone(i % 3 == 0 ? *ofM : *ofN);
    ASSERT_EQ(only(copy->getResult(0)), i % 3 == 0 ? m : n) << "copy " << i;
    copy->erase();
  }
}

} // namespace
} // namespace tensmith::graph
