// A band goes through the convolutions one after the other; see ConvChain.h. Products have their
// panels outside and tiles of the new lines' pixels inside; depthwise convolutions go down the
// lines of a few columns, so that what these lines share is still in the nearest cache. While the
// last product multiplies, the lines of a large first image come that the next band reads.
#include "compiler/targets/cpu/templates/ChainKernel.h"

#include "compiler/targets/cpu/templates/DepthwiseTile.h"
#include "compiler/targets/cpu/templates/RegisterTile.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr const Choice *kChoices[] = {&choice::bandLines, &choice::panelVectors, &choice::steps,
                                      &choice::linesAhead};

/// Lines [first, last) of a result.
struct Lines {
  Value first, last;
};

/// Memory that is prefetched while a product goes on, a part beside each tile.
struct Ahead {
  Value pointer;
  int64_t bytes;
};

/// One of the convolutions, and where its lines go.
class Stage {
public:
  using Store = std::function<void(const Position &at, Value row)>;

  Stage(ElementEmitter &emitter, graph::KernelOp kernel, graph::ConvOp conv, const Machine &machine,
        const Point &asked, Store store)
      : math_(emitter.math) {
    auto type = cast<RankedTensorType>(conv.getType());
    lines_ = type.getDimSize(1);
    pixels_ = type.getNumElements() / (type.getDimSize(0) * lines_ * type.getShape().back());
    if (isDepthwise(conv)) {
      height_ = kDepthwiseHeight;
      columns_ = type.getDimSize(type.getRank() - 2);
      depthwise_.emplace(emitter, conv, machine, kDepthwiseVectors, std::move(store));
      return;
    }
    height_ = rowsOfLines(pixels_, kTileRows);
    contraction_ = matchContraction(conv);
    rows_.emplace(emitter, *contraction_);
    extents_.emplace(math_, emitter.sizes, *contraction_);
    tiles_.emplace(
        emitter, kernel, *contraction_, machine, *rows_, *extents_,
        [store](const Position &at, Value, Value row) { store(at, row); }, asked);
  }

  /// `ahead`: what a product prefetches, which has that many lines.
  void emit(Value picture, const Lines &lines, std::optional<Ahead> ahead, int64_t usualLines) {
    Value first = math_.add(math_.mul(picture, lines_), lines.first);
    Value count = math_.sub(lines.last, lines.first);
    if (depthwise_)
      return emitDepthwise(first, count);
    int64_t tiles =
        llvm::divideCeil(usualLines * pixels_, height_) * *constantIndex(extents_->panels);
    emitProduct(first, count, [&](Value tile) {
      if (ahead)
        prefetch(*ahead, tile, llvm::divideCeil(ahead->bytes, tiles * kLine));
    });
  }

private:
  /// As tiles of `height` and of one row fewer: `count` pixels from `first` on.
  void emitProduct(Value firstLine, Value lineCount, llvm::function_ref<void(Value)> besides) {
    Value first = math_.mul(firstLine, pixels_), count = math_.mul(lineCount, pixels_);
    Value one = math_.constant(1), zero = math_.constant(0);
    Value tiles = math_.ceilDiv(count, math_.constant(height_));
    Value high = math_.sub(count, math_.mul(tiles, height_ - 1));
    auto emitTile = [&](Value panel, Value row, int64_t height) {
      tiles_->beginRows(zero, TileRows(math_, {.first = row, .height = height}, zero));
      tiles_->emitPanel(panel);
    };
    emitFor(math_, zero, extents_->panels, one, [&](Value panel) {
      emitFor(math_, zero, tiles, one, [&](Value tile) {
        tiles_->beginPrefetch(tile, tiles, math_.constant(kFewTiles));
        besides(math_.add(math_.mul(panel, tiles), tile));
        Value row = math_.add(first, math_.mul(tile, height_));
        if (pixels_ % height_ == 0)
          return emitTile(panel, row, height_);
        emitIf(
            math_, math_.less(tile, high), [&] { emitTile(panel, row, height_); },
            [&] {
              Value low = math_.add(math_.mul(tile, height_ - 1), high);
              emitTile(panel, math_.add(first, low), height_ - 1);
            });
      });
    });
  }

