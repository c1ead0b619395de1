// Sums of products of numbers of a few bits: planes are multiplied bit by bit, by `and`, and bits
// are counted (Cowan, Moreau, Chen, Bornholt, Ceze, "Automatic Generation of High-Performance
// Quantized Machine Learning Kernels", CGO 2020; Umuroglu, Jahre, "Streamlined Deployment for
// Quantized Neural Networks", 2017). With U = sum 2^(i+j) |u_i & v_j| over planes i and j,
//
//   sum (fx u - ox) (fw v - ow) = fx fw U - fx ow sum u - ox sum (fw v - ow)
//
// and of two bipolar sides, whose values differ where bits do, with X = sum 2^(i+j) |u_i ^ v_j|
//
//   sum (2 u - ox) (2 v - ow) = ox ow (how many there are) - 2 X
//
// An item is a block of pixels. What their windows read is copied into the thread's scratch, the
// words of a plane one after the other, with zeros outside of the image: so sums go over one run of
// words, whatever the strides, the pads and the dilations are. Where a window is a pixel, it is
// read where it lies. A register tile is a few pixels by a few vectors of filters: a word of a
// pixel is given to all lanes, each of which has a filter's. Counts in bytes are widened before
// they can overflow.
//
// A pad is the number 0, and was read as the code 0, which is -ox: ox times the filter's number is
// added for each. The sums of filters that this takes are made once for a range of items; each
// pixel has a list of its pads, which is empty but at the border.
#include "compiler/targets/cpu/templates/BitSerialKernel.h"

#include "compiler/graph/Bits.h"
#include "compiler/kernel/BitProducts.h"
#include "compiler/kernel/KernelFrame.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// A register tile: pixels, and pairs of vectors of filters.
static constexpr Choice bitPixels{"bit_pixels", 1, 8}, bitPairs{"bit_pairs", 1, 4};
/// Words of a sum that are straight code.
static constexpr Choice bitWords{"bit_words", 1, 16};
/// Pixels in a work item.
static constexpr Choice bitBlock{"bit_block", 1, kAny};
} // namespace choice

namespace {

using graph::BitWindow;

constexpr const Choice *kChoices[] = {&choice::bitPixels, &choice::bitPairs, &choice::bitWords,
                                      &choice::bitBlock};

constexpr int64_t kWordBytes = 8, kLanesOfPair = 2;
constexpr int64_t kMostBlock = 64, kMostScratch = int64_t(1) << 26, kMostStraight = 64;

/// What the code is made for.
struct Sums {
  graph::BitConvOp op;
  BitWindow of;
  const Intrinsic *products;
  int64_t lanes;                 // words of a vector
  int64_t pixels, pairs, unroll; // the register tile
  int64_t block;

  bool inBytes() const { return products->widen != nullptr; }
  int64_t depth() const { return of.taps() * of.words; } // words of a plane of a window
  int64_t windowWords() const { return of.x.bits * depth(); }
  int64_t pixelWords() const { return of.x.bits * of.words; } // of a group
  int64_t vectors() const { return kLanesOfPair * pairs; }
  int64_t filtersOfTile() const { return vectors() * lanes; }
  int64_t lanesOfGroup() const { return of.blocks * of.width; }
  bool isXor() const { return of.x.isBipolar() && of.w.isBipolar(); }
  bool sumsPixels() const { return !isXor() && of.w.offset != 0; }
  bool sumsFilters() const { return of.x.offset != 0 && (of.isPadded() || !isXor()); }
  bool listsPads() const { return of.x.offset != 0 && of.isPadded(); }
  /// Whether a window is a pixel, and the next window the next pixel.
  bool isPointwise() const {
    return of.taps() == 1 && !of.isPadded() &&
           llvm::all_of(of.strides, [](int64_t stride) { return stride == 1; });
  }

