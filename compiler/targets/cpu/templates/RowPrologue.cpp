// Recognising what a pointwise convolution computes into its rows; see RowPrologue.h.
#include "compiler/targets/cpu/templates/RowPrologue.h"

#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/ElementEmitter.h"
#include "compiler/targets/cpu/templates/ConcatKernel.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

/// Of one image, where only the run knows how many there are, and of a picture of the usual size,
/// where it alone knows that.
double usualBytes(Value value) {
  constexpr int64_t kUsualSize = 256;
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<AffineExpr> usual(graph::symbolNames(type).size(),
                                getAffineConstantExpr(kUsualSize, type.getContext()));
  double bytes =
      std::max<int64_t>(storageType(type.getElementType()).getIntOrFloatBitWidth() / 8, 1);
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    AffineExpr open =
        ShapedType::isDynamic(size) && dim > 0 ? graph::dimExpression(type, dim) : AffineExpr();
    auto known = open ? dyn_cast<AffineConstantExpr>(open.replaceSymbols(usual)) : nullptr;
    bytes *= known                         ? double(std::max<int64_t>(known.getValue(), 1))
             : ShapedType::isDynamic(size) ? 1
                                           : double(size);
  }
  return bytes;
}

/// Whether the channels of each input are known: these are joined, behind one another.
bool joinsChannels(graph::ConcatOp concat) {
  int64_t rank = cast<RankedTensorType>(concat.getType()).getRank();
  return int64_t(concat.getAxis()) == rank - 1 && llvm::all_of(concat.getInputs(), [](Value input) {
           return !ShapedType::isDynamic(cast<RankedTensorType>(input.getType()).getShape().back());
         });
}

bool hasSameDims(Value a, Value b) {
  auto left = dyn_cast<RankedTensorType>(a.getType()),
       right = dyn_cast<RankedTensorType>(b.getType());
  return left && right && left.clone(right.getElementType()) == right;
}

} // namespace

bool readsSinglePixels(graph::ConvOp conv) {
  auto weights = cast<RankedTensorType>(conv.getW().getType());
  return graph::isChannelsLast(conv) && conv.getGroup() == 1 && weights.hasStaticShape() &&
         llvm::all_of(weights.getShape().drop_front(2), [](int64_t size) { return size == 1; }) &&
         llvm::all_of(conv.getPads(), [](int64_t pad) { return pad == 0; });
}

graph::ConcatOp joinedRows(graph::ConvOp conv) {
  llvm::SetVector<Operation *> between;
  auto concat = cast_or_null<graph::ConcatOp>(
      onlyBehind(storedLeft(conv), llvm::IsaPred<graph::ConcatOp>, between));
  bool fits = concat && readsSinglePixels(conv) && isConcatRoot(concat) && joinsChannels(concat);
  return fits ? concat : graph::ConcatOp();
}

std::optional<RowPrologue> prologueBefore(graph::ConvOp conv, TakesFollowers takesFollowers) {
  if (!readsSinglePixels(conv))
    return std::nullopt;
  Value image = storedLeft(conv);
  llvm::SetVector<Operation *> readers; // and what they are read by
  readers.insert(conv);
  if (image != conv.getX())
    readers.insert(conv.getX().getDefiningOp());
  RowPrologue prologue;
  SmallVector<Value> values{image};
  graph::ConcatOp joined;
  while (!values.empty()) {
    Value value = values.pop_back_val();
    Operation *op = value.getDefiningOp();
    // One that has several uses is looked at again from the last of them.
    auto isInside = [&](Operation *user) { return readers.contains(user); };
    if (!op || op->getBlock() != conv->getBlock() || !hasSameDims(value, image) ||
        !llvm::all_of(op->getUsers(), isInside))
      continue;
    if (auto concat = dyn_cast<graph::ConcatOp>(op); concat && !joined && joinsChannels(concat)) {
      joined = concat;
      prologue.ops.insert(op);
    } else if (takesFollowers(op)) {
      return std::nullopt;
    } else if (isa<graph::Elementwise>(op) && readers.insert(op)) {
      prologue.ops.insert(op);
      llvm::append_range(values, op->getOperands());
    }
  }
  return prologue.ops.empty() ? std::nullopt : std::optional(std::move(prologue));
}

bool savesTimeInRows(graph::ConvOp conv, const Machine &machine) {
  // All panels pass over the rows of an item, and again over those of the next: they have to stay
  // in the second-level cache. And each core reads all of them, and not only its own part, which
  // takes as long as what it writes and reads less of the image.
  double weights = usualBytes(storedRight(conv)), image = usualBytes(storedLeft(conv));
  // A matrix unit multiplies in less time than an image takes to be written and read.
  double worth = suitsMatrixUnit(machine, conv) ? 2 * image : image;
  return weights <= double(machine.l2Bytes) / 2 && weights <= worth;
}

} // namespace tensmith::kernel
