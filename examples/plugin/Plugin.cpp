// What the example adds to Tensmith, a line for each part.
#include "Example.h"

using namespace tensmith;

namespace example {

/// Nodes of the domain "example" in ONNX models.
static constexpr graph::ModelName kNames[] = {{"example:SoftThreshold", "example.soft_threshold"},
                                              {"example:Difference", "example.difference"}};

static constexpr rewrite::Rewrite kRewrites[] = {
    {"example-recognise-soft-threshold", "take soft thresholds for what they are",
     recogniseSoftThreshold, /*after=*/"graph-simplify"}};

static constexpr targets::TargetKind kTargets[] = {{"four", openFour}};

} // namespace example

TENSMITH_PLUGIN(registry) {
  registry.addDialect<example::ExampleDialect>();
  registry.add(example::kNames);
  registry.add(example::references());
  registry.add(example::gradients());
  registry.add(example::kRewrites);
  registry.add(example::kDifferences);
  registry.add(example::kTargets);
}
