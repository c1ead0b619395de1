// From a declaration to dimensions, operands and an expression; see TileIntrinsic.h.
#include "compiler/nest/TileIntrinsic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace tensmith::nest {

int64_t TileIntrinsic::elements(const Operand &operand) const {
  int64_t result = 1;
  for (size_t dim : operand.dims)
    result *= sizes[dim];
  return result;
}

namespace {

/// The type of a nest's elements; integers without a sign are signed.
DataType typeOf(Type type, bool isUnsigned) {
  if (type.isF32())
    return DataType::F32;
  if (type.isF64())
    return DataType::F64;
  if (type.isBF16())
    return DataType::BF16;
  if (type.isF16())
    return DataType::F16;
  if (type.isInteger(8))
    return isUnsigned ? DataType::U8 : DataType::I8;
  if (type.isInteger(16))
    return isUnsigned ? DataType::U16 : DataType::I16;
  if (type.isInteger(32))
    return isUnsigned ? DataType::U32 : DataType::I32;
  if (type.isInteger(64))
    return isUnsigned ? DataType::U64 : DataType::I64;
  return DataType::Undefined;
}

class Reader {
public:
  Reader(std::string name, linalg::GenericOp op) : op_(op) { result_.name = std::move(name); }

  Result<TileIntrinsic> read() {
    readDimensions();
    readOperands();
    if (problem_.empty())
      readBody();
    if (!problem_.empty())
      return invalidArgument("intrinsic '" + result_.name + "': " + problem_);
    return std::move(result_);
  }

private:
  void readDimensions() {
    std::vector<int64_t> sizes(op_.getNumLoops(), ShapedType::kDynamic);
    for (OpOperand &each : op_->getOpOperands())
      for (auto [size, index] :
           llvm::zip(op_.getShape(&each), op_.getMatchingIndexingMap(&each).getResults()))
        if (auto dim = llvm::dyn_cast<AffineDimExpr>(index))
          sizes[dim.getPosition()] = size;
    for (int64_t size : sizes) {
      if (ShapedType::isDynamic(size))
        problem_ = "the sizes of its operands must be known, and give those of all iterators";
      numbers_.push_back(size == 1 ? -1 : int64_t(result_.sizes.size()));
      if (size != 1)
        result_.sizes.push_back(size);
    }
    if (op_.getNumDpsInits() != 1)
      problem_ = "it must have one result";
  }

  TileIntrinsic::Operand operand(OpOperand &of) {
    TileIntrinsic::Operand result;
    AffineMap map = op_.getMatchingIndexingMap(&of);
    if (!map.isProjectedPermutation()) {
      problem_ = "the indices of its operands must be iterators, each at most once";
      return result;
    }
    for (AffineExpr each : map.getResults())
      if (int64_t number = numbers_[llvm::cast<AffineDimExpr>(each).getPosition()]; number >= 0)
        result.dims.push_back(size_t(number));
    return result;
  }

  void readOperands() {
    if (!problem_.empty())
      return;
    for (OpOperand *each : op_.getDpsInputOperands())
      result_.inputs.push_back(operand(*each));
    result_.output = operand(*op_.getDpsInitOperand(0));
    Value output = op_.getDpsInits()[0];
    result_.output.type = typeOf(getElementTypeOrSelf(output.getType()), false);
    if (problem_.empty() && result_.output.dims.empty())
      problem_ = "its result must have a dimension of more than one element";
    int bits = result_.output.type == DataType::Undefined ? 0 : info(result_.output.type).bits;
    if (problem_.empty() && bits < 32)
      problem_ = "its results must be of 32 or 64 bits";
    auto iterators = op_.getIteratorTypesArray();
    for (auto [at, number] : llvm::enumerate(numbers_)) {
      bool isInResult = number >= 0 && llvm::is_contained(result_.output.dims, size_t(number));
      bool isReduced = iterators[at] == utils::IteratorType::reduction;
      if (number >= 0 && isInResult == isReduced)
        problem_ = "iterators that the result doesn't have must be reductions, and no others";
    }
  }

  void readBody() {
    Block *body = op_.getBody();
    Value yielded = body->getTerminator()->getOperand(0);
    mlir::Operation *last = yielded.getDefiningOp();
    Value sum = body->getArguments().back();
    bool adds = isa_and_nonnull<arith::AddIOp, arith::AddFOp>(last);
    bool takesMost = isa_and_nonnull<arith::MaxSIOp, arith::MaximumFOp>(last);
    bool takesLeast = isa_and_nonnull<arith::MinSIOp, arith::MinimumFOp>(last);
    if (!last || !(adds || takesMost || takesLeast) ||
        !llvm::is_contained(last->getOperands(), sum)) {
      problem_ = "its body must add to the result, or take the greatest or least";
      return;
    }
    result_.reduction = adds ? Reduction::Add : takesMost ? Reduction::Maximum : Reduction::Minimum;
    Value value = last->getOperand(last->getOperand(0) == sum ? 1 : 0);
    result_.value = expression(value, false);
    for (const TileIntrinsic::Operand &each : result_.inputs)
      if (problem_.empty() && each.type == DataType::Undefined)
        problem_ = "it has an operand that its body doesn't read, or of a type without a form";
  }

  Expr fail(const std::string &problem) {
    if (problem_.empty())
      problem_ = problem;
    return constant(DataType::F32, 0);
  }

