// One point of a statement, or one for each lane; see NestCode.h.
//
// What an operation means is said by the graph's operator of that name (Elementwise::emitScalar):
// a detached one is built and asked, so that nests compute what graphs do.
#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/Lowering.h"
#include "compiler/graph/ScalarCode.h"
#include "compiler/nest/Layout.h"
#include "compiler/nest/NestCode.h"
#include "compiler/nest/RegionNest.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace tensmith::nest {

Type NestCode::element(DataType type) {
  return graph::elementType(emitter_.builder().getContext(), type);
}

Value NestCode::lane(Value value, int64_t lane) {
  if (!isa<VectorType>(value.getType()))
    return value;
  return emitter_.builder().createOrFold<vector::ExtractOp>(math_.location, value, lane);
}

template <typename Run> auto NestCode::atLane(int64_t lane, Run run) {
  const Lanes *lanes = lanes_;
  Value mask = mask_, before = variables.at(lanes->variable);
  Value at = math_.constant(lanes->least + lane);
  auto &builder = emitter_.builder();
  if (!lanes->upper.empty())
    at = builder.createOrFold<arith::MinSIOp>(math_.location, at, extremum(lanes->upper, true));
  if (!lanes->lower.empty())
    at = builder.createOrFold<arith::MaxSIOp>(math_.location, at, extremum(lanes->lower, false));
  variables[lanes->variable] = at;
  lanes_ = nullptr;
  mask_ = {};
  auto result = run();
  lanes_ = lanes;
  mask_ = mask;
  variables[lanes->variable] = before;
  return result;
}

Value NestCode::extentOf(const Tensor &tensor, const LayoutDimension &entry) {
  using Part = LayoutDimension::Part;
  if (entry.part == Part::Remainder)
    return math_.constant(entry.block);
  Value extent = value(tensor.extents[entry.dim]);
  return entry.part == Part::Whole ? extent : math_.ceilDiv(extent, math_.constant(entry.block));
}

Value NestCode::offsetOf(const Tensor &tensor, ValueRange indices) {
  using Part = LayoutDimension::Part;
  auto &builder = emitter_.builder();
  Value result = math_.constant(0);
  for (const LayoutDimension &entry : layoutOf(tensor)) {
    Value index = indices[entry.dim]; // of a copy: it is not negative
    if (entry.part == Part::Quotient)
      index =
          builder.createOrFold<arith::DivUIOp>(math_.location, index, math_.constant(entry.block));
    if (entry.part == Part::Remainder)
      index =
          builder.createOrFold<arith::RemUIOp>(math_.location, index, math_.constant(entry.block));
    result = math_.add(math_.mul(result, extentOf(tensor, entry)), index);
  }
  return result;
}

Value NestCode::offset(const Tensor &tensor, const std::vector<Affine> &indices) {
  SmallVector<Value> values;
  for (const Affine &each : indices)
    values.push_back(value(each));
  return offsetOf(tensor, values);
}

//===-- Expressions --------------------------------------------------------------------------===//

Value NestCode::constantOf(const Expression &e) {
  auto &builder = emitter_.builder();
  Type type = graph::kernelElementType(element(e.type));
  if (!type) {
    problem = "constants of " + std::string(name(e.type)) + " have no code";
    return math_.constant(0);
  }
  TypedAttr attribute = isa<FloatType>(type) ? TypedAttr(builder.getFloatAttr(type, e.number))
                                             : TypedAttr(builder.getIntegerAttr(type, e.integer));
  return builder.create<arith::ConstantOp>(math_.location, attribute);
}

