// A work item is one tile and one vector of channels (FourierTileEmitter.h); of the image's
// gradient, whose tiles overlap, all tiles of an image, which are added up in the thread's memory.
// A column's frequencies are stored as planes, made of planes, or multiplied and turned back
// (base/Fourier.h).
#include "compiler/targets/cpu/templates/FourierKernel.h"

#include "compiler/graph/ConvolutionPasses.h"
#include "compiler/targets/cpu/templates/FourierTileEmitter.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Whether neighbouring work items differ in their tiles first, and not in their channels: these
/// share the tile's pixels, those its weights.
static constexpr Choice tilesApart{"tiles_apart", 0, 1};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::tilesApart};

class InputEmitter : FourierTileEmitter {
public:
  using FourierTileEmitter::FourierTileEmitter;

  void emitItem(Value item) {
    begin(item);
    transformImage(root_->getOperand(0), tile_.rows, tile_.width);
    storePlanes([&](const Complex &x) { return std::array{do_.add(x.re, *x.im), x.re, *x.im}; });
  }
};

/// Outputs, behind which a tile has zeros.
class GradientEmitter : FourierTileEmitter {
public:
  using FourierTileEmitter::FourierTileEmitter;

  void emitItem(Value item) {
    begin(item);
    transformImage(root_->getOperand(0), tile_.down, tile_.across);
    storePlanes([&](const Complex &x) {
      return std::array{do_.add(x.re, *x.im), *x.im, do_.negate(x.re)};
    });
  }
};

/// Weights [C / group, kernel..., M]: an image for each of the channels that they read.
class WeightsEmitter : FourierTileEmitter {
public:
  using FourierTileEmitter::FourierTileEmitter;

  void emitItem(Value item) {
    begin(item);
    copyTaps();
    storePlanes([&](const Complex &x) { // of the conjugate
      return std::array{x.re, do_.negate(do_.add(x.re, *x.im)), do_.sub(x.re, *x.im)};
    });
  }

private:
  void copyTaps() {
    Value w = root_->getOperand(0);
    SmallVector<Value> dims = emitter_.dims(w);
    auto dilations = root_->getAttrOfType<DenseI64ArrayAttr>("dilations").asArrayRef();
    auto type = cast<RankedTensorType>(w.getType());
    auto scaled = [&](ArrayRef<Value> at) {
      return do_.scale(1 / double(tile_.numbers()), pixel(w, dims, at));
    };
    forEach(0, tile_.rows, [&](Value row) {
      clearColumns(row, math_.constant(0), math_.constant(tile_.columns));
    });
    if (tile_.isLine) {
      forEach(0, type.getDimSize(1), [&](Value tap) {
        store(placeOnLine(math_.mul(tap, dilations[0])), scaled({image_, tap, channel_}));
      });
      forEach(0, tile_.rows, [&](Value row) { transformRow(placeOf(row, math_.constant(0))); });
      return;
    }
    forEach(0, type.getDimSize(1), [&](Value i) {
      Value row = math_.mul(i, dilations[0]);
      forEach(0, type.getDimSize(2), [&](Value j) {
        store(placeOf(row, math_.mul(j, dilations[1])), scaled({image_, i, j, channel_}));
      });
      transformRow(placeOf(row, math_.constant(0)));
    });
  }
};

class OutputEmitter : FourierTileEmitter {
public:
  using FourierTileEmitter::FourierTileEmitter;

  void emitItem(Value item) {
    begin(item);
    turnPlanesBack(
        [&](ArrayRef<Value> p) { return Complex{do_.sub(p[0], p[2]), do_.add(p[0], p[1])}; },
        rowsOfOutputs());
    auto root = cast<graph::FourierOutputOp>(root_);
    storeImage(root.getY(), root.getBias());
  }
};

