// Growing a graph node by node; see Generator.h.
#include "tests/random/Generator.h"

#include "compiler/graph/Constants.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/SaveAndRestore.h"

#include <cmath>

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

// Ones, primes, and both sides of the widths that vectors, tiles and panels come in.
constexpr int64_t kSizes[] = {1,  1,  1,  2,  2,  3,  3,  4,  5,  5,  7,   8,  9,
                              12, 15, 16, 17, 31, 32, 33, 47, 64, 65, 100, 130};
constexpr int64_t kSmallSizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9};

DataType drawDataType(Random &random) {
  double at = random.real();
  if (at < 0.60)
    return DataType::F32;
  if (at < 0.68)
    return DataType::F64;
  if (at < 0.75)
    return DataType::F16;
  if (at < 0.82)
    return DataType::BF16;
  return random.of({DataType::I8, DataType::I16, DataType::I32, DataType::I64, DataType::U8,
                    DataType::U16, DataType::U32, DataType::U64, DataType::Bool, DataType::I32,
                    DataType::I64});
}

/// Arithmetic on booleans means nothing, and the reference's answer is an accident.
bool suitsBooleans(Operation *op) {
  static const llvm::StringRef kLogical[] = {"not",     "and",   "or",     "xor",     "equal",
                                             "where",   "cast",  "gather", "nonzero", "compress",
                                             "dropout", "shape", "size",   "one_hot", "unique"};
  auto indexed = dyn_cast<graph::Indexed>(op);
  return (indexed && indexed.isMovement()) ||
         op->getName().stripDialect().starts_with("dynamic_") ||
         llvm::is_contained(kLogical, op->getName().stripDialect());
}

bool hasNonFinite(const HostTensor &x) {
  for (int64_t i = 0; isFloat(x.type()) && i < x.size(); ++i)
    if (!std::isfinite(x.getDouble(i)))
      return true;
  return false;
}

/// Of NaN and infinities an integer is whatever the machine makes of them.
bool convertsNonFinite(Operation *op, ArrayRef<HostTensor> operands) {
  return isa<graph::CastOp, graph::QuantizeOp>(op) &&
         !isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())) &&
         hasNonFinite(operands.front());
}

/// Whether padding is multiplied by a weight of NaN or infinity, or skipped, is left open.
bool padsNonFinite(Operation *op, ArrayRef<HostTensor> operands) {
  auto conv = dyn_cast<graph::ConvOp>(op);
  return conv && llvm::any_of(conv.getPads(), [](int64_t pad) { return pad != 0; }) &&
         hasNonFinite(operands[1]);
}

bool isBoolean(Type type) { return getElementTypeOrSelf(type).isInteger(1); }

} // namespace

