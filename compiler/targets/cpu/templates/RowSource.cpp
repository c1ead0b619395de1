// Rows of A for a register tile; see RowSource.h.
#include "compiler/targets/cpu/templates/RowSource.h"

#include "compiler/kernel/KernelFrame.h"
#include "compiler/targets/cpu/templates/ConvChain.h"
#include "compiler/targets/cpu/templates/RowPrologue.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {
// Rows of the copy are set apart by more than their length, so that they don't fall into the same
// cache sets.
constexpr int64_t kCopyPadding = 16;
constexpr int64_t kLongestCopy = 32;    // bytes that are moved at once, on any machine
constexpr int64_t kChannelsAtOnce = 16; // that are computed; a vector of f32, or two

/// The operand in memory whose last dimension are the rows of A; null where there is none. Rows of
/// A are then a dimension, too, and not several that the tile runs through.
graph::TransposeOp turningOperator(const Contraction &contraction) {
  auto transpose = contraction.left.getDefiningOp<graph::TransposeOp>();
  bool halves = getElementTypeOrSelf(contraction.left.getType()).isBF16();
  if (!transpose || !isa<BlockArgument>(transpose.getX()) || (contraction.step != 1 && !halves))
    return {};
  int64_t rank = transpose.getPermutation().size();
  bool batched = cast<RankedTensorType>(contraction.panels.getType()).getRank() > 3;
  bool turns = rank >= 2 && transpose.getPermutation()[rank - 2] == rank - 1;
  return turns && (rank == 2 || batched) ? transpose : graph::TransposeOp();
}
} // namespace

static RowPlace placeOfAnyRows(const Contraction &contraction) {
  bool isBuffer = isa<BlockArgument>(contraction.left);
  if (graph::ConvOp conv = contraction.conv())
    return (isBuffer || computesImage(conv)) && readsPixelsInPlace(conv, contraction.multiple)
               ? RowPlace::InPlace
               : RowPlace::Copied;
  if (turningOperator(contraction))
    return RowPlace::Turned;
  int64_t columns = cast<RankedTensorType>(contraction.left.getType()).getShape().back();
  bool wholeSteps = contraction.multiple == 1 ||
                    (!ShapedType::isDynamic(columns) && columns % contraction.multiple == 0);
  if (isBuffer)
    return wholeSteps ? RowPlace::InPlace : RowPlace::Copied;
  // A row in one piece, or in pieces of the same length.
  int64_t run = contiguousRun(contraction.left);
  bool pieces = !ShapedType::isDynamic(columns) && columns > 0 && run >= kFewChannels &&
                (run % columns == 0 || columns % run == 0) && wholeSteps &&
                run % contraction.multiple == 0;
  return pieces ? RowPlace::Moved : RowPlace::Copied;
}

/// Whether rows that are counted through the padded image take a matrix unit less time than those
/// that are gathered, tap by tap: it passes more of them, and an item copies pixels behind its own.
/// Sizes that aren't known are taken for usual ones.
static bool isPaddingCheap(graph::ConvOp conv) {
  constexpr int64_t kUsualSize = 64, kRowsOfTile = 32, kRowsOfItem = 256, kCachedBytes = 1 << 19;
  constexpr double kColumnsOfCopy = 50; // so many are multiplied while an element is copied
  ArrayRef<int64_t> shape = cast<RankedTensorType>(conv.getY().getType()).getShape();
  ArrayRef<int64_t> weights = cast<RankedTensorType>(conv.getW().getType()).getShape();
  bool isBatchKnown = !ShapedType::isDynamic(shape.front());
  int64_t rows = isBatchKnown ? shape.front() : 1, pixels = rows, behind = 0, taps = 1;
  for (auto [dim, extent] : llvm::enumerate(weights.drop_front(2))) {
    int64_t size = ShapedType::isDynamic(shape[1 + dim]) ? kUsualSize : shape[1 + dim];
    int64_t reach = (extent - 1) * conv.getDilations()[dim];
    rows *= size;
    pixels *= size + reach;
    behind = behind * (size + reach) + reach;
    taps *= extent;
  }
  int64_t cached = kCachedBytes / (weights[1] * 2);
  double ofItem = std::max(std::min(2 * behind, cached), kRowsOfItem),
         columns = double(weights[0]) / double(conv.getGroup());
  double copies = kColumnsOfCopy * (1 + behind / ofItem) / taps;
  double tiles = llvm::divideCeil(std::max<int64_t>(pixels - behind, 1), kRowsOfTile);
  double gatheredTiles = llvm::divideCeil(std::max<int64_t>(rows, 1), kRowsOfTile);
  return tiles * (columns + copies) <= gatheredTiles * (columns + kColumnsOfCopy);
}

