// What is joined is computed where it lies in the result, so that nothing has to be copied.
//
//   a = kernel(x), b = kernel(y), kernel(concat(a, b))
//     ->  a = kernel(x) at a pitch, b = kernel(y) at a pitch, concat(a, b) in place
//
// Parts along the last dimension, as the channels of images, are pieces of the result's rows, which
// the kernels that compute them store at its pitch. Parts along the first dimension that is not 1
// lie one behind the other, and are stored as ever. The planner gives all of them their places in
// the result's memory (compiler/vm/FunctionBuilder.h). What others read, too, or no kernel
// computes, is copied there: by kernels that join neighbours of the kind.
#include "compiler/graph/Graph.h"
#include "compiler/rewrite/KernelRegion.h"
#include "compiler/rewrite/Rewrites.h"

#include "compiler/kernel/Kernel.h"
using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// The concatenation that the kernel does, if it does nothing else.
graph::ConcatOp concatOf(graph::KernelOp kernel) {
  auto yield = cast<graph::YieldOp>(kernel.getBody().front().getTerminator());
  auto concat = yield->getNumOperands() == 1 ? yield->getOperand(0).getDefiningOp<graph::ConcatOp>()
                                             : graph::ConcatOp();
  return concat && llvm::all_of(concat.getInputs(), llvm::IsaPred<BlockArgument>)
             ? concat
             : graph::ConcatOp();
}

/// A kernel that joins the values along the axis.
graph::KernelOp joinBy(OpBuilder &builder, Location location, ArrayRef<Value> inputs,
                       RankedTensorType type, int64_t axis, const kernel::Machine &machine) {
  auto concat = builder.create<graph::ConcatOp>(location, type, inputs, uint64_t(axis));
  KernelRegion region(builder.getContext());
  region.add(concat);
  graph::KernelOp kernel =
      region.finish(builder, concat->getResults(), concat, concat.getOperation(), machine);
  concat->erase();
  return kernel;
}

/// The least part of what is joined that is computed in place.
constexpr double kPlacedOfJoin = 0.6;

class Join {
public:
  Join(graph::KernelOp kernel, graph::ConcatOp concat, const Options &options)
      : kernel_(kernel), options_(options), type_(cast<RankedTensorType>(concat.getType())),
        axis_(int64_t(concat.getAxis())) {
    for (Value input : concat.getInputs())
      inputs_.push_back(kernel.getInputs()[cast<BlockArgument>(input).getArgNumber()]);
  }

  /// Whether most of it is computed in place, and the memory is the function's own. To copy a half
  /// takes as long as to copy all of it: pieces of rows come and go as slowly as whole ones.
  bool isWorthwhile() {
    bool isPlaced = hasKnownPlaces() && llvm::none_of(kernel_->getUsers(), [](Operation *user) {
                      return user->hasTrait<OpTrait::IsTerminator>();
                    });
    if (!isPlaced)
      return false;
    int64_t placed = 0;
    for (Value input : inputs_) {
      producers_.push_back(producerOf(input));
      if (producers_.back())
        placed += cast<RankedTensorType>(input.getType()).getDimSize(axis_);
    }
    return kPlacedOfJoin * double(type_.getDimSize(axis_)) <= double(placed);
  }

  void run() {
    OpBuilder builder(kernel_);
    SmallVector<Value> parts;
    for (size_t first = 0; first < inputs_.size();) {
      if (graph::KernelOp producer = producers_[first]) {
        setPitch(producer);
        parts.push_back(inputs_[first++]);
        continue;
      }
      size_t last = first;
      while (last < inputs_.size() && !producers_[last])
        ++last;
      parts.push_back(copied(builder, ArrayRef(inputs_).slice(first, last - first)));
      first = last;
    }
    auto join = builder.create<graph::ConcatOp>(kernel_.getLoc(), type_, parts, uint64_t(axis_),
                                                /*in_place=*/true);
    kernel_->replaceAllUsesWith(join->getResults());
    kernel_->erase();
  }

private:
  bool isOfRows() const { return axis_ + 1 == type_.getRank(); }
  /// Whether parts have places that the plan can say: of rows only these must be of known size.
  bool hasKnownPlaces() const {
    bool isStatic = type_.hasStaticShape();
    if (llvm::is_contained(type_.getShape(), 0))
      return false;
    if (isOfRows() && !type_.isDynamicDim(axis_))
      return isStatic || isOfArguments();
    return isStatic && isOfPlanes();
  }
  /// Whether the run knows all sizes when it begins.
  bool isOfArguments() const {
    llvm::DenseSet<StringAttr> known;
    graph::KernelOp kernel = kernel_;
    auto function = kernel->getParentOfType<func::FuncOp>();
    for (Type argument : function.getArgumentTypes())
      if (auto type = dyn_cast<RankedTensorType>(argument))
        known.insert(graph::symbolNames(type).begin(), graph::symbolNames(type).end());
    return kernel->getParentOp() == function &&
           llvm::all_of(graph::symbolNames(type_),
                        [&](StringAttr name) { return known.contains(name); });
  }
  /// Whether each part is one piece of the result.
  bool isOfPlanes() const {
    return llvm::all_of(type_.getShape().take_front(axis_), [](int64_t size) { return size == 1; });
  }

