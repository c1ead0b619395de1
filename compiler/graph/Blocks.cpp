// Operators on blocks of few bits: shape functions.
//
// Bytes of a row are a constant, so that the numbers of one are: what a kernel multiplies is a
// whole number of blocks, whatever else is open.
#include "compiler/graph/Blocks.h"

#include "compiler/graph/Inference.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/BlockOps.cpp.inc"

namespace tensmith::graph {
namespace {

/// The numbers of a row of an operand; failure, with the constraint, where it has none.
FailureOr<int64_t> numbersOfRow(Inference &infer, unsigned operand, StringRef name) {
  const BlockFormat *format = findBlockFormat(name);
  if (!format)
    return infer.error() << "(B1) has the format '" << name << "', which is none of blocks";
  if (!infer.element(operand).isUnsignedInteger(8))
    return infer.error() << "(B1) has blocks that are not ui8";
  if (infer.rank(operand) == 0)
    return infer.error() << "(B2) has blocks without a dimension";
  auto bytes = infer.known(infer.dims(operand).back());
  if (!bytes || *bytes % format->bytes != 0)
    return infer.error() << "(B2) has rows of " << (bytes ? std::to_string(*bytes) : "unknown")
                         << " bytes, which are no whole number of blocks of " << format->bytes;
  return *bytes / format->bytes * format->elements;
}

/// The numbers of a head of keys or values.
FailureOr<AffineExpr> numbersOfHead(Inference &infer, unsigned cache, StringRef format) {
  if (infer.element(cache).isUnsignedInteger(8)) {
    auto numbers = numbersOfRow(infer, cache, format);
    return failed(numbers) ? FailureOr<AffineExpr>(failure()) : infer.constant(*numbers);
  }
  if (!format.empty() || !(infer.element(cache).isF32() || infer.element(cache).isF16()))
    return infer.error() << "(B5) keeps keys and values of " << infer.element(cache)
                         << "; f32, f16, and ui8 with a format are possible";
  return infer.dims(cache).back();
}

/// Operands of cached attention.
enum : unsigned { Queries, Keys, Values, PageTable, Lengths, Firsts, NewKeys, NewValues };

LogicalResult requireSizes(Inference &infer) {
  struct Pair {
    unsigned a, b;
    size_t dimOfA, dimOfB;
    const char *what;
  };
  for (auto [a, b, dimOfA, dimOfB, what] :
       {Pair{Values, Keys, 0, 0, "the pages of keys and of values"},
        Pair{Values, Keys, 1, 1, "the positions of pages of keys and of values"},
        Pair{Values, Keys, 2, 2, "the heads of keys and of values"},
        Pair{NewKeys, Keys, 1, 2, "the heads of keys and of new ones"},
        Pair{NewKeys, Keys, 2, 3, "the heads' sizes of keys and of new ones"},
        Pair{NewValues, Values, 1, 2, "the heads of values and of new ones"},
        Pair{NewValues, Values, 2, 3, "the heads' sizes of values and of new ones"},
        Pair{PageTable, Queries, 0, 0, "the lists of pages and the queries"},
        Pair{Lengths, Queries, 0, 0, "the lengths and the queries"},
        Pair{Firsts, Queries, 0, 0, "the first rows and the queries"},
        Pair{NewKeys, Queries, 0, 0, "the new keys and the queries"},
        Pair{NewValues, Queries, 0, 0, "the new values and the queries"}})
    if (failed(infer.requireEqual(infer.dims(a)[dimOfA], infer.dims(b)[dimOfB],
                                  a < PageTable || a > Firsts ? "(B5)" : "(B6)", what)))
      return failure();
  AffineExpr heads = infer.dims(Queries)[1], keyHeads = infer.dims(Keys)[2];
  if (failed(infer.requireAtMost(infer.constant(1), keyHeads, "(B7) there are no heads of keys")))
    return failure();
  return infer.requireEqual(heads, heads.floorDiv(keyHeads) * keyHeads, "(B7)",
                            "the heads of q and a multiple of those of keys");
}

} // namespace

LogicalResult BlockValuesOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type f32 = Float32Type::get(getContext());
  if (infer.unranked())
    return infer.giveUnranked(f32);
  auto numbers = numbersOfRow(infer, 0, getFormat());
  if (failed(numbers))
    return failure();
  Dims dims = infer.dims(0);
  dims.back() = infer.constant(*numbers);
  return infer.give(f32, dims);
}

