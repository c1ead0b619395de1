// Building, adding and taking apart of changes; see Changes.h.
#include "compiler/autodiff/Changes.h"

#include "compiler/graph/Evaluate.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace tensmith::autodiff {
namespace {

constexpr int64_t kLeastElements = 4096; // of a matrix: below, adding costs less than keeping rows
constexpr int64_t kMostRows = 64;        // that are kept: each is copied once for each that joins
constexpr uint64_t kSome = 1, kRows = 2;

/// The tag of what was just built.
std::optional<uint64_t> knownTag(Value value) {
  auto construct = value.getDefiningOp<program::ConstructOp>();
  return construct ? std::optional<uint64_t>(construct.getTag()) : std::nullopt;
}

bool isNone(Value change) { return !change || knownTag(change) == 0; }

std::string textOf(Type type) {
  if (auto object = dyn_cast<program::ObjectType>(type))
    return object.getText().str();
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

} // namespace

Changes::Changes(ModuleOp module, const graph::GradientCode &code)
    : module_(module), code_(code), structures_(module) {}

llvm::SetVector<Type> Changes::typesWithin(Type type) const {
  llvm::SetVector<Type> seen;
  seen.insert(type);
  for (size_t next = 0; next < seen.size(); ++next)
    if (const program::Constructors *known = structures_.find(seen[next]))
      for (const auto &fields : *known)
        seen.insert(fields.begin(), fields.end());
  return seen;
}

bool Changes::isPossible(Type type) const {
  return llvm::any_of(typesWithin(type), [&](Type inside) {
    auto object = dyn_cast<program::ObjectType>(inside);
    bool isUnknown = object && !structures_.find(inside) && !object.getText().starts_with("Ref[");
    return isUnknown || graph::isDifferentiable(inside);
  });
}

program::ObjectType Changes::typeOf(Type type) {
  type = program::withoutLocalSizes(type);
  auto change = program::ObjectType::get(module_.getContext(), "Change[" + textOf(type) + "]");
  if (structures_.find(change))
    return change;
  program::Constructors constructors(1);
  if (isa<TensorType>(type)) {
    constructors.push_back({type});
    if (auto matrix = dyn_cast<RankedTensorType>(type); matrix && mayBeRows(type)) {
      auto rows = [&](int64_t columns) {
        return RankedTensorType::get({ShapedType::kDynamic, columns}, matrix.getElementType());
      };
      constructors.push_back({rows(matrix.getDimSize(0)), rows(matrix.getDimSize(1)), change});
    }
  } else if (const program::Constructors *known = structures_.find(type)) {
    program::Constructors own = *known;
    structures_.add(change, {}); // which it may have in itself
    for (const auto &fields : own) {
      auto &changes = constructors.emplace_back();
      for (Type field : fields)
        changes.push_back(typeOf(field));
    }
  }
  structures_.add(change, std::move(constructors));
  return change;
}

program::ObjectType Changes::newType(StringRef name, program::Constructors constructors) {
  program::ObjectType type;
  do {
    std::string text = (name + "." + Twine(names_[name]++)).str();
    type = program::ObjectType::get(module_.getContext(), text);
  } while (structures_.find(type));
  structures_.add(type, std::move(constructors));
  return type;
}

Value Changes::field(Value value, uint64_t index, Type type, uint64_t tag) {
  return code_.builder.create<program::FieldOp>(code_.graph.location, type, value, index, tag);
}

Value Changes::none(Type type) { return construct(type, ~uint64_t(0), {}); }

Value Changes::some(Value change, Type type) {
  return code_.builder.create<program::ConstructOp>(code_.graph.location, typeOf(type), change, 1);
}

bool Changes::mayBeRows(Type type) {
  auto matrix = dyn_cast<RankedTensorType>(type);
  return matrix && matrix.getRank() == 2 && matrix.hasStaticShape() &&
         graph::isDifferentiable(type) && matrix.getNumElements() >= kLeastElements;
}

Value Changes::rows(Value a, Value b, Type type) {
  return code_.builder.create<program::ConstructOp>(code_.graph.location, typeOf(type),
                                                    ValueRange{a, b, none(type)}, kRows);
}

Value Changes::construct(Type type, uint64_t tag, ArrayRef<Value> fields) {
  return code_.builder.create<program::ConstructOp>(code_.graph.location, typeOf(type), fields,
                                                    tag + 1);
}

bool Changes::hasFunctions(Type type) const {
  return llvm::any_of(typesWithin(type), [](Type inside) {
    auto object = dyn_cast<program::ObjectType>(inside);
    return object && object.getText().contains("->");
  });
}

FailureOr<program::Constructors> Changes::structureOf(Type type, Operation *op) {
  if (const program::Constructors *known = structures_.find(type))
    return *known;
  emitError(op->getLoc()) << graph::describe(op->getLoc()) << ": there is no derivative of a value "
                          << "of type " << textOf(type)
                          << ", and one is asked for that goes through it";
  return failure();
}

Value Changes::match(Value value, Type result, size_t constructors, Build build) {
  if (auto tag = knownTag(value); tag && *tag < constructors)
    return build(unsigned(*tag));
  OpBuilder::InsertionGuard guard(code_.builder);
  auto op = code_.builder.create<program::MatchOp>(code_.graph.location, result, value,
                                                   unsigned(constructors));
  for (unsigned tag = 0; tag < constructors; ++tag) {
    code_.builder.createBlock(&op->getRegion(tag));
    Value own = build(tag);
    if (!own)
      return {};
    code_.builder.create<program::YieldOp>(code_.graph.location, own);
  }
  return op.getResult();
}

SmallVector<Value> Changes::fields(Value change, Type type, uint64_t tag) {
  const program::Constructors *known = structures_.find(type);
  if (!known || tag >= known->size())
    return {};
  SmallVector<Type> types((*known)[tag]);
  size_t constructors = known->size();
  SmallVector<Value> result(types.size());
  if (isNone(change) || types.empty())
    return result;
  if (auto built = change.getDefiningOp<program::ConstructOp>();
      built && built.getTag() == tag + 1) {
    llvm::copy(built.getFields(), result.begin());
  } else {
    // Nothing is taken apart into nothings.
    Value whole = match(change, typeOf(type), constructors + 1, [&](unsigned own) -> Value {
      if (own)
        return change;
      SmallVector<Value> nothing;
      for (Type field : types)
        nothing.push_back(none(field));
      return construct(type, tag, nothing);
    });
    for (auto [index, field] : llvm::enumerate(types))
      result[index] = this->field(whole, index, typeOf(field), tag + 1);
  }
  for (Value &field : result)
    if (isNone(field))
      field = {};
  return result;
}

Value Changes::zeros(Value like) const {
  if (program::withoutLocalSizes(like.getType()) == like.getType())
    return code_.zerosLike(like);
  return code_.op("graph.dynamic_broadcast", {code_.scalar(like, 0), code_.shapeOf(like)});
}

Value Changes::tensor(Value change, Value like) {
  if (isNone(change))
    return zeros(like);
  if (knownTag(change) == kSome)
    return change.getDefiningOp<program::ConstructOp>().getFields()[0];
  Type type = like.getType();
  return match(change, type, mayBeRows(type) ? 3 : 2, [&](unsigned tag) -> Value {
    if (tag < kRows)
      return tag ? field(change, 0, type, kSome) : zeros(like);
    Rows rows = rowsOf(change, type);
    Value own = product(rows);
    return match(rows.more, type, 3, [&](unsigned more) {
      return more == kSome ? code_.add(own, field(rows.more, 0, type, kSome)) : own;
    });
  });
}

// ---- procedures ----

std::string Changes::nameOf(Type type) {
  std::string name;
  for (char c : textOf(type))
    name += c == ' ' ? '_' : c;
  return name;
}

Value Changes::call(StringRef name, Type result, ArrayRef<Value> operands) {
  return code_.builder.create<program::CallOp>(code_.graph.location, result, operands, name);
}

void Changes::procedure(StringRef name, ArrayRef<Type> parameters,
                        llvm::function_ref<Value(Block &)> build) {
  if (module_.lookupSymbol(name))
    return;
  OpBuilder::InsertionGuard guard(code_.builder);
  code_.builder.setInsertionPointToEnd(module_.getBody());
  auto function = code_.builder.create<func::FuncOp>(code_.graph.location, name,
                                                     code_.builder.getFunctionType(parameters, {}));
  function->setAttr(program::kProcedure, code_.builder.getUnitAttr());
  code_.builder.setInsertionPointToStart(function.addEntryBlock());
  Value result = build(function.getBody().front());
  code_.builder.create<func::ReturnOp>(code_.graph.location, result);
  function.setType(code_.builder.getFunctionType(parameters, result.getType()));
}

Value Changes::add(Value a, Value b, Type type) {
  if (isNone(a) || isNone(b))
    return isNone(a) ? b : a;
  Type change = typeOf(type);
  std::string name = "add." + nameOf(change);
  procedure(name, {change, change}, [&](Block &block) {
    return addInside(block.getArgument(0), block.getArgument(1), type);
  });
  return call(name, change, {a, b});
}

Value Changes::addInside(Value a, Value b, Type type) {
  if (mayBeRows(type))
    return addMatrices(a, b, type);
  bool isTensor = isa<TensorType>(type);
  program::Constructors own;
  if (isTensor)
    own.push_back({type});
  else if (const program::Constructors *known = structures_.find(type))
    own = *known;
  Type change = typeOf(type);
  return match(a, change, own.size() + 1, [&](unsigned tag) -> Value {
    if (!tag)
      return b;
    return match(b, change, own.size() + 1, [&](unsigned other) -> Value {
      if (other != tag) // none; of a value that has another constructor there is no change
        return a;
      SmallVector<Value> sums;
      for (auto [index, part] : llvm::enumerate(own[tag - 1])) {
        Type held = isTensor ? part : typeOf(part);
        Value x = field(a, index, held, tag), y = field(b, index, held, tag);
        sums.push_back(isTensor ? code_.add(x, y) : isPossible(part) ? add(x, y, part) : x);
      }
      return code_.builder.create<program::ConstructOp>(code_.graph.location, change, sums, tag);
    });
  });
}

Changes::Rows Changes::rowsOf(Value change, Type type) {
  auto matrix = cast<RankedTensorType>(type);
  AffineExpr count = code_.graph.shapes.freshSymbol("rows");
  auto rows = [&](int64_t columns) {
    return code_.graph.shapes.tensorType(matrix.getElementType(), {count, code_.size(columns)});
  };
  return {field(change, 0, rows(matrix.getDimSize(0)), kRows),
          field(change, 1, rows(matrix.getDimSize(1)), kRows),
          field(change, 2, typeOf(type), kRows)};
}

Value Changes::product(const Rows &rows) {
  return code_.matmul(code_.transpose(rows.a, {1, 0}), rows.b);
}

Value Changes::addMatrices(Value a, Value b, Type type) {
  Type change = typeOf(type);
  auto beside = [&](Value rows, Value matrix) {
    Rows own = rowsOf(rows, type);
    return code_.builder
        .create<program::ConstructOp>(code_.graph.location, change,
                                      ValueRange{own.a, own.b, add(own.more, matrix, type)}, kRows)
        .getResult();
  };
  return match(a, change, 3, [&](unsigned tag) -> Value {
    if (!tag)
      return b;
    return match(b, change, 3, [&](unsigned other) -> Value {
      if (!other)
        return a;
      if (tag == kRows)
        return other == kRows ? joinRows(a, b, type) : beside(a, b);
      if (other == kRows)
        return beside(b, a);
      return some(code_.add(field(a, 0, type, kSome), field(b, 0, type, kSome)), type);
    });
  });
}

/// The rows of both, multiplied where they are many.
Value Changes::joinRows(Value x, Value y, Type type) {
  Rows left = rowsOf(x, type), right = rowsOf(y, type);
  Value more = add(left.more, right.more, type);
  Value count = code_.add(code_.sizeOf(left.a, 0), code_.sizeOf(right.a, 0));
  Value most = code_.graph.scalar(code_.builder.getI64Type(), kMostRows);
  Value few = code_.op("graph.less_or_equal", {count, most});
  if (!few)
    return {};
  // Joined on each side, since no size outside tells what the sum of two is.
  auto joined = [&](bool keep) -> Value {
    Rows both = {code_.concat({left.a, right.a}, 0), code_.concat({left.b, right.b}, 0), more};
    if (!keep)
      return add(some(product(both), type), more, type);
    return code_.builder.create<program::ConstructOp>(code_.graph.location, typeOf(type),
                                                      ValueRange{both.a, both.b, both.more}, kRows);
  };
  auto choice = code_.builder.create<program::IfOp>(code_.graph.location, typeOf(type), few);
  OpBuilder::InsertionGuard guard(code_.builder);
  for (Region &region : choice->getRegions()) {
    code_.builder.createBlock(&region);
    code_.builder.create<program::YieldOp>(code_.graph.location,
                                           joined(region.getRegionNumber() == 0));
  }
  return choice.getResult();
}

Value Changes::dense(Value change, Value like) {
  Type type = like.getType();
  if (graph::isDifferentiable(type))
    return tensor(change, like);
  if (isa<TensorType>(type) && getElementTypeOrSelf(type).isIntOrFloat())
    return zeros(like);
  if (!structures_.find(type))
    return like;
  std::string name = "dense." + nameOf(type);
  procedure(name, {typeOf(type), type},
            [&](Block &block) { return denseInside(block.getArgument(0), block.getArgument(1)); });
  return call(name, type, {orNone(change, type), like});
}

Value Changes::denseInside(Value change, Value like) {
  program::Constructors own = *structures_.find(like.getType());
  return match(like, like.getType(), own.size(), [&](unsigned tag) -> Value {
    SmallVector<Value> parts = fields(change, like.getType(), tag), built;
    for (auto [index, type] : llvm::enumerate(own[tag]))
      built.push_back(dense(parts[index], field(like, index, type, tag)));
    return code_.builder.create<program::ConstructOp>(code_.graph.location, like.getType(), built,
                                                      tag);
  });
}

Value Changes::fromDense(Value dense) {
  Type type = dense.getType();
  if (!isPossible(type))
    return none(type);
  if (graph::isDifferentiable(type))
    return some(dense, type);
  if (!structures_.find(type))
    return none(type);
  std::string name = "change." + nameOf(type);
  procedure(name, {type}, [&](Block &block) { return fromDenseInside(block.getArgument(0)); });
  return call(name, typeOf(type), {dense});
}

Value Changes::fromDenseInside(Value dense) {
  program::Constructors own = *structures_.find(dense.getType());
  return match(dense, typeOf(dense.getType()), own.size(), [&](unsigned tag) -> Value {
    SmallVector<Value> parts;
    for (auto [index, type] : llvm::enumerate(own[tag]))
      parts.push_back(fromDense(field(dense, index, type, tag)));
    return construct(dense.getType(), tag, parts);
  });
}

} // namespace tensmith::autodiff