  // The scratch, in words: windows, sums of pixels, lists of pads, sums of filters.
  int64_t pixelSumsAt() const { return isPointwise() ? 0 : block * windowWords(); }
  int64_t padsAt() const { return pixelSumsAt() + (sumsPixels() ? block : 0); }
  int64_t padsPitch() const { return 1 + of.taps(); }
  int64_t filterSumsAt() const { return padsAt() + (listsPads() ? block * padsPitch() : 0); }
  int64_t filterSumsOfGroup() const { return (of.taps() + 1) * lanesOfGroup(); }
  int64_t scratchWords() const {
    return filterSumsAt() + (sumsFilters() ? of.groups * filterSumsOfGroup() : 0);
  }
};

int64_t largestDivisor(int64_t of, int64_t most) {
  while (of % most != 0)
    --most;
  return most;
}

std::optional<Sums> sumsOf(graph::BitConvOp op, const Machine &machine, const Point &asked) {
  constexpr int64_t kManyRegisters = 32;
  auto window = graph::bitWindowOf(op);
  const Intrinsic *products = bitProducts(machine);
  if (!window || !products || window->wordBits != 8 * kWordBytes)
    return std::nullopt;
  int64_t lanes = machine.vectorBytes / kWordBytes, pair = kLanesOfPair * lanes;
  if (window->width % pair != 0)
    return std::nullopt;
  bool isWide = machine.vectorRegisters >= kManyRegisters;
  Sums sums{op, *window, products, lanes, 0, 0, 0, 0};
  int64_t pixels = isWide ? 4 : 2;
  sums.pixels = asked[choice::bitPixels].value_or(pixels);
  int64_t pairs = sums.lanesOfGroup() / pair;
  sums.pairs = largestDivisor(pairs, std::min(asked[choice::bitPairs].value_or(2), pairs));
  sums.unroll = asked[choice::bitWords].value_or(4);
  int64_t fitting = machine.l1Bytes / 4 / (sums.windowWords() * kWordBytes);
  sums.block = asked[choice::bitBlock].value_or(std::min(fitting, kMostBlock));
  int64_t tiles = std::max<int64_t>(llvm::divideCeil(sums.block, sums.pixels), 1);
  sums.block = std::min(tiles, kMostBlock) * sums.pixels;
  // A long window takes fewer pixels at a time than were asked for.
  auto fits = [&] { return sums.scratchWords() <= kMostScratch / kWordBytes; };
  if (!fits())
    sums.block = sums.pixels;
  if (!fits())
    sums.block = sums.pixels = std::min(sums.pixels, pixels);
  return fits() ? std::optional(sums) : std::nullopt;
}

class SumEmitter {
public:
  SumEmitter(ElementEmitter &emitter, graph::KernelOp kernel, const Sums &sums, ValueRange results)
      : emitter_(emitter), math_(emitter.math), kernel_(kernel), sums_(sums), of_(sums.of),
        results_(results), op_(sums.op), x_(emitter.buffer(op_.getX())),
        w_(emitter.buffer(op_.getW())), i64_(emitter.builder().getI64Type()),
        words_(VectorType::get({sums.lanes}, i64_)), dims_(emitter.dims(op_.getY())),
        image_(emitter.dims(op_.getX())), pixels_(math_.product(ArrayRef(dims_).drop_back())) {}

  void emit(Value begin, Value end) {
    if (sums_.scratchWords() > 0)
      scratch_ =
          emitScratch(emitter_, math_.constant(sums_.scratchWords() * kWordBytes), begin, end);
    if (sums_.sumsFilters())
      emitIf(math_, math_.less(begin, end), [&] { sumFilters(); });
    emitFor(math_, begin, end, one(), [&](Value item) {
      first_ = math_.mul(item, sums_.block);
      count_ = math_.min(math_.sub(pixels_, first_), math_.constant(sums_.block));
      emitFor(math_, zero(), math_.constant(of_.groups), one(), [&](Value group) {
        group_ = group;
        if (!sums_.isPointwise())
          emitFor(math_, zero(), count_, one(), [&](Value pixel) { copyWindow(pixel); });
        if (sums_.sumsPixels())
          emitFor(math_, zero(), count_, one(), [&](Value pixel) { sumPixel(pixel); });
        Value tiles = math_.constant(sums_.lanesOfGroup() / sums_.filtersOfTile());
        emitFor(math_, zero(), tiles, one(), [&](Value tile) {
          Value filter = math_.mul(tile, sums_.filtersOfTile());
          emitFor(math_, zero(), count_, math_.constant(sums_.pixels),
                  [&](Value pixel) { multiplyTile(pixel, filter); });
        });
      });
    });
  }

private:
  using Values = SmallVector<Value>;

  // ---- Sums of filters

