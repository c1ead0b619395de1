// Elements of operators as statements; see RegionNest.h.
#include "compiler/nest/RegionNest.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Decomposition.h"
#include "compiler/graph/Lowering.h"
#include "compiler/kernel/Template.h"
#include "compiler/kernel/WindowElement.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tensmith::nest {
namespace {

using Join = graph::ElementContext::Join;

/// What an operator's element code asks for; the values in the code stand for it.
struct ElementRead {
  unsigned operand;
  SmallVector<Value> indices;
  SmallVector<unsigned> guarded;
  Value otherwise; // null: any
};
struct ElementCheck {
  Value condition;
  std::string message;
  Value detail; // null: none
};
struct JoinedTerms {
  Join join;
  SmallVector<Value> indices, extents, factors;
  std::vector<ElementCheck> checks; // of each term
};

class Recorder final : public graph::ElementContext {
public:
  /// `sizeOf`: a dimension of a tensor.
  using SizeOf = std::function<Affine(Value tensor, unsigned dim)>;

  Recorder(OpBuilder &builder, mlir::Operation *op, SizeOf sizeOf)
      : ElementContext(builder, op->getLoc()), op_(op), sizeOf_(std::move(sizeOf)) {}

  Value operand(unsigned number, ValueRange indices) override {
    return note(number, indices, {}, {});
  }
  Value read(unsigned number, ValueRange indices, ArrayRef<unsigned> guarded,
             Value otherwise) override {
    return note(number, indices, guarded, otherwise);
  }
  Value operandSize(unsigned number, unsigned dim) override {
    return size(op_->getOperand(number), dim);
  }
  Value resultSize(unsigned number, unsigned dim) override {
    return size(op_->getResult(number), dim);
  }
  Value reduce(Join join, ValueRange extents, Value initial, Term term, Combine) override {
    JoinedTerms terms{join, {}, SmallVector<Value>(extents), {}, {}};
    for (size_t number = 0; number < extents.size(); ++number)
      terms.indices.push_back(iterator("k" + std::to_string(++reduced_)));
    std::vector<ElementCheck> outside = std::exchange(checks, {});
    terms.factors = term(terms.indices);
    terms.checks = std::exchange(checks, std::move(outside));
    Value result = placeholder(initial.getType());
    joined.insert({result, std::move(terms)});
    return result;
  }
  SmallVector<Value> loop(ValueRange, ValueRange initial, LoopBody) override {
    refusal = "its code has a loop that is no reduction";
    return SmallVector<Value>(initial);
  }
  void check(Value condition, StringRef message, Value detail) override {
    checks.push_back({condition, message.str(), detail});
  }
  bool isForNest() const override { return true; }

  /// A value that stands for the affine function.
  Value index(Affine affine) {
    if (affine.isConstant())
      return builder.create<arith::ConstantIndexOp>(location, affine.constant);
    Value result = placeholder(builder.getIndexType());
    affines[result] = std::move(affine);
    return result;
  }
  Value iterator(const std::string &name) { return index(Affine(name)); }
  /// An index that stands for the expression.
  Value index(Expr expr) {
    if (expr->operation == Operation::Index)
      return index(expr->affine);
    Value result = placeholder(builder.getIndexType());
    known[result] = std::move(expr);
    return result;
  }

  llvm::DenseMap<Value, Affine> affines;
  llvm::DenseMap<Value, Expr> known; // of values of the code
  llvm::DenseMap<Value, ElementRead> reads;
  llvm::MapVector<Value, JoinedTerms> joined;
  std::vector<ElementCheck> checks; // of the element, apart from those of terms
  std::string refusal;

private:
  Value placeholder(Type type) {
    return builder.create<UnrealizedConversionCastOp>(location, type, ValueRange()).getResult(0);
  }
  Value size(Value tensor, unsigned dim) { return index(sizeOf_(tensor, dim)); }
  Value note(unsigned number, ValueRange indices, ArrayRef<unsigned> guarded, Value otherwise) {
    auto type = cast<RankedTensorType>(op_->getOperand(number).getType());
    Value result = placeholder(graph::kernelElementType(type.getElementType()));
    reads[result] = {number, SmallVector<Value>(indices), SmallVector<unsigned>(guarded),
                     otherwise};
    return result;
  }