Generator::Generator(MLIRContext *context, uint64_t seed)
    : random(seed), context(context),
      module(ModuleOp::create(NameLoc::get(StringAttr::get(context, "random")))), builder(context),
      shapes(context), graph(builder, shapes, module->getLoc()) {
  builder.setInsertionPointToEnd(module->getBody());
  function =
      builder.create<func::FuncOp>(module->getLoc(), "main", builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  elements_.push_back(graph::elementType(context, drawDataType(random)));
  if (random.chance(0.3))
    elements_.push_back(graph::elementType(context, drawDataType(random)));
  special_ = random.chance(0.04);
  if (random.chance(0.1))
    largest_ = 1 << 16;
  drawSymbols();
}

void Generator::drawSymbols() {
  runs_.emplace_back();
  if (random.chance(0.8)) {
    return;
  }
  runs_.emplace_back();
  for (StringRef name : {"n", "m"}) {
    int64_t first = random.among(kSizes), second = random.among(kSizes);
    runs_[0][name] = sizes_[name] = first;
    runs_[1][name] = second;
    symbols_.push_back(shapes.symbol(builder.getStringAttr(name)));
    if (random.chance(0.5))
      break;
  }
}

OwningOpRef<ModuleOp> Generator::run() {
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
  int64_t wanted = std::min(random.integer(3, 20), random.integer(3, 20));
  for (int64_t attempt = 0; attempt < 6 * wanted && nodes_ < wanted; ++attempt)
    nodes_ += drawNode();
  finish();
  return std::move(module);
}

bool Generator::drawNode() {
  const auto &operators = operatorsToDraw(context);
  double total = 0;
  for (const DrawnOperator &candidate : operators)
    total += candidate.weight;
  double at = random.real() * total;
  const DrawnOperator *drawn = &operators.front();
  for (const DrawnOperator &candidate : operators) {
    drawn = &candidate;
    if ((at -= candidate.weight) < 0)
      break;
  }
  return drawNode(*drawn);
}

OwningOpRef<ModuleOp> Generator::runOperator(StringRef name, int64_t behind) {
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
  bool isDrawn = false;
  for (const DrawnOperator &candidate : operatorsToDraw(context))
    if (candidate.name.stripDialect() == name)
      isDrawn = drawNode(candidate);
  if (!isDrawn)
    return {};
  // A kernel of several operators knows less of the operands of each: a reshape alone is a view.
  for (int64_t more = behind ? random.integer(0, behind) : 0; more > 0; --more) {
    ++nodes_;
    drawNode();
  }
  finish();
  return std::move(module);
}

bool Generator::drawNode(const DrawnOperator &drawn) {
  exactOnly = !isContinuous(drawn.name);
  nameNode();
  for (int attempt = 0; attempt < 4; ++attempt) {
    Operation *op = drawn.recipe(*this, drawn.name.stripDialect());
    if (op && accept(op)) {
      for (Value result : op->getResults())
        if (isa<RankedTensorType>(result.getType()))
          values_.push_back(result);
      return true;
    }
  }
  return false;
}

void Generator::nameNode() {
  graph.location = NameLoc::get(builder.getStringAttr("node" + std::to_string(nodes_)));
}

Value Generator::helper(Operation *op) { return op && accept(op) ? op->getResult(0) : Value(); }

/// Evaluates the operator. What is refused stays in the block without a use: its address must not
/// become another operator's while the shape context remembers contents by it.
bool Generator::accept(Operation *op) {
  if (!suitsBooleans(op) && llvm::any_of(op->getOperandTypes(), isBoolean))
    return false;
  std::vector<HostTensor> operands;
  SmallVector<bool> exact;
  for (Value operand : op->getOperands()) {
    if (isa<NoneType>(operand.getType())) {
      operands.emplace_back();
      exact.push_back(true);
      continue;
    }
    auto it = known_.find(operand);
    if (it == known_.end())
      return false;
    operands.push_back(it->second.tensor);
    exact.push_back(it->second.exact);
  }
  for (Type type : op->getResultTypes()) {
    auto shape = shapeOf(type, sizes_);
    if (!isa<RankedTensorType>(type) || (shape && !elementCount(*shape, 4 * largest_)))
      return false;
  }
  if (convertsNonFinite(op, operands) || padsNonFinite(op, operands))
    return false;
  auto results = evaluateNode(op, operands, sizes_);
  if (!results.ok() || results->size() != op->getNumResults() || !isSane(op, *results))
    return false;
  bool same = areExact(op, exact, operands, *results);
  for (auto [value, tensor] : llvm::zip(op->getResults(), *results))
    known_[value] = {tensor, same || !isFloat(tensor.type())};
  return true;
}

bool Generator::isSane(Operation *op, ArrayRef<HostTensor> results) {
  for (auto [value, tensor] : llvm::zip(op->getResults(), results)) {
    if (tensor.type() != graph::dataType(element(value)) || tensor.size() > 4 * largest_)
      return false;
    if (!isFloat(tensor.type()))
      continue;
    double limit = tensor.type() == DataType::F16 ? 500 : 1e5;
    for (int64_t i = 0; i < tensor.size(); ++i)
      if (double x = tensor.getDouble(i);
          !(std::abs(x) < limit) && !(special_ && !std::isfinite(x)))
        return false;
  }
  return true;
}

Type Generator::drawElement() { return random.among(elements_); }
Type Generator::drawFloat() {
  for (Type type : elements_)
    if (isa<FloatType>(type))
      return type;
  return random.chance(0.8) ? Type(builder.getF32Type()) : builder.getF64Type();
}
Type Generator::drawInteger() {
  for (Type type : elements_)
    if (type.isIntOrIndex() && !type.isInteger(1))
      return type;
  return graph::elementType(context, random.of({DataType::I8, DataType::U8, DataType::I32,
                                                DataType::I64, DataType::I32, DataType::U16}));
}

AffineExpr Generator::drawDim() {
  if (!symbols_.empty() && random.chance(0.35))
    return symbols_[size_t(random.integer(0, int64_t(symbols_.size()) - 1))];
  return size(random.among(kSizes));
}

int64_t Generator::least(AffineExpr expression) {
  int64_t result = std::numeric_limits<int64_t>::max();
  auto type = shapes.tensorType(builder.getI1Type(), expression);
  for (size_t i = 0; i < runs_.size(); ++i) {
    auto shape = shapeOf(type, i == 0 ? sizes_ : runs_[i]);
    result = std::min(result, shape ? (*shape)[0] : 0);
  }
  return result;
}
std::optional<int64_t> Generator::known(AffineExpr expression) const {
  if (auto constant = dyn_cast<AffineConstantExpr>(shapes.simplify(expression)))
    return constant.getValue();
  return std::nullopt;
}

Dims Generator::drawDims(int64_t rank) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    Dims result;
    for (int64_t dim = 0; dim < rank; ++dim)
      result.push_back(drawDim());
    if (rank > 0 && random.chance(0.004))
      result[size_t(random.integer(0, rank - 1))] = size(0);
    auto shape = shapeOf(shapes.tensorType(builder.getI1Type(), result), sizes_);
    if (shape && elementCount(*shape, largest_))
      return result;
  }
  Dims result;
  for (int64_t dim = 0; dim < rank; ++dim)
    result.push_back(size(random.among(std::span(kSmallSizes).subspan(rank > 3 ? 0 : 2, 5))));
  return result;
}

