// Groups of pools, and both estimates of each; see LayoutCost.h.
#include "compiler/rewrite/LayoutCost.h"

#include "compiler/graph/Bounds.h"
#include "compiler/graph/ChannelOrder.h"
#include "compiler/graph/Graph.h"
#include "compiler/kernel/CostModel.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

bool isPool(Operation *op) {
  return isa<graph::MaxPoolOp, graph::AveragePoolOp, graph::LpPoolOp>(op);
}

ArrayRef<int64_t> numbers(Operation *pool, StringRef name) {
  return pool->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef();
}

/// Bytes of a value of known sizes; of others, of one at each unknown.
double bytesOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.getElementType().isIntOrFloat())
    return 0;
  double bytes = type.getElementTypeBitWidth() / 8.0;
  for (int64_t size : type.getShape())
    bytes *= ShapedType::isDynamic(size) ? 1 : double(size);
  return bytes;
}

/// Operators that one transposition would be moved through, and where it would stop.
class Group {
public:
  Group(Operation *pool, const kernel::Machine &machine) : machine_(machine) {
    members_.insert(pool);
    for (size_t next = 0; next < members_.size() && !hasConvolution_; ++next) {
      for (Value operand : members_[next]->getOperands())
        meet(operand, operand.getDefiningOp());
      for (Value result : members_[next]->getResults())
        for (Operation *user : result.getUsers())
          meet(result, user);
    }
  }

  ArrayRef<Operation *> members() const { return members_.getArrayRef(); }
  bool hasConvolution() const { return hasConvolution_; }

  /// By the estimates of both orders.
  bool staysFirst() const {
    double first = 0, last = 0;
    for (Operation *op : members_)
      if (isPool(op)) {
        first += cycles(op, /*channelsLast=*/false);
        last += cycles(op, /*channelsLast=*/true);
      }
    auto turning = [&](double bytes) {
      return kernel::cyclesOf(kernel::Transposition{bytes}, machine_);
    };
    for (Value border : borders_)
      last += turning(bytesOf(border));
    for (Value turned : turned_)
      first += turning(bytesOf(turned));
    return first < last;
  }

private:
  /// The value stands between a member and that operator; null: an argument of the block.
  void meet(Value value, Operation *op) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || type.getRank() < 3 || (op && isa<graph::ConstantOp, graph::NoneOp>(op)))
      return;
    if (op && isa<graph::TransposeOp>(op)) {
      turned_.insert(value); // which channels-last would take away
    } else if (op && passesTransposition(op)) {
      hasConvolution_ |= isa<graph::ConvOp>(op);
      members_.insert(op);
    } else {
      borders_.insert(value);
    }
  }

  double cycles(Operation *pool, bool channelsLast) const {
    auto type = dyn_cast<RankedTensorType>(pool->getResult(0).getType());
    if (!type)
      return 0;
    ArrayRef<int64_t> window = numbers(pool, "kernel"), strides = numbers(pool, "strides");
    double lanes = double(machine_.lanes(sizeof(float)));
    int64_t line = type.getDimSize(channelsLast ? 1 : type.getRank() - 1);
    double along = ShapedType::isDynamic(line) ? lanes : double(line);
    double positions = bytesOf(pool->getResult(0)) / (type.getElementTypeBitWidth() / 8.0);
    for (int64_t size : window)
      positions *= double(size);
    double vectors = positions / along * std::ceil(along / lanes);
    using Access = kernel::Windows::Access;
    bool isTogether = channelsLast || strides.back() == 1;
    Access access = isTogether                        ? Access::Together
                    : window.back() <= strides.back() ? Access::Apart
                                                      : Access::Gathered;
    return kernel::cyclesOf(kernel::Windows{vectors, access}, machine_);
  }

  const kernel::Machine &machine_;
  llvm::SetVector<Operation *> members_;
  llvm::SetVector<Value> borders_, turned_;
  bool hasConvolution_ = false;
};

} // namespace

bool passesTransposition(Operation *op) {
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
    auto from = dyn_cast<RankedTensorType>(broadcast.getX().getType()),
         to = dyn_cast<RankedTensorType>(broadcast.getType());
    return from && to && from.getRank() == to.getRank();
  }
  if (auto gather = dyn_cast<graph::GatherOp>(op)) {
    auto indices = dyn_cast<RankedTensorType>(gather.getIndices().getType());
    return op->hasAttr(graph::kInRange) && indices && indices.getRank() == 1;
  }
  return isa<graph::ShapeOp, graph::SizeOp, graph::Elementwise, graph::TransposeOp, graph::ConcatOp,
             graph::PadOp, graph::DynamicPadOp, graph::SliceOp, graph::ReduceSumOp,
             graph::ReduceMaxOp, graph::ReduceMinOp, graph::ReduceProdOp, graph::ConvOp,
             graph::MaxPoolOp, graph::AveragePoolOp, graph::LpPoolOp>(op);
}

/// For all pools of a group alike: as a schedule asks for one of them, or as estimates say.
static bool staysFirst(const Group &group, ArrayRef<Operation *> pools, const Options &options) {
  if (group.hasConvolution())
    return false;
  std::optional<int64_t> asked;
  for (Operation *pool : pools) {
    options.offer(pool, kernel::choice::channelsLast, {0, 1});
    asked = asked ? asked : options.asked(pool)[kernel::choice::channelsLast];
  }
  bool stays = asked ? *asked == 0 : group.staysFirst();
  kernel::Point chosen;
  chosen.set(kernel::choice::channelsLast, stays ? 0 : 1);
  for (Operation *pool : pools)
    options.made(pool, chosen, 0);
  return stays;
}

llvm::DenseSet<Operation *> poolsChannelsFirst(func::FuncOp function, const Options &options) {
  llvm::DenseSet<Operation *> first, seen;
  function.walk([&](Operation *op) {
    if (!isPool(op) || seen.contains(op))
      return;
    Group group(op, options.machine);
    SmallVector<Operation *> pools(llvm::make_filter_range(group.members(), isPool));
    seen.insert(group.members().begin(), group.members().end());
    if (staysFirst(group, pools, options))
      first.insert(pools.begin(), pools.end());
  });
  return first;
}

} // namespace tensmith::rewrite
