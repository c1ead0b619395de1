// Operands of products lie in memory in fewer bits where that is faster, and are widened where they
// are multiplied.
//
//   matmul(x, w)  ->  matmul(x, cast(cast(w, i8), i16))                                codes
//   matmul(x, w)  ->  matmul(cast(cast(x, bf16), f32), cast(cast(w, bf16), f32))       policy bf16
//
// and so for convolutions. Fusion keeps the inner casts apart (Fuse.cpp), so that it is the narrow
// numbers that lie in memory, and the kernel sees the wide ones.
//
// Codes that products of pairs take as 16 bits (IntegerProducts.cpp) are mostly 8 bits long: as
// such, weights are half as many bytes, which a core widens as fast as it loads them. The results
// are the same.
//
// Under the policy bf16, operands are rounded to 8 bits of mantissa; sums stay f32. Where the
// machine adds up products of pairs both are. Of depthwise convolutions and the
// smallest groups the image is, which they wait for; a matrix unit takes groups some at a time
// (MergedGroups.h). Elsewhere a product of rounded numbers costs more than one of
// f32, and only the weights are rounded, where the product waits for them to come from memory. A
// layer whose own weights would make it err by more than the policy's bound (RoundingError.h) stays
// as it is; so does the last one, which no other makes up for, where both its weights and its work
// are little beside the model's.
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/Precision.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/CostModel.h"
#include "compiler/rewrite/MergedGroups.h"
#include "compiler/rewrite/Rewrites.h"
#include "compiler/rewrite/RoundingError.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

constexpr int64_t kBfloatBits = 16, kFloatBits = 32;
constexpr int64_t kByteBits = 8, kPairBits = 16;

/// A product with constant weights that becomes a contraction.
struct Product {
  Operation *op;
  graph::ConstantOp weights;
  std::optional<int64_t> rows; // that a weight is multiplied by
  bool outputsFirst;           // the weights' first dimension is that of the outputs
  bool depthwise = false;      // or of small groups: its weights are few
};

/// Of f32, or of i16 with sums in i32.
bool canNarrow(Operation *op) {
  auto isOf = [&](ValueRange values, auto isElement) {
    return llvm::all_of(values, [&](Value value) {
      auto tensor = dyn_cast<RankedTensorType>(value.getType());
      return tensor && isElement(tensor.getElementType());
    });
  };
  auto isF32 = [](Type type) { return type.isF32(); };
  auto isI16 = [](Type type) { return type.isSignlessInteger(16); };
  auto isI32 = [](Type type) { return type.isSignlessInteger(32); };
  auto operands = op->getOperands().take_front(2);
  return (isOf(operands, isF32) && isOf(op->getResults(), isF32)) ||
         (isOf(operands, isI16) && isOf(op->getResults(), isI32));
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
  if (!isa<graph::ConvOp, graph::MatMulOp>(op) || !canNarrow(op) ||
      graph::castRule(op) == graph::CastRule::Never)
    return std::nullopt;
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  bool outputsFirst = isa<graph::ConvOp>(op);
  auto weights = constantBehind(op->getOperand(1), outputsFirst);
  if (!weights)
    return std::nullopt;
  bool depthwise = false;
  if (auto conv = dyn_cast<graph::ConvOp>(op)) {
    depthwise = kernel::isDepthwise(conv) || kernel::takesSmallGroups(conv);
    if (!graph::isChannelsLast(conv) || !outputsFirst ||
        (depthwise && !result.getElementType().isF32()))
      return std::nullopt;
  } else if (cast<RankedTensorType>(weights.getType()).getRank() != 2 || result.getRank() < 2 ||
             cast<RankedTensorType>(op->getOperand(0).getType()).getRank() != result.getRank() ||
             op->getOperand(0).getDefiningOp<graph::WinogradInputOp>()) {
    return std::nullopt;
  }
  return Product{op, weights, knownProduct(result.getShape().drop_back()), outputsFirst, depthwise};
}

bool fitsBytes(const HostTensor &integers) {
  for (int64_t i = 0; i < integers.size(); ++i)
    if (integers.getInt(i) != int8_t(integers.getInt(i)))
      return false;
  return true;
}

/// Whether weights that come from memory are waited for: a multiply-add of all rows with a vector
/// of them takes less time than the vector to arrive.
bool waitsForFloats(int64_t rows, const kernel::Machine &machine) {
  double multiplyAdds = double(rows) * double(machine.lanes(sizeof(float)));
  kernel::Traffic vector{double(machine.vectorBytes), kernel::Traffic::From::Memory};
  return multiplyAdds / kernel::multiplyAddsPerCycle(machine) < kernel::cyclesOf(vector, machine);
}

void narrow(const Product &product, Type type, ArrayRef<unsigned> operands) {
  OpBuilder builder(product.op);
  graph::ShapeContext shapes(product.op->getContext());
  graph::GraphBuilder graph(builder, shapes, product.op->getLoc());
  for (unsigned operand : operands) {
    Value wide = product.op->getOperand(operand);
    product.op->setOperand(
        operand, graph.cast(graph.cast(wide, type), getElementTypeOrSelf(wide.getType())));
  }
}

int64_t elementsOf(const Product &product) {
  return cast<ShapedType>(product.weights->getResult(0).getType()).getNumElements();
}

