// Operators on bit planes: shape functions, and how they are made of codes.
//
// Sums of i32 are proved not to overflow by the sizes of the window and the numbers that codes
// stand for, which are constants; whatever else is open.
#include "compiler/graph/Bits.h"

#include "compiler/graph/GraphCode.h"
#include "compiler/graph/Inference.h"

#include <limits>

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/BitOps.cpp.inc"

namespace tensmith::graph {
namespace {

constexpr int64_t kMostBits = 8, kMostOffset = 255;
constexpr int64_t kMostExtent = (int64_t(1) << 31) - 1; // of windows, strides and pads

bool isWord(Type type) {
  return type.isUnsignedInteger(8) || type.isUnsignedInteger(16) || type.isUnsignedInteger(32) ||
         type.isUnsignedInteger(64);
}

bool areWithin(ArrayRef<int64_t> values, int64_t least) {
  return llvm::all_of(values, [&](int64_t one) { return one >= least && one <= kMostExtent; });
}

Codes codesOfX(BitConvOp op, int64_t bits) {
  return {bits, int64_t(op.getXFactor()), int64_t(op.getXOffset())};
}
Codes codesOfW(BitConvOp op, int64_t bits) {
  return {bits, int64_t(op.getWFactor()), int64_t(op.getWOffset())};
}

bool isFactor(const Codes &codes) {
  return (codes.factor == 1 || codes.factor == 2) && codes.offset >= 0 &&
         codes.offset <= kMostOffset;
}

} // namespace

int64_t BitWindow::taps() const { return product(kernel); }
bool BitWindow::isPadded() const {
  return llvm::any_of(pads, [](int64_t pad) { return pad != 0; });
}

std::optional<BitWindow> bitWindowOf(BitConvOp op) {
  auto x = dyn_cast<RankedTensorType>(op.getX().getType());
  auto w = dyn_cast<RankedTensorType>(op.getW().getType());
  if (!x || !w || x.getRank() < 4 || w.getRank() != x.getRank() + 1 || !w.hasStaticShape() ||
      w.getNumElements() == 0 || !isWord(x.getElementType()) ||
      w.getElementType() != x.getElementType())
    return std::nullopt;
  ArrayRef<int64_t> last = x.getShape().take_back(3), all = w.getShape();
  auto spatial = size_t(x.getRank()) - 4;
  BitWindow of{.strides = op.getStrides(),
               .pads = op.getPads(),
               .dilations = op.getDilations(),
               .kernel = llvm::to_vector(all.slice(3, spatial)),
               .groups = all[0],
               .blocks = all[1],
               .width = all.back(),
               .words = all[all.size() - 2],
               .wordBits = int64_t(x.getElementTypeBitWidth()),
               .channels = int64_t(op.getChannels()),
               .filters = int64_t(op.getFilters()),
               .x = codesOfX(op, last[1]),
               .w = codesOfW(op, all[2])};
  bool fits = last[0] == of.groups && last[2] == of.words && of.x.bits >= 1 &&
              of.x.bits <= kMostBits && of.w.bits <= kMostBits && isFactor(of.x) &&
              isFactor(of.w) && of.strides.size() == spatial && of.dilations.size() == spatial &&
              of.pads.size() == 2 * spatial && areWithin(of.strides, 1) &&
              areWithin(of.dilations, 1) && areWithin(of.pads, 0) && of.channels > 0 &&
              llvm::divideCeil(of.channels, of.wordBits) == uint64_t(of.words) && of.filters > 0 &&
              llvm::divideCeil(of.filters, of.width) == uint64_t(of.blocks);
  return fits ? std::optional(of) : std::nullopt;
}

int64_t BitConvOp::macsOfElement() {
  auto of = bitWindowOf(*this);
  return of ? of->taps() * of->channels : 0;
}

LogicalResult BitPackOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (!infer.element(0).isSignlessInteger(8) && !infer.element(0).isUnsignedInteger(8))
    return infer.error() << "(A1) has codes that are not of 8 bits";
  auto bits = int64_t(getBits()), word = int64_t(getWord());
  if (bits < 1 || bits > kMostBits || (word != 8 && word != 16 && word != 32 && word != 64))
    return infer.error() << "(A2) has " << bits << " planes in words of " << word
                         << " bits; 1 to 8 in words of 8, 16, 32 or 64 are possible";
  Type type = IntegerType::get(getContext(), unsigned(word), IntegerType::Unsigned);
  if (infer.unranked())
    return infer.giveUnranked(type);
  Dims dims = infer.dims(0);
  auto axis = int64_t(getAxis()), planes = int64_t(getPlanes()), rank = int64_t(dims.size());
  if (axis < 0 || axis >= rank || planes < 0 || planes > rank)
    return infer.error() << "(A3) packs dimension " << axis << " and puts planes before " << planes
                         << " of an operand of rank " << rank;
  dims[size_t(axis)] = infer.size(shapes.simplify(dims[size_t(axis)].ceilDiv(word)));
  dims.insert(dims.begin() + planes, infer.constant(bits));
  return infer.give(type, dims);
}

