// Patterns around an operator, the libraries that there are, and the numbers that a library is
// given.
#include "compiler/libraries/Libraries.h"

#include "compiler/graph/ProcessReduction.h"
#include "compiler/libraries/Steps.h"
#include "runtime/LibraryAbi.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

#include <bit>

using namespace mlir;

namespace tensmith::libraries {
namespace {

constexpr StringLiteral kCall = "call.";
constexpr StringLiteral kStepNames[] = {"scale",         "scale_columns", "add_columns", "add",
                                        "subtract_from", "relu",          "gelu",        "tanh",
                                        "sigmoid",       "subtract"};

bool isF32(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isF32();
}

/// Whether the operator changes the last two dimensions and no others.
graph::TransposeOp turnsMatrices(Value value) {
  auto op = value.getDefiningOp<graph::TransposeOp>();
  if (!op)
    return {};
  ArrayRef<int64_t> permutation = op.getPermutation();
  size_t rank = permutation.size();
  if (rank < 2 || permutation[rank - 1] != int64_t(rank) - 2 ||
      permutation[rank - 2] != int64_t(rank) - 1)
    return {};
  for (size_t dim = 0; dim + 2 < rank; ++dim)
    if (permutation[dim] != int64_t(dim))
      return {};
  return op;
}

/// The leading dimensions of both operands are the same, or the right one is a matrix.
bool areStacks(graph::MatMulOp product) {
  auto a = dyn_cast<RankedTensorType>(product.getA().getType()),
       b = dyn_cast<RankedTensorType>(product.getB().getType());
  if (!a || !b || a.getRank() < 2 || b.getRank() < 2)
    return false;
  if (b.getRank() == 2)
    return true;
  graph::ShapeContext shapes(product.getContext());
  auto left = shapes.dims(a), right = shapes.dims(b);
  if (left.size() != right.size())
    return false;
  return llvm::all_of(llvm::seq<size_t>(0, left.size() - 2),
                      [&](size_t dim) { return shapes.equal(left[dim], right[dim]); });
}

bool isPlainConvolution(graph::ConvOp conv) {
  auto w = cast<RankedTensorType>(conv.getW().getType());
  return graph::isChannelsLast(conv) && w.getRank() == 4 && w.hasStaticShape() &&
         w.getNumElements() > 0;
}

/// Of the whole last dimension, with scale and bias for each of its elements; nothing else of it is
/// used.
bool isOfRows(graph::LayerNormOp norm) {
  auto x = cast<RankedTensorType>(norm.getX().getType());
  graph::ShapeContext shapes(norm.getContext());
  AffineExpr columns = shapes.dims(x).back();
  auto fits = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() == 1 && shapes.equal(shapes.dims(type)[0], columns);
  };
  return int64_t(norm.getAxis()) == x.getRank() - 1 && norm.getMean().use_empty() &&
         norm.getInverseDeviation().use_empty() && fits(norm.getScale()) &&
         (isa<NoneType>(norm.getBias().getType()) || fits(norm.getBias()));
}

/// oneDNN has steps for all that the contract has, on sums of at least one product.
Refusal refusedByOneDnn(const Pattern &pattern) {
  constexpr size_t kMostSteps = 8;
  if (isa<graph::MatMulOp>(pattern.root)) {
    auto a = cast<RankedTensorType>(pattern.root->getOperand(0).getType());
    if (a.getShape().back() <= 0)
      return "the length of its sums is zero, or not known";
  }
  return pattern.steps.size() <= kMostSteps ? "" : "more steps follow than it takes";
}

/// alpha * left @ right + beta * result (libraries/Product.h): a scale, and what the result begins
/// with.
Refusal refusedByBlas(const Pattern &pattern) {
  if (!isa<graph::MatMulOp>(pattern.root))
    return "it has products alone";
  auto steps = ArrayRef(pattern.steps);
  if (!steps.empty() && steps.front().kind == TENSMITH_STEP_SCALE)
    steps = steps.drop_front();
  constexpr int kBegins[] = {TENSMITH_STEP_ADD_COLUMNS, TENSMITH_STEP_ADD,
                             TENSMITH_STEP_SUBTRACT_FROM, TENSMITH_STEP_SUBTRACT};
  bool isSum = steps.empty() || (steps.size() == 1 && llvm::is_contained(kBegins, steps[0].kind));
  return isSum ? "" : "it applies a scale and an addend alone to a product";
}

/// The numbers of a call, in the contract's order.
class Sizes {
public:
  /// `keepsWeights`: the second operand lies among the module's weights.
  Sizes(Call &call, MLIRContext *context, bool keepsWeights)
      : shapes(context), call_(call), keepsWeights_(keepsWeights) {}

