// Products of large matrices with constant weights become seven products of quarters where eight
// would be computed: Strassen's step in Winograd's form, with fifteen sums (Strassen, "Gaussian
// Elimination is not Optimal", 1969; Winograd, "On multiplication of 2x2 matrices", 1971).
//
// The sums of the weights' quarters are made at compile time; those of the rows' quarters and of
// the products pass through memory, or ride on products as what follows them. An eighth of the
// multiplications is saved, so it takes matrices of over a thousand rows, columns and products to a
// sum until that is more than what the sums cost; the estimate below counts both. One step is
// taken: a second one would save less, and double what the first adds to the error.
//
// What the step errs by is found out on the product's own weights (RoundingError.h); beyond the
// policy's bound the product stays as it is.
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/CostModel.h"
#include "compiler/rewrite/MeasuredChoice.h"
#include "compiler/rewrite/Rewrites.h"
#include "compiler/rewrite/RoundingError.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// [rows, depth] by [depth, columns]; rows are those of all matrices of a stack.
struct Sizes {
  int64_t rows, depth, columns;
};

std::optional<Sizes> sizesOf(graph::MatMulOp product) {
  auto a = dyn_cast<RankedTensorType>(product.getA().getType());
  auto b = dyn_cast<RankedTensorType>(product.getB().getType());
  if (!a || !b || !a.hasStaticShape() || a.getRank() < 2 || b.getRank() != 2 ||
      !a.getElementType().isF32() || !product.getB().getDefiningOp<graph::ConstantOp>())
    return std::nullopt;
  int64_t depth = b.getDimSize(0), columns = b.getDimSize(1);
  if (a.getNumElements() == 0 || depth < 2 || columns < 2 || a.getNumElements() / depth < 2)
    return std::nullopt;
  return Sizes{a.getNumElements() / depth, depth, columns};
}

struct Cycles {
  double plain, step;
};

/// What both take of one core, or of several: each of those adds what it multiplies, but gets half
/// of the memory's bandwidth or less.
Cycles estimate(const Sizes &sizes, const kernel::Machine &machine) {
  constexpr double kSaved = 1.0 / 8;
  // Quarters that are read or written beside those of a plain product: of the rows four copies, and
  // three sums of two; of the result what waits between products, and their assembly.
  constexpr double kOfRows = 17, kOfResult = 20;
  double rows = double(sizes.rows), depth = double(sizes.depth), columns = double(sizes.columns);
  double arithmetic = kernel::cyclesOf(kernel::Products{1, rows, depth, columns}, machine);
  double quarters = (kOfRows * rows * depth + kOfResult * rows * columns) / 4;
  double more = 3.0 / 4 * depth * columns; // weights
  kernel::Traffic traffic{(quarters + more) * sizeof(float), kernel::Traffic::From::SharedMemory};
  return {arithmetic, arithmetic * (1 - kSaved) + kernel::cyclesOf(traffic, machine)};
}

class Step {
public:
  Step(graph::MatMulOp product, const Sizes &sizes)
      : product_(product), sizes_(sizes), builder_(product), shapes_(product->getContext()),
        graph_(builder_, shapes_, product.getLoc()) {}

  void run() {
    Value rows = reshaped(product_.getA(), {sizes_.rows, sizes_.depth});
    Value result = assembled(quartersOfResult(quartersOf(rows), quartersOf(product_.getB())));
    auto type = cast<RankedTensorType>(product_.getC().getType());
    product_.getC().replaceAllUsesWith(reshaped(result, type.getShape()));
    product_.erase();
  }

private:
  using Quarters = std::array<std::array<Value, 2>, 2>;

  Value add(Value a, Value b) { return graph_.binary("add", a, b); }
  Value sub(Value a, Value b) { return graph_.binary("sub", a, b); }
  Value multiply(Value a, Value b) {
    Value constant = foldedConstant(b, builder_);
    return graph_.create<graph::MatMulOp>({a, constant ? constant : b});
  }

  Quarters quartersOfResult(const Quarters &a, const Quarters &b) {
    Value s1 = add(a[1][0], a[1][1]), s2 = sub(s1, a[0][0]);
    Value s3 = sub(a[0][0], a[1][0]), s4 = sub(a[0][1], s2);
    Value t1 = sub(b[0][1], b[0][0]), t2 = sub(b[1][1], t1);
    Value t3 = sub(b[1][1], b[0][1]), t4 = sub(t2, b[1][0]);
    Value p1 = multiply(a[0][0], b[0][0]), p5 = multiply(s1, t1);
    Value u2 = add(p1, multiply(s2, t2)), u3 = add(u2, multiply(s3, t3));
    Value c11 = add(p1, multiply(a[0][1], b[1][0]));
    Value c12 = add(add(u2, p5), multiply(s4, b[1][1]));
    Value c21 = sub(u3, multiply(a[1][1], t4));
    return {{{c11, c12}, {c21, add(u3, p5)}}};
  }