/// Overlaps and adds: an item is all tiles of an image.
class ImageGradientEmitter : FourierTileEmitter {
public:
  ImageGradientEmitter(ElementEmitter &emitter, graph::KernelOp kernel, Operation *root,
                       const Machine &machine, ValueRange results, Value scratch, Value tilesApart)
      : FourierTileEmitter(emitter, kernel, root, machine, results, scratch, tilesApart),
        sums_(bytes(tile_, machine) / int64_t(sizeof(float))) {
    ArrayRef<int64_t> sizes = root->getAttrOfType<DenseI64ArrayAttr>("image").asArrayRef();
    height_ = tile_.isLine ? 1 : sizes[0];
    width_ = sizes.back();
  }

  /// Numbers of vectors beside the tile.
  static int64_t sums(Operation *root) {
    int64_t count = 1;
    for (int64_t size : root->getAttrOfType<DenseI64ArrayAttr>("image").asArrayRef())
      count *= size;
    return count;
  }

  void emitItem(Value item) {
    Value vectors = math_.constant(channels_.vectors());
    Value image = math_.div(item, vectors), first = math_.mul(image, shape_.tiles());
    takeVector(math_.rem(item, vectors));
    forEach(0, height_ * width_, [&](Value at) { store(placeOfSum(at), do_.splat(0)); });
    forEach(0, shape_.tiles(), [&](Value tile) {
      takeTile(math_.add(first, tile));
      turnPlanesBack(
          [&](ArrayRef<Value> q) { return Complex{do_.add(q[0], q[1]), do_.add(q[0], q[2])}; },
          tile_.rows);
      addTile();
    });
    storeSums(image);
  }

private:
  Value placeOfSum(Value at) { return math_.add(math_.mul(at, lanes_), sums_); }

  void add(Value at, Value place) {
    store(placeOfSum(at), do_.add(load(placeOfSum(at)), load(place)));
  }

  void addTile() {
    int64_t low = shape_.pads.back();
    Span columns = inside(left_, tile_.width, low, math_.constant(width_));
    auto columnOfImage = [&](Value column) {
      return math_.sub(math_.add(left_, column), math_.constant(low));
    };
    if (tile_.isLine) {
      forEach(0, tile_.rows,
              [&](Value row) { turnRowBack(placeOf(row, math_.constant(0)), tile_.columns); });
      forEach(columns.begin, columns.end,
              [&](Value at) { add(columnOfImage(at), placeOnLine(at)); });
      return;
    }
    Span rows = inside(top_, tile_.rows, shape_.pads[0], math_.constant(height_));
    forEach(rows.begin, rows.end, [&](Value row) {
      turnRowBack(placeOf(row, math_.constant(0)), tile_.columns);
      Value y = math_.sub(math_.add(top_, row), math_.constant(shape_.pads[0]));
      forEach(columns.begin, columns.end, [&](Value column) {
        add(math_.add(math_.mul(y, width_), columnOfImage(column)), placeOf(row, column));
      });
    });
  }

  void storeSums(Value image) {
    Value y = root_->getResult(0);
    if (tile_.isLine) {
      forEach(0, width_,
              [&](Value at) { storeElements(y, load(placeOfSum(at)), {image, at, channel_}); });
      return;
    }
    forEach(0, height_, [&](Value row) {
      forEach(0, width_, [&](Value column) {
        Value sum = load(placeOfSum(math_.add(math_.mul(row, width_), column)));
        storeElements(y, sum, {image, row, column, channel_});
      });
    });
  }

  int64_t sums_, height_, width_; // where sums begin in the thread's memory; the image
};

class WeightsGradientEmitter : FourierTileEmitter {
public:
  using FourierTileEmitter::FourierTileEmitter;

