// Recognising chains of convolutions and cutting them into bands; see ConvChain.h.
#include "compiler/targets/cpu/templates/ConvChain.h"

#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/CostModel.h"
#include "compiler/targets/cpu/templates/DepthwiseTile.h"

using namespace mlir;

namespace tensmith::kernel {

int64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() *
         std::max<int64_t>(storageType(type.getElementType()).getIntOrFloatBitWidth() / 8, 1);
}

namespace {

constexpr int64_t kCacheLine = 64;

RankedTensorType imageOf(graph::ConvOp conv) {
  return cast<RankedTensorType>(conv.getX().getType());
}
RankedTensorType resultOf(graph::ConvOp conv) { return cast<RankedTensorType>(conv.getType()); }

int64_t pixelsOfLine(graph::ConvOp conv) {
  RankedTensorType type = resultOf(conv);
  return type.getNumElements() / (type.getDimSize(0) * type.getDimSize(1) * type.getShape().back());
}

/// Whether the sizes are known and there is a tile for it that reads pixels where they lie.
bool fitsChain(graph::ConvOp conv, MultipleOf multipleOf) {
  // Of one dimension, a line would be a pixel.
  constexpr int64_t kLeastRank = 4;
  auto isKnown = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() >= kLeastRank && type.hasStaticShape() &&
           type.getNumElements() > 0;
  };
  if (!graph::isChannelsLast(conv) || !isKnown(conv.getX()) || !isKnown(conv.getW()) ||
      !isKnown(conv.getY()))
    return false;
  auto multiple = multipleOf(conv);
  if (!multiple || isDepthwise(conv))
    return multiple && takesDepthwise(conv) && tapCount(conv) <= kMostStraightTaps;
  // In lower tiles a sum is cut into parts (RegisterTile.h), and which pixels are in one would
  // depend on where a thread begins.
  constexpr int64_t kLeastRows = 5;
  return conv.getGroup() == 1 && readsPixelsInPlace(conv, *multiple) &&
         rowsOfLines(pixelsOfLine(conv), kTileRows) >= kLeastRows;
}

std::optional<int64_t> multipleInKernel(graph::ConvOp conv) {
  if (isDepthwise(conv))
    return matchDepthwiseTaps(conv) ? std::optional<int64_t>(1) : std::nullopt;
  auto contraction = matchContraction(conv);
  return contraction ? std::optional(contraction->multiple) : std::nullopt;
}

/// Loads bound a depthwise convolution.
double cyclesOfArithmetic(graph::ConvOp conv, const Machine &machine) {
  auto weights = cast<RankedTensorType>(conv.getW().getType());
  double atOnce = isDepthwise(conv) ? 0.5 : double(stepOf(machine, conv));
  double products = double(resultOf(conv).getNumElements()) *
                    double(weights.getNumElements() / weights.getDimSize(0));
  return products / multiplyAddsPerCycle(machine, atOnce);
}

/// Of its image.
int64_t bytesOfLine(graph::ConvOp conv) {
  return bytesOf(imageInMemory(conv)) / (imageOf(conv).getDimSize(0) * imageOf(conv).getDimSize(1));
}

} // namespace

std::optional<ChainLink> linkBefore(graph::ConvOp conv, MultipleOf multipleOf) {
  if (!fitsChain(conv, multipleOf))
    return std::nullopt;
  llvm::SetVector<Operation *> elementwise;
  auto before = cast_or_null<graph::ConvOp>(
      onlyBehind(conv.getX(), llvm::IsaPred<graph::ConvOp>, elementwise));
  if (!before || !fitsChain(before, multipleOf))
    return std::nullopt;
  return ChainLink{before, dependentOn(before, elementwise)};
}

bool computesImage(graph::ConvOp conv) {
  auto link = linkBefore(conv, multipleInKernel);
  return link && (isa<BlockArgument>(imageInMemory(link->conv)) || computesImage(link->conv));
}