  /// Those behind are filled up with zeros to the size of those in front.
  Quarters quartersOf(Value x) {
    auto type = cast<RankedTensorType>(x.getType());
    Quarters quarters;
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 2; ++j)
        quarters[i][j] = quarter(x, {i, j}, type.getShape());
    return quarters;
  }

  Value quarter(Value x, ArrayRef<int64_t> at, ArrayRef<int64_t> shape) {
    SmallVector<int64_t> starts, missing;
    SmallVector<AffineExpr> sizes;
    for (auto [number, size] : llvm::zip_equal(at, shape)) {
      int64_t half = (size + 1) / 2, taken = number == 0 ? half : size - half;
      starts.push_back(number * half);
      sizes.push_back(shapes_.constant(taken));
      missing.push_back(half - taken);
    }
    Value part = graph_.slice(x, starts, {1, 1}, sizes);
    if (llvm::all_of(missing, [](int64_t count) { return count == 0; }))
      return part;
    return graph::GraphBuilder::first(
        graph_.create("pad", {part, graph_.none()},
                      {graph_.named("low", builder_.getDenseI64ArrayAttr({0, 0})),
                       graph_.named("high", builder_.getDenseI64ArrayAttr(missing))}));
  }

  Value assembled(const Quarters &quarters) {
    Value upper = graph_.concat(quarters[0], 1), lower = graph_.concat(quarters[1], 1);
    Value whole = graph_.concat({upper, lower}, 0);
    if (sizes_.rows % 2 == 0 && sizes_.columns % 2 == 0)
      return whole;
    return graph_.slice(whole, {0, 0}, {1, 1},
                        {shapes_.constant(sizes_.rows), shapes_.constant(sizes_.columns)});
  }

  Value reshaped(Value x, ArrayRef<int64_t> shape) {
    if (cast<RankedTensorType>(x.getType()).getShape() == shape)
      return x;
    SmallVector<AffineExpr> dims;
    for (int64_t size : shape)
      dims.push_back(shapes_.constant(size));
    return graph_.reshape(x, dims);
  }

  graph::MatMulOp product_;
  Sizes sizes_;
  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
};

/// Whether a schedule asks for the step or for none; else whether it is worth it, as measured or as
/// estimated. `error`: of the step, where it was tried.
bool takesStep(graph::MatMulOp product, const Sizes &sizes, const Options &options, double &error) {
  auto asked = options.asked(product)[kernel::choice::strassenSteps];
  Cycles cycles = estimate(sizes, options.machine);
  bool measures = options.libraries.measured && cycles.step < cycles.plain * kWorthATry;
  if (asked == 0 || (!asked && cycles.step >= cycles.plain && !measures))
    return false;
  auto weights = graph::hostTensor(product.getB().getDefiningOp<graph::ConstantOp>().getValue());
  if (!weights.ok())
    return false;
  error = errorOfStrassen(*weights, inputMoments(product));
  if (asked || error > std::min(kFastBound, options.layerBound))
    return asked.has_value();
  Candidate candidates[] = {{"strassen_steps", 0, cycles.plain},
                            {"strassen_steps", 1, cycles.step}};
  if (auto fastest = fastestOf(product, candidates, options))
    return *fastest == 1;
  return cycles.step < cycles.plain;
}

} // namespace

LogicalResult strassen(func::FuncOp function, const Options &options) {
  if (options.precision != Precision::Fast)
    return success();
  SmallVector<graph::MatMulOp> products;
  function.walk([&](graph::MatMulOp product) { products.push_back(product); });
  for (graph::MatMulOp product : products) {
    auto sizes = sizesOf(product);
    if (!sizes)
      continue;
    double error = 0;
    bool steps = takesStep(product, *sizes, options, error);
    options.offer(product, kernel::choice::strassenSteps, {0, 1});
    kernel::Point schedule;
    schedule.set(kernel::choice::strassenSteps, steps);
    bool isRefused = !steps && error > std::min(kFastBound, options.layerBound);
    if (isRefused)
      options.made(product, schedule, 0, kernel::Refused{"strassen_steps", 1, error});
    else
      options.made(product, schedule, steps ? error : 0);
    if (steps)
      Step(product, *sizes).run();
  }
  return success();
}

} // namespace tensmith::rewrite