  mlir::Operation *op_;
  SizeOf sizeOf_;
  int reduced_ = 0;
};

/// Where elements are read: only where these hold.
struct Guard {
  std::vector<Constraint> constraints;
  Expr condition; // null: there is none that isn't affine

  bool isEmpty() const { return constraints.empty() && !condition; }
};

Expr number(const Affine &affine) { return index(affine); }

Expr holds(const std::vector<Constraint> &constraints) {
  Expr result;
  for (const Constraint &each : constraints)
    result = both(result, apply(each.isEquality ? Operation::Equal : Operation::LessEqual,
                                {number(Affine(0)), number(each.value)}));
  return result;
}

Reduction reductionOf(Join join, DataType type) {
  bool isBool = type == DataType::Bool;
  switch (join) {
  case Join::Sum:
    return Reduction::Add;
  case Join::Product:
    return Reduction::Multiply;
  case Join::Largest:
    return isBool ? Reduction::Or : Reduction::Maximum;
  case Join::Smallest:
    return isBool ? Reduction::And : Reduction::Minimum;
  }
  return Reduction::Add;
}

class Bridge {
public:
  Bridge(Block &block, MLIRContext *context)
      : block_(block), shapes_(context), parameters_(made_, shapes_), builder_(context) {
    builder_.setInsertionPointToEnd(&code_);
  }
  ~Bridge() { code_.clear(); }

  Result<SizedNest> run() {
    made_.nest.name = "region";
    for (BlockArgument argument : block_.getArguments())
      if (isa<RankedTensorType>(argument.getType()))
        stored_[argument] = addTensor("a" + std::to_string(argument.getArgNumber()),
                                      argument.getType(), Tensor::Role::Input);
      else
        refuse(block_.front(), "an operand is no tensor");
    auto yield = cast<graph::YieldOp>(block_.getTerminator());
    std::vector<std::string> results;
    for (auto [number, value] : llvm::enumerate(yield.getValues()))
      results.push_back(
          addTensor("r" + std::to_string(number), value.getType(), Tensor::Role::Output));
    for (auto [value, result] : llvm::zip_equal(yield.getValues(), results)) {
      if (!refusal_.empty())
        break;
      store(value, result);
    }
    if (!refusal_.empty())
      return unsupported(refusal_);
    made_.symbols.assign(shapes_.symbols().begin(), shapes_.symbols().end());
    return std::move(made_);
  }

private:
  using Indices = std::vector<Expr>;
  /// Of a value where it was asked for: it keeps what its key tells by addresses.
  struct Element {
    Expr value;
    Indices at;
    Expr condition;
  };

  Expr refuse(mlir::Operation &op, const Twine &why) {
    if (refusal_.empty())
      refusal_ = (op.getName().stripDialect() + ": " + why).str();
    return wholeNumber(DataType::I64, 0);
  }

  // ---- tensors

  static DataType typeOf(Value value) {
    return graph::dataType(getElementTypeOrSelf(value.getType()));
  }

  std::string addTensor(std::string name, Type type, Tensor::Role role) {
    return addTensor(std::move(name), graph::dataType(getElementTypeOrSelf(type)), type, role);
  }
  std::string addTensor(std::string name, DataType element, Type type, Tensor::Role role) {
    made_.nest.tensors.push_back({name, element, parameters_.extents(type), role});
    return name;
  }

  /// One over all elements of the tensor.
  Statement over(std::string name, const std::string &tensor) {
    Statement result;
    result.name = std::move(name);
    result.tensor = tensor;
    for (auto [dim, extent] : llvm::enumerate(made_.nest.tensor(tensor)->extents)) {
      result.iterators.push_back("i" + std::to_string(dim));
      for (Constraint &each : within(result.iterators.back(), 0, extent))
        result.domain.push_back(std::move(each));
      result.indices.push_back(index(result.iterators.back()));
    }
    return result;
  }

