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

const BlockFormat *formatOf(BlockProductOp op) { return findBlockFormat(op.getFormat()); }

int64_t columnsOf(BlockProductOp op) {
  auto blocks = dyn_cast<RankedTensorType>(op.getBlocks().getType());
  const BlockFormat *format = formatOf(op);
  if (!format || !blocks || blocks.getRank() != 2 || blocks.isDynamicDim(1))
    return 0;
  return blocks.getDimSize(1) / format->bytes * format->elements;
}

} // namespace tensmith::graph
