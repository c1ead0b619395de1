// Weights with zeros between groups; see MergedGroups.h.
#include "compiler/rewrite/MergedGroups.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"

#include <cstring>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using kernel::Number;

struct Elements {
  int64_t ofStep, least; // channels that fill a line of a tile; of a group that takes it to pay
};

/// Nothing where the unit doesn't multiply the convolution's.
std::optional<Elements> elementsOf(graph::ConvOp conv, const kernel::Machine &machine) {
  // A group of fewer channels would be zeros to a larger part than the unit is faster.
  constexpr Elements kBfloats{32, 8}, kBytes{64, 4};
  Type x = getElementTypeOrSelf(conv.getX().getType());
  Type w = getElementTypeOrSelf(conv.getW().getType());
  if (x.isF32() && w.isF32() && machine.tileProducts(Number::BF16, Number::BF16, Number::F32))
    return kBfloats;
  if (machine.tileProducts(x, w, IntegerType::get(conv.getContext(), 32)))
    return kBytes;
  return std::nullopt;
}

HostTensor merged(const HostTensor &weights, int64_t groups, int64_t count) {
  Shape shape = weights.shape();
  int64_t outputs = shape[0], run = weights.bytes() / outputs; // of an output
  shape[1] *= count;
  HostTensor result(weights.type(), shape);
  for (int64_t output = 0; output < outputs; ++output) {
    int64_t place = output / (outputs / groups) % count;
    std::memcpy(result.mutableData() + (output * count + place) * run,
                weights.data() + output * run, size_t(run));
  }
  return result;
}

void merge(graph::ConvOp conv, int64_t count) {
  SmallVector<Type> casts; // the last first
  Value value = conv.getW();
  while (auto cast = value.getDefiningOp<graph::CastOp>()) {
    casts.push_back(getElementTypeOrSelf(cast.getType()));
    value = cast.getX();
  }
  auto weights = graph::constantTensor(value);
  if (!weights)
    return;
  OpBuilder builder(conv);
  graph::ShapeContext shapes(conv.getContext());
  graph::GraphBuilder graph(builder, shapes, conv.getLoc());
  value = graph.constant(merged(*weights, int64_t(conv.getGroup()), count));
  for (Type type : llvm::reverse(casts))
    value = graph.cast(value, type);
  conv.getWMutable().assign(value);
  conv.setGroup(conv.getGroup() / uint64_t(count));
}

} // namespace

int64_t groupsToMerge(graph::ConvOp conv, const Options &options) {
  auto elements = elementsOf(conv, options.machine);
  auto weights = dyn_cast<RankedTensorType>(conv.getW().getType());
  int64_t groups = int64_t(conv.getGroup());
  if (!elements || !weights || !weights.hasStaticShape() || !graph::isChannelsLast(conv) ||
      groups == 1 || options.asked(conv)[kernel::choice::tileRows])
    return 0;
  constexpr int64_t kColumns = 16;
  int64_t channels = weights.getDimSize(1), outputs = weights.getDimSize(0) / groups;
  if (channels < elements->least)
    return 0;
  for (int64_t together : {elements->ofStep, kColumns})
    if (int64_t count = together / channels; count > 0 && together % channels == 0 &&
                                             groups % count == 0 && count * outputs % kColumns == 0)
      return count;
  return 0;
}

LogicalResult mergeGroups(func::FuncOp function, const Options &options) {
  function.walk([&](graph::ConvOp conv) {
    int64_t count = groupsToMerge(conv, options);
    if (count > 1 && kernel::suitsMatrixUnit(options.machine, conv))
      merge(conv, count);
  });
  return success();
}

} // namespace tensmith::rewrite