  // ---- values

  /// The value into that result. What it is computed from reads it there, too.
  void store(Value value, const std::string &result) {
    mlir::Operation *op = value.getDefiningOp();
    if (op && !stored_.count(value) && isReduced(op))
      return reduce(value, result);
    Statement statement = over(unique("store"), result);
    statement.value = element(value, statement.indices, {});
    made_.nest.statements.push_back(std::move(statement));
    stored_.try_emplace(value, result);
  }

  /// Whether an element takes more than those of operands that it is made of.
  static bool isReduced(mlir::Operation *op) {
    if (kernel::hasWindowElement(op))
      return true;
    auto indexed = dyn_cast<graph::Indexed>(op);
    return indexed && !isa<graph::Elementwise, graph::ConstantOp>(op) && !indexed.isMovement();
  }

  Expr element(Value value, const Indices &at, const Guard &guard) {
    if (auto stored = stored_.find(value); stored != stored_.end())
      return load(stored->second, at, guard);
    mlir::Operation *op = value.getDefiningOp();
    if (!op)
      return refuse(block_.front(), "an operand is no tensor");
    if (auto constant = dyn_cast<graph::ConstantOp>(op))
      return constantOf(constant);
    if (isReduced(op)) {
      std::string local = addTensor(unique("t"), value.getType(), Tensor::Role::Local);
      reduce(value, local);
      return load(local, at, guard);
    }
    std::pair key{value.getAsOpaquePointer(), textOf(at, guard)};
    if (auto known = elements_.find(key); known != elements_.end())
      return known->second.value;
    Expr result = isa<graph::Elementwise>(op) ? elementwise(op, at, guard)
                                              : moved(cast<OpResult>(value), at, guard);
    elements_[key] = {result, at, guard.condition};
    return result;
  }

  static std::string textOf(const Indices &at, const Guard &guard) {
    std::string result;
    for (const Expr &each : at)
      result += (each->operation == Operation::Index
                     ? text(*each)
                     : std::to_string(reinterpret_cast<uintptr_t>(each.get()))) +
                ";";
    for (const Constraint &each : guard.constraints)
      result += text(each) + ";";
    return result + std::to_string(reinterpret_cast<uintptr_t>(guard.condition.get()));
  }

  Expr constantOf(graph::ConstantOp op) {
    auto tensor = graph::hostTensor(op.getValue());
    DataType type = typeOf(op.getResult());
    if (!tensor.ok() || tensor->size() != 1)
      return refuse(*op, "it is a constant of several elements");
    Expression result{Operation::Constant, type};
    if (info(type).kind == TypeClass::Float)
      result.number = tensor->getDouble(0);
    else
      result.integer = tensor->getInt(0);
    return std::make_shared<Expression>(std::move(result));
  }

  Expr elementwise(mlir::Operation *op, const Indices &at, const Guard &guard) {
    std::vector<Expr> operands;
    for (Value operand : op->getOperands()) {
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      if (!type)
        continue;
      Indices own;
      size_t missing = at.size() - size_t(type.getRank());
      for (int64_t dim = 0; dim < type.getRank(); ++dim)
        own.push_back(type.getDimSize(dim) == 1 ? number(Affine(0)) : at[missing + size_t(dim)]);
      operands.push_back(element(operand, own, guard));
    }
    return byFunction(std::make_shared<ElementFunction>(cast<graph::Elementwise>(op)),
                      typeOf(op->getResult(0)), std::move(operands));
  }

