// Under the policy bf16, the operands of products with weights are rounded to 8 bits of mantissa;
// sums stay f32.
//
//   matmul(x, w)  ->  matmul(cast(cast(x, bf16), f32), cast(cast(w, bf16), f32))
//
// and so for convolutions. Fusion keeps the inner casts apart (Fuse.cpp), so that it is 16-bit
// numbers that lie in memory, and the kernel sees f32. Where the machine adds up products of pairs
// (vdpbf16ps) both operands are rounded. Elsewhere a product of rounded numbers costs more than one
// of f32, and only the weights are rounded, where the product waits for them to come from memory:
// where few rows share what is read.
//
// A layer whose own weights would make it err by more than the policy's bound (RoundingError.h)
// stays as it is.
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/Rewrites.h"
#include "compiler/rewrite/RoundingError.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

constexpr int64_t kBfloatBits = 16, kFloatBits = 32;

/// A product with constant weights that becomes a contraction.
struct Product {
  Operation *op;
  graph::ConstantOp weights;
  std::optional<int64_t> rows; // that a weight is multiplied by
  bool outputsFirst;           // the weights' first dimension is that of the outputs
};

bool isF32(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getElementType().isF32();
}

std::optional<int64_t> knownProduct(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    if (ShapedType::isDynamic(size) || llvm::MulOverflow(product, size, product))
      return std::nullopt;
  return product;
}

/// The constant that the value is, maybe transposed.
graph::ConstantOp constantBehind(Value value, bool &transposed) {
  if (auto transpose = value.getDefiningOp<graph::TransposeOp>()) {
    transposed = !transposed;
    value = transpose.getX();
  }
  return value.getDefiningOp<graph::ConstantOp>();
}

std::optional<Product> productOf(Operation *op) {
  if (!isa<graph::ConvOp, graph::MatMulOp>(op) || !isF32(op->getResult(0).getType()) ||
      !isF32(op->getOperand(0).getType()) || !isF32(op->getOperand(1).getType()))
    return std::nullopt;
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  bool outputsFirst = isa<graph::ConvOp>(op);
  auto weights = constantBehind(op->getOperand(1), outputsFirst);
  if (!weights)
    return std::nullopt;
  if (auto conv = dyn_cast<graph::ConvOp>(op)) {
    if (!conv.getChannelsLast() || kernel::isDepthwise(conv) || !outputsFirst)
      return std::nullopt;
  } else if (cast<RankedTensorType>(weights.getType()).getRank() != 2 || result.getRank() < 2 ||
             cast<RankedTensorType>(op->getOperand(0).getType()).getRank() != result.getRank() ||
             op->getOperand(0).getDefiningOp<graph::WinogradInputOp>()) {
    return std::nullopt;
  }
  return Product{op, weights, knownProduct(result.getShape().drop_back()), outputsFirst};
}

/// Whether weights that come from memory are waited for: a multiply-add of all rows with a vector
/// of them takes less time than the vector to arrive.
bool waitsForWeights(const Product &product, const kernel::MachineShape &machine,
                     int64_t weightBytes) {
  constexpr double kVectorsInCycle = 2;
  double vector = double(machine.vectorBytes) / machine.memoryBytesPerCycle;
  return weightBytes > machine.lastCacheBytes / 2 && product.rows &&
         double(*product.rows) / kVectorsInCycle < vector;
}

Value rounded(graph::GraphBuilder &graph, Value x) {
  auto &builder = graph.builder;
  return graph.cast(graph.cast(x, builder.getBF16Type()), builder.getF32Type());
}

void roundOperands(const Product &product, bool both) {
  OpBuilder builder(product.op);
  graph::ShapeContext shapes(product.op->getContext());
  graph::GraphBuilder graph(builder, shapes, product.op->getLoc());
  for (unsigned operand = both ? 0 : 1; operand < 2; ++operand)
    product.op->setOperand(operand, rounded(graph, product.op->getOperand(operand)));
}

} // namespace

LogicalResult roundProducts(func::FuncOp function, const Options &options) {
  if (options.precision != Precision::Bfloat)
    return success();
  const kernel::MachineShape &machine = options.machine;
  bool pairs = machine.bfloatProducts != kernel::BfloatProducts::None;
  int64_t weightBytes = bytesOfConstants(function);
  SmallVector<Product> products;
  function.walk([&](Operation *op) {
    if (auto product = productOf(op))
      products.push_back(*product);
  });
  for (Product &product : products) {
    auto asked = options.asked(product.op).operandBits;
    bool wanted = pairs || waitsForWeights(product, machine, weightBytes);
    auto weights = graph::hostTensor(product.weights.getValue());
    if (!weights.ok())
      continue;
    double error = wanted || asked ? errorOfBfloat(*weights, product.outputsFirst, pairs) : 0;
    bool rounds = asked ? *asked == kBfloatBits : wanted && error <= kBfloatBound;
    kernel::Schedule chosen;
    chosen.operandBits = rounds ? kBfloatBits : kFloatBits;
    options.made(product.op, chosen, rounds ? error : 0);
    if (rounds)
      roundOperands(product, pairs);
  }
  return success();
}

} // namespace tensmith::rewrite