/// An affine value of each lane, as i64.
Value NestCode::indexVector(const Affine &affine) {
  auto &builder = emitter_.builder();
  if (!lanes_ || !involves(program_, affine, lanes_->variable))
    return math_.toI64(value(affine));
  Affine rest = affine;
  int64_t factor = rest.coefficient(lanes_->variable);
  rest.terms.erase(lanes_->variable);
  auto type = VectorType::get({lanes()}, builder.getI64Type());
  if (involves(program_, rest, lanes_->variable)) {
    Value result = builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(type));
    for (int64_t number = 0; number < lanes(); ++number) {
      Value own = atLane(number, [&] { return math_.toI64(value(affine)); });
      result = builder.create<vector::InsertOp>(math_.location, own, result, number);
    }
    return result;
  }
  SmallVector<int64_t> steps;
  for (int64_t number = 0; number < lanes(); ++number)
    steps.push_back(factor * (lanes_->least + number));
  Value along = builder.create<arith::ConstantOp>(
      math_.location, DenseElementsAttr::get(type, ArrayRef<int64_t>(steps)));
  Value base = emitter_.splat(math_.toI64(value(rest)), lanes());
  return builder.create<arith::AddIOp>(math_.location, base, along);
}

static const char *operatorName(Operation operation) {
  using enum Operation;
  switch (operation) {
  case Add:
    return "graph.add";
  case Subtract:
    return "graph.sub";
  case Multiply:
    return "graph.mul";
  case Divide:
    return "graph.div";
  case Remainder:
  case FloorRemainder:
    return "graph.mod";
  case Minimum:
    return "graph.min";
  case Maximum:
    return "graph.max";
  case Power:
    return "graph.pow";
  case Negate:
    return "graph.neg";
  case Absolute:
    return "graph.abs";
  case Exponential:
    return "graph.exp";
  case Logarithm:
    return "graph.log";
  case SquareRoot:
    return "graph.sqrt";
  case ReciprocalSquareRoot:
    return "graph.rsqrt";
  case Sine:
    return "graph.sin";
  case Cosine:
    return "graph.cos";
  case Tangent:
    return "graph.tan";
  case HyperbolicTangent:
    return "graph.tanh";
  case ErrorFunction:
    return "graph.erf";
  case Floor:
    return "graph.floor";
  case Ceiling:
    return "graph.ceil";
  case RoundEven:
    return "graph.round";
  case Less:
    return "graph.less";
  case LessEqual:
    return "graph.less_or_equal";
  case Equal:
    return "graph.equal";
  case And:
    return "graph.and";
  case Or:
    return "graph.or";
  case Not:
    return "graph.not";
  case Select:
    return "graph.where";
  case Cast:
    return "graph.cast";
  default:
    return nullptr;
  }
}

Value NestCode::operation(const Expression &e, ValueRange operands) {
  auto &builder = emitter_.builder();
  using enum Operation;
  if (e.operation == NotEqual) {
    Expression equal = e;
    equal.operation = Equal;
    Value same = operation(equal, operands);
    graph::ScalarCode code(builder, math_.location);
    return code.bitXor(same, code.boolean(same, true));
  }
  if (e.operation == FloorDivide) { // (a - a mod b) / b
    Expression own = e;
    own.operation = FloorRemainder;
    Value rest = operation(own, operands);
    own.operation = Subtract;
    Value whole = operation(own, {operands[0], rest});
    own.operation = Divide;
    return operation(own, {whole, operands[1]});
  }
  if (e.operation == Function) {
    graph::Elementwise op = static_cast<const ElementFunction &>(*e.function).op;
    Value result = op.emitScalar(builder, math_.location, operands);
    Type wanted = graph::kernelElementType(getElementTypeOrSelf(op->getResult(0).getType()));
    if (result && getElementTypeOrSelf(result.getType()) == wanted)
      return result;
    problem = e.function->name + (result ? " has code of another type" : " has no code");
    return operands[0];
  }
  // The operator, apart from any graph.
  Block block;
  SmallVector<Value> placeholders;
  for (const Expr &operand : e.operands)
    placeholders.push_back(
        block.addArgument(RankedTensorType::get({}, element(operand->type)), math_.location));
  OpBuilder detached(builder.getContext());
  detached.setInsertionPointToEnd(&block);
  graph::ShapeContext shapes(builder.getContext());
  graph::GraphBuilder graph(detached, shapes, math_.location);
  SmallVector<NamedAttribute> attributes;
  if (e.operation == Cast)
    attributes.push_back(graph.named("to", TypeAttr::get(element(e.type))));
  if (e.operation == Remainder)
    attributes.push_back(graph.named("fmod", builder.getBoolAttr(true)));
  std::string operatorOf =
      e.operation == Operator ? "graph." + e.name : std::string(operatorName(e.operation));
  mlir::Operation *op = graph.create(operatorOf, placeholders, attributes);
  auto elementwise = dyn_cast_or_null<graph::Elementwise>(op);
  Value result = elementwise ? elementwise.emitScalar(builder, math_.location, operands) : Value();
  block.clear();
  if (result)
    return result;
  problem = operatorOf + " of " + std::string(name(e.operands[0]->type)) + " has no code";
  return operands[0];
}

