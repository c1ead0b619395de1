// Evaluation with and without noise; see Evaluation.h.
#include "tests/random/Evaluation.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/GraphBuilder.h"
#include "reference/Transforms.h"

#include <cmath>

using namespace mlir;

namespace tensmith::random_graphs {

std::optional<Shape> shapeOf(Type type, const Sizes &sizes) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return std::nullopt;
  SmallVector<AffineExpr> values;
  for (StringAttr name : graph::symbolNames(ranked)) {
    auto it = sizes.find(name.getValue());
    if (it == sizes.end())
      return std::nullopt;
    values.push_back(getAffineConstantExpr(it->second, type.getContext()));
  }
  graph::ShapeContext shapes(type.getContext());
  Shape shape;
  for (int64_t dim = 0; dim < ranked.getRank(); ++dim) {
    AffineExpr expression = graph::dimExpression(ranked, dim);
    if (!expression)
      return std::nullopt;
    auto constant =
        dyn_cast<AffineConstantExpr>(shapes.simplify(expression.replaceSymbols(values)));
    if (!constant)
      return std::nullopt;
    shape.push_back(constant.getValue());
  }
  return shape;
}

void bindSizes(Type type, const HostTensor &tensor, Sizes &sizes) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || ranked.getRank() != tensor.rank())
    return;
  for (int64_t dim = 0; dim < ranked.getRank(); ++dim)
    if (auto symbol = dyn_cast_or_null<AffineSymbolExpr>(graph::dimExpression(ranked, dim)))
      sizes[graph::symbolNames(ranked)[symbol.getPosition()].getValue()] = tensor.shape()[dim];
}

Result<std::vector<HostTensor>> evaluateNode(Operation *op, std::span<const HostTensor> operands,
                                             Sizes &sizes) {
  if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
    auto tensor = graph::hostTensor(constant.getValue());
    if (!tensor.ok())
      return tensor.status();
    return std::vector{*tensor};
  }
  if (isa<graph::NoneOp>(op))
    return std::vector{HostTensor()};
  std::vector<reference::ResultType> types;
  for (Type type : op->getResultTypes())
    types.push_back({graph::dataType(getElementTypeOrSelf(type)), shapeOf(type, sizes)});
  Attributes attributes = graph::attributes(op);
  auto results =
      reference::evaluateAll({op->getName().stripDialect(), attributes, operands, types});
  if (!results.ok())
    return results.status().within(graph::describe(op->getLoc()));
  for (auto [value, tensor] : llvm::zip(op->getResults(), *results))
    bindSizes(value.getType(), tensor, sizes);
  return results;
}

bool isForKernel(Operation &op) {
  return !isa<graph::ConstantOp, graph::NoneOp>(op) &&
         !reference::find(op.getName().stripDialect());
}

static bool isNamed(OperationName name, llvm::ArrayRef<StringRef> names) {
  return llvm::is_contained(names, name.stripDialect());
}

/// Winograd's and Fourier's, around the products of a convolution.
static bool isTransform(OperationName name) {
  return name.stripDialect().starts_with("winograd_") ||
         name.stripDialect().starts_with("fourier_");
}

static bool choosesElements(Operation *op) {
  static const StringRef kExact[] = {"abs",
                                     "neg",
                                     "sign",
                                     "ceil",
                                     "floor",
                                     "round",
                                     "min",
                                     "max",
                                     "where",
                                     "reduce_max",
                                     "reduce_min",
                                     "max_pool",
                                     "topk",
                                     "hardmax",
                                     "one_hot",
                                     "compress",
                                     "unique",
                                     "dynamic_reshape",
                                     "dynamic_broadcast",
                                     "dynamic_slice",
                                     "dynamic_pad",
                                     "dynamic_tile",
                                     "center_crop_pad",
                                     "reverse_sequence",
                                     "constant"};
  if (auto indexed = dyn_cast<graph::Indexed>(op); indexed && indexed.isMovement())
    return true;
  return isNamed(op->getName(), kExact);
}

/// Adds and multiplies.
static bool isRingOperator(OperationName name) {
  static const StringRef kRing[] = {"add",  "sub",        "mul",         "matmul", "einsum",
                                    "conv", "reduce_sum", "reduce_prod", "cumsum", "cumprod"};
  return isNamed(name, kRing);
}

static bool isSmallWhole(const HostTensor &tensor) {
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (double value = tensor.getDouble(i); value != std::rint(value) || std::abs(value) > 256)
      return false;
  return true;
}