  Expr load(const std::string &name, const Indices &at, const Guard &guard) {
    const Tensor &tensor = *made_.nest.tensor(name);
    bool isAffine =
        llvm::all_of(at, [](const Expr &e) { return e->operation == Operation::Index; });
    Expression result{Operation::Load, tensor.type, at};
    result.tensor = name;
    if (guard.isEmpty())
      return std::make_shared<Expression>(std::move(result));
    if (isAffine && !guard.condition) {
      result.guard = guard.constraints;
      result.operands.push_back(wholeNumber(tensor.type, 0));
      return std::make_shared<Expression>(std::move(result));
    }
    // Indices of affine functions are proved to be inside, others are looked at.
    for (Expr &each : result.operands)
      if (each->operation == Operation::Index)
        each = apply(Operation::Add, {each, wholeNumber(DataType::I64, 0)});
    result.operands.push_back(both(holds(guard.constraints), guard.condition));
    result.isConditional = true;
    return std::make_shared<Expression>(std::move(result));
  }

  // ---- operators by their code

  Affine sizeOf(Value tensor, unsigned dim) { return parameters_.extents(tensor.getType())[dim]; }

  /// Runs `use` with the operator's code.
  template <typename Use> Expr record(OpResult value, const Indices &at, Use use) {
    mlir::Operation *op = value.getOwner();
    Recorder recorder(builder_, op,
                      [this](Value tensor, unsigned dim) { return sizeOf(tensor, dim); });
    SmallVector<Value> indices;
    for (const Expr &each : at)
      indices.push_back(recorder.index(each));
    Value made = kernel::emitElement(recorder, value, indices);
    if (!recorder.refusal.empty())
      return refuse(*op, recorder.refusal);
    Type wanted = graph::kernelElementType(getElementTypeOrSelf(value.getType()));
    if (made && made.getType() != wanted)
      return refuse(*op, "its code gives another type than its result's");
    if (!made)
      return refuse(*op, "there is no code for an element of it");
    return use(recorder, made);
  }

  /// They are made where the guard holds. The first is the outermost: it is told first.
  Expr withChecks(Recorder &recorder, mlir::Operation *op, ArrayRef<ElementCheck> checks,
                  Expr value, const Guard &guard) {
    Expr isMade = both(holds(guard.constraints), guard.condition);
    for (const ElementCheck &each : llvm::reverse(checks)) {
      Expr condition = translate(recorder, op, each.condition, guard);
      Expr told = each.detail ? translate(recorder, op, each.detail, guard) : number(Affine(0));
      if (!refusal_.empty())
        return value;
      if (isMade)
        condition = apply(Operation::Or, {apply(Operation::Not, {isMade}), condition});
      value = checked(value, condition, each.message, told);
    }
    return value;
  }

  Expr moved(OpResult value, const Indices &at, const Guard &guard) {
    return record(value, at, [&](Recorder &recorder, Value made) {
      Expr element = translate(recorder, value.getOwner(), made, guard);
      element = withChecks(recorder, value.getOwner(), recorder.checks, element, guard);
      return rounded(element, typeOf(value));
    });
  }

  /// As the type, which halves are of where they are stored, and f32 in the code.
  static Expr rounded(const Expr &value, DataType type) {
    return value->type == type ? value : cast(type, value);
  }

  /// The operator's reductions have statements of their own, over all elements of its result.
  void reduce(Value value, const std::string &into) {
    if (!refusal_.empty())
      return;
    Statement last = over(unique("finish"), into);
    mlir::Operation *op = value.getDefiningOp();
    record(cast<OpResult>(value), last.indices, [&](Recorder &recorder, Value made) -> Expr {
      for (auto &[joined, terms] : recorder.joined) {
        DataType type = typeOfJoined(op, joined);
        bool isLast =
            joined == made && type == made_.nest.tensor(into)->type && recorder.checks.empty();
        std::string sum =
            isLast ? into : addTensor(unique("t"), type, value.getType(), Tensor::Role::Local);
        addSums(recorder, op, terms, sum);
        recorder.known[joined] = load(sum, over("", sum).indices, {});
        if (isLast)
          return {};
      }
      Expr value = withChecks(recorder, op, recorder.checks, translate(recorder, op, made, {}), {});
      last.value = rounded(value, made_.nest.tensor(into)->type);
      if (refusal_.empty())
        made_.nest.statements.push_back(last);
      return {};
    });
    stored_.try_emplace(value, into);
  }