  /// Of each filter and tap, and of all taps behind them, ox times the sum of its numbers.
  void sumFilters() {
    emitFor(math_, zero(), math_.constant(of_.groups), one(), [&](Value group) {
      group_ = group;
      emitFor(math_, zero(), math_.constant(sums_.lanesOfGroup()), math_.constant(sums_.lanes),
              [&](Value filter) {
                Value total =
                    emitReduction(math_, zero(), math_.constant(of_.taps()), one(), {splat(0)},
                                  [&](Value tap, ValueRange before) -> Values {
                                    Value sum = sumTap(filter, tap);
                                    store(scratch_, filterSum(tap, filter), sum);
                                    return {make<arith::AddIOp>(before[0], sum)};
                                  })[0];
                store(scratch_, filterSum(math_.constant(of_.taps()), filter), total);
              });
    });
  }

  Value sumTap(Value filter, Value tap) {
    Value sum = splat(-of_.w.offset * of_.channels);
    for (int64_t plane = 0; plane < of_.w.bits; ++plane) {
      Value start = math_.add(filterWords(filter, math_.constant(plane)),
                              math_.mul(tap, of_.words * of_.width));
      Value bits = emitReduction(
          math_, zero(), math_.constant(of_.words), one(), {splat(0)},
          [&](Value word, ValueRange before) -> Values {
            Value of = load(w_, math_.add(start, math_.mul(word, of_.width)), words_);
            return {make<arith::AddIOp>(before[0], Value(make<LLVM::CtPopOp>(words_, of)))};
          })[0];
      sum = make<arith::AddIOp>(sum, times(bits, of_.w.factor << plane));
    }
    return times(sum, of_.x.offset);
  }

  Value filterSum(Value tap, Value filter) {
    Value place = math_.add(math_.mul(tap, sums_.lanesOfGroup()), filter);
    place = math_.add(place, math_.mul(group_, sums_.filterSumsOfGroup()));
    return math_.add(place, sums_.filterSumsAt());
  }

  // ---- Windows

  /// The words that the window of a pixel of the block reads, into the scratch.
  void copyWindow(Value pixel) {
    Values at = math_.delinear(math_.add(first_, pixel), ArrayRef(dims_).drop_back());
    Value target = math_.mul(pixel, sums_.windowWords());
    Values starts;
    for (int64_t dim = 0; dim < of_.spatial(); ++dim)
      starts.push_back(
          math_.sub(math_.mul(at[1 + dim], of_.strides[dim]), math_.constant(of_.pads[dim])));
    Value list = math_.add(math_.mul(pixel, sums_.padsPitch()), sums_.padsAt());
    auto copyAll = [&] {
      if (sums_.listsPads())
        store(scratch_, list, number(0));
      overTaps([&](const Values &tap, Value place) {
        copyTap(pixelAt(at[0], starts, tap), math_.add(target, math_.mul(place, of_.words)));
      });
    };
    if (!of_.isPadded())
      return copyAll();
    Value inside;
    for (int64_t dim = 0; dim < of_.spatial(); ++dim)
      for (int64_t tap : {int64_t(0), of_.kernel[dim] - 1})
        inside = both(inside, isInside(starts, dim, math_.constant(tap)));
    emitIf(math_, inside, copyAll, [&] { copyBorder(at[0], starts, target, list); });
  }

  /// Tap by tap, with zeros for what is outside, and a list of that.
  void copyBorder(Value image, const Values &starts, Value target, Value list) {
    if (sums_.listsPads())
      store(scratch_, list, number(0));
    Values extents;
    for (int64_t size : of_.kernel)
      extents.push_back(math_.constant(size));
    emitFor(math_, zero(), math_.constant(of_.taps()), one(), [&](Value place) {
      Values tap = math_.delinear(place, extents);
      Value inside, to = math_.add(target, math_.mul(place, of_.words));
      for (int64_t dim = 0; dim < of_.spatial(); ++dim)
        inside = both(inside, isInside(starts, dim, tap[dim]));
      emitIf(
          math_, inside, [&] { copyTap(pixelAt(image, starts, tap), to); },
          [&] {
            overRuns([&](int64_t plane, int64_t word, Type run) {
              store(scratch_, math_.add(to, plane * sums_.depth() + word), zeros(run));
            });
            if (!sums_.listsPads())
              return;
            Value length = load(scratch_, list, i64_);
            Value next = make<arith::AddIOp>(length, number(1));
            store(scratch_, math_.add(list, index(next)), math_.toI64(place));
            store(scratch_, list, next);
          });
    });
  }