LogicalResult BlockProductOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type f32 = Float32Type::get(getContext());
  if (!infer.element(0).isF32())
    return infer.error() << "(B3) has an x that is not f32";
  if (getXBits() != 0 && getXBits() != 8)
    return infer.error() << "(B4) has an x of " << getXBits() << " bits; 0 and 8 are possible";
  if (infer.unranked())
    return infer.giveUnranked(f32);
  if (failed(infer.requireRank(1, 2, 2, "blocks")))
    return failure();
  auto numbers = numbersOfRow(infer, 1, getFormat());
  if (failed(numbers))
    return failure();
  Dims dims = infer.dims(0);
  if (dims.empty())
    return infer.error() << "(B3) has an x without a dimension";
  if (failed(infer.requireEqual(dims.back(), infer.constant(*numbers), "(B3)",
                                "the last dimension of x and the numbers of a row")))
    return failure();
  dims.back() = infer.dims(1)[0];
  return infer.give(f32, dims);
}

LogicalResult CachedAttentionOp::inferResults(ShapeContext &shapes,
                                              SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type f32 = Float32Type::get(getContext());
  if (!infer.element(Queries).isF32())
    return infer.error() << "(B3) has a q that is not f32";
  for (unsigned operand : {PageTable, Lengths, Firsts})
    if (!infer.element(operand).isSignlessInteger(64))
      return infer.error() << "(B6) has pages, lengths or first rows that are not i64";
  for (unsigned operand : {Values, NewKeys, NewValues})
    if (infer.element(operand) != infer.element(Keys))
      return infer.error() << "(B5) has keys of " << infer.element(Keys) << " beside "
                           << infer.element(operand);
  if ((getQBits() != 0 && getQBits() != 8) || int64_t(getWindow()) < 0)
    return infer.error() << "(B8) has a q of " << getQBits() << " bits and a window of "
                         << int64_t(getWindow())
                         << "; 0 and 8 bits are possible, and windows from 0 on";
  if (failed(infer.requireRanks(Queries, {3, 4, 4, 2, 1, 1, 3, 3})))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(f32);
  auto size = numbersOfHead(infer, Keys, getFormat());
  auto valueSize = numbersOfHead(infer, Values, getFormat());
  if (failed(size) || failed(valueSize) || failed(requireSizes(infer)) ||
      failed(infer.requireEqual(infer.dims(Queries)[2], *size, "(B5)",
                                "the heads' sizes of queries and of keys")))
    return failure();
  return infer.give(f32, {infer.dims(Queries)[0], infer.dims(Queries)[1], *valueSize});
}

const BlockFormat *formatOf(BlockProductOp op) { return findBlockFormat(op.getFormat()); }

int64_t columnsOf(BlockProductOp op) {
  auto blocks = dyn_cast<RankedTensorType>(op.getBlocks().getType());
  const BlockFormat *format = formatOf(op);
  if (!format || !blocks || blocks.getRank() != 2 || blocks.isDynamicDim(1))
    return 0;
  return blocks.getDimSize(1) / format->bytes * format->elements;
}

bool hasBlocks(CachedAttentionOp op) {
  return getElementTypeOrSelf(op.getKeys().getType()).isUnsignedInteger(8);
}

int64_t headSizeOf(CachedAttentionOp op, Value cache) {
  auto type = dyn_cast<RankedTensorType>(cache.getType());
  if (!type || type.getRank() == 0 || type.isDynamicDim(unsigned(type.getRank()) - 1))
    return 0;
  int64_t row = type.getShape().back();
  if (!hasBlocks(op))
    return row;
  const BlockFormat *format = findBlockFormat(op.getFormat());
  return format && row % format->bytes == 0 ? row / format->bytes * format->elements : 0;
}

} // namespace tensmith::graph
