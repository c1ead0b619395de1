// Normalisation and attention: shape functions.
#include "compiler/graph/Inference.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/NormalizationOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addNormalization() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/NormalizationOps.cpp.inc"
      >();
}

namespace {
/// Results like the first operand; `axis` (if any) is one of its dimensions, and the `vectors`
/// operands behind it are vectors.
LogicalResult inferLike(Inference infer, std::optional<int64_t> axis = std::nullopt,
                        int64_t leastRank = 0, unsigned vectors = 0) {
  if (failed(infer.requireRanks(1, SmallVector<int64_t>(vectors, 1))))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (axis && failed(infer.axis(*axis, infer.rank(0))))
    return failure();
  if (failed(infer.requireRank(0, leastRank, 64, "x")))
    return failure();
  AffineExpr channels = infer.rank(0) > 1 ? infer.dims(0)[1] : infer.constant(1);
  for (unsigned operand = 1; operand <= vectors; ++operand)
    if (failed(infer.requireEqual(infer.dims(operand)[0], channels, "(N2)",
                                  "the length of a parameter and the number of channels")))
      return failure();
  return infer.giveSame(0);
}

/// That an operand, if it is there, broadcasts to these dimensions.
LogicalResult requireBroadcast(Inference &infer, unsigned operand, ArrayRef<AffineExpr> to,
                               StringRef name) {
  if (!infer.present(operand))
    return success();
  Dims own = infer.dims(operand);
  if (own.size() > to.size())
    return infer.error() << "operand '" << name << "' has rank " << own.size() << ", more than "
                         << to.size();
  for (auto [size, wanted] : llvm::zip(own, to.take_back(own.size())))
    if (failed(infer.requireOneOr(size, wanted, "(N1)",
                                  ("the dimensions of '" + name + "' and of x").str())))
      return failure();
  return success();
}
} // namespace

LogicalResult SoftmaxOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferLike(Inference(shapes, *this, results), getAxis());
}
LogicalResult LogSoftmaxOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferLike(Inference(shapes, *this, results), getAxis());
}
LogicalResult HardmaxOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferLike(Inference(shapes, *this, results), getAxis());
}
LogicalResult RmsNormOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (!infer.unranked() && failed(requireBroadcast(infer, 1, infer.dims(0), "scale")))
    return failure();
  return inferLike(infer, getAxis());
}
LogicalResult BatchNormOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferLike(Inference(shapes, *this, results), std::nullopt, 1, 4);
}
LogicalResult InstanceNormOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferLike(Inference(shapes, *this, results), std::nullopt, 3, 2);
}
LogicalResult GroupNormOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (int64_t(getGroups()) <= 0)
    return infer.error() << "has " << int64_t(getGroups()) << " groups";
  if (!infer.unranked() && infer.rank(0) > 1 &&
      failed(infer.requireMultiple(infer.dims(0)[1], int64_t(getGroups()), "(N3)",
                                   "the number of channels")))
    return failure();
  return inferLike(infer, std::nullopt, 2, 2);
}
LogicalResult LrnOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferLike(Inference(shapes, *this, results), std::nullopt, 2);
}

/// Mean and deviation keep their dimensions as 1, in f32 where x is narrower.
LogicalResult LayerNormOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type statistic = infer.element(0);
  if (statistic.getIntOrFloatBitWidth() < 32)
    statistic = Float32Type::get(getContext());
  if (infer.unranked())
    return infer.giveUnranked({infer.element(0), statistic, statistic});
  Dims dims = infer.dims(0);
  auto axis = infer.axis(getAxis(), dims.size());
  if (failed(axis) || failed(requireBroadcast(infer, 1, dims, "scale")) ||
      failed(requireBroadcast(infer, 2, dims, "bias")) || failed(infer.giveSame(0)))
    return failure();
  for (size_t dim = *axis; dim < dims.size(); ++dim)
    dims[dim] = infer.constant(1);
  return success(succeeded(infer.give(statistic, dims)) && succeeded(infer.give(statistic, dims)));
}