/// The largest magnitude that a product of some of the operand's finite elements has; 1 of an
/// operator that doesn't multiply them with one another. In what order that is done nobody says: a
/// zero at the end doesn't undo an overflow on the way.
static double largestPartialProduct(Operation *op, std::span<const HostTensor> operands) {
  if (!isa<graph::ReduceProdOp, graph::CumProdOp>(op))
    return 1;
  double product = 1;
  for (int64_t i = 0; i < operands[0].size(); ++i)
    if (double value = std::abs(operands[0].getDouble(i)); std::isfinite(value))
      product *= std::max(value, 1.0);
  return product;
}

bool areExact(Operation *op, ArrayRef<bool> operandsExact, std::span<const HostTensor> operands,
              std::span<const HostTensor> results) {
  auto isReal = [](const HostTensor &tensor) { return isFloat(tensor.type()); };
  if (llvm::none_of(results, isReal))
    return true; // the operands are too, or the operator would not have been drawn
  if (llvm::is_contained(operandsExact, false))
    return false;
  if (choosesElements(op) || isa<graph::CastOp>(op))
    return true;
  constexpr double kExactInFloat = 1 << 24;
  return isRingOperator(op->getName()) && llvm::all_of(operands, isSmallWhole) &&
         llvm::all_of(results, isSmallWhole) &&
         largestPartialProduct(op, operands) <= kExactInFloat;
}

bool isContinuous(OperationName name) {
  static const StringRef kContinuous[] = {"abs",
                                          "neg",
                                          "sqrt",
                                          "rsqrt",
                                          "exp",
                                          "log",
                                          "log1p",
                                          "sin",
                                          "cos",
                                          "tan",
                                          "asin",
                                          "acos",
                                          "atan",
                                          "sinh",
                                          "cosh",
                                          "tanh",
                                          "asinh",
                                          "acosh",
                                          "atanh",
                                          "erf",
                                          "sigmoid",
                                          "div",
                                          "pow",
                                          "min",
                                          "max",
                                          "where",
                                          "reduce_max",
                                          "reduce_min",
                                          "max_pool",
                                          "average_pool",
                                          "lp_pool",
                                          "conv_transpose",
                                          "conv_weights_gradient",
                                          "softmax",
                                          "log_softmax",
                                          "layer_norm",
                                          "rms_norm",
                                          "batch_norm",
                                          "instance_norm",
                                          "group_norm",
                                          "lrn",
                                          "attention",
                                          "cached_attention",
                                          "rnn",
                                          "gru",
                                          "lstm",
                                          "det",
                                          "dft",
                                          "stft",
                                          "col2im",
                                          "reshape",
                                          "transpose",
                                          "broadcast",
                                          "slice",
                                          "concat",
                                          "pad",
                                          "reverse",
                                          "trilu",
                                          "pack",
                                          "unpack",
                                          "gather",
                                          "gather_elements",
                                          "gather_nd",
                                          "scatter_elements",
                                          "scatter_nd",
                                          "tensor_scatter",
                                          "compress",
                                          "dynamic_reshape",
                                          "dynamic_broadcast",
                                          "dynamic_slice",
                                          "dynamic_pad",
                                          "dynamic_tile",
                                          "center_crop_pad",
                                          "shape",
                                          "size",
                                          "reverse_sequence",
                                          "dequantize",
                                          "dropout"};
  return isRingOperator(name) || isTransform(name) || isNamed(name, kContinuous);
}

double epsilonOf(DataType type) {
  switch (type) {
  case DataType::F64:
    return 0x1p-52;
  case DataType::F32:
    return 0x1p-23;
  case DataType::F16:
    return 0x1p-10;
  default:
    return 0x1p-7;
  }
}

namespace {

bool isComputedFloat(const HostTensor &tensor) {
  return tensor.type() == DataType::F64 || tensor.type() == DataType::F32 ||
         tensor.type() == DataType::F16 || tensor.type() == DataType::BF16;
}

double largestOf(const HostTensor &tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (double value = std::abs(tensor.getDouble(i)); std::isfinite(value))
      largest = std::max(largest, value);
  return largest;
}

/// Each element moved by `amount` times itself, or times `largest` where that is more, or by as
/// little as half of that: less would often round back to the element.
HostTensor moved(const HostTensor &tensor, double amount, Random &random, double largest = 0) {
  if (!isComputedFloat(tensor))
    return tensor;
  HostTensor result(tensor.type(), tensor.shape());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double value = tensor.getDouble(i);
    double share = random.real() * 2 - 1;
    result.setDouble(i, value + std::max(std::abs(value), largest) * amount *
                                    std::copysign(0.5 + std::abs(share) / 2, share));
  }
  return result;
}