RowPlace rowPlace(const Contraction &contraction, bool evenly) {
  RowPlace place = placeOfAnyRows(contraction);
  if (!evenly)
    return place;
  if (place == RowPlace::Turned)
    return RowPlace::Copied;
  if (place == RowPlace::Moved)
    return RowPlace::Gathered;
  if (!isa<BlockArgument>(contraction.left))
    return place;
  bool isEven = place == RowPlace::InPlace;
  if (graph::ConvOp conv = contraction.conv()) {
    int64_t channels = cast<RankedTensorType>(conv.getW().getType()).getDimSize(1);
    bool pads = hasWindow(conv) && channels % productsOfTile(contraction.step) == 0 &&
                llvm::all_of(conv.getStrides(), [](int64_t stride) { return stride == 1; });
    if (pads && isPaddingCheap(conv))
      return RowPlace::Padded;
    isEven = isEven && isPointwise(conv);
  }
  return isEven ? place : RowPlace::Gathered;
}

RowSource::RowSource(ElementEmitter &emitter, const Contraction &contraction, bool evenly)
    : emitter_(emitter), math_(emitter.math), contraction_(contraction),
      element_(getElementTypeOrSelf(contraction.left.getType())),
      place_(rowPlace(contraction, evenly)) {
  if (graph::ConvOp conv = contraction_.conv())
    readPixels(conv);
  else
    readMatrix();
  products_ = total_;
  int64_t multiple = contraction_.multiple;
  total_ = math_.mul(math_.ceilDiv(total_, math_.constant(multiple)), multiple);
}

void RowSource::readMatrix() {
  auto type = cast<RankedTensorType>(contraction_.left.getType());
  int64_t known = depthOf(contraction_.root);
  depth_ = total_ = ShapedType::isDynamic(known)
                        ? dimValue(math_, emitter_.sizes, type, type.getRank() - 1)
                        : math_.constant(known);
  int64_t columns = type.getShape().back(), run = contiguousRun(contraction_.left);
  if (place_ == RowPlace::Moved && run % columns != 0) {
    taps_.push_back(columns / run);
    depth_ = math_.constant(run);
  }
}

void RowSource::readPixels(graph::ConvOp conv) {
  image_.emplace(emitter_, conv);
  depth_ = total_ = math_.constant(cast<RankedTensorType>(conv.getW().getType()).getDimSize(1));
  for (int64_t tap : image_->window())
    total_ = math_.mul(total_, tap);
  if (copies())
    return;
  ArrayRef<int64_t> window = image_->window();
  if (readsWholeRows(conv) && !pads()) {
    depth_ = math_.mul(depth_, window.back());
    window = window.drop_back();
  }
  taps_.assign(window.begin(), window.end());
}

int64_t RowSource::elementBytes() const {
  return std::max<int64_t>(storageType(element_).getIntOrFloatBitWidth() / 8, 1);
}

Value RowSource::bytesPerRow() {
  graph::ConvOp conv = contraction_.conv();
  if (pads())
    return pitch();
  if (!conv || hasOneTap() || copies())
    return math_.mul(total_, elementBytes());
  Value elements = depth_;
  for (int64_t stride : conv.getStrides())
    elements = math_.mul(elements, stride);
  return math_.mul(elements, elementBytes());
}

/// Of the images with their padding: [images, lines, ..., pixels of a line].
SmallVector<Value> RowSource::paddedSizes() {
  graph::ConvOp conv = contraction_.conv();
  SmallVector<Value> sizes = emitter_.dims(conv.getY());
  sizes.pop_back();
  for (auto [dim, extent] : llvm::enumerate(image_->window()))
    sizes[1 + dim] = math_.add(sizes[1 + dim], (extent - 1) * conv.getDilations()[dim]);
  return sizes;
}

/// From a row's first tap to its last.
Value RowSource::pixelsBehind() {
  SmallVector<Value> last;
  for (int64_t extent : image_->window())
    last.push_back(math_.constant(extent - 1));
  return pixelOfTap(last);
}

