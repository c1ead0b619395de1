// Asking shape functions; see Relations.h.
#include "frontends/text/Relations.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace tensmith::text {
namespace {

/// "'graph.add' op shapes do not ..." without what names the operator, which the place does.
std::string plain(std::string message) {
  size_t op = message.find("' op ");
  return op == std::string::npos ? message : message.substr(op + 5);
}

/// Axes below 0 count from the last dimension, -1, as they do in NumPy.
void countFromEnd(SmallVectorImpl<NamedAttribute> &attributes, Type of) {
  auto ranked = dyn_cast_or_null<RankedTensorType>(of);
  if (!ranked)
    return;
  auto counted = [&](int64_t axis) { return axis < 0 ? axis + ranked.getRank() : axis; };
  for (NamedAttribute &attribute : attributes) {
    Builder builder(attribute.getValue().getContext());
    if (auto axis = dyn_cast<IntegerAttr>(attribute.getValue()); attribute.getName() == "axis")
      attribute.setValue(builder.getI64IntegerAttr(counted(axis.getInt())));
    auto axes = dyn_cast<DenseI64ArrayAttr>(attribute.getValue());
    if (axes && attribute.getName() == "axes")
      attribute.setValue(
          builder.getDenseI64ArrayAttr(llvm::map_to_vector(axes.asArrayRef(), counted)));
  }
}

} // namespace

bool isTyped(const OperatorInfo &info) {
  // Those that GraphBuilder::createTyped is for.
  return info.name == "reshape" || info.name == "broadcast" || info.name == "slice" ||
         info.name == "iota" || info.name == "random_uniform" || info.name == "random_normal";
}

/// What the records leave open: models may compute with booleans as with numbers, and the other way
/// round, which in a program is a mistake.
static std::string wrongElements(const Relation &relation) {
  static const std::set<std::string_view> logical = {"and", "or", "xor", "not"},
                                          arithmetic = {"add", "sub", "mul",   "div",
                                                        "mod", "neg", "matmul"};
  bool wantsBool = logical.contains(relation.info->name);
  if (!wantsBool && !arithmetic.contains(relation.info->name))
    return {};
  for (Term *operand : relation.operands) {
    DataType element = Types::find(Types::find(operand)->parts[0])->element;
    if ((element == DataType::Bool) != wantsBool)
      return std::string(relation.info->name) + " takes " + (wantsBool ? "booleans" : "numbers") +
             ", not " + std::string(name(element));
  }
  return {};
}

Relations::Relations(Types &types)
    : types_(types), scratch_(ModuleOp::create(UnknownLoc::get(types.shapes.mlirContext()))) {}

Type Relations::elementType(DataType type) {
  return graph::elementType(types_.shapes.mlirContext(), type);
}

/// Constants, and sizes without a name.
Type Relations::plainType(Term *tensor) {
  SmallVector<int64_t> dims;
  for (Term *part : Types::find(tensor->parts[1])->parts) {
    Term *size = Types::find(part);
    auto constant = size->kind == Term::Kind::Size ? dyn_cast<AffineConstantExpr>(size->size)
                                                   : AffineConstantExpr();
    dims.push_back(constant ? constant.getValue() : ShapedType::kDynamic);
  }
  return RankedTensorType::get(dims, elementType(Types::find(tensor->parts[0])->element));
}

Type Relations::lower(Term *tensor, bool named) {
  tensor = Types::find(tensor);
  SmallVector<AffineExpr> dims;
  bool open = false;
  for (Term *part : Types::find(tensor->parts[1])->parts) {
    Term *size = Types::find(part);
    open |= size->kind != Term::Kind::Size;
    dims.push_back(size->kind == Term::Kind::Size ? size->size
                                                  : types_.shapes.freshSymbol("unknown"));
  }
  if (open && !named)
    return plainType(tensor);
  return types_.shapes.tensorType(elementType(Types::find(tensor->parts[0])->element), dims);
}

Term *Relations::raise(Type type) {
  auto ranked = cast<RankedTensorType>(type);
  std::vector<Term *> sizes;
  for (AffineExpr dim : types_.shapes.dims(ranked)) {
    bool local = false;
    dim.walk([&](AffineExpr part) {
      if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
        local |= !types_.symbols.contains(types_.shapes.symbols()[symbol.getPosition()].str());
    });
    sizes.push_back(local ? types_.unknown() : types_.size(dim));
  }
  return types_.tensor(types_.element(graph::dataType(ranked.getElementType())),
                       types_.shape(std::move(sizes)));
}

HostTensor Relations::number(const Expr &expr, DataType type) {
  HostTensor tensor(type, {});
  if (expr.kind == Expr::Kind::Boolean)
    tensor.setInt(0, expr.text == "true");
  else if (isInteger(type))
    tensor.setInt(0, std::strtoll(expr.text.c_str(), nullptr, 10));
  else
    tensor.setDouble(0, std::strtod(expr.text.c_str(), nullptr));
  return tensor;
}

static DataType elementOf(Term *element) { return Types::find(element)->element; }