  /// A row of the output is the last of its spatial dimensions.
  void emitDepthwise(Value firstLine, Value lineCount) {
    int64_t tiles = llvm::divideCeil(columns_, height_), height = llvm::divideCeil(columns_, tiles);
    int64_t high = columns_ - tiles * (height - 1), rowsOfLine = pixels_ / columns_;
    Value one = math_.constant(1), zero = math_.constant(0);
    Value firstRow = math_.mul(firstLine, rowsOfLine), rows = math_.mul(lineCount, rowsOfLine);
    auto emitColumn = [&](Value column, int64_t height) {
      emitFor(math_, zero, rows, one, [&](Value row) {
        Value start = math_.mul(math_.add(firstRow, row), columns_);
        depthwise_->emit(math_.add(start, column), height);
      });
    };
    emitFor(math_, zero, math_.constant(high), one,
            [&](Value tile) { emitColumn(math_.mul(tile, height), height); });
    emitFor(math_, math_.constant(high), math_.constant(tiles), one, [&](Value tile) {
      emitColumn(math_.add(math_.mul(tile, height - 1), high), height - 1);
    });
  }

  void prefetch(const Ahead &ahead, Value part, int64_t lines) {
    constexpr int kSecondLevel = 2, kData = 1;
    Value begin = math_.mul(part, lines * kLine);
    emitFor(math_, math_.constant(0), math_.constant(lines), math_.constant(1), [&](Value line) {
      Value place = math_.add(begin, math_.mul(line, kLine));
      math_.builder.create<LLVM::Prefetch>(math_.location, bytePointer(math_, ahead.pointer, place),
                                           /*rw=*/0, kSecondLevel, kData);
    });
  }

  static constexpr int64_t kFewTiles = 4; // that a panel is prefetched by, at least
  static constexpr int64_t kLine = 64;    // of the cache

  IndexMath &math_;
  int64_t lines_, pixels_, height_, columns_ = 0;
  std::optional<DepthwiseTile> depthwise_;
  std::optional<Contraction> contraction_;
  std::optional<RowSource> rows_;
  std::optional<Extents> extents_;
  std::optional<TileEmitter> tiles_;
};

class ChainEmitter {
public:
  ChainEmitter(ElementEmitter &emitter, graph::KernelOp kernel, ArrayRef<graph::ConvOp> chain,
               const Machine &machine, const Point &asked, const ChainBands &bands, Value scratch,
               ValueRange results)
      : emitter_(emitter), math_(emitter.math), bands_(bands), chain_(chain) {
    if (bytesOf(imageInMemory(ArrayRef(chain).front())) > machine.l2Bytes)
      for (auto [number, conv] : llvm::enumerate(chain))
        if (!isDepthwise(conv))
          prefetches_ = number;
    Value place = math_.constant(0);
    for (auto [number, conv] : llvm::enumerate(chain)) {
      if (number + 1 == chain.size()) {
        stages_.push_back(std::make_unique<Stage>(emitter, kernel, conv, machine, asked,
                                                  [=, &emitter](const Position &at, Value row) {
                                                    storeResults(emitter, kernel, results, at, row);
                                                  }));
        break;
      }
      Value image = imageInMemory(ArrayRef(chain)[number + 1]);
      emitter.defineLines(image, {bytePointer(math_, scratch, place), bands.held[number]});
      place = math_.add(place, bands.bytesOf[number]);
      stages_.push_back(std::make_unique<Stage>(
          emitter, kernel, conv, machine, asked, [=, &emitter](const Position &at, Value) {
            Value element = emitter.element(image, at);
            emitter.store(emitter.pixel(image, at.indices), getElementTypeOrSelf(image.getType()),
                          emitter.math.constant(0), element, at.mask);
          }));
    }
  }

  /// `isFirst`: nothing of the images is held yet.
  void emitBand(Value picture, Value band, Value isFirst) {
    size_t last = chain_.size() - 1;
    SmallVector<Lines> lines(chain_.size());
    Value done = firstLine(band); // what the bands before have read
    lines[last] = {done, firstLine(math_.add(band, 1))};
    for (size_t stage = last; stage-- > 0;) {
      LineWindow window(chain_[stage + 1]);
      Value low = lowest(window, lines[stage + 1].first);
      done = behind(window, done);
      lines[stage] = {math_.select(isFirst, low, math_.max(low, done)),
                      behind(window, lines[stage + 1].last)};
      lines[stage].last = math_.max(lines[stage].last, lines[stage].first);
    }
    for (size_t stage = 0; stage <= last; ++stage)
      stages_[stage]->emit(picture, lines[stage],
                           prefetches_ == stage ? std::optional(ahead(picture, lines[0].last))
                                                : std::nullopt,
                           stage == last ? bands_.lines : newLines(stage));
  }

private:
  /// Of the image of stage `stage + 1`, from band to band.
  int64_t newLines(size_t stage) const {
    int64_t lines = bands_.lines;
    for (graph::ConvOp conv : ArrayRef(chain_).drop_front(stage + 1))
      lines *= LineWindow(conv).stride;
    return lines;
  }

