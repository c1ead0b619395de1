// Every operator says how changes go through it, or that they don't.
#include "compiler/graph/Gradient.h"
#include "compiler/graph/Dialects.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tensmith::graph {
namespace {

TEST(Gradients, EveryOperatorHasARuleOrADecompositionOrSaysThatItHasNone) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  int operators = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations()) {
    // Control flow is transformed by compiler/autodiff itself.
    static const StringRef kControl[] = {"if", "loop", "yield"};
    if (name.getDialectNamespace() != "graph" || llvm::is_contained(kControl, name.stripDialect()))
      continue;
    ++operators;
    EXPECT_TRUE(findGradientRule(name) || name.hasInterface<Decomposable>())
        << "'" << name.stripDialect().str()
        << "' has no rule and no decomposition; if it has no derivative, its family's table says "
           "so";
  }
  EXPECT_GT(operators, 100);
}

TEST(Gradients, RulesAreOfOperatorsThatThereAre) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  for (auto table :
       {elementwiseGradients(), reductionGradients(), movementGradients(), gatherGradients(),
        contractionGradients(), convolutionGradients(), poolingGradients(), resamplingGradients(),
        normalizationGradients(), creationGradients(), sequenceGradients(), otherGradients()})
    for (const NamedGradientRule &entry : table)
      EXPECT_TRUE(OperationName(("graph." + entry.name).str(), &context).isRegistered())
          << entry.name.str();
}

} // namespace
} // namespace tensmith::graph
