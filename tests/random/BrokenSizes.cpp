// Sizes that break a requirement, by trial; see BrokenSizes.h.
#include "tests/random/BrokenSizes.h"

#include "compiler/graph/Checks.h"
#include "compiler/graph/test/KnownSizes.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

/// The sizes of the context's symbols; nothing of those that only the run tells.
std::vector<std::optional<int64_t>> valuesOf(const graph::ShapeContext &shapes,
                                             const Sizes &sizes) {
  std::vector<std::optional<int64_t>> values;
  for (StringAttr name : shapes.symbols()) {
    auto size = sizes.find(name.getValue());
    values.push_back(size == sizes.end() ? std::nullopt : std::optional(size->second));
  }
  return values;
}

/// Whether sizes that are known break it; one that divides by zero is broken.
bool isBroken(const graph::Condition &condition, ArrayRef<std::optional<int64_t>> sizes) {
  return graph::holdsAt(condition, sizes) != true;
}

/// The requirements that the operator's record states, left out or not.
std::vector<graph::Condition> requirementsOf(Operation *op, graph::ShapeContext &shapes) {
  llvm::SaveAndRestore all(graph::leftOutRequirement(), std::string());
  return graph::conditionsOf(op, shapes);
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

BrokenSizes::BrokenSizes(func::FuncOp function, graph::ShapeContext &shapes, const Sizes &drawn) {
  std::vector<graph::Condition> conditions;
  for (Operation &op : function.getBody().front())
    llvm::append_range(conditions, requirementsOf(&op, shapes));
  drawn_ = valuesOf(shapes, drawn);
  for (StringAttr name : shapes.symbols())
    names_.push_back(name.str());
  for (const graph::Condition &condition : conditions) {
    SmallVector<size_t> symbols;
    for (AffineExpr size : {condition.a, condition.b, condition.unlessZero})
      if (size)
        size.walk([&](AffineExpr part) {
          if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
            symbols.push_back(symbol.getPosition());
        });
    if (symbols.empty() || !llvm::all_of(symbols, [&](size_t symbol) { return drawn_[symbol]; }))
      continue;
    auto found = llvm::find(messages_, condition.message);
    auto message = size_t(found - messages_.begin());
    if (found == messages_.end())
      messages_.push_back(condition.message);
    required_.push_back({message, condition, std::move(symbols)});
  }
}

size_t BrokenSizes::othersBroken(size_t number, const Values &sizes) const {
  return size_t(llvm::count_if(required_, [&](const Required &required) {
    return required.message != number && isBroken(required.condition, sizes);
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
    Values sizes = drawn_;
    // What the requirement doesn't speak of has to follow, where another requirement says so.
    bool changesAll = trial % 3 == 2;
    for (size_t symbol = 0; symbol < sizes.size(); ++symbol)
      if (drawn_[symbol] && random.chance(llvm::is_contained(own.symbols, symbol) ? 0.7
                                          : changesAll                            ? 0.3
                                                                                  : 0.0))
        sizes[symbol] = other(*drawn_[symbol]);
    if (!isBroken(own.condition, sizes))
      continue;
    if (size_t broken = othersBroken(number, sizes); broken < least) {
      least = broken;
      best.emplace();
      for (auto [name, size] : llvm::zip_equal(names_, sizes))
        if (size)
          (*best)[name] = *size;
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
  graph::ShapeContext shapes(op->getContext());
  return llvm::any_of(requirementsOf(op, shapes), [&](const graph::Condition &own) {
    return StringRef(own.message).contains(text);
  });
}

bool breaksRequirement(Operation *op, StringRef text, const Sizes &sizes) {
  graph::ShapeContext shapes(op->getContext());
  auto own = requirementsOf(op, shapes);
  auto values = valuesOf(shapes, sizes);
  return llvm::any_of(own, [&](const graph::Condition &each) {
    return StringRef(each.message).contains(text) && isBroken(each, values);
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
