// From sizes and orders of dimensions to a linalg.generic, and its sums one by one; see
// Declarations.h.
#include "compiler/nest/test/Declarations.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::nest::test {
namespace {

Type typeOf(OpBuilder &builder, DataType type) {
  if (type == DataType::F32)
    return builder.getF32Type();
  return builder.getIntegerType(unsigned(8 * byteSize(type)));
}

Value extended(OpBuilder &builder, Location location, Value value, DataType from, Type to) {
  if (value.getType() == to)
    return value;
  if (info(from).kind == TypeClass::Unsigned)
    return builder.create<arith::ExtUIOp>(location, to, value);
  return builder.create<arith::ExtSIOp>(location, to, value);
}

Value accumulated(OpBuilder &builder, Location location, const Declaration &of, Value sum,
                  Value left, Value right) {
  Value a = extended(builder, location, left, of.leftType, sum.getType());
  Value b = extended(builder, location, right, of.rightType, sum.getType());
  bool isFloat = isa<FloatType>(sum.getType());
  Value product = isFloat ? Value(builder.create<arith::MulFOp>(location, a, b))
                          : Value(builder.create<arith::MulIOp>(location, a, b));
  if (of.reduction == Reduction::Maximum)
    return isFloat ? Value(builder.create<arith::MaximumFOp>(location, sum, product))
                   : Value(builder.create<arith::MaxSIOp>(location, sum, product));
  return isFloat ? Value(builder.create<arith::AddFOp>(location, sum, product))
                 : Value(builder.create<arith::AddIOp>(location, sum, product));
}

/// Where the point's element is in an operand, densely from outside in.
int64_t placeOf(const std::vector<unsigned> &dims, const std::vector<int64_t> &sizes,
                const std::vector<int64_t> &point) {
  int64_t result = 0;
  for (unsigned dim : dims)
    result = result * sizes[dim] + point[dim];
  return result;
}

Value emitOneByOne(OpBuilder &builder, Location location, const Declaration &of, Value left,
                   Value right, Value sums) {
  std::vector<int64_t> point(of.sizes.size(), 0);
  auto at = [&](Value vector, const std::vector<unsigned> &dims) -> Value {
    return builder.create<vector::ExtractOp>(location, vector, placeOf(dims, of.sizes, point));
  };
  for (bool isDone = false; !isDone;) {
    Value own = accumulated(builder, location, of, at(sums, of.sums), at(left, of.left),
                            at(right, of.right));
    sums = builder.create<vector::InsertOp>(location, own, sums, placeOf(of.sums, of.sizes, point));
    isDone = true;
    for (size_t dim = point.size(); dim-- > 0 && isDone;)
      if (++point[dim] == of.sizes[dim])
        point[dim] = 0;
      else
        isDone = false;
  }
  return sums;
}

} // namespace

Result<TileIntrinsic> declared(const Declaration &of) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect,
                      memref::MemRefDialect>();
  OpBuilder builder(&context);
  Location location = builder.getUnknownLoc();
  SmallVector<Type> types;
  SmallVector<AffineMap> maps;
  for (auto [dims, type] : {std::pair(&of.left, of.leftType), std::pair(&of.right, of.rightType),
                            std::pair(&of.sums, of.sumType)}) {
    SmallVector<int64_t> shape;
    for (unsigned dim : *dims)
      shape.push_back(of.sizes[dim]);
    types.push_back(MemRefType::get(shape, typeOf(builder, type)));
    maps.push_back(
        AffineMap::getMultiDimMapWithTargets(unsigned(of.sizes.size()), *dims, &context));
  }
  OwningOpRef<func::FuncOp> function =
      func::FuncOp::create(location, "meaning", builder.getFunctionType(types, {}));
  builder.setInsertionPointToEnd(function->addEntryBlock());
  SmallVector<utils::IteratorType> iterators;
  for (unsigned dim = 0; dim < of.sizes.size(); ++dim)
    iterators.push_back(llvm::is_contained(of.sums, dim) ? utils::IteratorType::parallel
                                                         : utils::IteratorType::reduction);
  auto meaning = builder.create<linalg::GenericOp>(
      location, ValueRange{function->getArgument(0), function->getArgument(1)},
      ValueRange{function->getArgument(2)}, maps, iterators,
      [&](OpBuilder &body, Location at, ValueRange elements) {
        body.create<linalg::YieldOp>(
            at, accumulated(body, at, of, elements[2], elements[0], elements[1]));
      });
  auto result = readDeclaration(
      of.name, meaning, [of](OpBuilder &into, Location at, ArrayRef<Value> inputs, Value sums) {
        return emitOneByOne(into, at, of, inputs[0], inputs[1], sums);
      });
  if (result) {
    result->inputs[0].hasPitch = of.leftHasPitch;
    result->inputs[1].hasPitch = of.rightHasPitch;
  }
  return result;
}

} // namespace tensmith::nest::test