  /// Straight code where the window is small.
  void overTaps(llvm::function_ref<void(const Values &, Value)> body) {
    Values extents;
    for (int64_t size : of_.kernel)
      extents.push_back(math_.constant(size));
    if (sums_.windowWords() > kMostStraight)
      return emitFor(math_, zero(), math_.constant(of_.taps()), one(),
                     [&](Value place) { body(math_.delinear(place, extents), place); });
    for (int64_t place = 0; place < of_.taps(); ++place)
      body(math_.delinear(math_.constant(place), extents), math_.constant(place));
  }

  /// Words of a tap, in vectors as long as they may be.
  void overRuns(llvm::function_ref<void(int64_t plane, int64_t word, Type run)> body) {
    for (int64_t plane = 0; plane < of_.x.bits; ++plane)
      for (int64_t word = 0; word < of_.words;) {
        auto rest = uint64_t(std::min(of_.words - word, sums_.lanes));
        auto count = int64_t(llvm::bit_floor(rest));
        body(plane, word, withLanes(i64_, count));
        word += count;
      }
  }

  void copyTap(Value from, Value to) {
    overRuns([&](int64_t plane, int64_t word, Type run) {
      Value words = load(x_, math_.add(from, plane * of_.words + word), run);
      store(scratch_, math_.add(to, plane * sums_.depth() + word), words);
    });
  }

  /// Where a start and a tap may be negative, and are then outside.
  Value isInside(const Values &starts, int64_t dim, Value tap) {
    Value index = math_.add(starts[dim], math_.mul(tap, of_.dilations[dim]));
    return math_.less(index, image_[1 + dim]);
  }

  /// The words of the group, of the pixel under a tap.
  Value pixelAt(Value image, const Values &starts, const Values &tap) {
    Value number = image;
    for (int64_t dim = 0; dim < of_.spatial(); ++dim) {
      Value index = math_.add(starts[dim], math_.mul(tap[dim], of_.dilations[dim]));
      number = math_.add(math_.mul(number, image_[1 + dim]), index);
    }
    return groupOf(number);
  }
  Value groupOf(Value pixel) {
    Value number = math_.add(math_.mul(pixel, of_.groups), group_);
    return math_.mul(number, sums_.pixelWords());
  }

  /// The memory of windows, and where in it that of a pixel of the block begins.
  Value windows() { return sums_.isPointwise() ? x_ : scratch_; }
  Value windowOf(Value pixel) {
    return sums_.isPointwise() ? groupOf(math_.add(first_, pixel))
                               : math_.mul(pixel, sums_.windowWords());
  }

  /// fx ow times the sum of its codes.
  void sumPixel(Value pixel) {
    Value start = windowOf(pixel), total = number(0);
    for (int64_t plane = 0; plane < of_.x.bits; ++plane) {
      Value from = math_.add(start, plane * sums_.depth());
      int64_t whole = sums_.depth() / sums_.lanes * sums_.lanes;
      Value counts = emitReduction(
          math_, zero(), math_.constant(whole), math_.constant(sums_.lanes), {splat(0)},
          [&](Value word, ValueRange before) -> Values {
            Value of = load(windows(), math_.add(from, word), words_);
            return {make<arith::AddIOp>(before[0], Value(make<LLVM::CtPopOp>(words_, of)))};
          })[0];
      Value count = make<vector::ReductionOp>(vector::CombiningKind::ADD, counts);
      for (int64_t word = whole; word < sums_.depth();) {
        auto lanes = int64_t(llvm::bit_floor(uint64_t(sums_.depth() - word)));
        Type run = withLanes(i64_, lanes);
        Value rest = make<LLVM::CtPopOp>(run, load(windows(), math_.add(from, word), run));
        if (lanes > 1)
          rest = make<vector::ReductionOp>(vector::CombiningKind::ADD, rest);
        count = make<arith::AddIOp>(count, rest);
        word += lanes;
      }
      Value factor = number(of_.x.factor * of_.w.offset << plane);
      total = make<arith::AddIOp>(total, Value(make<arith::MulIOp>(count, factor)));
    }
    store(scratch_, math_.add(pixel, sums_.pixelSumsAt()), total);
  }

  // ---- Products

  /// In words of w, the first of a plane of the filters from one on.
  Value filterWords(Value filter, Value plane) {
    Value block = math_.div(filter, math_.constant(of_.width));
    Value lane = math_.rem(filter, math_.constant(of_.width));
    Value number = math_.add(math_.mul(group_, of_.blocks), block);
    number = math_.add(math_.mul(number, of_.w.bits), plane);
    return math_.add(math_.mul(number, sums_.depth() * of_.width), lane);
  }