Value Generator::tensor(int64_t leastRank, int64_t mostRank, Type wanted) {
  if (random.chance(0.85)) {
    SmallVector<Value> fitting;
    for (Value value : values_)
      if ((!wanted || element(value) == wanted) && rank(value) >= leastRank &&
          rank(value) <= mostRank && (!exactOnly || known_[value].exact))
        fitting.push_back(value);
    if (!fitting.empty()) // of two draws the later, so that graphs grow deep as well as wide
      return fitting[size_t(std::max(random.integer(0, int64_t(fitting.size()) - 1),
                                     random.integer(0, int64_t(fitting.size()) - 1)))];
  }
  constexpr int64_t kRanks[] = {0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5};
  int64_t rank = std::clamp(random.among(kRanks), leastRank, mostRank);
  Value value = fresh(wanted ? wanted : drawElement(), drawDims(rank));
  values_.push_back(value);
  return value;
}

Value Generator::like(Type wanted, ArrayRef<AffineExpr> dims, StringRef kind) {
  Type type = shapes.tensorType(wanted, dims);
  if (kind.empty() && random.chance(0.5)) {
    SmallVector<Value> fitting;
    for (Value value : values_)
      if (value.getType() == type && (!exactOnly || known_[value].exact))
        fitting.push_back(value);
    if (!fitting.empty())
      return fitting[size_t(random.integer(0, int64_t(fitting.size()) - 1))];
  }
  return fresh(wanted, dims, kind, random.chance(0.4));
}

Value Generator::finiteLike(Type wanted, ArrayRef<AffineExpr> dims) {
  llvm::SaveAndRestore finite(special_, false);
  return like(wanted, dims);
}

Value Generator::fresh(Type wanted, ArrayRef<AffineExpr> dims, StringRef kind, bool constant) {
  RankedTensorType type = shapes.tensorType(wanted, dims);
  DataType data = graph::dataType(wanted);
  std::string chosen = kind.str();
  if (chosen.empty() && special_ && isFloat(data) && random.chance(0.3))
    chosen = "special";
  if (chosen.empty())
    chosen = random.of<const char *>({"small", "small", exactOnly ? "integers" : "small",
                                      "positive", "integers", isFloat(data) ? "small" : "wide"});
  auto seed = int64_t(random.next() >> 24);
  auto shape = shapeOf(type, runs_.front());
  if (!shape) // of a size that only the run tells
    return {};
  HostTensor tensor = drawTensor(data, *shape, chosen, uint64_t(seed));
  Value value;
  if (constant && type.hasStaticShape()) {
    value = graph.constant(tensor);
  } else {
    value = function.getBody().front().addArgument(type, graph.location);
    inputs_.emplace_back(seed, chosen);
  }
  known_[value] = {tensor, true};
  return value;
}

Value Generator::integers(ArrayRef<int64_t> values) {
  auto tensor = HostTensor::of<int64_t>(DataType::I64, {int64_t(values.size())},
                                        std::span(values.data(), values.size()));
  Value value = graph.constant(tensor);
  known_[value] = {tensor, true};
  return value;
}
Value Generator::integer(int64_t number) {
  HostTensor tensor(DataType::I64, {});
  tensor.setInt(0, number);
  Value value = graph.constant(tensor);
  known_[value] = {tensor, true};
  return value;
}
Value Generator::reals(Type wanted, ArrayRef<double> values) {
  HostTensor tensor(graph::dataType(wanted), {int64_t(values.size())});
  for (auto [i, x] : llvm::enumerate(values))
    tensor.setDouble(int64_t(i), x);
  Value value = graph.constant(tensor);
  known_[value] = {tensor, true};
  return value;
}