Value NestCode::compute(const Expression &e, Point &point) {
  switch (e.operation) {
  case Operation::Constant:
    return constantOf(e);
  case Operation::Index:
    return indexVector(composed(e.affine, point.statement, point.arguments));
  case Operation::Load:
    return e.guard.empty() ? loadOf(e, point) : guardedLoad(e, point);
  case Operation::Check:
    return checkedValue(e, point);
  default:
    break;
  }
  SmallVector<Value> operands;
  for (const Expr &operand : e.operands)
    operands.push_back(evaluate(operand, point));
  if (llvm::any_of(operands, [](Value v) { return isa<VectorType>(v.getType()); }))
    for (Value &operand : operands)
      operand = emitter_.splat(operand, lanes());
  bool isFloat = e.type == DataType::F32 || e.type == DataType::F64;
  graph::ScalarCode code(emitter_.builder(), math_.location);
  if (e.operation == Operation::Add && isFloat && e.operands[0]->operation == Operation::Multiply) {
    // Fused where the machine can.
    Value a = evaluate(e.operands[0]->operands[0], point);
    Value b = evaluate(e.operands[0]->operands[1], point);
    int64_t count = isa<VectorType>(operands[1].getType()) ? lanes() : 1;
    return code.multiplyAdd(emitter_.splat(a, count), emitter_.splat(b, count), operands[1]);
  }
  Value result = operation(e, operands);
  Type type = element(e.type);
  if (!type.isF16() && !type.isBF16())
    return result;
  // Kernels compute with them as f32; the value is what memory can hold.
  Type narrow = graph::ScalarCode::withElement(result, type);
  return code.make<arith::ExtFOp>(result.getType(), code.make<arith::TruncFOp>(narrow, result));
}

/// The check is reported before what the value's own loads report: the first message is the one
/// that is told. Lanes are looked at one by one only where one of them doesn't hold.
Value NestCode::checkedValue(const Expression &e, Point &point) {
  auto &builder = emitter_.builder();
  auto location = math_.location;
  Value holds = evaluate(e.operands[1], point), told = evaluate(e.operands[2], point);
  const std::string &message = e.reports.at(0).message;
  auto check = [&](Value condition, Value own) {
    own = builder.createOrFold<arith::IndexCastOp>(location, builder.getIndexType(), own);
    emitter_.check(condition, message, own);
  };
  if (!isa<VectorType>(holds.getType())) {
    check(holds, lane(told, 0));
    return evaluate(e.operands[0], point);
  }
  graph::ScalarCode code(builder, location);
  Value bad = code.bitXor(holds, code.boolean(holds, true));
  if (mask_)
    bad = builder.create<arith::AndIOp>(location, bad, mask_);
  Value isAny = builder.create<vector::ReductionOp>(location, vector::CombiningKind::OR, bad);
  auto branch = builder.create<scf::IfOp>(location, isAny, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(branch.thenBlock()->getTerminator());
    Value isFine = code.bitXor(bad, code.boolean(bad, true));
    for (int64_t number = 0; number < lanes(); ++number)
      check(lane(isFine, number), lane(told, number));
  }
  return evaluate(e.operands[0], point);
}