SmallVector<graph::ConvOp> chainBehind(Operation *root) {
  auto last = dyn_cast<graph::ConvOp>(root);
  if (!last || !computesImage(last))
    return {};
  SmallVector<graph::ConvOp> chain{last};
  while (computesImage(chain.back()))
    chain.push_back(linkBefore(chain.back(), multipleInKernel)->conv);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

LineWindow::LineWindow(graph::ConvOp conv)
    : stride(conv.getStrides()[0]), pad(conv.getPads()[0]),
      extent((cast<RankedTensorType>(conv.getW().getType()).getDimSize(2) - 1) *
                 conv.getDilations()[0] +
             1),
      lines(imageOf(conv).getDimSize(1)) {}

void ChainBands::hold(ArrayRef<graph::ConvOp> chain, int64_t ofLast) {
  lines = ofLast;
  held.assign(chain.size() - 1, 0);
  bytesOf = held;
  bytes = 0;
  for (size_t stage = chain.size() - 1; stage > 0; --stage) {
    LineWindow window(chain[stage]);
    ofLast = std::min((ofLast - 1) * window.stride + window.extent, window.lines);
    held[stage - 1] = ofLast;
    bytesOf[stage - 1] = llvm::alignTo(ofLast * bytesOfLine(chain[stage]), kCacheLine);
    bytes += bytesOf[stage - 1];
  }
}

ChainBands::ChainBands(ArrayRef<graph::ConvOp> chain, const Machine &machine, const Point &asked) {
  // Enough pixels that the weights are worth reading, in a band that the cache holds.
  constexpr int64_t kPixelsOfBand = 48;
  /// Lines that are computed for each that two threads compute, unless there were too few threads.
  constexpr int64_t kLinesPerShared = 8, kLeastRanges = 2;
  graph::ConvOp last = chain.back();
  int64_t all = resultOf(last).getDimSize(1), pictures = resultOf(last).getDimSize(0);
  int64_t wanted = std::clamp<int64_t>(
      asked[choice::bandLines].value_or(llvm::divideCeil(kPixelsOfBand, pixelsOfLine(last))), 1,
      all);
  hold(chain, wanted);
  while (!asked[choice::bandLines] && bytes > machine.l2Bytes / 2 && lines > 1)
    hold(chain, lines - 1);
  bands = llvm::divideCeil(all, lines);
  hold(chain, llvm::divideCeil(all, bands));
  highBands = all - bands * (lines - 1);
  int64_t step = lines; // of the first image held, from band to band
  for (graph::ConvOp conv : ArrayRef(chain).drop_front())
    step *= LineWindow(conv).stride;
  int64_t shared = std::max<int64_t>(held.front() - step, 0), total = bands * pictures;
  leastBands = std::clamp<int64_t>(llvm::divideCeil(kLinesPerShared * shared, step), 1,
                                   llvm::divideCeil(total, kLeastRanges));
}

double cyclesSavedByChain(ArrayRef<graph::ConvOp> chain, const Machine &machine) {
  // Fewer parts than that leave cores without work.
  constexpr int64_t kLeastParts = 8;
  ChainBands bands(chain, machine, {});
  int64_t items = bands.bands * resultOf(chain.back()).getDimSize(0);
  if (items / bands.leastBands < kLeastParts || bands.bytes > machine.l2Bytes / 2)
    return -1;
  graph::ConvOp first = chain.front(), last = chain.back();
  Chain work{.bands = double(items)};
  for (graph::ConvOp conv : chain) {
    work.arithmetic += cyclesOfArithmetic(conv, machine);
    work.weightBytes += double(bytesOf(storedRight(conv)));
  }
  for (graph::ConvOp conv : ArrayRef(chain).drop_front())
    work.imageBytes += double(bytesOf(imageInMemory(conv)));
  work.endBytes = double(bytesOf(imageInMemory(first)) + bytesOf(last.getY()));
  return saved(work, machine);
}

int64_t rowsOfLines(int64_t pixels, int64_t most) {
  for (int64_t rows = most; rows > 1; --rows) {
    // Of many pixels any number is made.
    auto isMade = [&](int64_t count) {
      return count >= int64_t(llvm::divideCeil(count, rows)) * (rows - 1);
    };
    bool fits = true;
    for (int64_t count = pixels; fits && count < rows * rows; count += pixels)
      fits = isMade(count);
    if (fits)
      return rows;
  }
  return 1;
}

} // namespace tensmith::kernel