  void add(AffineExpr size) { call_.sizes.push_back(size); }
  void add(int64_t number) { add(shapes.constant(number)); }
  void add(double number) { add(std::bit_cast<int64_t>(number)); }
  void add(ArrayRef<int64_t> numbers) {
    for (int64_t number : numbers)
      add(number);
  }

  const char *operator()(const Pattern &pattern) {
    if (isa<graph::MatMulOp>(pattern.root)) {
      product(pattern);
      steps(pattern);
      return TENSMITH_MATMUL;
    }
    if (auto conv = dyn_cast<graph::ConvOp>(pattern.root)) {
      convolution(conv);
      steps(pattern);
      return TENSMITH_CONVOLUTION;
    }
    auto dims = shapes.dims(pattern.root->getOperand(0).getType());
    if (isa<graph::AllReduceMeanOp>(pattern.root)) {
      add(shapes.product(dims));
      add(int64_t(getElementTypeOrSelf(pattern.root->getResult(0)).isF64()));
      return TENSMITH_ALL_REDUCE_MEAN;
    }
    AffineExpr columns = dims.pop_back_val();
    add(shapes.product(dims));
    add(columns);
    auto norm = dyn_cast<graph::LayerNormOp>(pattern.root);
    if (!norm)
      return TENSMITH_SOFTMAX;
    add(int64_t(!isa<NoneType>(norm.getBias().getType())));
    add(norm.getEpsilon().convertToDouble());
    return TENSMITH_LAYER_NORM;
  }

  graph::ShapeContext shapes;

private:
  void product(const Pattern &pattern) {
    auto a = shapes.dims(pattern.root->getOperand(0).getType()),
         b = shapes.dims(pattern.root->getOperand(1).getType());
    bool varies = b.size() > 2;
    AffineExpr depth = a.pop_back_val(), rows = shapes.constant(1), batch = rows;
    if (!varies && !pattern.leftTransposed) {
      rows = shapes.product(a);
    } else {
      rows = a.pop_back_val();
      batch = shapes.product(a);
    }
    for (AffineExpr size : {batch, rows, b.back(), depth})
      add(size);
    for (bool flag : {pattern.leftTransposed, pattern.rightTransposed, varies, keepsWeights_})
      add(int64_t(flag));
  }

  void convolution(graph::ConvOp conv) {
    auto x = shapes.dims(conv.getX().getType()), y = shapes.dims(conv.getType()),
         w = shapes.dims(conv.getW().getType());
    for (AffineExpr size : {x[0], x[1], x[2], x[3], y[1], y[2], y[3], w[2], w[3]})
      add(size);
    add(conv.getStrides());
    add(conv.getDilations());
    add(conv.getPads());
    add(int64_t(conv.getGroup()));
    add(int64_t(keepsWeights_));
  }

  void steps(const Pattern &pattern) {
    add(int64_t(pattern.steps.size()));
    for (const Step &step : pattern.steps) {
      add(int64_t(step.kind));
      add(step.number);
    }
  }

  Call &call_;
  bool keepsWeights_;
};

std::string summaryOf(const Pattern &pattern, StringRef library) {
  std::string text = library.str() + ": ";
  text += pattern.leftTransposed ? "transposed " : "";
  text += pattern.root->getName().stripDialect();
  text += pattern.rightTransposed ? " by transposed" : "";
  for (const Step &step : pattern.steps)
    text += ", " + kStepNames[step.kind].str();
  return text;
}

} // namespace

SmallVector<OpOperand *> Pattern::inputs() const {
  SmallVector<OpOperand *> result;
  for (OpOperand &operand : root->getOpOperands()) {
    bool turned = isa<graph::MatMulOp>(root) &&
                  (operand.getOperandNumber() == 0 ? leftTransposed : rightTransposed);
    bool isBias = isa<graph::ConvOp>(root) && operand.getOperandNumber() == 2; // a step
    if (!isBias && !isa<NoneType>(operand.get().getType()))
      result.push_back(turned ? &operand.get().getDefiningOp()->getOpOperand(0) : &operand);
  }
  for (const Step &step : steps)
    if (step.operand)
      result.push_back(step.operand);
  return result;
}