Value NestCode::evaluate(const Expr &e, Point &point) {
  auto found = point.values.find(e.get());
  if (found != point.values.end())
    return found->second;
  Value result = compute(*e, point);
  point.values[e.get()] = result;
  return result;
}

//===-- Loads --------------------------------------------------------------------------------===//

Value NestCode::loadPlace(const Tensor &tensor, const Place &place, Along along, Value mask) {
  auto &builder = emitter_.builder();
  if (Register *own = find(place, along, Reduction::None))
    return own->value;
  Type type = element(tensor.type);
  Value pointer = pointers.at(tensor.name);
  if (along == Along::Uniform)
    return emitter_.load(pointer, type, offset(tensor, place.indices));
  if (along == Along::Contiguous)
    return emitter_.load(pointer, type, offset(tensor, place.indices), lanes(), mask);
  int64_t count = lanes();
  Value result;
  for (int64_t number = 0; number < count; ++number) {
    Value own =
        atLane(number, [&] { return emitter_.load(pointer, type, offset(tensor, place.indices)); });
    if (!result)
      result = builder.create<arith::ConstantOp>(
          math_.location, builder.getZeroAttr(VectorType::get({count}, own.getType())));
    result = builder.create<vector::InsertOp>(math_.location, own, result, number);
  }
  return result;
}

Value NestCode::loadOf(const Expression &e, Point &point) {
  const Tensor &tensor = *nest_.tensor(e.tensor);
  size_t rank = tensor.extents.size();
  Place place = placeOf(e.tensor, e.operands, rank, point.statement, point.arguments);
  if (!place.isAffine)
    return loadGathered(e, rank, point, mask_);
  Lanes none;
  return loadPlace(tensor, place, alongLanes(program_, tensor, place, lanes_ ? *lanes_ : none),
                   mask_);
}

Value NestCode::guardMask(const std::vector<Constraint> &guard, Point &point) {
  auto &builder = emitter_.builder();
  Value result;
  for (const Constraint &each : guard) {
    Value own = indexVector(composed(each.value, point.statement, point.arguments));
    graph::ScalarCode code(builder, math_.location);
    auto predicate = each.isEquality ? arith::CmpIPredicate::eq : arith::CmpIPredicate::sge;
    Value holds = code.compare(predicate, own, code.integer(own, 0));
    if (result && result.getType() != holds.getType()) {
      result = emitter_.splat(result, lanes());
      holds = emitter_.splat(holds, lanes());
    }
    result = result ? code.bitAnd(result, holds) : holds;
  }
  return result;
}