  void emitItem(Value item) {
    begin(item);
    int64_t reached = tile_.isLine ? tile_.rows : tile_.rows - tile_.down + 1;
    turnPlanesBack(
        [&](ArrayRef<Value> r) {
          return Complex{do_.add(do_.sub(r[0], r[1]), r[2]), do_.negate(do_.add(r[1], r[2]))};
        },
        reached);
    storeTaps();
  }

private:
  void storeTaps() {
    Value y = root_->getResult(0);
    auto dilations = root_->getAttrOfType<DenseI64ArrayAttr>("dilations").asArrayRef();
    auto kernel = root_->getAttrOfType<DenseI64ArrayAttr>("kernel").asArrayRef();
    auto put = [&](Value place, ArrayRef<Value> at) {
      storeElements(y, do_.scale(1 / double(tile_.numbers()), load(place)), at);
    };
    if (tile_.isLine) {
      forEach(0, tile_.rows,
              [&](Value row) { turnRowBack(placeOf(row, math_.constant(0)), tile_.columns); });
      forEach(0, kernel[0], [&](Value tap) {
        put(placeOnLine(math_.mul(tap, dilations[0])), {image_, tap, channel_});
      });
      return;
    }
    forEach(0, kernel[0], [&](Value i) {
      Value row = math_.mul(i, dilations[0]);
      turnRowBack(placeOf(row, math_.constant(0)), tile_.columns - tile_.across + 1);
      forEach(0, kernel[1], [&](Value j) {
        put(placeOf(row, math_.mul(j, dilations[1])), {image_, i, j, channel_});
      });
    });
  }
};

class ConvEmitter : FourierTileEmitter {
public:
  using FourierTileEmitter::FourierTileEmitter;

  void emitItem(Value item) {
    auto root = cast<graph::FourierConvOp>(root_);
    begin(item);
    transformImage(root.getX(), tile_.rows, tile_.width);
    int64_t channels = channels_.each;
    Value weights = emitter_.buffer(root.getW());
    forColumns(kFourierPairs, [&](const Column &column) {
      auto frequencies = frequenciesOf(column);
      Value first = math_.add(math_.mul(column.plane, channels), channel_);
      auto weight = [&](int64_t plane) {
        return emitter_.load(weights, element_, math_.add(first, plane * channels), lanes_, mask_);
      };
      auto next = frequencies.begin();
      forFrequencies(column, kFourierPairs, [&](int64_t plane, bool isReal) {
        Complex &x = *next++;
        x = isReal ? Complex{do_.multiply(x.re, weight(plane)), {}}
                   : product(x, weight(plane), weight(plane + 1));
      });
      storeColumn(column, frequencies, rowsOfOutputs());
    });
    storeImage(root.getY(), root.getBias());
  }

private:
  Complex product(const Complex &x, Value re, Value im) {
    Value sine = do_.negate(do_.multiply(*x.im, im));
    return {do_.multiplyAdd(x.re, re, sine), do_.multiplyAdd(x.re, im, do_.multiply(*x.im, re))};
  }
};

bool isTransform(Operation *op) {
  return isa<graph::FourierInputOp, graph::FourierGradientOp, graph::FourierChangingWeightsOp,
             graph::FourierOutputOp, graph::FourierImageGradientOp, graph::FourierWeightsGradientOp,
             graph::FourierConvOp>(op);
}

/// Whether what a thread needs for all tiles of an image is little enough.
bool fitsScratch(Operation *op) {
  constexpr int64_t kMostSums = 1 << 20; // vectors
  return !isa<graph::FourierImageGradientOp>(op) || ImageGradientEmitter::sums(op) <= kMostSums;
}

} // namespace

bool isFourierRoot(Operation *op) {
  if (!isTransform(op) || !fitsScratch(op))
    return false;
  auto isF32 = [](Type type) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    return isa<NoneType>(type) || (ranked && ranked.getElementType().isF32());
  };
  return llvm::all_of(op->getOperandTypes(), isF32) && isF32(op->getResult(0).getType()) &&
         !ShapedType::isDynamic(fourierChannels(op)) && fourierChannels(op) > 0;
}

/// Of all images.
static Value tilesOf(IndexMath &math, const SizeValues &sizes, Operation *root) {
  return math.mul(dimValues(math, sizes, fourierImage(root).getType())[0],
                  FourierShape::of(root).tiles());
}