Operation *Generator::create(StringRef name, ValueRange operands,
                             ArrayRef<NamedAttribute> attributes) {
  return graph.create(name, operands, attributes);
}
Operation *Generator::createTyped(StringRef name, Type result, ValueRange operands,
                                  ArrayRef<NamedAttribute> attributes) {
  return graph.createTyped(name, result, operands, attributes);
}

NamedAttribute Generator::i64(StringRef name, int64_t value) {
  return graph.named(name, builder.getI64IntegerAttr(value));
}
NamedAttribute Generator::i64s(StringRef name, ArrayRef<int64_t> values) {
  return graph.named(name, builder.getDenseI64ArrayAttr(values));
}
NamedAttribute Generator::flag(StringRef name, bool value) {
  return graph.named(name, builder.getBoolAttr(value));
}
NamedAttribute Generator::text(StringRef name, StringRef value) {
  return graph.named(name, builder.getStringAttr(value));
}
NamedAttribute Generator::real(StringRef name, double value) {
  return graph.named(name, builder.getF64FloatAttr(value));
}
NamedAttribute Generator::type(StringRef name, Type value) {
  return graph.named(name, TypeAttr::get(value));
}
SmallVector<int64_t> Generator::permutation(int64_t rank) {
  auto result = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  for (int64_t i = rank - 1; i > 0; --i)
    std::swap(result[size_t(i)], result[size_t(random.integer(0, i))]);
  return result;
}

/// Returns what nobody uses and some of the rest, erases what was refused, and writes down the
/// inputs.
void Generator::finish() {
  Block &block = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (!isa<graph::NoneOp>(op) && !known_.contains(op.getResult(0)))
      op.erase();
  SmallVector<Value> outputs;
  // Of what only has its size looked at nothing is computed, and so nothing refused.
  auto isUnread = [](Value value) {
    return llvm::all_of(value.getUsers(),
                        [](Operation *user) { return isa<graph::ShapeOp, graph::SizeOp>(user); });
  };
  for (Value value : values_)
    if (value.getDefiningOp() && (isUnread(value) || random.chance(0.15)))
      outputs.push_back(value);
  if (outputs.empty() || random.chance(0.03))
    outputs.push_back(values_.empty() ? integer(1) : values_.front());
  builder.setInsertionPointToEnd(&block);
  builder.create<func::ReturnOp>(function.getLoc(), outputs);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (!isa<func::ReturnOp>(op) && op.use_empty())
      op.erase();
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  llvm::BitVector unused(block.getNumArguments());
  for (BlockArgument argument : block.getArguments()) {
    if (argument.use_empty()) {
      unused.set(argument.getArgNumber());
      continue;
    }
    auto &[seed, kind] = inputs_[argument.getArgNumber()];
    types.push_back(argument.getType());
    attributes.push_back(
        builder.getDictionaryAttr({graph.named(kSeedAttribute, builder.getI64IntegerAttr(seed)),
                                   graph.named(kKindAttribute, builder.getStringAttr(kind))}));
  }
  block.eraseArguments(unused);
  function.setFunctionType(builder.getFunctionType(types, ValueRange(outputs).getTypes()));
  function.setAllArgAttrs(attributes);
  SmallVector<mlir::Attribute> runs;
  for (const Sizes &run : runs_) {
    auto tooLarge = [&](Value value) {
      auto shape = shapeOf(value.getType(), run);
      return shape && !elementCount(*shape, 8 * largest_);
    };
    bool large = llvm::any_of(block.getArguments(), tooLarge);
    for (Operation &op : block)
      large |= llvm::any_of(op.getResults(), tooLarge);
    if (large && !runs.empty()) // products of symbols, at sizes that weren't seen while drawing
      continue;
    SmallVector<NamedAttribute> sizes;
    for (auto &size : run)
      sizes.push_back(i64(size.getKey(), size.getValue()));
    runs.push_back(builder.getDictionaryAttr(sizes));
  }
  function->setAttr(kSizesAttribute, builder.getArrayAttr(runs));
}

} // namespace tensmith::random_graphs