/// A number takes the element type of the operands beside it, and one with a point that of any.
bool Relations::prepareNumbers(const Relation &relation, std::string &error) {
  bool pow = relation.info->name == "pow", where = relation.info->name == "where";
  Term *known = nullptr;
  for (size_t i = 0; i < relation.operands.size(); ++i) {
    Term *operand = relation.operands[i] ? Types::find(relation.operands[i]) : nullptr;
    if (!operand || operand->kind != Term::Kind::Tensor || (where && i == 0))
      continue;
    if (Types::find(operand->parts[0])->kind == Term::Kind::Element && !known)
      known = operand->parts[0];
  }
  Term *result = Types::find(relation.result);
  bool typed = isTyped(*relation.info) && result->kind == Term::Kind::Tensor;
  if (typed && !relation.operands.empty() && relation.numbers[0]) // of the type that it is told
    known = result->parts[0];
  if (!known)
    return true;
  for (size_t i = 0; i < relation.operands.size(); ++i) {
    Term *operand = relation.operands[i] ? Types::find(relation.operands[i]) : nullptr;
    if (!operand || operand->kind != Term::Kind::Tensor || (where && i == 0))
      continue;
    Term *element = Types::find(operand->parts[0]);
    if (element->kind != Term::Kind::Variable || element->literal == Term::Literal::None)
      continue;
    // "topk(x, 5)" has a k of its own type.
    bool alike = typed || (relation.info->operands.size() > 1 &&
                           (relation.info->operands[1].name == "b" || where || pow ||
                            relation.info->operands[0].kind == OperandKind::Variadic));
    if (alike && !types_.unify(element, known)) {
      error = "the number " + (relation.numbers[i] ? relation.numbers[i]->text + " " : "") +
              "can't be of type " + types_.print(known);
      return false;
    }
    if (!alike && !(element->literal == Term::Literal::Real && isFloat(elementOf(known)) &&
                    types_.unify(element, known)))
      types_.settle(element);
  }
  return true;
}

/// Waiting for what only callers know; `?` where they don't know it either.
Relations::Outcome Relations::solveSizes(const Relation &relation) {
  for (Term *operand : relation.operands)
    if (!Types::isKnown(operand))
      return Outcome::Waiting;
  types_.unify(relation.result,
               types_.computed(relation.arithmetic, relation.operands[0], relation.operands[1]));
  return Outcome::Solved;
}

/// The relation as it would be were its numbers of that type; null where it can't be.
static Term *resultOf(Relations &relations, Relation relation, Types &types, DataType type) {
  for (Term *&operand : relation.operands)
    operand = operand ? types.tensor(types.element(type), Types::find(operand)->parts[1]) : nullptr;
  std::string error;
  Operation *op = relations.stand(relation, error);
  if (!op || op->getNumResults() != 1 || !isa<RankedTensorType>(op->getResult(0).getType()))
    return nullptr;
  return relations.raise(op->getResult(0).getType());
}

/// Arithmetic on numbers alone, of which one has a point (`2 * 0.1`; `1 / 2` is i64's), gives a
/// number, which takes its type from where it stands, as they do. Whether it is such arithmetic the
/// operator's shape function says: what it gives follows the type of its operands. True where the
/// result is known by that.
bool Relations::solveNumbers(const Relation &relation) {
  Term *number = nullptr;
  bool real = false;
  for (Term *operand : relation.operands) {
    Term *tensor = operand ? Types::find(operand) : nullptr;
    if (!tensor || tensor->kind != Term::Kind::Tensor || !Types::isKnown(tensor->parts[1]))
      return false;
    Term *element = Types::find(tensor->parts[0]);
    if (element->kind != Term::Kind::Variable || element->literal == Term::Literal::None)
      return false;
    number = element;
    real |= element->literal == Term::Literal::Real;
  }
  if (!real || !relation.computed.empty() || isTyped(*relation.info))
    return false;
  Term *one = resultOf(*this, relation, types_, DataType::F32);
  Term *other = resultOf(*this, relation, types_, DataType::F64);
  if (!one || !other || elementOf(other->parts[0]) != DataType::F64 ||
      elementOf(one->parts[0]) == DataType::F64)
    return false;
  for (Term *operand : relation.operands)
    if (!types_.unify(Types::find(operand)->parts[0], number))
      return false;
  return types_.unify(relation.result, types_.tensor(Types::find(number), one->parts[1]));
}