static const char *summaryOf(Operation *root) {
  return llvm::TypeSwitch<Operation *, const char *>(root)
      .Case<graph::FourierInputOp>([](auto) { return "fourier input"; })
      .Case<graph::FourierGradientOp>([](auto) { return "fourier gradient"; })
      .Case<graph::FourierChangingWeightsOp>([](auto) { return "fourier weights"; })
      .Case<graph::FourierOutputOp>([](auto) { return "fourier output"; })
      .Case<graph::FourierImageGradientOp>([](auto) { return "fourier image gradient"; })
      .Case<graph::FourierWeightsGradientOp>([](auto) { return "fourier weights gradient"; })
      .Default([](auto) { return "fourier convolution"; });
}

/// Whether an item is all tiles of an image.
static bool sumsTiles(Operation *root) { return isa<graph::FourierImageGradientOp>(root); }

template <typename Emitter>
static void emitItems(IndexMath &math, Value begin, Value end, Emitter emitter) {
  emitFor(math, begin, end, math.constant(1), [&](Value item) { emitter.emitItem(item); });
}

static KernelParts fourierParts(graph::KernelOp kernel, Operation *root, const Machine &machine,
                                const Point &asked) {
  FourierShape shape = FourierShape::of(root);
  int64_t lanes = machine.lanes(sizeof(float));
  int64_t apart = sumsTiles(root) ? 0 : asked[choice::tilesApart].value_or(0);
  FourierChannels channels{fourierChannels(root) / shape.group, shape.group, lanes};
  KernelParts parts;
  parts.summary = summaryOf(root);
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    constexpr int64_t kOperations = 8; // of a number of the tile, at least
    Point chosen;
    if (!sumsTiles(root))
      chosen.set(choice::tilesApart, apart);
    int64_t together = sumsTiles(root) ? shape.tiles() : 1;
    Value tiles =
        math.mul(dimValues(math, sizes, fourierImage(root).getType())[0], shape.tiles() / together);
    return {math.mul(tiles, channels.vectors()),
            grainOf(math, math.constant(together * shape.tile.numbers() * lanes * kOperations)),
            chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    int64_t bytes = FourierTileEmitter::bytes(shape.tile, machine);
    if (sumsTiles(root))
      bytes += ImageGradientEmitter::sums(root) * machine.vectorBytes;
    Value scratch = emitScratch(emitter, math.constant(bytes), begin, end);
    Value tiles = apart ? tilesOf(math, emitter.sizes, root) : Value();
    auto emit = [&]<typename Emitter>() {
      emitItems(math, begin, end, Emitter(emitter, kernel, root, machine, results, scratch, tiles));
    };
    llvm::TypeSwitch<Operation *>(root)
        .Case<graph::FourierInputOp>([&](auto) { emit.template operator()<InputEmitter>(); })
        .Case<graph::FourierGradientOp>([&](auto) { emit.template operator()<GradientEmitter>(); })
        .Case<graph::FourierChangingWeightsOp>(
            [&](auto) { emit.template operator()<WeightsEmitter>(); })
        .Case<graph::FourierOutputOp>([&](auto) { emit.template operator()<OutputEmitter>(); })
        .Case<graph::FourierImageGradientOp>(
            [&](auto) { emit.template operator()<ImageGradientEmitter>(); })
        .Case<graph::FourierWeightsGradientOp>(
            [&](auto) { emit.template operator()<WeightsGradientEmitter>(); })
        .Default([&](auto) { emit.template operator()<ConvEmitter>(); });
  };
  return parts;
}

const Template kFourier = {
    .name = algorithm::fourier,
    .mayBeRoot = isFourierRoot,
    .isRoot = isFourierRoot,
    .parts = [](graph::KernelOp kernel, Operation *main, const Machine &machine,
                const Point &asked) { return fourierParts(kernel, main, machine, asked); },
    .choices = kChoices,
    .space =
        [](graph::KernelOp, Operation *main, const Machine &, Space &space) {
          if (!sumsTiles(main))
            space.addAll(choice::tilesApart, 1);
        },
    .multiplies = true,
};

} // namespace tensmith::kernel
