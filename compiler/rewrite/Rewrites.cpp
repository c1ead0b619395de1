// The table of rewrites. A new one is declared in a header of its own, since dozens of files would
// be built again after a change of Rewrites.h.
#include "compiler/rewrite/Rewrites.h"

#include "compiler/rewrite/FourierPasses.h"
#include "compiler/rewrite/ShareKernels.h"

namespace tensmith::rewrite {

Table<Rewrite> &rewrites() {
  static constexpr Rewrite kRewrites[] = {
      {"graph-check-sizes", "check what operators require of sizes that only a run tells",
       checkSizes},
      {"graph-prove-sizes", "refuse kernels that rely on sizes of which nothing is checked",
       proveSizes},
      {"graph-decompose", "replace larger operators that no kernel takes whole", decompose},
      {"graph-simplify", "remove what does nothing", simplify},
      {"graph-fold-constants", "evaluate operators on constants", foldConstants},
      {"graph-order-products", "multiply chains of products in the best order", orderProducts},
      {"graph-integer-products", "multiply codes, not the numbers that they stand for",
       multiplyIntegers},
      {"graph-pooled-codes", "take the largest of codes before they are scaled", poolCodes},
      {"graph-rounded-scales", "multiply scales of what is rounded into constants", mergeScales},
      {"graph-integer-codes", "limit numbers that become codes as integers", limitCodes},
      {"graph-layout", "make convolutions channels-last", chooseLayout},
      {"graph-libraries", "let libraries do operators", callLibraries},
      {"graph-fourier",
       "compute convolutions with large windows by Fourier transforms where that is faster",
       fourier},
      {"graph-fourier-passes",
       "compute convolutions of changing weights, and their gradients, by Fourier transforms where "
       "that is faster",
       fourierPasses},
      {"graph-winograd", "compute convolutions by minimal filtering where that is faster",
       winograd},
      {"graph-strassen", "compute large products by seven of quarters where that is faster",
       strassen},
      {"graph-narrow-operands", "keep operands of products in fewer bits where that is faster",
       narrowOperands},
      {"graph-merge-groups", "make one of groups of few channels for a matrix unit", mergeGroups},
      {"graph-narrow-results", "round what products read rounded for its other readers, too",
       narrowResults},
      {"graph-round-early", "round numbers before they are moved", roundEarly},
      {"graph-mixed-precision", "round factors of products of a step of training", mixPrecision},
      {"graph-straighten", "make straight code of known branches and short loops", straighten},
      {"graph-merge-scans", "stack what a loop gives once", mergeScans},
      {"graph-one-hot-sums", "take an element instead of a sum with zeros", pickOneHot},
      {"graph-sum-columns", "sum columns where a product with ones would pack them", sumColumns},
      {"graph-turn-products", "turn products around where less is packed for them then",
       turnProducts},
      {"graph-compile-loops", "make kernels of loops with small bodies", compileLoops},
      {"graph-fuse-updates", "make one kernel of results that are made of the same elements",
       fuseUpdates},
      {"graph-repeat-elementwise", "compute cheap element-wise values again where they are read",
       repeatElementwise},
      {"graph-attention-gradients",
       "make one kernel of attention's gradient and the scores, which it makes again",
       fuseAttentionGradients},
      {"graph-fuse-rows", "make one kernel of a row operator and what is made of its rows",
       fuseRows},
      {"graph-sum-rows", "sum rows where a product of one row would pack them", sumRows},
      {"graph-fuse", "cut the graph into kernels", fuse},
      {"graph-hoist", "move kernels out of loops that give the same each time", hoist},
      {"graph-order-updates", "update states after their old values were read", orderUpdates},
      {"graph-join-in-place", "compute what is joined where it lies in the result", joinInPlace},
      {"graph-share-kernels", "make one kernel of those that differ by numbers", shareKernels},
  };
  static Table<Rewrite> all("rewrite", {std::span<const Rewrite>(kRewrites)});
  return all;
}

} // namespace tensmith::rewrite
