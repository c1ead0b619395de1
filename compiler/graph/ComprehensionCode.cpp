// The element of a comprehension's target as loops over its reduced indices
// (Indexed::emitElement).
//
// Scalars are computed by the element-wise operators' own code, so that one meaning serves both.
// Reads that neither ranges nor sizes keep inside are checked and clamped: the check ends the run
// only after the kernel. So are all reads of a statement that doesn't reach each element of its
// target, without a check where the point is none of the statement's.
#include "compiler/graph/ComprehensionSizes.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/IndexCode.h"
#include "reference/comprehension/Affine.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::graph {

using comprehension::Assignment;
using comprehension::Expr;
using comprehension::Index;
using comprehension::Statement;
using comprehension::Tensor;

StringRef operatorOfFunction(StringRef function) {
  static const llvm::StringMap<StringRef> all = {
      {"acos", "acos"},   {"acosh", "acosh"}, {"asin", "asin"}, {"asinh", "asinh"},
      {"atan", "atan"},   {"atanh", "atanh"}, {"ceil", "ceil"}, {"cos", "cos"},
      {"cosh", "cosh"},   {"erf", "erf"},     {"exp", "exp"},   {"fabs", "abs"},
      {"fdivide", "div"}, {"floor", "floor"}, {"log", "log"},   {"log1p", "log1p"},
      {"pow", "pow"},     {"rsqrt", "rsqrt"}, {"sin", "sin"},   {"sinh", "sinh"},
      {"sqrt", "sqrt"},   {"tan", "tan"},     {"tanh", "tanh"}, {"sigmoid", "sigmoid"}};
  return all.lookup(function);
}

StringRef operatorOfSign(StringRef sign) {
  static const llvm::StringMap<StringRef> all = {{"+", "add"},     {"-", "sub"},
                                                 {"*", "mul"},     {"/", "div"},
                                                 {"%", "mod"},     {"min", "min"},
                                                 {"max", "max"},   {"==", "equal"},
                                                 {"<", "less"},    {"<=", "less_or_equal"},
                                                 {">", "greater"}, {">=", "greater_or_equal"}};
  return all.lookup(sign);
}

namespace {

using IntIs = arith::CmpIPredicate;

/// Loops of few trips are unrolled, and those within others are again.
constexpr int64_t kMostLoops = 3, kMostCode = 600;

class Emitter {
public:
  Emitter(ComprehensionOp op, const ComprehensionView &view, ElementContext &context)
      : op_(op), view_(view), statement_(*view.single()), context_(context), code_(context),
        scalar_(context.builder, context.location), point_(statement_.indices.size()) {}

  Value run(ValueRange indices) {
    const Tensor &target = tensor(statement_.target);
    for (size_t dim = 0; dim < statement_.rank; ++dim)
      point_[dim] = code_.add(indices[dim], integer(*target.lows[dim]));
    for (size_t index : statement_.order)
      if (index >= statement_.rank)
        loops_.push_back(index);
    Type type = kernelElementType(elementOf(target.type));
    Value first = statement_.readsTarget() ? old(indices) : identity(target.type, type);
    if (statement_.assignment == Assignment::Set)
      return assigned(first);
    return loops(0, first, 0);
  }

  bool failed() const { return failed_; }

private:
  const Tensor &tensor(size_t number) const { return view_.function->tensors[number]; }
  Type elementOf(DataType type) { return elementType(context_.builder.getContext(), type); }
  Value noCode() {
    failed_ = true;
    return code_.constant(0);
  }

  Value old(ValueRange indices) {
    return context_.operand(*view_.operandOf(statement_.target), indices);
  }