/// (A7), in 64 bits that can't overflow: numbers are below 2^9.
static LogicalResult checkSums(Inference &infer, const BitWindow &of) {
  int64_t products = of.channels;
  for (int64_t size : of.kernel)
    if (__builtin_mul_overflow(products, size, &products))
      return infer.error() << "(A7) has a window of more elements than can be counted";
  int64_t most = std::numeric_limits<int32_t>::max() / (of.x.largest() * of.w.largest());
  if (products > most)
    return infer.error() << "(A7) adds up " << products << " products of numbers up to "
                         << of.x.largest() << " and " << of.w.largest()
                         << ", whose sums may leave i32; at most " << most
                         << " are possible: split the channels";
  return success();
}

/// What the operator lacks that `bitWindowOf` doesn't take.
static LogicalResult explain(Inference &infer, BitConvOp op) {
  int64_t spatial = infer.rank(0) - 4;
  if (spatial < 0 || infer.rank(1) != infer.rank(0) + 1)
    return infer.error() << "(A4) has x of rank " << infer.rank(0) << " and w of rank "
                         << infer.rank(1)
                         << "; x has four dimensions beside the spatial ones, w one more";
  auto wType = cast<RankedTensorType>(op.getW().getType());
  if (!wType.hasStaticShape() || wType.getNumElements() == 0)
    return infer.error() << "(A6) has w of unknown sizes, or without elements";
  if (int64_t(op.getStrides().size()) != spatial || int64_t(op.getDilations().size()) != spatial ||
      int64_t(op.getPads().size()) != 2 * spatial || !areWithin(op.getStrides(), 1) ||
      !areWithin(op.getDilations(), 1) || !areWithin(op.getPads(), 0))
    return infer.error()
           << "(A5) has not one positive stride and dilation and two pads for each of " << spatial
           << " spatial dimensions";
  Codes x = codesOfX(op, 1), w = codesOfW(op, 1);
  if (!isFactor(x) || !isFactor(w))
    return infer.error() << "(A7) has factors other than 1 and 2, or offsets beyond 0 to 255";
  return infer.error()
         << "(A4) has operands whose words, planes, groups, channels and filters don't "
            "fit one another: x is "
         << op.getX().getType() << ", w is " << op.getW().getType() << ", with " << op.getChannels()
         << " channels and " << op.getFilters() << " filters of a group";
}

LogicalResult BitConvOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type i32 = IntegerType::get(getContext(), 32);
  if (!isWord(infer.element(0)) || infer.element(0) != infer.element(1))
    return infer.error() << "(A4) has operands that are not words of one unsigned type";
  if (infer.unranked())
    return infer.giveUnranked(i32);
  auto of = bitWindowOf(*this);
  if (!of)
    return explain(infer, *this);
  if (failed(checkSums(infer, *of)))
    return failure();
  Dims dims = infer.dims(0);
  dims.resize(dims.size() - 3);
  auto spatial = size_t(of->spatial());
  for (size_t dim = 0; dim < spatial; ++dim) {
    AffineExpr &size = dims[1 + dim];
    int64_t reach, pads = of->pads[dim] + of->pads[spatial + dim];
    if (__builtin_mul_overflow(of->kernel[dim] - 1, of->dilations[dim], &reach) ||
        reach > kMostExtent)
      return infer.error() << "(A6) has a window that is too large";
    if (failed(infer.requireAtMost(
            infer.constant(reach + 1), shapes.simplify(size + pads),
            "(A6) the window reaches over {a} elements of an image that has {b} with its pads")))
      return failure();
    AffineExpr span = shapes.simplify(size + (pads - reach - 1));
    size = infer.size(shapes.simplify(span.floorDiv(of->strides[dim]) + 1));
  }
  dims.push_back(infer.constant(of->groups * of->filters));
  return infer.give(i32, dims);
}