Value RowSource::pixelOfTap(ValueRange tap) {
  SmallVector<Value> at{math_.constant(0)};
  for (auto [dim, index] : llvm::enumerate(tap))
    at.push_back(math_.mul(index, contraction_.conv().getDilations()[dim]));
  return math_.linear(at, paddedSizes());
}

Value RowSource::tapBytes(ValueRange tap) { return math_.mul(pixelOfTap(tap), pitch()); }

Value RowSource::paddedRows() { // none of an image that has no pixels
  Value pixels = math_.product(paddedSizes()), behind = pixelsBehind();
  return math_.select(math_.less(behind, pixels), math_.sub(pixels, behind), math_.constant(0));
}

Value RowSource::resultRow(Value row, Value &inside) {
  SmallVector<Value> at = math_.delinear(row, paddedSizes());
  SmallVector<Value> sizes = emitter_.dims(contraction_.conv().getY());
  sizes.pop_back();
  inside = {};
  for (size_t dim = 1; dim < at.size(); ++dim) {
    Value fits = math_.less(at[dim], sizes[dim]);
    inside =
        inside ? Value(math_.builder.create<arith::AndIOp>(math_.location, inside, fits)) : fits;
  }
  return math_.linear(at, sizes);
}

void RowSource::copyPadded(Value batch, Value first, Value count) {
  graph::ConvOp conv = contraction_.conv();
  SmallVector<Value> sizes = paddedSizes();
  Value channel = math_.mul(batch, depth_), pixels = math_.add(count, pixelsBehind());
  emitFor(math_, math_.constant(0), pixels, math_.constant(1), [&](Value pixel) {
    SmallVector<Value> at = math_.delinear(math_.add(first, pixel), sizes);
    for (size_t dim = 1; dim < at.size(); ++dim)
      at[dim] = math_.sub(at[dim], math_.constant(conv.getPads()[dim - 1]));
    Value to = bytePointer(math_, scratch_, math_.mul(pixel, pitch()));
    copyPiece(to, image_->pixel(at, channel), *constantIndex(depth_));
  });
}

/// Pixels lie apart by more than a power of two, or they would fall into the same cache sets.
Value RowSource::pitch() {
  constexpr int64_t kLine = 64;
  if (pads())
    return math_.add(math_.mul(depth_, elementBytes()), kLine);
  Value elements = copies() ? copyStride()
                   : image_ ? emitter_.dims(contraction_.left).back()
                            : depth_;
  return math_.mul(elements, elementBytes());
}

Value RowSource::evenRow(Value batch, Value row, Value slot) {
  if (pads())
    return bytePointer(math_, scratch_, math_.mul(slot, pitch()));
  beginTile(batch, TileRows(math_, {.first = row, .height = 1}, slot));
  return rowPointers({})[0];
}

std::optional<RowSource::Run> RowSource::runFrom(Value row) {
  auto type = cast<RankedTensorType>(contraction_.left.getType());
  graph::ConvOp conv = contraction_.conv();
  bool batches = cast<RankedTensorType>(contraction_.panels.getType()).getRank() > 3;
  auto isOne = [](int64_t size) { return size == 1; };
  bool isImage = conv && conv.getGroup() == 1 && llvm::all_of(conv.getStrides(), isOne);
  if (!type.hasStaticShape() || !(conv ? isImage : !batches) ||
      !(pads() || place_ == RowPlace::InPlace))
    return std::nullopt;
  if (pads()) { // from the pixel, or where it would be
    SmallVector<Value> at = math_.delinear(row, paddedSizes());
    for (size_t dim = 1; dim < at.size(); ++dim)
      at[dim] = math_.sub(at[dim], math_.constant(conv.getPads()[dim - 1]));
    row = math_.linear(at, ArrayRef(emitter_.dims(contraction_.left)).drop_back());
  }
  int64_t elements = type.getShape().back();
  return Run{
      elementPointer(math_, element_, emitter_.buffer(contraction_.left), math_.mul(row, elements)),
      elements * elementBytes(), type.getNumElements() * elementBytes()};
}

Value RowSource::copyStride() { return math_.add(total_, kCopyPadding); }

Value RowSource::copiedRow(Value slot) {
  return elementPointer(math_, element_, scratch_, math_.mul(copyStride(), slot));
}

Value RowSource::scratchBytes(Value rows) {
  if (pads())
    return math_.mul(math_.add(rows, pixelsBehind()), pitch());
  return math_.mul(math_.mul(copyStride(), rows), elementBytes());
}