  /// An input is unsigned where it is extended so.
  Expr input(BlockArgument argument, bool isUnsigned) {
    size_t number = argument.getArgNumber();
    if (number >= result_.inputs.size())
      return fail("its body reads the result where it isn't accumulated into");
    DataType type = typeOf(argument.getType(), isUnsigned);
    TileIntrinsic::Operand &operand = result_.inputs[number];
    if (type == DataType::Undefined ||
        (operand.type != DataType::Undefined && operand.type != type))
      return fail("an operand is of a type without a form, or of two");
    operand.type = type;
    Expression load{Operation::Load, type};
    load.tensor = std::to_string(number);
    return std::make_shared<Expression>(std::move(load));
  }

  Expr expression(Value value, bool isUnsigned) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return input(argument, isUnsigned);
    mlir::Operation *op = value.getDefiningOp();
    bool isExtension =
        isa<arith::ExtSIOp, arith::ExtUIOp, arith::ExtFOp, arith::SIToFPOp, arith::UIToFPOp>(op);
    if (isExtension)
      return nest::cast(typeOf(value.getType(), isUnsigned),
                        expression(op->getOperand(0), isa<arith::ExtUIOp, arith::UIToFPOp>(op)));
    std::optional<Operation> operation;
    if (isa<arith::AddIOp, arith::AddFOp>(op))
      operation = Operation::Add;
    if (isa<arith::SubIOp, arith::SubFOp>(op))
      operation = Operation::Subtract;
    if (isa<arith::MulIOp, arith::MulFOp>(op))
      operation = Operation::Multiply;
    if (!operation)
      return fail("its body has '" + op->getName().getStringRef().str() + "', which has no form");
    Expr left = expression(op->getOperand(0), isUnsigned);
    Expr right = expression(op->getOperand(1), isUnsigned);
    return apply(*operation, {left, right});
  }

  linalg::GenericOp op_;
  TileIntrinsic result_;
  std::vector<int64_t> numbers_; // of the iterators; -1: of one element
  std::string problem_;
};

Type elementOf(OpBuilder &builder, kernel::Number number) {
  if (number == kernel::Number::BF16)
    return builder.getBF16Type();
  if (number == kernel::Number::F32)
    return builder.getF32Type();
  return builder.getIntegerType(unsigned(bitsOf(number)));
}

} // namespace

Result<TileIntrinsic> readDeclaration(std::string name, linalg::GenericOp meaning,
                                      TileIntrinsic::Emit emit) {
  Result<TileIntrinsic> result = Reader(std::move(name), meaning).read();
  if (result)
    result->emit = std::move(emit);
  return result;
}

Result<TileIntrinsic> tileIntrinsic(const kernel::Intrinsic &instruction, int64_t vectorBytes) {
  if (instruction.has(kernel::OfTiles) || instruction.left == kernel::Number::U1)
    return unsupported("'" + instruction.name.str() + "' is of tiles of a matrix unit, or of bits");
  // A context of its own: the compiler's may be in use by several threads.
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect,
                      memref::MemRefDialect>();
  OpBuilder builder(&context);
  Location location = builder.getUnknownLoc();
  int64_t lanes = instruction.lanes ? instruction.lanes
                                    : vectorBytes * 8 / bitsOf(instruction.sum) / instruction.rows;
  bool hasRows = instruction.rows > 1;
  auto matrix = [&](int64_t rows, kernel::Number number) {
    return MemRefType::get({rows, instruction.depth}, elementOf(builder, number));
  };
  Type sum = elementOf(builder, instruction.sum);
  Type types[] = {matrix(hasRows ? instruction.rows : lanes, instruction.left),
                  matrix(lanes, instruction.right),
                  hasRows ? MemRefType::get({instruction.rows, lanes}, sum)
                          : MemRefType::get({lanes}, sum)};
  auto function = func::FuncOp::create(location, "meaning", builder.getFunctionType(types, {}));
  OwningOpRef<func::FuncOp> owner = function;
  builder.setInsertionPointToEnd(function.addEntryBlock());
  auto meaning = kernel::emitMeaning(builder, location, instruction, function.getArgument(0),
                                     function.getArgument(1), function.getArgument(2));
  auto emit = [code = instruction.emit](OpBuilder &into, Location at, ArrayRef<Value> inputs,
                                        Value sums) {
    return code(into, at, inputs[0], inputs[1], sums);
  };
  Result<TileIntrinsic> result = readDeclaration(instruction.name.str(), meaning, emit);
  if (result && hasRows)
    result->inputs[0].hasPitch = result->output.hasPitch = true;
  return result;
}

TileIntrinsics tileIntrinsics(ArrayRef<const kernel::Intrinsic *> instructions,
                              int64_t vectorBytes) {
  TileIntrinsics result;
  for (const kernel::Intrinsic *each : instructions)
    if (Result<TileIntrinsic> own = tileIntrinsic(*each, vectorBytes))
      result.push_back(std::make_shared<TileIntrinsic>(std::move(*own)));
  return result;
}

TargetUnits targetUnits(const kernel::Machine &machine, const std::string &text) {
  TargetUnits result;
  if (text.find("tensorize") != std::string::npos)
    result.intrinsics = tileIntrinsics(machine.intrinsics, machine.vectorBytes);
  result.memories = {
      {"l1", machine.l1Bytes}, {"l2", machine.l2Bytes}, {"l3", machine.lastCacheBytes}};
  result.vectorBytes = machine.vectorBytes;
  return result;
}

} // namespace tensmith::nest