Relations::Outcome Relations::solve(const Relation &relation, std::string &error) {
  if (!relation.info)
    return solveSizes(relation);
  if (!prepareNumbers(relation, error))
    return Outcome::Wrong;
  if (solveNumbers(relation))
    return Outcome::Solved;
  for (Term *operand : relation.operands) {
    if (!operand)
      continue;
    Term *term = Types::find(operand);
    if (term->kind != Term::Kind::Variable && term->kind != Term::Kind::Tensor) {
      error = std::string(relation.info->name) + " takes tensors, not " + types_.print(term);
      return Outcome::Wrong;
    }
    if (!Types::isKnown(operand))
      return Outcome::Waiting;
  }
  for (const ComputedAttribute &attribute : relation.computed)
    for (Term *value : attribute.values)
      if (!Types::isKnown(value))
        return Outcome::Waiting;
  if (std::string wrong = wrongElements(relation); !wrong.empty()) {
    error = wrong;
    return Outcome::Wrong;
  }
  if (isTyped(*relation.info)) {
    Term *result = Types::find(relation.result);
    if (!Types::isKnown(result))
      return Outcome::Waiting;
    if (result->kind != Term::Kind::Tensor) {
      error = std::string(relation.info->name) + " gives a tensor, not " + types_.print(result);
      return Outcome::Wrong;
    }
  }
  Operation *op = stand(relation, error);
  if (!op)
    return Outcome::Wrong;
  std::vector<Term *> results;
  for (Type type : op->getResultTypes()) {
    if (!isa<RankedTensorType>(type)) {
      error = "the rank of what " + std::string(relation.info->name) +
              " gives depends on data; use an operator whose result has a type, as reshape";
      return Outcome::Wrong;
    }
    results.push_back(raise(type));
  }
  Term *result = results.size() == 1 ? results[0] : types_.tuple(results);
  if (!types_.unify(relation.result, result)) {
    error = "expected " + types_.print(relation.result) + ", found " + types_.print(result);
    return Outcome::Wrong;
  }
  return Outcome::Solved;
}

Operation *Relations::stand(const Relation &relation, std::string &error) {
  Type typed = isTyped(*relation.info) ? lower(relation.result) : Type();
  auto builder = OpBuilder::atBlockEnd(scratch_->getBody());
  Location location = builder.getUnknownLoc();
  SmallVector<Value> operands;
  for (size_t i = 0; i < relation.operands.size(); ++i) {
    if (!relation.operands[i]) {
      operands.push_back(builder.create<graph::NoneOp>(location, builder.getNoneType()));
      continue;
    }
    Type type = lower(relation.operands[i]);
    if (relation.numbers[i])
      operands.push_back(
          graph::GraphBuilder(builder, types_.shapes, location)
              .constant(number(*relation.numbers[i], graph::dataType(getElementTypeOrSelf(type)))));
    else
      operands.push_back(
          builder.create<UnrealizedConversionCastOp>(location, type, ValueRange()).getResult(0));
  }
  return build(builder, location, relation, operands, typed, error);
}

/// Attributes are what the compiler has to know.
bool Relations::addComputed(const Relation &relation, SmallVectorImpl<NamedAttribute> &attributes,
                            std::string &error) {
  Builder builder(types_.shapes.mlirContext());
  for (const ComputedAttribute &attribute : relation.computed) {
    Term *only = attribute.values.size() == 1 ? Types::find(attribute.values[0]) : nullptr;
    if (only && only->kind == Term::Kind::Element) {
      bool isNarrow = isFloat(only->element) && byteSize(only->element) < 4;
      DataType type = attribute.wide && isNarrow ? DataType::F32 : only->element;
      attributes.push_back(builder.getNamedAttr(attribute.name, TypeAttr::get(elementType(type))));
      continue;
    }
    SmallVector<int64_t> values;
    for (Term *value : attribute.values) {
      Term *size = Types::find(value);
      auto constant = size->kind == Term::Kind::Size ? dyn_cast<AffineConstantExpr>(size->size)
                                                     : AffineConstantExpr();
      if (!constant) {
        error = std::string(relation.info->name) + ": '" + attribute.name + "' is computed from " +
                types_.print(size) + ", which only the run knows; write this size as a number";
        return false;
      }
      values.push_back(constant.getValue());
    }
    attributes.push_back(builder.getNamedAttr(
        attribute.name, attribute.list ? mlir::Attribute(builder.getDenseI64ArrayAttr(values))
                                       : mlir::Attribute(builder.getI64IntegerAttr(values[0]))));
  }
  return true;
}

Operation *Relations::build(OpBuilder &builder, Location location, const Relation &relation,
                            ValueRange operands, Type typed, std::string &error) {
  std::string message;
  ScopedDiagnosticHandler handler(builder.getContext(), [&](Diagnostic &diagnostic) {
    if (message.empty())
      message = plain(diagnostic.str());
    return success();
  });
  SmallVector<NamedAttribute> attributes(ArrayRef<NamedAttribute>(relation.attributes));
  if (!addComputed(relation, attributes, error))
    return nullptr;
  countFromEnd(attributes, typed ? typed : operands.empty() ? Type() : operands[0].getType());
  graph::GraphBuilder graphBuilder(builder, types_.shapes, location);
  Operation *op = typed ? graphBuilder.createTyped(relation.info->name, typed, operands, attributes)
                        : graphBuilder.create(relation.info->name, operands, attributes);
  if (op && failed(op->getName().verifyInvariants(op))) {
    op->erase();
    op = nullptr;
  }
  if (!op)
    error = std::string(relation.info->name) + ": " + message;
  return op;
}

} // namespace tensmith::text