/// Nothing is read where the guard doesn't hold: the element may be outside.
Value NestCode::guardedLoad(const Expression &e, Point &point) {
  auto &builder = emitter_.builder();
  auto location = math_.location;
  const Tensor &tensor = *nest_.tensor(e.tensor);
  size_t rank = tensor.extents.size();
  Value otherwise = evaluate(e.operands[rank], point);
  Value holds = guardMask(e.guard, point);
  Place place = placeOf(e.tensor, e.operands, rank, point.statement, point.arguments);
  Lanes none;
  Along along = alongLanes(program_, tensor, place, lanes_ ? *lanes_ : none);
  bool isVector = isa<VectorType>(holds.getType());
  if (isVector && along == Along::Contiguous) {
    Value mask = mask_ ? Value(builder.create<arith::AndIOp>(location, holds, mask_)) : holds;
    Value loaded = emitter_.load(pointers.at(tensor.name), element(tensor.type),
                                 offset(tensor, place.indices), lanes(), mask);
    return builder.create<arith::SelectOp>(location, holds, loaded,
                                           emitter_.splat(otherwise, lanes()));
  }
  if (isVector && place.isAffine) {
    Value result = emitter_.splat(otherwise, lanes());
    for (int64_t number = 0; number < lanes(); ++number) {
      Value isRead = lane(holds, number);
      if (mask_)
        isRead = builder.create<arith::AndIOp>(location, isRead, lane(mask_, number));
      auto branch = builder.create<scf::IfOp>(location, TypeRange(lane(result, 0).getType()),
                                              isRead, /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(branch.elseBlock());
      builder.create<scf::YieldOp>(location, lane(result, number));
      builder.setInsertionPointToEnd(branch.thenBlock());
      Value own = atLane(number, [&] {
        return emitter_.load(pointers.at(tensor.name), element(tensor.type),
                             offset(tensor, place.indices));
      });
      builder.create<scf::YieldOp>(location, own);
      builder.setInsertionPointAfter(branch);
      result = builder.create<vector::InsertOp>(location, branch.getResult(0), result, number);
    }
    return result;
  }
  if (!place.isAffine && isVector) {
    Value mask = mask_ ? Value(builder.create<arith::AndIOp>(location, holds, mask_)) : holds;
    Value loaded = emitter_.splat(loadGathered(e, rank, point, mask), lanes());
    return builder.create<arith::SelectOp>(location, holds, loaded,
                                           emitter_.splat(otherwise, lanes()));
  }
  // One answer for all lanes.
  bool loadsVector = along != Along::Uniform;
  for (size_t dim = 0; dim < rank && !place.isAffine; ++dim) {
    Value index = evaluate(e.operands[dim], point);
    loadsVector |= isa<VectorType>(index.getType());
  }
  loadsVector |= isa<VectorType>(otherwise.getType());
  if (loadsVector)
    otherwise = emitter_.splat(otherwise, lanes());
  auto branch = builder.create<scf::IfOp>(location, TypeRange(otherwise.getType()), holds, true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(branch.elseBlock());
  builder.create<scf::YieldOp>(location, otherwise);
  builder.setInsertionPointToEnd(branch.thenBlock());
  Value loaded =
      place.isAffine ? loadPlace(tensor, place, along, mask_) : loadGathered(e, rank, point, mask_);
  if (loadsVector)
    loaded = emitter_.splat(loaded, lanes());
  builder.create<scf::YieldOp>(location, loaded);
  return branch.getResult(0);
}

//===-- Stores and reductions ----------------------------------------------------------------===//

static double identityOf(Reduction reduction) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (reduction) {
  case Reduction::Multiply:
    return 1;
  case Reduction::Minimum:
    return kInfinity;
  case Reduction::Maximum:
    return -kInfinity;
  default:
    return 0;
  }
}

Value NestCode::identity(Reduction reduction, DataType type, int64_t lanes) {
  auto &builder = emitter_.builder();
  Type own = graph::kernelElementType(element(type));
  TypedAttr attribute;
  if (isa<FloatType>(own)) {
    attribute = builder.getFloatAttr(own, identityOf(reduction));
  } else {
    unsigned bits = own.getIntOrFloatBitWidth();
    bool isUnsigned = info(type).kind != TypeClass::Signed;
    llvm::APInt value(bits, reduction == Reduction::Multiply || reduction == Reduction::And);
    if (reduction == Reduction::Minimum)
      value = isUnsigned ? llvm::APInt::getMaxValue(bits) : llvm::APInt::getSignedMaxValue(bits);
    if (reduction == Reduction::Maximum)
      value = isUnsigned ? llvm::APInt::getMinValue(bits) : llvm::APInt::getSignedMinValue(bits);
    attribute = builder.getIntegerAttr(own, value);
  }
  return emitter_.splat(builder.create<arith::ConstantOp>(math_.location, attribute), lanes);
}

static Operation operationOf(Reduction reduction) {
  using enum Operation;
  switch (reduction) {
  case Reduction::Multiply:
    return Multiply;
  case Reduction::Minimum:
    return Minimum;
  case Reduction::Maximum:
    return Maximum;
  case Reduction::Or:
    return Or;
  case Reduction::And:
    return And;
  default:
    return Add;
  }
}

Value NestCode::combine(const Statement &statement, Value old, Value value) {
  if (statement.reduction == Reduction::None)
    return value;
  DataType type = nest_.tensor(statement.tensor)->type;
  Expr like = std::make_shared<Expression>(Expression{Operation::Constant, type});
  Expression e{operationOf(statement.reduction), type, {like, like}};
  if (isa<VectorType>(value.getType()) != isa<VectorType>(old.getType())) {
    old = emitter_.splat(old, lanes());
    value = emitter_.splat(value, lanes());
  }
  return operation(e, {old, value});
}

/// The same, where a product is added to a float in one step.
Value NestCode::combineWithValue(const Statement &statement, Value old, Point &point) {
  const Expression &e = *statement.value;
  bool isFused = statement.reduction == Reduction::Add && e.operation == Operation::Multiply &&
                 info(e.type).kind == TypeClass::Float;
  if (!isFused)
    return combine(statement, old, evaluate(statement.value, point));
  graph::ScalarCode code(emitter_.builder(), math_.location);
  Value a = evaluate(e.operands[0], point), b = evaluate(e.operands[1], point);
  bool isVector =
      llvm::any_of(ValueRange{a, b, old}, [](Value v) { return isa<VectorType>(v.getType()); });
  int64_t count = isVector ? lanes() : 1;
  return code.multiplyAdd(emitter_.splat(a, count), emitter_.splat(b, count),
                          emitter_.splat(old, count));
}

/// What joins integers.
static vector::CombiningKind kindOf(Reduction reduction, bool isSigned) {
  using enum vector::CombiningKind;
  switch (reduction) {
  case Reduction::Multiply:
    return MUL;
  case Reduction::Minimum:
    return isSigned ? MINSI : MINUI;
  case Reduction::Maximum:
    return isSigned ? MAXSI : MAXUI;
  case Reduction::Or:
    return OR;
  case Reduction::And:
    return AND;
  default:
    return ADD;
  }
}

/// Floats half after half, in an order that is the same everywhere. Integers by LLVM's own
/// reduction: of halves that get ever narrower, LLVM 19 makes wrong sums where it finds an
/// instruction for sums of bytes in them (it takes the first lane of its result for the sum).
Value NestCode::reduceLanes(Reduction reduction, DataType type, Value vector) {
  if (isa<IntegerType>(getElementTypeOrSelf(vector.getType())))
    return emitter_.builder().create<vector::ReductionOp>(
        math_.location, kindOf(reduction, info(type).kind == TypeClass::Signed), vector);
  Value half = vector;
  Statement like;
  like.reduction = reduction;
  Expr operand = std::make_shared<Expression>(Expression{Operation::Constant, type});
  Expression e{operationOf(reduction), type, {operand, operand}};
  int64_t count = cast<VectorType>(vector.getType()).getNumElements();
  auto &builder = emitter_.builder();
  while (count > 1 && count % 2 == 0) { // halves onto one another
    count /= 2;
    auto low = llvm::to_vector(llvm::seq<int64_t>(0, count));
    auto high = llvm::to_vector(llvm::seq<int64_t>(count, 2 * count));
    Value a = builder.create<vector::ShuffleOp>(math_.location, half, half, low);
    Value b = builder.create<vector::ShuffleOp>(math_.location, half, half, high);
    half = operation(e, {a, b});
  }
  Value result = lane(half, 0);
  for (int64_t number = 1; number < count; ++number)
    result = operation(e, {result, lane(half, number)});
  return result;
}

/// Lane after lane: two of them may write one element.
void NestCode::storeScattered(Point &point, Value value) {
  auto &builder = emitter_.builder();
  const Statement &statement = point.statement;
  const Tensor &tensor = *nest_.tensor(statement.tensor);
  SmallVector<Value> indices;
  for (const Expr &each : statement.indices)
    indices.push_back(evaluate(each, point));
  for (int64_t number = 0; number < lanes(); ++number) {
    OpBuilder::InsertionGuard guard(builder);
    if (mask_) {
      auto branch = builder.create<scf::IfOp>(math_.location, lane(mask_, number), false);
      builder.setInsertionPoint(branch.thenBlock()->getTerminator());
    }
    SmallVector<Value> own;
    for (size_t dim = 0; dim < indices.size(); ++dim) {
      Value index = builder.createOrFold<arith::IndexCastOp>(math_.location, builder.getIndexType(),
                                                             lane(indices[dim], number));
      if (statement.indices[dim]->operation != Operation::Index)
        index = math_.select(inRange(nullptr, tensor, dim, index, {}), index, math_.constant(0));
      own.push_back(index);
    }
    Value at = offsetOf(tensor, own), pointer = pointers.at(tensor.name),
          result = lane(value, number);
    if (statement.reduction != Reduction::None)
      result = combine(statement, emitter_.load(pointer, element(tensor.type), at), result);
    emitter_.store(pointer, element(tensor.type), at, result);
  }
}

void NestCode::storeValue(Point &point, Value value) {
  const Statement &statement = point.statement;
  const Tensor &tensor = *nest_.tensor(statement.tensor);
  Place place = placeOf(statement.tensor, statement.indices, statement.indices.size(), statement,
                        point.arguments);
  emitter_.store(pointers.at(tensor.name), element(tensor.type), offset(tensor, place.indices),
                 value);
}

void NestCode::emitPoint(const Step &step) {
  auto &builder = emitter_.builder();
  Point point{*nest_.statement(step.statement), step.arguments};
  const Statement &statement = point.statement;
  const Tensor &tensor = *nest_.tensor(statement.tensor);
  Place place = placeOf(statement.tensor, statement.indices, statement.indices.size(), statement,
                        step.arguments);
  Lanes none;
  Along along = alongLanes(program_, tensor, place, lanes_ ? *lanes_ : none);
  bool reduces = statement.reduction != Reduction::None;
  if (!place.isAffine || along == Along::Scattered)
    return storeScattered(point, evaluate(statement.value, point));
  if (along == Along::Contiguous) {
    Register *own = find(place, along, Reduction::None);
    Value old = own ? own->value : Value();
    if (reduces && !own)
      old = loadPlace(tensor, place, along, mask_);
    Value result = emitter_.splat(combineWithValue(statement, old, point), lanes());
    if (own)
      own->value = result;
    else
      emitter_.store(pointers.at(tensor.name), element(tensor.type), offset(tensor, place.indices),
                     result, mask_);
    return;
  }
  Register *own = find(place, along, statement.reduction);
  if (own && own->place.isSpread) {
    Value result = emitter_.splat(combineWithValue(statement, own->value, point), lanes());
    own->value =
        mask_ ? Value(builder.create<arith::SelectOp>(math_.location, mask_, result, own->value))
              : result;
    return;
  }
  Value value;
  if (lanes_ && reduces) {
    value = emitter_.splat(evaluate(statement.value, point), lanes());
    if (mask_)
      value = builder.create<arith::SelectOp>(math_.location, mask_, value,
                                              identity(statement.reduction, tensor.type, lanes()));
    value = reduceLanes(statement.reduction, tensor.type, value);
  } else if (lanes_) { // the last lane's remains
    value = evaluate(statement.value, point);
    if (isa<VectorType>(value.getType()))
      problem = "statement '" + statement.name + "' writes one element from several lanes";
    value = lane(value, 0);
  }
  Value old = own ? own->value : Value();
  if (reduces && !own)
    old = emitter_.load(pointers.at(tensor.name), element(tensor.type),
                        offset(tensor, place.indices));
  Value result = value ? combine(statement, old, value) : combineWithValue(statement, old, point);
  if (own)
    own->value = result;
  else
    storeValue(point, result);
}

} // namespace tensmith::nest