  /// What the terms are added up as: of one tensor's elements these, but for halves.
  DataType typeOfJoined(mlir::Operation *op, Value joined) {
    Type type = joined.getType();
    if (type.isIndex())
      return DataType::I64;
    for (Value tensor : {Value(op->getResult(0)), op->getOperand(0)})
      if (graph::kernelElementType(getElementTypeOrSelf(tensor.getType())) == type)
        return computedAs(typeOf(tensor));
    if (type.isF32())
      return DataType::F32;
    if (type.isF64())
      return DataType::F64;
    return graph::dataType(IntegerType::get(type.getContext(), type.getIntOrFloatBitWidth()));
  }

  void addSums(Recorder &recorder, mlir::Operation *op, const JoinedTerms &terms,
               const std::string &into) {
    DataType type = made_.nest.tensor(into)->type;
    Reduction reduction = reductionOf(terms.join, type);
    Statement start = over(unique("start"), into);
    start.value = identity(reduction, type);
    Statement update = over(unique("update"), into);
    update.reduction = reduction;
    for (auto [index, extent] : llvm::zip_equal(terms.indices, terms.extents)) {
      auto length = affine(recorder, extent);
      if (!length) {
        refuse(*op, "how much it reduces isn't affine in sizes");
        return;
      }
      const std::string &name = recorder.affines.at(index).terms.begin()->first;
      update.iterators.push_back(name);
      for (Constraint &each : within(name, 0, *length))
        update.domain.push_back(std::move(each));
    }
    for (Value factor : terms.factors) {
      Expr own = translate(recorder, op, factor, {});
      own = rounded(own, type);
      update.value = update.value ? apply(Operation::Multiply, {update.value, own}) : own;
    }
    update.value = withChecks(recorder, op, terms.checks, update.value, {});
    made_.nest.statements.push_back(std::move(start));
    made_.nest.statements.push_back(std::move(update));
  }

  // ---- code to expressions

  /// Null: it isn't affine in iterators and sizes.
  std::optional<Affine> affine(Recorder &recorder, Value value) {
    if (auto known = recorder.affines.find(value); known != recorder.affines.end())
      return known->second;
    llvm::APInt constant;
    if (matchPattern(value, m_ConstantInt(&constant)))
      return Affine(constant.getSExtValue());
    mlir::Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
      return std::nullopt;
    auto a = affine(recorder, op->getOperand(0)), b = affine(recorder, op->getOperand(1));
    if (!a || !b)
      return std::nullopt;
    if (isa<arith::AddIOp>(op))
      return *a + *b;
    if (isa<arith::SubIOp>(op))
      return *a - *b;
    if (!a->isConstant() && !b->isConstant())
      return std::nullopt;
    return a->isConstant() ? a->constant * *b : b->constant * *a;
  }

  /// `op`: the operator whose code it is. Each value is translated once, as code shares many;
  /// `guard` is the same for all of a recorder's.
  Expr translate(Recorder &recorder, mlir::Operation *op, Value value, const Guard &guard) {
    if (!refusal_.empty())
      return wholeNumber(DataType::I64, 0);
    if (auto known = recorder.known.find(value); known != recorder.known.end())
      return known->second;
    Expr result = translated(recorder, op, value, guard);
    recorder.known[value] = result;
    return result;
  }

  Expr translated(Recorder &recorder, mlir::Operation *op, Value value, const Guard &guard) {
    if (auto read = recorder.reads.find(value); read != recorder.reads.end())
      return readOf(recorder, op, read->second, guard);
    if (value.getType().isIndex())
      if (auto known = affine(recorder, value))
        return number(*known);
    mlir::Operation *code = value.getDefiningOp();
    std::vector<Expr> operands;
    for (Value operand : code->getOperands()) { // halves are f32 in the code
      Expr own = translate(recorder, op, operand, guard);
      operands.push_back(rounded(own, computedAs(own->type)));
    }
    if (!refusal_.empty())
      return wholeNumber(DataType::I64, 0);
    giveSigns(code, operands);
    Expr result = ofCode(code, operands);
    return result ? result : refuse(*op, "its code has " + code->getName().getStringRef());
  }