/// Three-dimensional operands [batch, seq, heads * size] are taken as [batch, heads, seq, size].
LogicalResult AttentionOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(infer.requireRanks(4, {4, 4, 1}))) // past key and value, lengths
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(
        {infer.element(0), infer.element(1), infer.element(2), infer.element(0)});
  int64_t rank = infer.rank(0);
  if ((rank != 3 && rank != 4) || infer.rank(1) != rank || infer.rank(2) != rank)
    return infer.error() << "operands q, k and v have ranks " << rank << ", " << infer.rank(1)
                         << " and " << infer.rank(2) << ", not 3 or 4";
  auto heads = [&](unsigned operand, int64_t count) -> FailureOr<Dims> {
    Dims d = infer.dims(operand);
    if (rank == 4)
      return d;
    if (count <= 0)
      return infer.error() << "has three-dimensional operands, and no number of heads";
    if (failed(infer.requireMultiple(d[2], count, "(A1)", "the width of q, k or v")))
      return failure();
    return Dims{d[0], infer.constant(count), d[1], shapes.simplify(d[2].floorDiv(count))};
  };
  auto q = heads(0, getQNumHeads()), k = heads(1, getKvNumHeads()), v = heads(2, getKvNumHeads());
  if (failed(q) || failed(k) || failed(v))
    return failure();
  AffineExpr total = (*k)[2];
  struct Pair {
    AffineExpr a, b;
    const char *what;
  };
  for (auto [a, b, what] : {Pair{(*k)[0], (*q)[0], "the batches of q and k"},
                            Pair{(*k)[3], (*q)[3], "the head sizes of q and k"},
                            Pair{(*v)[0], (*k)[0], "the batches of k and v"},
                            Pair{(*v)[1], (*k)[1], "the heads of k and v"},
                            Pair{(*v)[2], (*k)[2], "the lengths of k and v"}})
    if (failed(infer.requireEqual(a, b, "(A1)", what)))
      return failure();
  if (failed(infer.requireAtMost(infer.constant(1), (*k)[1], "(A1) k has no heads")) ||
      failed(infer.requireEqual((*q)[1], (*q)[1].floorDiv((*k)[1]) * (*k)[1], "(A1)",
                                "the heads of q and a multiple of those of k")))
    return failure();
  for (auto [past, fresh] : {std::pair(4u, &*k), std::pair(5u, &*v)})
    for (size_t dim : {0, 1, 3})
      if (infer.present(past) &&
          failed(infer.requireEqual(infer.dims(past)[dim], (*fresh)[dim], "(A2)",
                                    "sizes of the past and of what is new")))
        return failure();
  if (infer.present(4) && infer.present(5) &&
      failed(infer.requireEqual(infer.dims(4)[2], infer.dims(5)[2], "(A2)",
                                "the lengths of past keys and values")))
    return failure();
  if (infer.present(6) && failed(infer.requireEqual(infer.dims(6)[0], (*q)[0], "(A3)",
                                                    "the number of lengths and the batch")))
    return failure();
  if (infer.present(3) && failed(infer.requireRank(3, 1, 4, "mask")))
    return failure();
  if (infer.present(4))
    total = total + infer.dims(4)[2];
  if (infer.present(3)) {
    Dims mask = infer.dims(3), target{(*q)[0], (*q)[1], (*q)[2], mask.back()};
    if (failed(requireBroadcast(infer, 3, target, "mask")) ||
        failed(infer.requireAtMost(mask.back(), total, "(A4) the mask has {a} keys of {b}")))
      return failure();
  }
  Dims y = rank == 4 ? Dims{(*q)[0], (*q)[1], (*q)[2], (*v)[3]}
                     : Dims{(*q)[0], (*q)[2], (*q)[1] * (*v)[3]};
  (*k)[2] = total;
  (*v)[2] = total;
  Dims scores{(*q)[0], (*q)[1], (*q)[2], total};
  return success(succeeded(infer.give(infer.element(0), y)) &&
                 succeeded(infer.give(infer.element(1), *k)) &&
                 succeeded(infer.give(infer.element(2), *v)) &&
                 succeeded(infer.give(infer.element(0), scores)));
}

} // namespace tensmith::graph