SmallVector<Value> RowSource::matrixIndices(Value batch, Value row) {
  auto type = cast<RankedTensorType>(contraction_.left.getType());
  if (cast<RankedTensorType>(contraction_.panels.getType()).getRank() == 3)
    return math_.delinear(row, ArrayRef(emitter_.dims(contraction_.left)).drop_back());
  // The batch runs over the result's leading dimensions, over some of which A may be broadcast.
  SmallVector<Value> dims = dimValues(math_, emitter_.sizes, contraction_.result());
  Position at{math_.delinear(batch, ArrayRef(dims).drop_back(2))};
  at.indices.append({row, row});
  SmallVector<Value> own = broadcastPosition(math_, at, type).indices;
  own.pop_back();
  own.back() = row;
  return own;
}

void RowSource::copyTile(Value batch, const TileRows &rows, size_t part) {
  if (place_ == RowPlace::Gathered) {
    gatherRows(batch, rows);
  } else if (image_) {
    image_->begin(rows.numbers);
    if (readsSinglePixels(contraction_.conv()))
      copySinglePixels(rows.slots, part);
    else
      copyImageRows(batch, rows.slots);
  } else {
    copyMatrixRows(batch, rows);
  }
}

void RowSource::copyColumn(Value batch, const TileRows &rows, Value k) {
  int64_t count = rows.size();
  Value first = rows.numbers.front(), slot = rows.slots.front(), place = math_.mul(k, count);
  if (contraction_.step == 1)
    return emitter_.store(copiedRow(slot), element_, place,
                          column(batch, first, count, k, element_));
  // Pairs or fours as they are multiplied, of their bits.
  auto &builder = math_.builder;
  Type bits = builder.getI16Type();
  Value last = math_.sub(products_, math_.constant(1));
  auto read = [&](Value at, bool maybeBehind) {
    if (!maybeBehind)
      return column(batch, first, count, at, bits);
    Value found = column(batch, first, count, math_.min(at, last), bits);
    Value zero =
        builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(found.getType()));
    return math_.select(math_.less(at, products_), found, zero);
  };
  bool isFilled = contraction_.multiple > contraction_.step; // with more than the rest of a step
  auto known = constantIndex(products_);
  int64_t step = contraction_.step;
  SmallVector<Value> all;
  for (int64_t number = 0; number < step; ++number)
    all.push_back(
        read(math_.add(k, number), isFilled || (number > 0 && (!known || *known % step != 0))));
  if (count == 1) { // scalars
    for (auto [number, one] : llvm::enumerate(all))
      emitter_.store(copiedRow(slot), bits, math_.add(place, int64_t(number)), one);
    return;
  }
  auto joined = [&](Value low, Value high, ArrayRef<int64_t> places) -> Value {
    return builder.create<vector::ShuffleOp>(math_.location, low, high, places);
  };
  for (int64_t length = count; all.size() > 2; length *= 2) { // one behind the other
    for (size_t pair = 0; pair < all.size() / 2; ++pair)
      all[pair] = joined(all[2 * pair], all[2 * pair + 1],
                         llvm::to_vector(llvm::seq<int64_t>(0, 2 * length)));
    all.resize(all.size() / 2);
  }
  SmallVector<int64_t> byTurns;
  for (int64_t row = 0; row < count; ++row)
    for (int64_t number = 0; number < step; ++number)
      byTurns.push_back(number * count + row);
  emitter_.store(copiedRow(slot), bits, place, joined(all[0], all[1], byTurns));
}

/// The elements of `count` rows at `k`, which lie side by side; read as numbers of that type.
Value RowSource::column(Value batch, Value row, int64_t count, Value k, Type element) {
  graph::TransposeOp transpose = turningOperator(contraction_);
  SmallVector<Value> indices = matrixIndices(batch, row), source(indices.size() + 1);
  indices.push_back(k);
  for (auto [index, dim] : llvm::zip_equal(indices, transpose.getPermutation()))
    source[dim] = index;
  Value offset = math_.linear(source, emitter_.dims(transpose.getX()));
  return emitter_.load(emitter_.buffer(transpose.getX()), element, offset, count);
}