  Value identity(DataType type, Type kernelType) {
    auto real = [&](double value) -> Value {
      return context_.builder.create<arith::ConstantOp>(
          context_.location, context_.builder.getFloatAttr(kernelType, value));
    };
    double infinity = std::numeric_limits<double>::infinity();
    bool isLeast = statement_.assignment == Assignment::Minimum;
    bool isMost = statement_.assignment == Assignment::Maximum;
    double number = statement_.assignment == Assignment::Multiply ? 1 : 0;
    if (isa<FloatType>(kernelType))
      return real(isLeast ? infinity : isMost ? -infinity : number);
    unsigned bits = kernelType.getIntOrFloatBitWidth();
    bool isUnsignedType = info(type).kind != TypeClass::Signed;
    llvm::APInt value(bits, uint64_t(number));
    if (isLeast)
      value =
          isUnsignedType ? llvm::APInt::getMaxValue(bits) : llvm::APInt::getSignedMaxValue(bits);
    if (isMost)
      value =
          isUnsignedType ? llvm::APInt::getMinValue(bits) : llvm::APInt::getSignedMinValue(bits);
    return context_.builder.create<arith::ConstantOp>(
        context_.location, context_.builder.getIntegerAttr(kernelType, value));
  }

  // ---- the points of an element

  bool dependsOn(const Expr &expr, ArrayRef<size_t> indices) const {
    bool depends = false;
    visit(expr, [&](const Expr &part) {
      depends |=
          part.kind == Expr::Kind::Index && llvm::is_contained(indices, size_t(part.integer));
    });
    return depends;
  }

  /// Whether the point is one of the statement's, by the target's indices; null where all are.
  Value active() {
    Value inside;
    if (statement_.coversTarget)
      return inside;
    for (size_t dim = 0; dim < statement_.rank; ++dim) {
      const Index &index = statement_.indices[dim];
      inside = code_.both(inside, code_.compare(IntIs::sge, point_[dim], integer(*index.low)));
      inside = code_.both(inside, code_.less(point_[dim], integer(*index.high)));
    }
    return inside;
  }

  Value assigned(Value first) {
    Value inside = active();
    Value made = value(*statement_.value, inside);
    return inside ? code_.select(inside, made, first) : made;
  }

  /// Loops from number `next` on: those together whose bounds refer to none of one another.
  Value loops(size_t next, Value carried, int64_t depth) {
    if (next == loops_.size())
      return accumulated(carried);
    if (depth == kMostLoops)
      return noCode();
    size_t end = next;
    SmallVector<Value> lows, extents;
    while (end < loops_.size()) {
      const Index &index = statement_.indices[loops_[end]];
      ArrayRef<size_t> together = ArrayRef(loops_).slice(next, end - next);
      if (dependsOn(*index.low, together) || dependsOn(*index.high, together))
        break;
      lows.push_back(integer(*index.low));
      extents.push_back(extentOf(index, lows.back()));
      ++end;
    }
    auto body = [&](ValueRange at, ValueRange carriedIn) -> SmallVector<Value> {
      for (size_t i = next; i < end; ++i)
        point_[loops_[i]] = code_.add(at[i - next], lows[i - next]);
      return {loops(end, carriedIn[0], depth + 1)};
    };
    return context_.loop(extents, carried, body)[0];
  }

  Value extentOf(const Index &index, Value low) {
    auto folded = comprehension::minus(index.high, index.low);
    if (folded->kind == Expr::Kind::Integer)
      return code_.constant(std::max<int64_t>(folded->integer, 0));
    return code_.sub(integer(*index.high), low);
  }

  Value accumulated(Value carried) {
    Value inside = active();
    const Expr &value = *statement_.value;
    Value next;
    bool isProduct = statement_.assignment == Assignment::Add && value.kind == Expr::Kind::Binary &&
                     value.text == "*" && isFloat(value.type);
    if (isProduct) {
      Value a = this->value(*value.parts[0], inside), b = this->value(*value.parts[1], inside);
      if (failed_)
        return carried;
      next = scalar_.multiplyAdd(a, b, carried);
    } else {
      static const char *names[] = {"", "add", "mul", "min", "max"};
      Value own = this->value(value, inside);
      if (failed_)
        return carried;
      next = byOperator(names[size_t(statement_.assignment)], {value.type, value.type}, value.type,
                        {carried, own});
    }
    return inside && !failed_ ? code_.select(inside, next, carried) : next;
  }

  // ---- whole numbers