/// About how many products or terms make one element of the result.
double depthOf(std::span<const HostTensor> operands, double size) {
  double depth = 1;
  double first = operands.empty() ? 1 : double(operands[0].size());
  for (const HostTensor &operand : operands)
    depth = std::max(
        {depth, double(operand.size()) / size, std::sqrt(first * double(operand.size()) / size)});
  return depth;
}

/// What the operator's result may be off by, relative to itself. Operators that are no sum are
/// done in one go, to a few units of the last place (narrow floats are computed as F32 and rounded
/// once); sums in some order, with intermediates of F32 at least.
double errorOf(Operation *op, DataType type, double depth) {
  double wide = std::min(epsilonOf(type), 0x1p-23), narrow = epsilonOf(type) - wide;
  return narrow + wide * (isa<graph::Elementwise>(op) ? 4 : 2 + std::sqrt(depth));
}

/// The operands of sums, each moved by what the rounding of the sum may amount to for it.
std::vector<HostTensor> movedTerms(std::span<const HostTensor> operands, double depth,
                                   Random &random) {
  std::vector<HostTensor> result;
  for (const HostTensor &operand : operands)
    result.push_back(moved(
        operand, std::min(epsilonOf(operand.type()), 0x1p-23) * (2 + std::sqrt(depth)), random));
  return result;
}

} // namespace

namespace {

class GraphEvaluation {
public:
  GraphEvaluation(Sizes sizes, std::optional<uint64_t> noiseSeed)
      : sizes_(std::move(sizes)), noisy_(noiseSeed.has_value()), random_(noiseSeed.value_or(0)) {}

  void give(Value value, const HostTensor &tensor, bool exact) {
    bindSizes(value.getType(), tensor, sizes_);
    result.values[value] = tensor;
    if (exact)
      result.exact.insert(value);
  }

  Status run(Operation *op) {
    std::vector<HostTensor> operands;
    SmallVector<bool> exact;
    for (Value operand : op->getOperands()) {
      operands.push_back(result.values[operand]);
      exact.push_back(result.exact.contains(operand) || !isComputedFloat(operands.back()));
    }
    auto results = evaluateNode(op, operands, sizes_);
    if (!results.ok())
      return results.status();
    if (Status status = countWork(operands, resultSize(*results)); noisy_ && !status.ok())
      return status;
    bool same = areExact(op, exact, operands, *results);
    if (noisy_ && !same && runParts(op))
      return {};
    if (noisy_ && !same && !choosesElements(op)) {
      // What is made of several operators has intermediates that the results don't show, and so
      // has a transform.
      bool composite = isTransform(op->getName()) ||
                       (isa<graph::Decomposable>(op) && !isRingOperator(op->getName()));
      // Gates lie next to 1, and what is left of it is the difference.
      double leastScale = isa<graph::RnnOp, graph::GruOp, graph::LstmOp>(op) ? 1 : 0;
      double depth = depthOf(operands, composite ? 1 : resultSize(*results));
      if (!isa<graph::Elementwise>(op) && isContinuous(op->getName()))
        results = evaluateNode(op, movedTerms(operands, depth, random_), sizes_);
      if (!results.ok())
        return results.status();
      for (HostTensor &tensor : *results)
        tensor = moved(tensor, errorOf(op, tensor.type(), depth), random_,
                       composite ? std::max(largestOf(tensor), leastScale) : 0);
      if (!(largestPartialProduct(op, operands) <= std::numeric_limits<float>::max()))
        for (HostTensor &tensor : *results) // may be anything
          for (int64_t i = 0; i < tensor.size(); ++i)
            tensor.setDouble(i, std::numeric_limits<double>::infinity());
    }
    for (auto [value, tensor] : llvm::zip(op->getResults(), *results))
      give(value, tensor, same);
    return {};
  }

