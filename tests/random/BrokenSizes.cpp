// Sizes that break a requirement, by trial; see BrokenSizes.h.
#include "tests/random/BrokenSizes.h"

#include "compiler/graph/Checks.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

using Relation = graph::Condition::Relation;

bool holds(Relation relation, int64_t a, int64_t b) {
  switch (relation) {
  case Relation::Equal:
    return a == b;
  case Relation::AtMost:
    return a <= b;
  case Relation::EqualOrOne:
    return a == b || a == 1;
  case Relation::Broadcast:
    return a == b || a == 1 || b == 1;
  }
  return true;
}

/// The tensor type with numbers for its symbols; null where one is not known.
Type known(Type type, const Sizes &sizes) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || ranked.hasStaticShape())
    return type;
  auto shape = shapeOf(type, sizes);
  if (!shape || llvm::any_of(*shape, [](int64_t size) { return size < 0; }))
    return {};
  return RankedTensorType::get(*shape, ranked.getElementType());
}

} // namespace

BrokenSizes::BrokenSizes(func::FuncOp function, graph::ShapeContext &shapes, const Sizes &drawn)
    : builder_(function.getContext()) {
  // One that is left out is to be broken all the more.
  llvm::SaveAndRestore all(graph::leftOutRequirement(), std::string());
  std::vector<graph::Condition> conditions;
  for (Operation &op : function.getBody().front())
    llvm::append_range(conditions, graph::conditionsOf(&op, shapes));
  SmallVector<AffineExpr> places(shapes.symbols().size());
  for (auto [position, name] : llvm::enumerate(shapes.symbols()))
    if (auto size = drawn.find(name); size != drawn.end()) {
      places[position] = getAffineSymbolExpr(unsigned(names_.size()), function.getContext());
      names_.push_back(name.str());
      drawn_.push_back(size->second);
    }
  for (const graph::Condition &condition : conditions) {
    SmallVector<AffineExpr> sizes{condition.a, condition.b};
    if (condition.unlessZero)
      sizes.push_back(condition.unlessZero);
    SmallVector<size_t> symbols;
    bool isKnown = true;
    for (AffineExpr size : sizes)
      size.walk([&](AffineExpr part) {
        auto symbol = dyn_cast<AffineSymbolExpr>(part);
        if (!symbol)
          return;
        AffineExpr place = places[symbol.getPosition()];
        isKnown &= bool(place);
        if (place)
          symbols.push_back(cast<AffineSymbolExpr>(place).getPosition());
      });
    if (!isKnown || symbols.empty())
      continue;
    auto found = llvm::find(messages_, condition.message);
    size_t message = size_t(found - messages_.begin());
    if (found == messages_.end())
      messages_.push_back(condition.message);
    auto map = AffineMap::get(0, unsigned(shapes.symbols().size()), sizes, function.getContext());
    map = map.replaceDimsAndSymbols({}, places, 0, unsigned(names_.size()));
    required_.push_back({message, condition.relation, map, std::move(symbols)});
  }
}

bool BrokenSizes::isBroken(const Required &required, ArrayRef<mlir::Attribute> values) const {
  SmallVector<int64_t> sizes;
  bool isPoison = false;
  AffineMap folded = required.sizes.partialConstantFold(values, &sizes, &isPoison);
  if (!folded || isPoison || sizes.size() != required.sizes.getNumResults())
    return true; // divided by zero
  return (sizes.size() < 3 || sizes[2] != 0) && !holds(required.relation, sizes[0], sizes[1]);
}

size_t BrokenSizes::othersBroken(size_t number, ArrayRef<mlir::Attribute> values) const {
  return size_t(llvm::count_if(required_, [&](const Required &required) {
    return required.message != number && isBroken(required, values);
  }));
}

std::optional<Sizes> BrokenSizes::find(size_t number, Random &random,
                                       llvm::function_ref<int64_t(int64_t)> other) const {
  constexpr int kTrials = 96;
  std::vector<const Required *> wanted;
  for (const Required &required : required_)
    if (required.message == number)
      wanted.push_back(&required);
  std::optional<Sizes> best;
  size_t least = std::numeric_limits<size_t>::max();
  for (int trial = 0; trial < kTrials && least > 0; ++trial) {
    const Required &own = *random.among(wanted);
    std::vector<int64_t> sizes = drawn_;
    // What the requirement doesn't speak of has to follow, where another requirement says so.
    bool changesAll = trial % 3 == 2;
    for (size_t symbol = 0; symbol < sizes.size(); ++symbol)
      if (random.chance(llvm::is_contained(own.symbols, symbol) ? 0.7 : changesAll ? 0.3 : 0.0))
        sizes[symbol] = other(drawn_[symbol]);
    SmallVector<mlir::Attribute> values;
    Builder builder(builder_);
    for (int64_t size : sizes)
      values.push_back(builder.getIndexAttr(size));
    if (!isBroken(own, values))
      continue;
    if (size_t broken = othersBroken(number, values); broken < least) {
      least = broken;
      best.emplace();
      for (auto [name, size] : llvm::zip_equal(names_, sizes))
        (*best)[name] = size;
    }
  }
  return best;
}

namespace {

/// Whether nothing is left to the run, or the operand is not there.
bool isKnown(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  return isa<NoneType>(type) || (ranked && ranked.hasStaticShape());
}

} // namespace

bool hasRequirement(Operation *op, StringRef text) {
  llvm::SaveAndRestore all(graph::leftOutRequirement(), std::string());
  graph::ShapeContext shapes(op->getContext());
  return llvm::any_of(graph::conditionsOf(op, shapes), [&](const graph::Condition &own) {
    return StringRef(own.message).contains(text);
  });
}

std::optional<bool> isRefusedWhereKnown(func::FuncOp function, const Sizes &sizes,
                                        Operation *last) {
  ScopedDiagnosticHandler quiet(function.getContext(), [](Diagnostic &) { return success(); });
  OwningOpRef<func::FuncOp> copy(cast<func::FuncOp>(function->clone()));
  graph::ShapeContext shapes(function.getContext());
  for (BlockArgument argument : copy->getArguments()) {
    Type type = known(argument.getType(), sizes);
    if (!type)
      return std::nullopt;
    argument.setType(type);
  }
  for (auto [own, op] : llvm::zip(function.getBody().front(), copy->getBody().front())) {
    auto shape = dyn_cast<graph::ShapeFunction>(op);
    if (!shape || isa<graph::ConstantOp, graph::NoneOp>(op))
      continue;
    if (!llvm::all_of(op.getOperandTypes(), isKnown))
      return std::nullopt;
    // Types that it was given, as that of a reshape.
    for (Value result : op.getResults())
      if (Type type = known(result.getType(), sizes))
        result.setType(type);
    SmallVector<Type> types;
    if (failed(shape.inferResults(shapes, types)) || types.size() != op.getNumResults())
      return true;
    if (&own == last)
      return false;
    for (auto [result, type] : llvm::zip_equal(op.getResults(), types))
      result.setType(type);
  }
  return false;
}

} // namespace tensmith::random_graphs
