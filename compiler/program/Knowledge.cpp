// Trees of what is known, read from the operators that made the values; see Knowledge.h.
#include "compiler/program/Knowledge.h"

#include "compiler/graph/Graph.h"
#include "compiler/program/Program.h"
#include "compiler/program/Structures.h"

using namespace mlir;

namespace tensmith::program {
namespace {

constexpr int kMostParts = 64, kDeepestParts = 8;

Knowledge dynamic(Type type) {
  return {Knowledge::Kind::Dynamic, withoutLocalSizes(type), 0, {}, {}};
}

Knowledge knowledgeOf(Value value, int depth, int &left) {
  Operation *source = value.getDefiningOp();
  Knowledge known = dynamic(value.getType());
  if (!source || depth > kDeepestParts || --left < 0)
    return known;
  if (auto constant = dyn_cast<graph::ConstantOp>(source)) {
    known.kind = Knowledge::Kind::Constant;
    known.attribute = constant.getValue();
    return known;
  }
  if (auto construct = dyn_cast<ConstructOp>(source)) {
    known.kind = Knowledge::Kind::Construct;
    known.tag = construct.getTag();
  } else if (auto closure = dyn_cast<ClosureOp>(source)) {
    known.kind = Knowledge::Kind::Closure;
    known.attribute = closure.getProcedureAttr();
  } else {
    return known;
  }
  for (Value operand : source->getOperands())
    known.parts.push_back(knowledgeOf(operand, depth + 1, left));
  return known;
}

/// Whether a parameter of the type holds what is known, sizes compared.
bool fits(const Knowledge &known, Type parameter) {
  return known.kind != Knowledge::Kind::Constant || known.type == parameter;
}

void print(const Knowledge &known, llvm::raw_ostream &stream) {
  switch (known.kind) {
  case Knowledge::Kind::Dynamic:
    stream << '?';
    if (!isa<ObjectType>(known.type))
      stream << known.type;
    return;
  case Knowledge::Kind::Constant:
    stream << '#' << known.attribute.getAsOpaquePointer();
    return;
  case Knowledge::Kind::Construct:
    stream << known.tag;
    break;
  case Knowledge::Kind::Closure:
    stream << known.attribute;
    break;
  }
  stream << '(';
  for (const Knowledge &part : known.parts)
    print(part, stream << ' ');
  stream << ')';
}

bool sameRoot(const Knowledge &a, const Knowledge &b) {
  return a.kind == b.kind && a.tag == b.tag && a.parts.size() == b.parts.size() &&
         (a.kind == Knowledge::Kind::Constant || a.attribute == b.attribute);
}

bool isEmbedded(const Knowledge &small, const Knowledge &large) {
  if (small.isDynamic())
    return true;
  if (llvm::any_of(large.parts, [&](const Knowledge &part) { return isEmbedded(small, part); }))
    return true;
  if (!sameRoot(small, large))
    return false;
  return llvm::all_of(llvm::zip_equal(small.parts, large.parts), [](const auto &pair) {
    return isEmbedded(std::get<0>(pair), std::get<1>(pair));
  });
}

Knowledge generalised(const Knowledge &a, const Knowledge &b) {
  if (!sameRoot(a, b) || a.attribute != b.attribute || a.isDynamic()) {
    Knowledge common = dynamic(a.type);
    auto x = dyn_cast<RankedTensorType>(a.type), y = dyn_cast<RankedTensorType>(b.type);
    if (!x || !y || x == y)
      return common;
    SmallVector<int64_t> dims;
    for (auto [i, j] : llvm::zip(x.getShape(), y.getShape()))
      dims.push_back(i == j ? i : ShapedType::kDynamic);
    common.type = RankedTensorType::get(dims, x.getElementType());
    return common;
  }
  Knowledge common = a;
  for (auto [part, other] : llvm::zip_equal(common.parts, b.parts))
    part = generalised(part, other);
  // A tensor is no tensor of another rank: then the whole is left to the run.
  for (auto [part, other] : llvm::zip_equal(common.parts, b.parts)) {
    auto x = dyn_cast<RankedTensorType>(part.type), y = dyn_cast<RankedTensorType>(other.type);
    if (bool(x) != bool(y) ||
        (x && (x.getRank() != y.getRank() || x.getElementType() != y.getElementType())))
      return dynamic(a.type);
  }
  return common;
}

void collectLeaves(Value value, const Knowledge &known, SmallVector<Value> &leaves) {
  if (known.isDynamic())
    leaves.push_back(value);
  for (auto [index, part] : llvm::enumerate(known.parts))
    collectLeaves(value.getDefiningOp()->getOperand(unsigned(index)), part, leaves);
}

void collectTypes(const Knowledge &known, SmallVector<Type> &types) {
  if (known.isDynamic())
    types.push_back(known.type);
  for (const Knowledge &part : known.parts)
    collectTypes(part, types);
}

Value rebuild(OpBuilder &builder, Location location, const Knowledge &known, ValueRange &leaves) {
  if (known.isDynamic()) {
    Value leaf = leaves.front();
    leaves = leaves.drop_front();
    return leaf;
  }
  if (known.kind == Knowledge::Kind::Constant)
    return builder.create<graph::ConstantOp>(location, known.type,
                                             cast<ElementsAttr>(known.attribute));
  SmallVector<Value> parts;
  for (const Knowledge &part : known.parts)
    parts.push_back(rebuild(builder, location, part, leaves));
  if (known.kind == Knowledge::Kind::Construct)
    return builder.create<ConstructOp>(location, known.type, parts, known.tag);
  return builder.create<ClosureOp>(location, known.type, parts,
                                   cast<FlatSymbolRefAttr>(known.attribute));
}

} // namespace

bool isKnown(Value value) {
  return isa_and_nonnull<graph::ConstantOp, ConstructOp, ClosureOp>(value.getDefiningOp());
}

std::vector<Knowledge> knowledgeOf(ValueRange arguments, TypeRange parameters) {
  std::vector<Knowledge> known;
  int left = kMostParts;
  for (auto [argument, type] : llvm::zip_equal(arguments, parameters)) {
    known.push_back(knowledgeOf(argument, 0, left));
    if (known.back().isDynamic() || !fits(known.back(), type)) {
      known.back() = {};
      known.back().type = type;
    }
  }
  return known;
}

bool allDynamic(const std::vector<Knowledge> &arguments) {
  return llvm::all_of(arguments, [](const Knowledge &known) { return known.isDynamic(); });
}

std::string keyOf(const std::vector<Knowledge> &arguments) {
  std::string key;
  llvm::raw_string_ostream stream(key);
  for (const Knowledge &known : arguments)
    print(known, stream << ' ');
  return key;
}

bool isEmbedded(const std::vector<Knowledge> &small, const std::vector<Knowledge> &large) {
  return llvm::all_of(llvm::zip_equal(small, large), [](const auto &pair) {
    return isEmbedded(std::get<0>(pair), std::get<1>(pair));
  });
}

std::vector<Knowledge> generalised(const std::vector<Knowledge> &a,
                                   const std::vector<Knowledge> &b) {
  std::vector<Knowledge> common;
  for (auto [x, y] : llvm::zip_equal(a, b))
    common.push_back(generalised(x, y));
  return common;
}

SmallVector<Value> leavesOf(ValueRange arguments, const std::vector<Knowledge> &known) {
  SmallVector<Value> leaves;
  for (auto [argument, one] : llvm::zip_equal(arguments, known))
    collectLeaves(argument, one, leaves);
  return leaves;
}

SmallVector<Type> leafTypes(const std::vector<Knowledge> &known) {
  SmallVector<Type> types;
  for (const Knowledge &one : known)
    collectTypes(one, types);
  return types;
}

SmallVector<Value> rebuild(OpBuilder &builder, Location location,
                           const std::vector<Knowledge> &known, ValueRange leaves) {
  SmallVector<Value> values;
  for (const Knowledge &one : known)
    values.push_back(rebuild(builder, location, one, leaves));
  return values;
}

} // namespace tensmith::program
