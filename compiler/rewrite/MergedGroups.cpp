// Weights with zeros between groups; see MergedGroups.h.
#include "compiler/rewrite/MergedGroups.h"

#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"

using namespace mlir;

namespace tensmith::rewrite {

int64_t groupsToMerge(graph::ConvOp conv, const kernel::MachineShape &machine) {
  // Of fewer, more than the unit is faster by would be zeros.
  constexpr int64_t kLeastChannels = 8, kChannelsOfStep = 32, kColumnsOfTile = 16;
  if (machine.bfloatProducts != kernel::BfloatProducts::Tiles || !kernel::hasSmallGroups(conv))
    return 0;
  int64_t channels = cast<RankedTensorType>(conv.getW().getType()).getDimSize(1);
  if (channels < kLeastChannels)
    return 0;
  for (int64_t together : {kChannelsOfStep, kColumnsOfTile})
    if (int64_t count = together / channels; count > 0 && int64_t(conv.getGroup()) % count == 0)
      return count;
  return 0;
}

void mergeGroups(graph::ConvOp conv, const HostTensor &weights, int64_t count) {
  if (count == 1)
    return;
  Shape shape = weights.shape();
  int64_t outputs = shape[0], run = weights.size() / outputs; // of an output
  int64_t outputsOfGroup = outputs / int64_t(conv.getGroup());
  shape[1] *= count;
  HostTensor merged(DataType::F32, shape);
  for (int64_t output = 0; output < outputs; ++output)
    llvm::copy(weights.as<float>().subspan(size_t(output * run), size_t(run)),
               merged.as<float>().begin() +
                   (output * count + output / outputsOfGroup % count) * run);
  OpBuilder builder(conv);
  graph::ShapeContext shapes(conv.getContext());
  conv.getWMutable().assign(graph::GraphBuilder(builder, shapes, conv.getLoc()).constant(merged));
  conv.setGroup(uint64_t(conv.getGroup()) / uint64_t(count));
}

} // namespace tensmith::rewrite