  /// The last pixels of a block are repeated where there are no more, but not stored again.
  void multiplyTile(Value pixel, Value filter) {
    Values pixels, isThere, starts, filters;
    Value last = math_.sub(count_, one());
    for (int64_t i = 0; i < sums_.pixels; ++i) {
      Value number = math_.add(pixel, i);
      pixels.push_back(i ? math_.min(number, last) : number);
      isThere.push_back(i ? math_.less(number, count_) : Value());
      starts.push_back(windowOf(pixels.back()));
    }
    for (int64_t i = 0; i < sums_.vectors(); ++i)
      filters.push_back(filterWords(math_.add(filter, i * sums_.lanes), zero()));
    Values totals(size_t(sums_.pixels * sums_.vectors()), splat(0));
    totals = emitReduction(
        math_, zero(), math_.constant(of_.x.bits), one(), totals, [&](Value i, ValueRange outer) {
          return emitReduction(
              math_, zero(), math_.constant(of_.w.bits), one(), outer,
              [&](Value j, ValueRange before) {
                Values fromX, fromW;
                for (Value start : starts)
                  fromX.push_back(math_.add(start, math_.mul(i, sums_.depth())));
                for (Value start : filters)
                  fromW.push_back(math_.add(start, math_.mul(j, sums_.depth() * of_.width)));
                return addShifted(before, planeSums(fromX, fromW), math_.add(i, j));
              });
        });
    for (int64_t i = 0; i < sums_.pixels; ++i) {
      auto ofPixel = ArrayRef(totals).slice(size_t(i * sums_.vectors()), size_t(sums_.vectors()));
      auto finish = [&] { finishPixel(pixels[i], filter, ofPixel); };
      isThere[i] ? emitIf(math_, isThere[i], finish) : finish();
    }
  }

  Values addShifted(ValueRange totals, const Values &sums, Value by) {
    auto known = constantIndex(by);
    Values result;
    Value shift;
    if (known != 0)
      shift = make<vector::SplatOp>(words_, math_.toI64(by));
    for (auto [total, sum] : llvm::zip_equal(totals, sums)) {
      Value moved = known == 0 ? sum : make<arith::ShLIOp>(sum, shift);
      result.push_back(make<arith::AddIOp>(total, moved));
    }
    return result;
  }

  /// The counts of a plane of x and one of w, as vectors of words, of each pixel and vector.
  Values planeSums(const Values &fromX, const Values &fromW) {
    int64_t depth = sums_.depth();
    Values wide(fromX.size() * fromW.size(), splat(0));
    if (!sums_.inBytes())
      return overWords(fromX, fromW, zero(), depth, wide);
    auto bytes = VectorType::get({sums_.lanes * kWordBytes}, emitter_.builder().getI8Type());
    Values none(wide.size(), zeros(bytes));
    int64_t steps = sums_.products->steps();
    auto chunk = [&](Value first, int64_t count, ValueRange before) {
      Values counts = overWords(fromX, fromW, first, count, none), next;
      for (auto [sum, more] : llvm::zip_equal(before, counts)) {
        Value words = sums_.products->widen(emitter_.builder(), math_.location, more);
        next.push_back(make<arith::AddIOp>(sum, words));
      }
      return next;
    };
    int64_t whole = depth / steps * steps;
    wide =
        emitReduction(math_, zero(), math_.constant(whole), math_.constant(steps), wide,
                      [&](Value first, ValueRange before) { return chunk(first, steps, before); });
    return whole == depth ? wide : chunk(math_.constant(whole), depth - whole, wide);
  }

  /// Over `count` words from one on.
  Values overWords(const Values &fromX, const Values &fromW, Value first, int64_t count,
                   Values sums) {
    int64_t whole = count / sums_.unroll * sums_.unroll;
    sums = emitReduction(math_, zero(), math_.constant(whole), math_.constant(sums_.unroll), sums,
                         [&](Value word, ValueRange before) {
                           Values next(before);
                           for (int64_t i = 0; i < sums_.unroll; ++i)
                             addWord(fromX, fromW, math_.add(math_.add(first, word), i), next);
                           return next;
                         });
    for (int64_t word = whole; word < count; ++word)
      addWord(fromX, fromW, math_.add(first, word), sums);
    return sums;
  }