void RowSource::beginTile(Value batch, const TileRows &rows) {
  batch_ = batch;
  rows_ = rows.numbers;
  bases_.clear();
  if (held_.first)
    for (Value slot : rows.slots)
      bases_.push_back(elementPointer(math_, element_, held_.first, math_.mul(slot, held_.apart)));
  else if (turns())
    for (size_t row = 0; row < rows.size(); ++row)
      bases_.push_back(elementPointer(math_, element_, copiedRow(rows.slots.front()),
                                      math_.constant(row * contraction_.step)));
  else if (copies())
    for (Value slot : rows.slots)
      bases_.push_back(copiedRow(slot));
  else if (image_)
    image_->begin(rows.numbers);
  else if (place_ == RowPlace::InPlace)
    for (Value row : rows.numbers)
      bases_.push_back(elementPointer(math_, element_, emitter_.buffer(contraction_.left),
                                      math_.mul(rowNumber(batch, row), depth_)));
}

Value RowSource::rowNumber(Value batch, Value row) {
  if (cast<RankedTensorType>(contraction_.panels.getType()).getRank() == 3)
    return row;
  return math_.linear(matrixIndices(batch, row),
                      ArrayRef(emitter_.dims(contraction_.left)).drop_back());
}

Value RowSource::reaches(ValueRange tap) {
  auto isFar = [](int64_t dilation) { return dilation > 1; };
  if (!image_ || !bases_.empty() || llvm::none_of(contraction_.conv().getDilations(), isFar))
    return {};
  SmallVector<Value> first(tap);
  first.resize(image_->window().size(), math_.constant(0));
  Value any;
  for (size_t row = 0; row < image_->count(); ++row) {
    Value inside;
    image_->indices(row, first, inside);
    if (!inside)
      return {};
    any = any ? math_.select(any, any, inside) : inside;
  }
  return any;
}

SmallVector<Value> RowSource::rowPointers(ValueRange tap) {
  if (!bases_.empty())
    return bases_;
  SmallVector<Value> pointers;
  if (image_) {
    SmallVector<Value> first(tap);
    first.resize(image_->window().size(), math_.constant(0));
    Value channel = math_.mul(batch_, depth_);
    for (size_t row = 0; row < image_->count(); ++row)
      pointers.push_back(image_->pointer(row, first, channel));
    return pointers;
  }
  for (Value row : rows_) {
    SmallVector<Value> indices = matrixIndices(batch_, row);
    indices.push_back(tap.empty() ? math_.constant(0) : math_.mul(tap[0], depth_));
    pointers.push_back(emitter_.address(contraction_.left, indices));
  }
  return pointers;
}

void RowSource::copyMatrixRows(Value batch, const TileRows &rows) {
  for (auto [row, slot] : llvm::zip_equal(rows.numbers, rows.slots)) {
    SmallVector<Value> prefix = matrixIndices(batch, row);
    Value base = math_.mul(copyStride(), slot);
    emitFor(math_, math_.constant(0), products_, math_.constant(1), [&](Value k) {
      Position at{prefix};
      at.indices.push_back(k);
      emitter_.store(scratch_, element_, math_.add(base, k),
                     emitter_.element(contraction_.left, at));
    });
    fillMultiple(base);
  }
}

/// Copies `count` elements from memory to memory, in vectors of fewer and fewer lanes.
void RowSource::copyRun(Value to, Value from, int64_t count) {
  // As bits: 16-bit floats would be widened on the way.
  Type bits = math_.builder.getIntegerType(8 * elementBytes());
  int64_t lanes = int64_t(llvm::bit_floor(uint64_t(kLongestCopy / elementBytes())));
  for (int64_t at = 0; at < count; at += lanes) {
    while (lanes > count - at)
      lanes /= 2;
    Value place = math_.constant(at);
    emitter_.store(to, bits, place, emitter_.load(from, bits, place, lanes));
  }
}

void RowSource::copyPiece(Value to, Value from, int64_t count) {
  constexpr int64_t kLine = 64;
  Type bits = math_.builder.getIntegerType(8 * elementBytes());
  int64_t lanes = kLine / elementBytes(), whole = count - count % lanes;
  emitFor(math_, math_.constant(0), math_.constant(whole), math_.constant(lanes),
          [&](Value at) { emitter_.store(to, bits, at, emitter_.load(from, bits, at, lanes)); });
  Value rest = math_.constant(whole);
  copyRun(elementPointer(math_, element_, to, rest), elementPointer(math_, element_, from, rest),
          count - whole);
}