  Value integer(const Expr &expr, Value active = {}) {
    switch (expr.kind) {
    case Expr::Kind::Integer:
      return code_.constant(expr.integer);
    case Expr::Kind::Index:
      return point_[size_t(expr.integer)];
    case Expr::Kind::Size: {
      const comprehension::SizeVariable &size = view_.function->sizes[size_t(expr.integer)];
      return context_.operandSize(*view_.operandOf(size.tensor), unsigned(size.dim));
    }
    case Expr::Kind::Unary:
      return code_.sub(code_.constant(0), integer(*expr.parts[0], active));
    case Expr::Kind::Binary:
      return binaryInteger(expr, active);
    default:
      break;
    }
    Value number = value(expr, active);
    return failed_ ? code_.constant(0)
                   : code_.fromInteger(number, info(expr.type).kind != TypeClass::Signed);
  }

  Value binaryInteger(const Expr &expr, Value active) {
    StringRef sign = expr.text;
    Value a = integer(*expr.parts[0], active), b = integer(*expr.parts[1], active);
    if (sign == "+")
      return code_.add(a, b);
    if (sign == "-")
      return code_.sub(a, b);
    if (sign == "*")
      return code_.make<arith::MulIOp>(a, b);
    if (sign == "min")
      return code_.make<arith::MinSIOp>(a, b);
    if (sign == "max")
      return code_.make<arith::MaxSIOp>(a, b);
    Value zero = code_.constant(0);
    Value isZero = code_.compare(IntIs::eq, b, zero);
    Value divisor = code_.select(isZero, code_.constant(1), b);
    Value rest = code_.make<arith::RemSIOp>(a, divisor);
    Value differs = code_.less(code_.make<arith::XOrIOp>(rest, divisor), zero);
    Value isRest = code_.compare(IntIs::ne, rest, zero);
    Value goesDown = code_.make<arith::AndIOp>(differs, isRest);
    if (sign == "%")
      return code_.select(goesDown, code_.add(rest, divisor), rest);
    Value quotient = code_.make<arith::DivSIOp>(a, divisor);
    quotient = code_.select(goesDown, code_.sub(quotient, code_.constant(1)), quotient);
    return code_.select(isZero, zero, quotient);
  }

  // ---- values

  /// The operator's code on numbers of these types; `attributes` are its own.
  Value byOperator(StringRef name, ArrayRef<DataType> types, DataType result, ValueRange operands,
                   ArrayRef<NamedAttribute> attributes = {}) {
    if (failed_ || name.empty())
      return noCode();
    Block block;
    OperationState state(context_.location, ("graph." + name).str());
    for (DataType type : types)
      state.operands.push_back(
          block.addArgument(RankedTensorType::get({}, elementOf(type)), context_.location));
    state.addTypes(RankedTensorType::get({}, elementOf(result)));
    state.addAttributes(attributes);
    OpBuilder builder(context_.builder.getContext());
    builder.setInsertionPointToEnd(&block);
    Operation *made = builder.create(state);
    Value value = cast<Elementwise>(made).emitScalar(context_.builder, context_.location, operands);
    made->erase();
    return value ? value : noCode();
  }

  Value value(const Expr &expr, Value active) {
    if (failed_)
      return noCode();
    switch (expr.kind) {
    case Expr::Kind::Integer:
    case Expr::Kind::Boolean:
      return constant(expr.type, double(expr.integer), expr.integer);
    case Expr::Kind::Real:
      return constant(expr.type, expr.number, 0);
    case Expr::Kind::Index:
    case Expr::Kind::Size:
      return code_.make<arith::IndexCastOp>(context_.builder.getI64Type(), integer(expr));
    case Expr::Kind::Read:
      return read(expr, active);
    case Expr::Kind::Function:
      return function(expr, active);
    case Expr::Kind::Unary: {
      Value x = value(*expr.parts[0], active);
      return byOperator(expr.text == "!" ? "not" : "neg", {expr.type}, expr.type, {x});
    }
    case Expr::Kind::Binary:
      return binary(expr, active);
    case Expr::Kind::Select:
      return select(expr, active);
    case Expr::Kind::Cast:
      return cast(*expr.parts[0], expr.type, active);
    default:
      return noCode();
    }
  }