  void addWord(const Values &fromX, const Values &fromW, Value word, Values &sums) {
    Values filters;
    for (Value from : fromW)
      filters.push_back(load(w_, math_.add(from, math_.mul(word, of_.width)), words_));
    for (size_t i = 0; i < fromX.size(); ++i) {
      Value one = load(windows(), math_.add(fromX[i], word), i64_);
      Value all = make<vector::SplatOp>(words_, one);
      for (size_t v = 0; v < filters.size(); ++v) {
        Value &sum = sums[i * filters.size() + v];
        Value left = all, right = filters[v];
        if (sums_.isXor()) {
          left = make<arith::XOrIOp>(left, right);
          right = splat(-1);
        }
        sum = sums_.products->emit(emitter_.builder(), math_.location, left, right, sum);
      }
    }
  }

  // ---- Results

  void finishPixel(Value pixel, Value filter, ArrayRef<Value> totals) {
    Values sums;
    for (auto [number, total] : llvm::enumerate(totals))
      sums.push_back(numbersOf(total, pixel, math_.add(filter, int64_t(number) * sums_.lanes)));
    if (sums_.listsPads())
      sums = addPads(pixel, filter, sums);
    int64_t lanes = kLanesOfPair * sums_.lanes;
    for (int64_t pair = 0; pair < sums_.pairs; ++pair) {
      auto half = VectorType::get({sums_.lanes}, emitter_.builder().getI32Type());
      auto all = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
      Value low = make<arith::TruncIOp>(half, sums[size_t(2 * pair)]);
      Value high = make<arith::TruncIOp>(half, sums[size_t(2 * pair + 1)]);
      give(pixel, math_.add(filter, pair * lanes), make<vector::ShuffleOp>(low, high, all), lanes);
    }
  }

  /// Of counts, what they stand for; without pads.
  Value numbersOf(Value total, Value pixel, Value filter) {
    if (sums_.isXor()) {
      Value most = splat(of_.x.offset * of_.w.offset * of_.channels * of_.taps());
      return make<arith::SubIOp>(most, times(total, 2));
    }
    Value sum = times(total, of_.x.factor * of_.w.factor);
    if (sums_.sumsPixels()) {
      Value less = load(scratch_, math_.add(pixel, sums_.pixelSumsAt()), i64_);
      sum = make<arith::SubIOp>(sum, Value(make<vector::SplatOp>(words_, less)));
    }
    if (!sums_.sumsFilters())
      return sum;
    Value all = load(scratch_, filterSum(math_.constant(of_.taps()), filter), words_);
    return make<arith::SubIOp>(sum, all);
  }

  Values addPads(Value pixel, Value filter, const Values &sums) {
    Value list = math_.add(math_.mul(pixel, sums_.padsPitch()), sums_.padsAt());
    Value length = index(load(scratch_, list, i64_));
    return emitReduction(math_, zero(), length, one(), sums, [&](Value i, ValueRange before) {
      Value tap = index(load(scratch_, math_.add(math_.add(list, i), 1), i64_));
      Values next;
      for (auto [number, sum] : llvm::enumerate(before)) {
        Value at = filterSum(tap, math_.add(filter, int64_t(number) * sums_.lanes));
        next.push_back(make<arith::AddIOp>(sum, load(scratch_, at, words_)));
      }
      return next;
    });
  }

  void give(Value pixel, Value filter, Value sum, int64_t lanes) {
    emitter_.define(op_.getY(), [sum](const Position &) { return sum; });
    Value row = math_.add(first_, pixel);
    Position at{math_.delinear(row, ArrayRef(dims_).drop_back()), lanes};
    at.indices.push_back(math_.add(math_.mul(group_, of_.filters), filter));
    if (of_.filters == sums_.lanesOfGroup())
      return storeResults(emitter_, kernel_, results_, at, row);
    Value filters = math_.constant(of_.filters);
    emitIf(math_, math_.less(filter, filters), [&] {
      at.mask = emitter_.maskBelow(math_.sub(filters, filter), lanes);
      storeResults(emitter_, kernel_, results_, at, row);
    });
  }

  // ---- Words