  Expr readOf(Recorder &recorder, mlir::Operation *op, const ElementRead &read,
              const Guard &outer) {
    Value tensor = op->getOperand(read.operand);
    Indices at;
    Guard guard = outer;
    for (Value index : read.indices)
      at.push_back(translate(recorder, op, index, outer));
    for (unsigned dim : read.guarded) {
      Affine size = sizeOf(tensor, dim);
      if (at[dim]->operation == Operation::Index) {
        guard.constraints.push_back(atLeast(at[dim]->affine, 0));
        guard.constraints.push_back(less(at[dim]->affine, size));
        continue;
      }
      Expr isBelow = apply(Operation::Less, {at[dim], number(size)});
      Expr isAbove = apply(Operation::LessEqual, {number(Affine(0)), at[dim]});
      guard.condition = both(guard.condition, both(isAbove, isBelow));
    }
    Expr inside = element(tensor, at, guard);
    if (!read.otherwise || read.guarded.empty() || !refusal_.empty())
      return inside;
    Expr otherwise = translate(recorder, op, read.otherwise, outer);
    otherwise = rounded(otherwise, inside->type);
    // A read that has these very guards and no more says itself what stands outside of them.
    bool isRead = inside->operation == Operation::Load && !inside->isConditional;
    if (isRead && !guard.condition && inside->guard.size() == guard.constraints.size()) {
      Expression guarded = *inside;
      guarded.operands.back() = std::move(otherwise);
      return std::make_shared<Expression>(std::move(guarded));
    }
    return apply(Operation::Select,
                 {both(holds(guard.constraints), guard.condition), inside, otherwise});
  }

  /// Code has no signs: what stands beside an unsigned value, such as a constant, is unsigned where
  /// that changes nothing.
  static void giveSigns(mlir::Operation *code, std::vector<Expr> &x) {
    if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::SelectOp>(code))
      return;
    Expr &a = x[x.size() - 2], &b = x.back();
    auto isOf = [](const Expr &each, TypeClass kind) { return info(each->type).kind == kind; };
    if (isOf(a, TypeClass::Unsigned) && isOf(b, TypeClass::Signed))
      b = cast(a->type, b);
    else if (isOf(a, TypeClass::Signed) && isOf(b, TypeClass::Unsigned))
      a = cast(b->type, a);
  }