  Value constant(DataType type, double real, int64_t whole) {
    Type kernelType = kernelElementType(elementOf(type));
    if (!kernelType)
      return noCode();
    auto &builder = context_.builder;
    TypedAttr attribute;
    if (isa<FloatType>(kernelType))
      attribute = builder.getFloatAttr(kernelType, real);
    else
      attribute = builder.getIntegerAttr(
          kernelType, llvm::APInt(64, uint64_t(whole)).trunc(kernelType.getIntOrFloatBitWidth()));
    return builder.create<arith::ConstantOp>(context_.location, attribute);
  }

  Value cast(const Expr &from, DataType to, Value active) {
    Value x = value(from, active);
    return byOperator("cast", {from.type}, to, {x},
                      context_.builder.getNamedAttr("to", TypeAttr::get(elementOf(to))));
  }

  Value binary(const Expr &expr, Value active) {
    StringRef sign = expr.text;
    DataType type = expr.parts[0]->type;
    Value a = value(*expr.parts[0], active);
    if (failed_)
      return noCode();
    if (sign == "&&" || sign == "||") {
      Value counts = sign == "&&" ? a : scalar_.bitXor(a, scalar_.boolean(a, true));
      Value b = value(*expr.parts[1], code_.both(active, counts));
      return byOperator(sign == "&&" ? "and" : "or", {type, type}, type, {a, b});
    }
    Value b = value(*expr.parts[1], active);
    if (sign == "/" && isInteger(type)) { // (a - a mod b) / b
      Value rest = byOperator("mod", {type, type}, type, {a, b}, fmod(false));
      Value whole = byOperator("sub", {type, type}, type, {a, rest});
      return byOperator("div", {type, type}, type, {whole, b});
    }
    if (sign == "!=") {
      Value same = byOperator("equal", {type, type}, DataType::Bool, {a, b});
      return failed_ ? same : scalar_.bitXor(same, scalar_.boolean(same, true));
    }
    auto attributes =
        sign == "%" ? SmallVector<NamedAttribute>{fmod(false)} : SmallVector<NamedAttribute>();
    return byOperator(operatorOfSign(sign), {type, type}, expr.type, {a, b}, attributes);
  }

  NamedAttribute fmod(bool value) {
    return context_.builder.getNamedAttr("fmod", context_.builder.getBoolAttr(value));
  }

  Value select(const Expr &expr, Value active) {
    Value condition = value(*expr.parts[0], active);
    if (failed_)
      return noCode();
    Value opposite = scalar_.bitXor(condition, scalar_.boolean(condition, true));
    Value yes = value(*expr.parts[1], code_.both(active, condition));
    Value no = value(*expr.parts[2], code_.both(active, opposite));
    return failed_ ? noCode() : code_.select(condition, yes, no);
  }

  Value function(const Expr &expr, Value active) {
    SmallVector<Value> arguments;
    SmallVector<DataType> types(expr.parts.size(), expr.type);
    for (const comprehension::ExprRef &part : expr.parts)
      arguments.push_back(value(*part, active));
    StringRef name = operatorOfFunction(expr.text);
    if (failed_ || !name.empty())
      return byOperator(name, types, expr.type, arguments);
    return composed(expr, arguments);
  }