  Value zero() { return math_.constant(0); }
  Value one() { return math_.constant(1); }
  Value number(int64_t value) {
    return make<arith::ConstantOp>(emitter_.builder().getI64IntegerAttr(value));
  }
  Value splat(int64_t value) {
    return make<arith::ConstantOp>(
        DenseElementsAttr::get(words_, emitter_.builder().getI64IntegerAttr(value)));
  }
  Value zeros(Type type) { return make<arith::ConstantOp>(emitter_.builder().getZeroAttr(type)); }
  Value index(Value word) {
    return make<arith::IndexCastOp>(emitter_.builder().getIndexType(), word);
  }
  Value both(Value a, Value b) { return a ? Value(make<arith::AndIOp>(a, b)) : b; }
  /// A small number of times: by shifts where it is a power of two.
  Value times(Value words, int64_t factor) {
    if (factor == 1)
      return words;
    if (llvm::isPowerOf2_64(uint64_t(factor)))
      return make<arith::ShLIOp>(words, splat(int64_t(llvm::Log2_64(uint64_t(factor)))));
    return make<arith::MulIOp>(words, splat(factor));
  }
  Value load(Value pointer, Value word, Type type) {
    return make<LLVM::LoadOp>(type, elementPointer(math_, i64_, pointer, word), kAlignment);
  }
  void store(Value pointer, Value word, Value value) {
    emitter_.builder().create<LLVM::StoreOp>(
        math_.location, value, elementPointer(math_, i64_, pointer, word), kAlignment);
  }
  static constexpr unsigned kAlignment = kWordBytes;

  template <typename Op, typename... Operands> Value make(Operands... operands) {
    return emitter_.builder().create<Op>(math_.location, operands...);
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::KernelOp kernel_;
  const Sums &sums_;
  const BitWindow &of_;
  ValueRange results_;
  graph::BitConvOp op_;
  Value x_, w_;
  Type i64_;
  VectorType words_;
  Values dims_, image_;
  Value pixels_, scratch_;
  Value first_, count_, group_; // of the item
};

bool isBitConv(Operation *op) {
  auto conv = dyn_cast<graph::BitConvOp>(op);
  return conv && graph::bitWindowOf(conv).has_value();
}

KernelParts bitSerialParts(graph::KernelOp kernel, graph::BitConvOp root, const Machine &machine,
                           const Point &asked) {
  Sums sums = *sumsOf(root, machine, asked);
  KernelParts parts;
  parts.summary = "bit serial, " + std::to_string(sums.of.x.bits) + " by " +
                  std::to_string(sums.of.w.bits) + " bits, " + sums.products->name.str();
  parts.items = [=](IndexMath &math, const SizeValues &sizes) mutable -> WorkItems {
    auto dims = dimValues(math, sizes, root.getY().getType());
    Value pixels = math.product(ArrayRef(dims).drop_back());
    int64_t products = sums.of.x.bits * sums.of.w.bits * sums.depth();
    Value work = math.constant(sums.block * sums.of.groups * sums.lanesOfGroup() * products);
    return {math.ceilDiv(pixels, math.constant(sums.block)), grainOf(math, work),
            asked.of(kChoices)};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    SumEmitter(emitter, kernel, sums, results).emit(begin, end);
  };
  return parts;
}

} // namespace

const Template kBitSerial = {
    .name = kBitSerialName,
    .mayBeRoot = isBitConv,
    .isRoot = isBitConv,
    .takes =
        [](graph::KernelOp, Operation *main, const Machine &machine) {
          auto root = dyn_cast<graph::BitConvOp>(main);
          auto isBuffer = [](Value operand) { return isa<BlockArgument>(operand); };
          return root && isBuffer(root.getX()) && isBuffer(root.getW()) &&
                 sumsOf(root, machine, {}).has_value();
        },
    .parts =
        [](graph::KernelOp kernel, Operation *main, const Machine &machine, const Point &asked) {
          return bitSerialParts(kernel, cast<graph::BitConvOp>(main), machine, asked);
        },
    .choices = kChoices,
    .space =
        [](graph::KernelOp, Operation *main, const Machine &machine, Space &space) {
          auto sums = sumsOf(cast<graph::BitConvOp>(main), machine, {});
          int64_t pairs = sums->lanesOfGroup() / (kLanesOfPair * sums->lanes);
          space.addAll(choice::bitPixels, choice::bitPixels.most);
          space.addDoubling(choice::bitPairs, std::min(pairs, choice::bitPairs.most));
          space.addDoubling(choice::bitWords, std::min(sums->depth(), choice::bitWords.most));
          space.addDoubling(choice::bitBlock, kMostBlock);
        },
    .multiplies = true,
};

} // namespace tensmith::kernel