  /// The kernel that computes the value, of which it may be a view, for the join alone; null where
  /// it can't do so in place.
  graph::KernelOp producerOf(Value value) {
    if (llvm::count(inputs_, value) != 1) // its kernel has it once
      return {};
    auto isInside = [&](Value operand) {
      return operand.hasOneUse() && operand.getDefiningOp() &&
             operand.getDefiningOp()->getBlock() == kernel_->getBlock();
    };
    int64_t row = cast<RankedTensorType>(value.getType()).getShape().back();
    while (isInside(value)) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      bool isWhole =
          type && type.getRank() > 0 &&
          (type_.hasStaticShape() ? type.hasStaticShape() : !ShapedType::isDynamic(row)) &&
          (isOfPlanes() || type.getShape().back() == row);
      if (!isWhole)
        return {};
      if (auto view = value.getDefiningOp<graph::ReshapeOp>()) {
        value = view.getX();
        continue;
      }
      auto kernel = value.getDefiningOp<graph::KernelOp>();
      bool isFit = kernel && kernel->getNumResults() == 1 &&
                   (isOfPlanes() || kernel::storesAtPitch(kernel, options_.machine));
      return isFit ? kernel : graph::KernelOp();
    }
    return {};
  }

  void setPitch(graph::KernelOp producer) {
    if (!isOfPlanes())
      producer.setPitch(type_.getShape().back());
  }

  /// Neighbours that are joined, in the result's memory.
  Value copied(OpBuilder &builder, ArrayRef<Value> inputs) {
    graph::ShapeContext shapes(type_.getContext());
    auto dims = shapes.dims(type_);
    dims[axis_] = shapes.constant(0);
    for (Value input : inputs)
      dims[axis_] = dims[axis_] + cast<RankedTensorType>(input.getType()).getDimSize(axis_);
    RankedTensorType type = shapes.tensorType(type_.getElementType(), dims);
    graph::KernelOp copy = joinBy(builder, kernel_.getLoc(), inputs, type, axis_, options_.machine);
    setPitch(copy);
    return copy->getResult(0);
  }

  graph::KernelOp kernel_;
  const Options &options_;
  RankedTensorType type_;
  int64_t axis_;
  SmallVector<Value> inputs_;
  SmallVector<graph::KernelOp> producers_; // of those that are computed in place
};

} // namespace

graph::KernelOp copyToPlace(graph::KernelOp part, const kernel::Machine &machine) {
  Value view = part->getResult(0);
  auto user = [&] { return view.hasOneUse() ? *view.getUsers().begin() : nullptr; };
  while (auto reshape = dyn_cast_or_null<graph::ReshapeOp>(user()))
    view = reshape.getY();
  auto join = dyn_cast_or_null<graph::ConcatOp>(user());
  if (!join || !join.getInPlace())
    return {};
  OpBuilder builder(part);
  builder.setInsertionPointAfter(part);
  Value value = part->getResult(0);
  auto type = cast<RankedTensorType>(value.getType());
  graph::KernelOp copy = joinBy(builder, part.getLoc(), value, type, type.getRank() - 1, machine);
  copy.setPitchAttr(part.getPitchAttr());
  part.removePitchAttr();
  value.replaceAllUsesExcept(copy->getResult(0), copy);
  return copy;
}

LogicalResult joinInPlace(func::FuncOp function, const Options &options) {
  if (!options.joinInPlace)
    return success();
  SmallVector<graph::KernelOp> kernels;
  function.walk([&](graph::KernelOp kernel) { kernels.push_back(kernel); });
  for (graph::KernelOp kernel : kernels)
    if (graph::ConcatOp concat = concatOf(kernel))
      if (Join join(kernel, concat, options); join.isWorthwhile())
        join.run();
  return success();
}

} // namespace tensmith::rewrite
