// Conditions of operators, collected from their shape functions; see Checks.h.
#include "compiler/graph/Checks.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

bool isMadeOfFirst(AffineExpr expression, size_t symbols) {
  bool isOld = true;
  expression.walk([&](AffineExpr part) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
      isOld &= symbol.getPosition() < symbols;
  });
  return isOld;
}

/// Where a type that was given names other sizes than those that the operands give.
void requireDeclared(Type declared, Type inferred, ShapeContext &shapes, size_t symbols,
                     std::vector<Condition> &conditions) {
  auto a = dyn_cast<RankedTensorType>(declared), b = dyn_cast<RankedTensorType>(inferred);
  if (!a || !b || a == b || a.getRank() != b.getRank())
    return;
  for (auto [given, found] : llvm::zip_equal(shapes.dims(a), shapes.dims(b)))
    if (isMadeOfFirst(found, symbols) &&
        SizeFacts().decide(Condition::Relation::Equal, given, found) != true)
      conditions.push_back({Condition::Relation::Equal, given, found,
                            "a dimension of the result should be {a}, but is {b}"});
}

} // namespace

std::vector<Condition> conditionsOf(Operation *op, ShapeContext &shapes) {
  std::vector<Condition> conditions;
  auto function = dyn_cast<ShapeFunction>(op);
  if (!function || op->getNumRegions())
    return conditions;
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()))
      (void)shapes.dims(operand.getType());
  for (Type type : op->getResultTypes())
    if (isa<RankedTensorType>(type))
      (void)shapes.dims(type);
  size_t symbols = shapes.symbols().size();
  SmallVector<Type> types;
  ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
  shapes.listen(&conditions);
  bool inferred = succeeded(function.inferResults(shapes, types));
  shapes.listen(nullptr);
  for (auto [declared, found] : llvm::zip(op->getResultTypes(), types))
    if (inferred)
      requireDeclared(declared, found, shapes, symbols, conditions);
  // What the shape function made up itself, nobody can look at.
  llvm::erase_if(conditions, [&](const Condition &condition) {
    return !isOver(condition, symbols) || isLeftOut(condition);
  });
  return conditions;
}

bool isLeftOut(const Condition &condition) {
  StringRef text = leftOutRequirement();
  return !text.empty() && StringRef(condition.message).contains(text);
}

bool isVoidElse(Operation *op, const Condition &condition, ShapeContext &shapes,
                const SizeFacts &facts) {
  if (condition.relation != Condition::Relation::AtMost || condition.unlessZero)
    return false;
  auto isLeft = [&](AffineExpr size) {
    return facts.decide(Condition::Relation::Equal, size, condition.b - condition.a + 1) == true;
  };
  return llvm::any_of(op->getResultTypes(), [&](Type type) {
    return isa<RankedTensorType>(type) && llvm::any_of(shapes.dims(type), isLeft);
  });
}

bool isOver(const Condition &condition, size_t symbols) {
  return isMadeOfFirst(condition.a, symbols) && isMadeOfFirst(condition.b, symbols) &&
         (!condition.unlessZero || isMadeOfFirst(condition.unlessZero, symbols));
}

CheckOp makeCheck(OpBuilder &builder, Location location, ShapeContext &shapes,
                  const Condition &condition) {
  Contents sizes{condition.a, condition.b};
  if (condition.unlessZero)
    sizes.push_back(condition.unlessZero);
  std::map<StringRef, StringAttr> used;
  for (AffineExpr size : sizes)
    size.walk([&](AffineExpr part) {
      if (auto symbol = dyn_cast<AffineSymbolExpr>(part)) {
        StringAttr name = shapes.symbols()[symbol.getPosition()];
        used.emplace(name.getValue(), name);
      }
    });
  SmallVector<StringAttr> names;
  SmallVector<AffineExpr> replacements(shapes.symbols().size(), shapes.constant(0));
  for (auto &[_, name] : used) {
    replacements[cast<AffineSymbolExpr>(shapes.symbol(name)).getPosition()] =
        getAffineSymbolExpr(names.size(), builder.getContext());
    names.push_back(name);
  }
  for (AffineExpr &size : sizes)
    size = size.replaceSymbols(replacements);
  auto map = AffineMap::get(0, names.size(), sizes, builder.getContext());
  return builder.create<CheckOp>(location, int64_t(condition.relation),
                                 DimsAttr::get(builder.getContext(), names, map),
                                 builder.getStringAttr(condition.message));
}

Condition conditionOf(CheckOp check, ShapeContext &shapes) {
  SmallVector<AffineExpr> symbols;
  for (StringAttr name : check.getSizes().getSymbols())
    symbols.push_back(shapes.symbol(name));
  Contents sizes;
  for (AffineExpr size : check.getSizes().getMap().getResults())
    sizes.push_back(shapes.simplify(size.replaceSymbols(symbols)));
  return {Condition::Relation(check.getRelation()), sizes[0], sizes[1], check.getMessage().str(),
          sizes.size() > 2 ? sizes[2] : AffineExpr()};
}

LogicalResult CheckOp::verify() {
  size_t sizes = getSizes().getMap().getNumResults();
  if (int64_t(getRelation()) < 0 || int64_t(getRelation()) > 3 || sizes < 2 || sizes > 3)
    return emitOpError() << "has no relation between two sizes";
  return success();
}

bool nameSizes(Value value, ShapeContext &shapes) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.hasStaticShape() || type.getEncoding())
    return false;
  SmallVector<AffineExpr> dims;
  for (int64_t size : type.getShape())
    dims.push_back(ShapedType::isDynamic(size) ? shapes.freshSymbol("unknown")
                                               : shapes.constant(size));
  value.setType(shapes.tensorType(type.getElementType(), dims));
  return true;
}

} // namespace tensmith::graph