/// Each tap's piece of each row.
void RowSource::gatherRows(Value batch, const TileRows &rows) {
  SmallVector<int64_t> taps;
  int64_t piece = depthOf(contraction_.root);
  Value channel;
  if (image_) {
    bool wholeRows = readsWholeRows(contraction_.conv());
    ArrayRef<int64_t> window = image_->window();
    piece = *constantIndex(depth_) * (wholeRows ? window.back() : 1);
    taps.assign(window.begin(), window.end() - wholeRows);
    channel = math_.mul(batch, depth_);
    image_->begin(rows.numbers);
  } else if (int64_t run = contiguousRun(contraction_.left);
             !isa<BlockArgument>(contraction_.left) && run % piece) {
    taps.push_back(piece / run);
    piece = run;
  }
  for (auto [number, row] : llvm::enumerate(rows.numbers)) {
    Value base = math_.mul(copyStride(), rows.slots[number]);
    SmallVector<Value> tap;
    std::function<void(Value)> nest = [&](Value place) {
      if (tap.size() < taps.size())
        return emitFor(math_, math_.constant(0), math_.constant(taps[tap.size()]),
                       math_.constant(1), [&](Value index) {
                         int64_t extent = taps[tap.size()];
                         tap.push_back(index);
                         nest(math_.add(math_.mul(place, extent), index));
                         tap.pop_back();
                       });
      Value from;
      if (image_) {
        SmallVector<Value> first(tap);
        first.resize(image_->window().size(), math_.constant(0));
        from = image_->pointer(number, first, channel);
      } else {
        SmallVector<Value> indices = matrixIndices(batch, row);
        indices.push_back(tap.empty() ? math_.constant(0) : math_.mul(tap[0], piece));
        from = emitter_.address(contraction_.left, indices);
      }
      Value to = math_.add(base, math_.mul(place, piece));
      copyPiece(elementPointer(math_, element_, scratch_, to), from, piece);
    };
    nest(math_.constant(0));
    fillMultiple(base);
  }
}

/// Of windows whose rows lie together in memory, each row in one piece.
void RowSource::copyWindowRows(Value batch, ArrayRef<Value> slots) {
  ArrayRef<int64_t> window = image_->window();
  int64_t run = window.back() * *constantIndex(depth_);
  Value channel = math_.mul(batch, depth_);
  for (size_t row = 0; row < image_->count(); ++row) {
    Value base = math_.mul(copyStride(), slots[row]);
    Value lines = math_.constant(ShapedType::getNumElements(window.drop_back()));
    emitFor(math_, math_.constant(0), lines, math_.constant(1), [&](Value line) {
      SmallVector<Value> sizes, tap;
      for (int64_t extent : window.drop_back())
        sizes.push_back(math_.constant(extent));
      if (!sizes.empty())
        tap = math_.delinear(line, sizes);
      tap.push_back(math_.constant(0));
      Value to = math_.add(base, math_.mul(line, run));
      copyRun(elementPointer(math_, element_, scratch_, to), image_->pointer(row, tap, channel),
              run);
    });
    fillMultiple(base);
  }
}

/// Each row of the copy: the window's pixels side by side, those outside of the image as zeros.
void RowSource::copyImageRows(Value batch, ArrayRef<Value> slots) {
  if (isa<BlockArgument>(contraction_.left) && readsWholeRows(contraction_.conv()))
    return copyWindowRows(batch, slots);
  ArrayRef<int64_t> window = image_->window();
  for (size_t row = 0; row < image_->count(); ++row) {
    SmallVector<Value> tap;
    std::function<void(Value)> nest = [&](Value place) {
      if (tap.size() == window.size())
        return copyPixel(row, batch, tap, place, slots[row]);
      int64_t extent = window[tap.size()];
      emitFor(math_, math_.constant(0), math_.constant(extent), math_.constant(1),
              [&](Value index) {
                tap.push_back(index);
                nest(math_.add(math_.mul(place, extent), index));
                tap.pop_back();
              });
    };
    nest(math_.constant(0));
    fillMultiple(math_.mul(copyStride(), slots[row]));
  }
}

/// What a copied row lacks to whole multiples is zero.
void RowSource::fillMultiple(Value base) {
  auto &builder = math_.builder;
  if (contraction_.multiple == 1)
    return;
  Type number = graph::kernelElementType(element_);
  Value zero = builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(number));
  emitFor(math_, products_, total_, math_.constant(1),
          [&](Value k) { emitter_.store(scratch_, element_, math_.add(base, k), zero); });
}