  Evaluated result;

private:
  /// What is made of several operators, by these: the mean of a normalisation rounds, which moves
  /// all that it is taken from alike, and no noise of the operands or of the results does that.
  /// Whether it could be done.
  bool runParts(Operation *op) {
    auto whole = dyn_cast<graph::Decomposable>(op);
    if (!whole || isRingOperator(op->getName()) ||
        isa<graph::RnnOp, graph::GruOp, graph::LstmOp>(op))
      return false;
    ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
    Operation *before = op->getPrevNode();
    OpBuilder builder(op);
    graph::ShapeContext shapes(op->getContext());
    graph::GraphBuilder graphBuilder(builder, shapes, op->getLoc());
    SmallVector<Value> values;
    bool done = succeeded(whole.decompose(graphBuilder, values)) &&
                values.size() == op->getNumResults() && !llvm::is_contained(values, nullptr);
    Operation *part = before ? before->getNextNode() : &op->getBlock()->front();
    for (; done && part != op; part = part->getNextNode())
      done = run(part).ok();
    for (auto [value, own] : llvm::zip(values, op->getResults()))
      if (done)
        give(own, HostTensor(result.values[value]), result.exact.contains(value));
    while (op->getPrevNode() != before) {
      for (Value value : op->getPrevNode()->getResults()) {
        result.values.erase(value); // another value may come to lie where this one was
        result.exact.erase(value);
      }
      op->getPrevNode()->erase();
    }
    return done;
  }

  static double resultSize(std::span<const HostTensor> results) {
    return results.empty() ? 1 : double(std::max<int64_t>(results[0].size(), 1));
  }

  /// A symbol that is many sizes of a convolution makes one of minutes, by the reference.
  Status countWork(std::span<const HostTensor> operands, double size) {
    constexpr double kMostProducts = 2e8;
    products_ += depthOf(operands, size) * size;
    return products_ <= kMostProducts
               ? Status()
               : Status(StatusCode::ResourceExhausted, "too much work for the reference");
  }

  Sizes sizes_;
  bool noisy_;
  Random random_;
  double products_ = 0; // about how many there were so far
};

} // namespace

Result<Evaluated> evaluateGraph(func::FuncOp function, std::span<const HostTensor> inputs,
                                Sizes sizes, std::optional<uint64_t> noiseSeed,
                                Operation **refused) {
  GraphEvaluation evaluation(std::move(sizes), noiseSeed);
  Block &block = function.getBody().front();
  for (auto [argument, tensor] : llvm::zip_equal(block.getArguments(), inputs))
    evaluation.give(argument, tensor, true);
  for (Operation &op : block.without_terminator())
    if (Status status = evaluation.run(&op); !status.ok()) {
      if (refused)
        *refused = &op;
      return status;
    }
  return std::move(evaluation.result);
}

Result<std::vector<HostTensor>> drawInputs(func::FuncOp function, const Sizes &sizes) {
  std::vector<HostTensor> inputs;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto seed = function.getArgAttrOfType<IntegerAttr>(i, kSeedAttribute);
    auto kind = function.getArgAttrOfType<StringAttr>(i, kKindAttribute);
    Type type = function.getArgument(i).getType();
    auto shape = shapeOf(type, sizes);
    if (!seed || !kind || !shape)
      return invalidArgument("input " + std::to_string(i) + " has no " + kSeedAttribute.str() +
                             ", no " + kKindAttribute.str() +
                             " or a size that no run gives: add them to the argument");
    inputs.push_back(drawTensor(graph::dataType(getElementTypeOrSelf(type)), *shape,
                                kind.getValue(), uint64_t(seed.getInt())));
  }
  return inputs;
}

std::vector<Sizes> runsOf(func::FuncOp function) {
  std::vector<Sizes> runs;
  if (auto list = function->getAttrOfType<ArrayAttr>(kSizesAttribute))
    for (auto run : list.getAsRange<DictionaryAttr>()) {
      Sizes sizes;
      for (NamedAttribute size : run)
        if (auto value = dyn_cast<IntegerAttr>(size.getValue()))
          sizes[size.getName().getValue()] = value.getInt();
      runs.push_back(std::move(sizes));
    }
  if (runs.empty())
    runs.emplace_back();
  return runs;
}

std::vector<std::string> brokenInRuns(func::FuncOp function) {
  std::vector<std::string> result;
  if (auto list = function->getAttrOfType<ArrayAttr>(kSizesAttribute))
    for (auto run : list.getAsRange<DictionaryAttr>()) {
      auto broken = run.getAs<StringAttr>(kBreaksAttribute);
      result.push_back(broken ? broken.str() : "");
    }
  result.resize(std::max<size_t>(result.size(), 1));
  return result;
}

} // namespace tensmith::random_graphs