  /// Null: there is no such operation.
  static Expr ofCode(mlir::Operation *code, const std::vector<Expr> &x) {
    using enum nest::Operation;
    auto one = [&](Operation operation) { return apply(operation, x); };
    if (auto constant = dyn_cast<arith::ConstantOp>(code)) {
      Type type = constant.getType();
      if (auto real = dyn_cast<FloatAttr>(constant.getValue()))
        return nest::constant(type.isF64() ? DataType::F64 : DataType::F32,
                              real.getValueAsDouble());
      auto integer = dyn_cast<IntegerAttr>(constant.getValue());
      if (!integer)
        return {};
      return wholeNumber(type.isIndex() ? DataType::I64 : graph::dataType(type),
                         integer.getValue().getSExtValue());
    }
    DataType to = code->getResult(0).getType().isIndex()
                      ? DataType::I64
                      : graph::dataType(code->getResult(0).getType());
    bool isSame = x.size() < 2 || x[x.size() - 1]->type == x[x.size() - 2]->type;
    if (!isSame)
      return {};
    return llvm::TypeSwitch<mlir::Operation *, Expr>(code)
        .Case<arith::AddIOp, arith::AddFOp>([&](auto) { return one(Add); })
        .Case<arith::SubIOp, arith::SubFOp>([&](auto) { return one(Subtract); })
        .Case<arith::MulIOp, arith::MulFOp>([&](auto) { return one(Multiply); })
        .Case([&](arith::DivFOp) { return one(Divide); })
        // Of indices, which aren't negative.
        .Case([&](arith::DivUIOp) { return one(FloorDivide); })
        .Case([&](arith::RemUIOp) { return one(FloorRemainder); })
        .Case([&](arith::RemSIOp) { return one(Remainder); })
        .Case([&](arith::MinSIOp) { return one(Minimum); })
        .Case([&](arith::MaxSIOp) { return one(Maximum); })
        .Case([&](arith::AndIOp) { return to == DataType::Bool ? one(And) : Expr(); })
        .Case([&](arith::OrIOp) { return to == DataType::Bool ? one(Or) : Expr(); })
        .Case([&](arith::SelectOp) { return one(Select); })
        .Case([&](math::AbsFOp) { return one(Absolute); })
        .Case([&](math::SqrtOp) { return one(SquareRoot); })
        .Case<arith::IndexCastOp, arith::SIToFPOp, arith::ExtFOp, arith::ExtSIOp>(
            [&](auto) { return cast(to, x[0]); })
        .Case([&](arith::CmpFOp compare) {
          if (compare.getPredicate() == arith::CmpFPredicate::OEQ)
            return one(Equal);
          bool isNan = compare.getPredicate() == arith::CmpFPredicate::UNO &&
                       compare.getLhs() == compare.getRhs();
          return isNan ? one(NotEqual) : Expr();
        })
        .Case([&](arith::CmpIOp compare) { return compared(compare, x[0], x[1]); })
        .Default([](auto) { return Expr(); });
  }

  static Expr compared(arith::CmpIOp code, const Expr &a, const Expr &b) {
    bool isOfIndices = code.getLhs().getType().isIndex();
    using enum nest::Operation;
    switch (code.getPredicate()) {
    case arith::CmpIPredicate::eq:
      return apply(Equal, {a, b});
    case arith::CmpIPredicate::ne:
      return apply(NotEqual, {a, b});
    case arith::CmpIPredicate::slt:
      return apply(Less, {a, b});
    case arith::CmpIPredicate::sle:
      return apply(LessEqual, {a, b});
    case arith::CmpIPredicate::sgt:
      return apply(Less, {b, a});
    case arith::CmpIPredicate::sge:
      return apply(LessEqual, {b, a});
    case arith::CmpIPredicate::ult: // of an index and a size: 0 <= a < b
      if (isOfIndices)
        return both(apply(LessEqual, {number(Affine(0)), a}), apply(Less, {a, b}));
      return {};
    default:
      return {};
    }
  }

  std::string unique(const std::string &stem) { return stem + std::to_string(++names_); }

  Block &block_;
  Block code_; // that nothing runs
  graph::ShapeContext shapes_;
  SizedNest made_;
  Parameters parameters_;
  OpBuilder builder_;
  llvm::DenseMap<Value, std::string> stored_; // tensors that have all elements of a value
  std::map<std::pair<const void *, std::string>, Element> elements_;
  std::string refusal_;
  int names_ = 0;
};

} // namespace

Result<SizedNest> nestOf(graph::KernelOp kernel) {
  auto isWhole = [](mlir::Operation *op) {
    return !op->hasTrait<OpTrait::IsTerminator>() && !isa<graph::ConstantOp, graph::NoneOp>(op) &&
           !kernel::saysElement(op);
  };
  Block &block = kernel.getBody().front();
  if (llvm::none_of(llvm::make_pointer_range(block), isWhole))
    return Bridge(block, kernel.getContext()).run();
  auto region = std::make_shared<Region>();
  IRMapping mapping;
  kernel.getBody().cloneInto(region.get(), mapping);
  if (failed(graph::takeApart(region->front(), isWhole)))
    return unsupported("an operator neither says its elements nor is made of others that do");
  Result<SizedNest> made = Bridge(region->front(), kernel.getContext()).run();
  if (made.ok())
    made->region = std::move(region);
  return made;
}

} // namespace tensmith::nest