size_t RowSource::copiedParts() const {
  auto joined = contraction_.conv() ? joinedRows(contraction_.conv()) : graph::ConcatOp();
  return joined ? joined.getInputs().size() : 1;
}

/// The channels of an image, or of what is joined to one, that are copied together.
RowSource::Part RowSource::partOfCopy(size_t number) const {
  graph::ConcatOp joined = joinedRows(contraction_.conv());
  if (!joined)
    return {{}, 0, *constantIndex(depth_)};
  auto channels = [](Value input) {
    return cast<RankedTensorType>(input.getType()).getShape().back();
  };
  Part part{joined.getInputs()[number], 0, channels(joined.getInputs()[number])};
  for (Value before : joined.getInputs().take_front(number))
    part.first += channels(before);
  return part;
}

/// Of a pointwise convolution, a part's channels: vectors of them of all pixels together, for which
/// what is the same, as a scale, is read once.
void RowSource::copySinglePixels(ArrayRef<Value> slots, size_t number) {
  Part part = partOfCopy(number);
  SmallVector<Value> tap(image_->window().size(), math_.constant(0));
  SmallVector<Position> pixels;
  SmallVector<Value> places; // in the part
  for (size_t row = 0; row < image_->count(); ++row) {
    Value inside; // there is no padding
    pixels.push_back({image_->indices(row, tap, inside), kChannelsAtOnce});
    places.push_back(math_.mul(image_->number(row), part.count));
  }
  auto copy = [&](Value channel, Value mask) {
    for (auto [row, pixel] : llvm::enumerate(pixels)) {
      Position at = pixel;
      at.indices.push_back(math_.add(channel, part.first));
      at.mask = mask;
      if (part.input)
        emitter_.define(joinedRows(contraction_.conv()).getY(), [&](const Position &) {
          return loadPart(part, math_.add(places[row], channel), mask);
        });
      Value to = math_.add(math_.mul(copyStride(), slots[row]), at.indices.back());
      emitter_.store(scratch_, element_, to, emitter_.element(contraction_.left, at), mask);
    }
  };
  int64_t whole = part.count - part.count % kChannelsAtOnce;
  emitFor(math_, math_.constant(0), math_.constant(whole), math_.constant(kChannelsAtOnce),
          [&](Value channel) { copy(channel, {}); });
  if (whole < part.count)
    copy(math_.constant(whole),
         emitter_.maskBelow(math_.constant(part.count - whole), kChannelsAtOnce));
  if (number + 1 == copiedParts())
    for (size_t row = 0; row < pixels.size(); ++row)
      fillMultiple(math_.mul(copyStride(), slots[row]));
}

Value RowSource::loadPart(const Part &part, Value place, Value mask) {
  constexpr int kSecondLevel = 2, kData = 1; // of a prefetch
  Type element = getElementTypeOrSelf(part.input.getType());
  Value pointer = emitter_.buffer(part.input);
  if (ahead_)
    math_.builder.create<LLVM::Prefetch>(
        math_.location,
        elementPointer(math_, element, pointer, math_.add(place, math_.mul(ahead_, part.count))),
        /*rw=*/0, /*hint=*/kSecondLevel, /*cache=*/kData);
  return emitter_.load(pointer, element, place, kChannelsAtOnce, mask);
}

void RowSource::copyPixel(size_t row, Value batch, ValueRange tap, Value place, Value slot) {
  Value inside;
  SmallVector<Value> indices = image_->clampedIndices(row, tap, inside);
  Value base = math_.add(math_.mul(copyStride(), slot), math_.mul(place, depth_));
  auto copy = [&](Value channel) {
    Position at{indices};
    at.indices.push_back(math_.add(math_.mul(batch, depth_), channel));
    Value element = emitter_.element(contraction_.left, at);
    if (inside) {
      auto &builder = math_.builder;
      Value zero =
          builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(element.getType()));
      element = math_.select(inside, element, zero);
    }
    emitter_.store(scratch_, element_, math_.add(base, channel), element);
  };
  int64_t channels = *constantIndex(depth_);
  if (channels >= kFewChannels)
    return emitFor(math_, math_.constant(0), depth_, math_.constant(1), copy);
  for (int64_t channel = 0; channel < channels; ++channel)
    copy(math_.constant(channel));
}

} // namespace tensmith::kernel