/// Multiply-adds, with columns that fill vectors; as of one row where only the run knows how many.
double workOf(const Product &product, const kernel::Machine &machine) {
  auto weights = cast<ShapedType>(product.weights->getResult(0).getType());
  int64_t columns = weights.getDimSize(product.outputsFirst ? 0 : 1);
  int64_t whole = llvm::alignTo(columns, machine.vectorBytes / sizeof(float));
  return double(product.rows.value_or(1)) * double(elementsOf(product)) * double(whole) /
         double(std::max<int64_t>(columns, 1));
}

/// Operators of the function's own block from which a product is computed.
llvm::DenseSet<Operation *> leadingToProducts(func::FuncOp function) {
  llvm::DenseSet<Operation *> leading;
  Block &block = function.getBody().front();
  for (Operation &op : llvm::reverse(block))
    if (llvm::any_of(op.getUsers(), [&](Operation *user) {
          Operation *own = block.findAncestorOpInBlock(*user);
          return isa<graph::ConvOp, graph::MatMulOp>(user) || leading.contains(own);
        }))
      leading.insert(&op);
  return leading;
}

class Narrowing {
public:
  Narrowing(func::FuncOp function, ArrayRef<Product> products, const Options &options)
      : options_(options), machine_(options.machine),
        fromMemory_(!kernel::staysCached(double(bytesOfConstants(function)), machine_)),
        leading_(leadingToProducts(function)), block_(&function.getBody().front()) {
    for (const Product &product : products) {
      weights_ += double(elementsOf(product));
      work_ += workOf(product, machine_);
    }
  }

  void run(const Product &product) {
    if (!getElementTypeOrSelf(product.op->getResult(0).getType()).isF32())
      keepBytes(product);
    else if (options_.precision == Precision::Bfloat)
      round(product);
  }

private:
  void keepBytes(const Product &product) {
    auto weights = graph::hostTensor(graph::ConstantOp(product.weights).getValue());
    if (!weights.ok() || !fitsBytes(*weights))
      return;
    options_.offer(product.op, kernel::choice::operandBits, {kByteBits, kPairBits});
    auto asked = options_.asked(product.op)[kernel::choice::operandBits];
    bool narrows = !asked || *asked == kByteBits;
    made(product, narrows ? kByteBits : kPairBits, 0);
    if (narrows)
      narrow(product, IntegerType::get(product.op->getContext(), 8), {1});
  }

  void round(const Product &product) {
    bool pairs = machine_.products(kernel::Number::BF16, kernel::Number::BF16, kernel::Number::F32);
    options_.offer(product.op, kernel::choice::operandBits, {kBfloatBits, kFloatBits});
    auto asked = options_.asked(product.op)[kernel::choice::operandBits];
    if (auto rule = graph::askedCastRule(product.op); rule && !asked)
      asked = *rule == graph::CastRule::Always ? kBfloatBits : kFloatBits;
    auto conv = dyn_cast<graph::ConvOp>(product.op);
    bool direct = product.depthwise && groupsToMerge(conv, options_) == 0 && // no pairs
                  !kernel::takesPairsOfGroups(conv, machine_);
    bool waits = fromMemory_ && product.rows && waitsForFloats(*product.rows, machine_);
    bool wanted = (pairs && !isLast(product)) || (waits && !direct);
    auto weights = graph::hostTensor(graph::ConstantOp(product.weights).getValue());
    if (!weights.ok())
      return;
    double error = wanted || asked
                       ? errorOfBfloat(*weights, product.outputsFirst,
                                       /*roundsWeights=*/!direct,
                                       /*roundsRows=*/pairs || direct, inputMoments(product.op))
                       : 0;
    double bound = std::min(kBfloatBound, options_.layerBound);
    bool rounds = asked ? *asked == kBfloatBits : wanted && error <= bound;
    made(product, rounds ? kBfloatBits : kFloatBits, rounds ? error : 0,
         !rounds && wanted && !asked ? kernel::Refused{"operand_bits", kBfloatBits, error}
                                     : ArrayRef<kernel::Refused>());
    SmallVector<unsigned> operands{1};
    if (direct)
      operands = {0};
    else if (pairs)
      operands = {0, 1};
    if (rounds)
      narrow(product, BFloat16Type::get(product.op->getContext()), operands);
  }

  /// The product's error is that of the results, and to avoid it costs little.
  bool isLast(const Product &product) const {
    constexpr double kLittle = 64; // of what takes as long
    double part = kLittle * kernel::bfloatRate(machine_);
    return product.op->getBlock() == block_ && !leading_.contains(product.op) &&
           double(elementsOf(product)) * part <= weights_ &&
           workOf(product, machine_) * part <= work_;
  }

  void made(const Product &product, int64_t bits, double error,
            ArrayRef<kernel::Refused> refused = {}) {
    kernel::Point chosen;
    chosen.set(kernel::choice::operandBits, bits);
    options_.made(product.op, chosen, error, refused);
  }

  const Options &options_;
  const kernel::Machine &machine_;
  bool fromMemory_;
  llvm::DenseSet<Operation *> leading_;
  Block *block_;
  double weights_ = 0, work_ = 0; // of all products: elements, multiply-adds
};

} // namespace

LogicalResult narrowOperands(func::FuncOp function, const Options &options) {
  SmallVector<Product> products;
  function.walk([&](Operation *op) {
    if (auto product = productOf(op))
      products.push_back(*product);
  });
  Narrowing narrowing(function, products, options);
  for (const Product &product : products)
    narrowing.run(product);
  return success();
}

} // namespace tensmith::rewrite