SmallVector<Operation *> Pattern::operators() const {
  llvm::SetVector<Operation *> ops;
  if (leftTransposed)
    ops.insert(root->getOperand(0).getDefiningOp());
  if (rightTransposed)
    ops.insert(root->getOperand(1).getDefiningOp());
  ops.insert(root);
  for (const Step &step : steps)
    ops.insert(step.ops.begin(), step.ops.end());
  return ops.takeVector();
}

Value Pattern::result() const { return steps.empty() ? root->getResult(0) : steps.back().result(); }

bool Pattern::hasStep(int kind) const {
  return llvm::any_of(steps, [&](const Step &step) { return step.kind == kind; });
}

bool mayBeCalled(Operation *root) {
  return isa<graph::MatMulOp, graph::ConvOp, graph::SoftmaxOp, graph::LayerNormOp>(root);
}

Refusal refusalOf(Operation *root) {
  auto isPlain = [](Value value) { return isa<NoneType>(value.getType()) || isF32(value); };
  if (!llvm::all_of(root->getOperands(), isPlain) || !isF32(root->getResult(0)))
    return "libraries are called with f32 alone";
  if (auto product = dyn_cast<graph::MatMulOp>(root))
    return areStacks(product) ? "" : "its operands are no stacks of as many matrices";
  if (auto conv = dyn_cast<graph::ConvOp>(root))
    return isPlainConvolution(conv) ? ""
                                    : "its window has not two dimensions, or is of unknown size";
  if (auto norm = dyn_cast<graph::LayerNormOp>(root))
    return isOfRows(norm) ? ""
                          : "it is not along the last dimension alone, with a scale for each "
                            "element, or its mean is read, too";
  auto softmax = cast<graph::SoftmaxOp>(root);
  bool isLast =
      int64_t(softmax.getAxis()) == cast<RankedTensorType>(softmax.getType()).getRank() - 1;
  return isLast ? "" : "it is not along the last dimension";
}

std::optional<Pattern> matchPattern(Operation *root) {
  if (!mayBeCalled(root) || !refusalOf(root).empty())
    return std::nullopt;
  Pattern pattern{root, false, false, {}};
  if (isa<graph::SoftmaxOp, graph::LayerNormOp>(root))
    return pattern;
  if (isa<graph::MatMulOp>(root)) {
    pattern.leftTransposed = bool(turnsMatrices(root->getOperand(0)));
    pattern.rightTransposed = bool(turnsMatrices(root->getOperand(1)));
  } else if (!isa<NoneType>(root->getOperand(2).getType())) {
    pattern.steps.push_back({TENSMITH_STEP_ADD_COLUMNS, 0, &root->getOpOperand(2), {root}});
  }
  while (auto step = stepBehind(pattern.result()))
    pattern.steps.push_back(std::move(*step));
  return pattern;
}

std::vector<Library> &knownLibraries() {
  static std::vector<Library> libraries = {
      {"openblas", refusedByBlas}, {"onednn", refusedByOneDnn}, {"xsmm", refusedByBlas}};
  return libraries;
}

const Library *findLibrary(StringRef name) {
  auto &libraries = knownLibraries();
  auto found = llvm::find_if(libraries, [&](const auto &library) { return library.name == name; });
  return found == libraries.end() ? nullptr : &*found;
}

std::string libraryNames() {
  std::string names = kGenerated.str();
  for (const Library &library : knownLibraries())
    names += ", " + library.name;
  return names;
}

std::optional<int64_t> libraryNumber(StringRef name) {
  const Library *library = findLibrary(name);
  if (library)
    return 1 + (library - knownLibraries().data());
  return name == kGenerated ? std::optional<int64_t>(0) : std::nullopt;
}

std::string libraryName(int64_t number) {
  return number == 0 ? kGenerated.str() : knownLibraries()[size_t(number - 1)].name;
}

Result<Policy> parsePolicy(StringRef text) {
  Policy policy;
  policy.measured = text == "measured";
  if (policy.measured)
    return policy;
  SmallVector<StringRef> names;
  text.split(names, ',');
  bool isOpen = true; // what is generated takes everything
  for (auto [number, name] : llvm::enumerate(names)) {
    const Library *library = findLibrary(name);
    if (!library && name != kGenerated)
      return invalidArgument("no library is called '" + name.str() + "'; there are " +
                             libraryNames() + ", a list of them, and measured");
    if (llvm::is_contained(ArrayRef(names).take_front(number), name))
      return invalidArgument("'" + name.str() + "' is named twice in the libraries '" + text.str() +
                             "'; the first who can does an operator, so that once is enough");
    isOpen &= library != nullptr;
    if (isOpen)
      policy.order.push_back(library);
  }
  return policy;
}