  /// Functions that others give.
  Value composed(const Expr &expr, ArrayRef<Value> x) {
    DataType type = expr.type;
    auto one = [&](StringRef name, Value a) { return byOperator(name, {type}, type, {a}); };
    auto two = [&](StringRef name, Value a, Value b) {
      return byOperator(name, {type, type}, type, {a, b});
    };
    auto number = [&](double value) { return constant(type, value, 0); };
    StringRef name = expr.text;
    if (name == "fmod")
      return byOperator("mod", {type, type}, type, x, fmod(true));
    if (name == "fmax" || name == "fmin") { // the other where one is NaN
      Value better = two(name == "fmax" ? "max" : "min", x[0], x[1]);
      if (failed_)
        return better;
      better = code_.select(scalar_.isNan(x[0]), x[1], better);
      return code_.select(scalar_.isNan(x[1]), x[0], better);
    }
    if (name == "fdim") {
      Value difference = two("sub", x[0], x[1]);
      return failed_ ? difference
                     : code_.select(scalar_.compare(arith::CmpFPredicate::ULE, x[0], x[1]),
                                    code_.select(scalar_.isNan(difference), difference, number(0)),
                                    difference);
    }
    if (name == "fma")
      return scalar_.multiplyAdd(x[0], x[1], x[2]);
    if (name == "copysign")
      return scalar_.copySign(x[0], x[1]);
    if (name == "trunc")
      return code_.make<math::TruncOp>(x[0]);
    if (name == "erfc")
      return two("sub", number(1), one("erf", x[0]));
    if (name == "exp2" || name == "exp10")
      return two("pow", number(name == "exp2" ? 2 : 10), x[0]);
    if (name == "log2" || name == "log10")
      return two("mul", one("log", x[0]), number(1 / std::log(name == "log2" ? 2.0 : 10.0)));
    if (name == "hypot" || name == "rhypot") {
      Value square = scalar_.add(scalar_.mul(x[0], x[0]), scalar_.mul(x[1], x[1]));
      return one(name == "hypot" ? "sqrt" : "rsqrt", square);
    }
    return noCode();
  }

  Value read(const Expr &expr, Value active) {
    size_t number = size_t(expr.integer);
    unsigned operand = *view_.operandOf(number);
    const Tensor &tensor = this->tensor(number);
    auto type = rankedType(op_->getOperand(operand));
    SmallVector<Value> indices;
    Value inside;
    bool mayBeEmpty = false;
    for (size_t dim = 0; dim < expr.parts.size(); ++dim) {
      Value given = integer(*expr.parts[dim], active);
      Value index = code_.sub(given, integer(*tensor.lows[dim]));
      bool isChecked = (expr.checked >> dim) & 1;
      if (isChecked || active || !statement_.coversTarget) {
        Value size = context_.operandSize(operand, unsigned(dim));
        Value isWithin = code_.within(index, size);
        if (isChecked)
          check(expr, dim, isWithin, given, active);
        inside = code_.both(inside, isWithin);
        index = code_.clamp(index, size);
        mayBeEmpty |= type.isDynamicDim(unsigned(dim)) || type.getDimSize(unsigned(dim)) == 0;
      }
      indices.push_back(index);
    }
    if (failed_)
      return noCode();
    if (!mayBeEmpty)
      return context_.operand(operand, indices);
    return readWhere(code_, inside, true, zeroElement(context_, op_->getOperand(operand)),
                     [&] { return context_.operand(operand, indices); });
  }

  void check(const Expr &read, size_t dim, Value isWithin, Value given, Value active) {
    if (active) {
      Value isIdle = scalar_.bitXor(active, scalar_.boolean(active, true));
      isWithin = code_.make<arith::OrIOp>(isIdle, isWithin);
    }
    std::string text = "(C2) " + std::to_string(read.place.line) + ":" +
                       std::to_string(read.place.column) + ": " + read.text +
                       " is read at index {} along dimension " + std::to_string(dim) +
                       ", which is outside of it";
    context_.check(isWithin, text, given);
  }

  ComprehensionOp op_;
  const ComprehensionView &view_;
  const Statement &statement_;
  ElementContext &context_;
  IndexCode code_;
  ScalarCode scalar_;
  SmallVector<Value> point_;
  SmallVector<size_t> loops_;
  bool failed_ = false;
};

} // namespace

Value ComprehensionOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  ComprehensionView view = viewOf(*this);
  if (!view || !view.single() || !hasKernelTypes(*this) || view.single()->value->nodes > kMostCode)
    return {};
  // Code goes by what sizes are required to be; what can't be said of symbols isn't checked before.
  ShapeContext shapes(getContext());
  ComprehensionSizes sizes(view, *this, shapes);
  for (const comprehension::Requirement &requirement : view.function->requirements)
    if (sizes.concerns(requirement) && !sizes.conditionOf(requirement))
      return {};
  Emitter emitter(*this, view, context);
  Value value = emitter.run(indices);
  return emitter.failed() ? Value() : value;
}

bool ComprehensionOp::isMovement() { return false; }

} // namespace tensmith::graph