namespace {

NamedAttribute integer(GraphBuilder &graph, StringRef name, int64_t value) {
  return graph.named(name, graph.builder.getI64IntegerAttr(value));
}

Value pack(GraphBuilder &graph, Value codes, int64_t axis, int64_t planes, int64_t bits) {
  return GraphBuilder::first(
      graph.create("graph.bit_pack", codes,
                   {integer(graph, "axis", axis), integer(graph, "planes", planes),
                    integer(graph, "bits", bits)}));
}

/// Filters [M, C / groups, kernel...] as a bit_conv takes them.
Value packFilters(const GraphCode &code, Value w, int64_t groups, int64_t bits) {
  auto type = cast<RankedTensorType>(w.getType());
  int64_t filters = type.getDimSize(0) / groups;
  int64_t blocks = int64_t(llvm::divideCeil(filters, kBitFilters));
  GraphCode::Dims dims{code.size(groups), code.size(filters)}, apart;
  for (int64_t size : type.getShape().drop_front())
    dims.push_back(code.size(size));
  w = code.reshape(w, dims);
  if (int64_t missing = blocks * kBitFilters - filters) {
    SmallVector<int64_t> none(dims.size(), 0), high(none);
    high[1] = missing;
    Value zero = code.graph.scalar(GraphCode::element(w), 0);
    w = code.op("graph.pad", {w, zero}, {code.integers("low", none), code.integers("high", high)});
  }
  apart.assign({code.size(groups), code.size(blocks), code.size(kBitFilters)});
  apart.append(dims.begin() + 2, dims.end());
  // [groups, blocks, kernel..., C, width]
  SmallVector<int64_t> order{0, 1};
  auto rank = int64_t(apart.size());
  for (int64_t dim = 4; dim < rank; ++dim)
    order.push_back(dim);
  order.append({3, 2});
  w = code.transpose(code.reshape(w, apart), order);
  return w ? pack(code.graph, w, rank - 2, 2, bits) : Value();
}

Value convolve(const GraphCode &code, Value x, Value w, int64_t channels, int64_t filters,
               const BitConvolution &as) {
  GraphBuilder &graph = code.graph;
  return code.op("graph.bit_conv", {x, w},
                 {integer(graph, "channels", channels), integer(graph, "filters", filters),
                  code.integers("strides", as.strides), code.integers("pads", as.pads),
                  code.integers("dilations", as.dilations), integer(graph, "x_factor", as.x.factor),
                  integer(graph, "x_offset", as.x.offset), integer(graph, "w_factor", as.w.factor),
                  integer(graph, "w_offset", as.w.offset)});
}

} // namespace

Value convolveBits(GraphBuilder &graph, Value x, Value w, const BitConvolution &as) {
  GraphCode code(graph);
  auto type = cast<RankedTensorType>(w.getType());
  int64_t rank = type.getRank(), channels = type.getDimSize(1);
  SmallVector<int64_t> last{0}, first{0, rank - 1};
  for (int64_t dim = 2; dim < rank; ++dim) {
    last.push_back(dim);
    first.push_back(dim - 1);
  }
  last.push_back(1);
  Value image = code.transpose(x, last);
  if (!image)
    return {};
  // One group becomes a dimension of the words, so that planes are made right behind the codes.
  GraphCode::Dims dims = code.dims(image);
  dims.back() = code.size(as.groups);
  dims.push_back(code.size(channels));
  if (as.groups > 1)
    image = code.reshape(image, dims);
  if (!image)
    return {};
  int64_t axis = GraphCode::rank(image) - 1;
  image = pack(graph, image, axis, axis, as.x.bits);
  if (image && as.groups == 1) {
    dims.back() = code.size(as.x.bits);
    dims.push_back(code.dims(image).back());
    image = code.reshape(image, dims);
  }
  Value filters = packFilters(code, w, as.groups, as.w.bits);
  Value sums = image && filters
                   ? convolve(code, image, filters, channels, type.getDimSize(0) / as.groups, as)
                   : Value();
  return code.transpose(sums, first);
}

Value multiplyBits(GraphBuilder &graph, Value a, Value b, const Codes &ofA, const Codes &ofB) {
  GraphCode code(graph);
  auto type = cast<RankedTensorType>(b.getType());
  GraphCode::Dims dims = code.dims(a), result = dims;
  AffineExpr rows = graph.shapes.product(ArrayRef(dims).drop_back());
  auto axis = int64_t(dims.size()) - 1;
  Value left = pack(graph, a, axis, axis, ofA.bits);
  if (left)
    left = code.reshape(left, {rows, code.size(1), code.size(ofA.bits), code.dims(left).back()});
  Value right = packFilters(code, code.transpose(b, {1, 0}), 1, ofB.bits);
  BitConvolution as;
  as.x = ofA;
  as.w = ofB;
  Value sums = left && right
                   ? convolve(code, left, right, type.getDimSize(0), type.getDimSize(1), as)
                   : Value();
  result.back() = code.size(type.getDimSize(1));
  return code.reshape(sums, result);
}

} // namespace tensmith::graph