std::optional<Pattern> partTaken(const Library &library, Pattern pattern, Refusal *why) {
  while (true) {
    Refusal refusal = library.refusalOf(pattern);
    if (refusal.empty())
      return pattern;
    // A convolution's own bias can't be left to others.
    if (pattern.steps.empty() || pattern.steps.back().ops.front() == pattern.root) {
      if (why)
        *why = refusal;
      return std::nullopt;
    }
    pattern.steps.pop_back();
  }
}

Value clonePattern(const Pattern &pattern, OpBuilder &builder, ValueRange inputs) {
  SmallVector<OpOperand *> operands = pattern.inputs();
  IRMapping map;
  for (Operation *op : pattern.operators()) {
    Operation *made = op->clone();
    for (OpOperand &operand : op->getOpOperands()) {
      auto place = llvm::find(operands, &operand);
      Value value = operand.get();
      if (place != operands.end())
        value = inputs[size_t(place - operands.begin())];
      else if (map.contains(value))
        value = map.lookup(value);
      else // a number, or nothing
        value = builder.clone(*value.getDefiningOp())->getResult(0);
      made->setOperand(operand.getOperandNumber(), value);
    }
    builder.insert(made);
    map.map(op->getResults(), made->getResults());
  }
  return map.lookup(pattern.result());
}

graph::KernelOp makeCall(const Pattern &pattern, StringRef library) {
  SmallVector<Operation *> ops = pattern.operators();
  SmallVector<Value> inputs;
  Region body;
  Block *block = new Block;
  body.push_back(block);
  for (OpOperand *operand : pattern.inputs()) {
    inputs.push_back(operand->get());
    block->addArgument(operand->get().getType(), operand->get().getLoc());
  }
  OpBuilder inside(pattern.root->getContext());
  inside.setInsertionPointToEnd(block);
  Value computed = clonePattern(pattern, inside, block->getArguments());
  inside.create<graph::YieldOp>(computed.getLoc(), ValueRange{computed});
  SmallVector<Location> locations{pattern.root->getLoc()};
  std::string label;
  for (Operation *op : ops) {
    locations.push_back(op->getLoc());
    label += (label.empty() ? "" : "+") + op->getName().stripDialect().str();
  }
  Value result = pattern.result();
  OpBuilder builder(result.getDefiningOp());
  auto kernel = builder.create<graph::KernelOp>(
      FusedLoc::get(result.getContext(), locations), TypeRange{result.getType()}, inputs,
      builder.getStringAttr(label), builder.getStringAttr(kCall + library),
      /*pitch=*/IntegerAttr());
  kernel.getBody().takeBody(body);
  result.replaceAllUsesWith(kernel->getResult(0));
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
  return kernel;
}

StringRef libraryOf(graph::KernelOp kernel) {
  StringRef kind = kernel.getKind();
  return kind.consume_front(kCall) ? kind : StringRef();
}

Result<Call> callOf(graph::KernelOp kernel, bool keepsConstants) {
  StringRef library = libraryOf(kernel);
  Block &block = kernel.getBody().front();
  for (Operation &op : block) {
    auto pattern = isa<graph::AllReduceMeanOp>(op) ? std::optional(Pattern{&op, false, false, {}})
                                                   : matchPattern(&op);
    if (!pattern)
      continue;
    auto operands = pattern->inputs();
    bool inOrder = operands.size() == block.getNumArguments() &&
                   block.getTerminator()->getNumOperands() == 1 &&
                   block.getTerminator()->getOperand(0) == pattern->result();
    for (auto [operand, argument] : llvm::zip(operands, block.getArguments()))
      inOrder &= operand->get() == argument;
    if (!inOrder)
      break;
    Call call;
    bool keepsWeights = keepsConstants && kernel->getNumOperands() > 1 &&
                        kernel->getOperand(1).getDefiningOp<graph::ConstantOp>();
    Sizes sizes(call, kernel.getContext(), keepsWeights);
    call.symbol = (library + ":").str() + sizes(*pattern);
    call.summary = summaryOf(*pattern, library);
    call.symbols.assign(sizes.shapes.symbols().begin(), sizes.shapes.symbols().end());
    return call;
  }
  return unsupported("its region is no call of a library");
}

} // namespace tensmith::libraries