  /// What the next band reads of the first image behind the result lines before `line`.
  Ahead ahead(Value picture, Value line) {
    Value image = imageInMemory(ArrayRef(chain_).front());
    auto type = cast<RankedTensorType>(image.getType());
    LineWindow window(chain_.front());
    SmallVector<Value> at(type.getRank(), math_.constant(0));
    at[0] = picture;
    at[1] = behind(window, line);
    int64_t lineBytes = bytesOf(image) / (type.getDimSize(0) * type.getDimSize(1));
    return {emitter_.pixel(image, at), newLines(0) * window.stride * lineBytes};
  }

  Value firstLine(Value band) {
    return math_.add(math_.mul(band, bands_.lines - 1),
                     math_.min(band, math_.constant(bands_.highBands)));
  }

  /// The first image line that result lines from `line` on read.
  Value lowest(const LineWindow &window, Value line) {
    Value pad = math_.constant(window.pad);
    Value low = math_.sub(math_.max(math_.mul(line, window.stride), pad), pad);
    return math_.min(low, math_.constant(window.lines));
  }

  /// The image line behind the last one that result lines before `line` read, if there are any.
  Value behind(const LineWindow &window, Value line) {
    Value pad = math_.constant(window.pad);
    Value end = math_.add(math_.mul(line, window.stride), window.extent);
    end = math_.sub(math_.max(end, math_.constant(window.stride + window.pad)),
                    math_.add(pad, window.stride));
    return math_.min(end, math_.constant(window.lines));
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  const ChainBands &bands_;
  ArrayRef<graph::ConvOp> chain_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::optional<size_t> prefetches_; // the stage that does, the last product
};

int64_t multiplyAdds(ArrayRef<graph::ConvOp> chain) {
  int64_t sum = 0;
  for (graph::ConvOp conv : chain) {
    auto weights = cast<RankedTensorType>(conv.getW().getType());
    sum += cast<RankedTensorType>(conv.getType()).getNumElements() * weights.getNumElements() /
           weights.getDimSize(0);
  }
  return sum;
}

} // namespace

static KernelParts chainParts(graph::KernelOp kernel, ArrayRef<graph::ConvOp> convs,
                              const Machine &machine, const Point &asked) {
  SmallVector<graph::ConvOp> chain(convs);
  ChainBands bands(chain, machine, asked);
  int64_t pictures = cast<RankedTensorType>(chain.back().getType()).getDimSize(0);
  constexpr int64_t kOfScalar = 8; // multiply-adds of a tile in the time of a scalar operation
  KernelParts parts;
  parts.summary = "chain, lines held";
  for (int64_t held : bands.held)
    parts.summary += " " + std::to_string(held);
  for (graph::ConvOp conv : chain)
    parts.summary += isDepthwise(conv) ? ", depthwise" : ", contraction";
  parts.items = [=](IndexMath &math, const SizeValues &) -> WorkItems {
    Point chosen = asked.of(kChoices);
    chosen.set(choice::bandLines, bands.lines);
    Value work = math.constant(multiplyAdds(chain) / (pictures * bands.bands * kOfScalar));
    return {math.constant(pictures * bands.bands),
            math.max(grainOf(math, work), math.constant(bands.leastBands)), chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    Value first = begin;
    Value scratch = emitScratch(emitter, math.constant(bands.bytes), begin, end);
    ChainEmitter stages(emitter, kernel, chain, machine, asked, bands, scratch, results);
    emitFor(math, begin, end, math.constant(1), [&](Value item) {
      Value perPicture = math.constant(bands.bands), band = math.rem(item, perPicture);
      Value isFirst = math.builder.create<arith::OrIOp>(
          math.location, math.less(item, math.add(first, 1)), math.less(band, math.constant(1)));
      stages.emitBand(math.div(item, perPicture), band, isFirst);
    });
  };
  return parts;
}

static void chainSpace(graph::ConvOp last, Space &space) {
  space.addDoubling(choice::bandLines, cast<RankedTensorType>(last.getType()).getDimSize(1));
  space.addAll(choice::panelVectors, choice::panelVectors.most);
  space.addDoubling(choice::steps, choice::steps.most);
  space.add(choice::linesAhead, {0, 64, 128, 256, 512});
}

const Template kChain = {
    .name = "chain",
    .takes = [](graph::KernelOp, Operation *main,
                const Machine &) { return !chainBehind(main).empty(); },
    .parts =
        [](graph::KernelOp kernel, Operation *main, const Machine &machine, const Point &asked) {
          return chainParts(kernel, chainBehind(main), machine, asked);
        },
    .choices = kChoices,
    .space = [](graph::KernelOp, Operation *main, const Machine &,
                Space &space) { chainSpace(cast<graph::ConvOp>(main), space); },
    .storesAtPitch = [](Operation *) { return true; },
    .multiplies = true,
};

} // namespace tensmith::kernel
