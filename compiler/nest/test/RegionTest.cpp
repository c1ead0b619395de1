// Which regions of kernels the template of nests takes where a schedule asks for one.
//
// Fails where a region that loops can't compute is taken for a nest that can't be scheduled:
// nothing but the reference would be left for it.
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/targets/cpu/templates/Templates.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tensmith::nest {
namespace {

/// The template that takes softmax(x + slice(t)), t of rows of that many, as a nest is asked for.
std::string takenBy(const std::string &rows) {
  DialectRegistry registry;
  graph::registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  std::string text = R"(
!x = tensor<?x16xf32, #graph.dims<["n"], ()[s0] -> (s0, 16)>>
!t = tensor<?x16xf32, #graph.dims<[")" +
                     rows + R"("], ()[s0] -> (s0, 16)>>
func.func @f(%x: !x, %t: !t) -> !x {
  %0 = "graph.kernel"(%x, %t) <{kind = "", label = ""}> ({
  ^bb0(%a: !x, %b: !t):
    %1 = "graph.slice"(%b) {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (!t) -> !x
    %2 = "graph.add"(%a, %1) : (!x, !x) -> !x
    %3 = "graph.softmax"(%2) {axis = 1 : i64} : (!x) -> !x
    "graph.yield"(%3) : (!x) -> ()
  }) {tensmith.nest} : (!x, !t) -> !x
  return %0 : !x
})";
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return "none: it is not read";
  kernel::Machine machine;
  machine.templates = &targets::cpu::templates();
  std::string kind;
  module->walk([&](graph::KernelOp kernel) {
    kernel::matchTemplate(kernel, machine);
    kind = kernel.getKind().str();
  });
  return kind;
}

TEST(RegionNests, AreTakenWhereTheyCanBeScheduled) {
  EXPECT_EQ(takenBy("n"), "nest");
  // Only a check of the run keeps n rows within m: no proof says that nothing outside is read.
  EXPECT_EQ(takenBy("m"), "rows");
}

} // namespace
} // namespace tensmith::nest
