// Every operator's scalar and element code, for every element type: it verifies, and has the type
// that Lowering.h promises.
//
// Fails where an emitter mixes widths, takes a constant of the wrong shape (vectors), or forgets a
// type that it says it has code for.
#include "compiler/graph/Graph.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tensmith::graph {
namespace {

class OperatorCode : public testing::Test {
protected:
  OperatorCode() : builder(&context) {
    context.loadDialect<GraphDialect, arith::ArithDialect, math::MathDialect, func::FuncDialect,
                        scf::SCFDialect, memref::MemRefDialect, vector::VectorDialect>();
  }

  Type integer(unsigned bits, bool isUnsignedType) {
    return isUnsignedType ? IntegerType::get(&context, bits, IntegerType::Unsigned)
                          : IntegerType::get(&context, bits);
  }
  SmallVector<Type> elementTypes() {
    SmallVector<Type> types{builder.getF32Type(), builder.getF64Type(), builder.getF16Type(),
                            builder.getBF16Type(), builder.getI1Type()};
    for (unsigned bits : {2u, 4u, 8u, 16u, 32u, 64u})
      types.append({integer(bits, false), integer(bits, true)});
    types.push_back(Float8E5M2Type::get(&context));
    return types;
  }
  /// An operator on values of those types, which no block holds.
  Operation *create(StringRef name, TypeRange operands, TypeRange results,
                    ArrayRef<NamedAttribute> attributes = {}) {
    OperationState state(builder.getUnknownLoc(), name);
    auto *block = new Block();
    blocks.emplace_back(block);
    for (Type type : operands)
      state.addOperands(block->addArgument(type, state.location));
    state.addTypes(results);
    state.addAttributes(attributes);
    OpBuilder inBlock(&context);
    inBlock.setInsertionPointToEnd(block);
    return inBlock.create(state);
  }
  Type tensor(Type element, ArrayRef<int64_t> shape = {4}) {
    return RankedTensorType::get(shape, element);
  }
  /// A function of arguments of those types; the caller writes its body.
  func::FuncOp function(TypeRange arguments, Type result) {
    auto function = func::FuncOp::create(builder.getUnknownLoc(), "f",
                                         builder.getFunctionType(arguments, result));
    builder.setInsertionPointToStart(function.addEntryBlock());
    return function;
  }
  NamedAttribute attribute(StringRef name, Attribute value) {
    return builder.getNamedAttr(name, value);
  }
  NamedAttribute integers(StringRef name, ArrayRef<int64_t> values) {
    return attribute(name, builder.getDenseI64ArrayAttr(values));
  }

  /// Whether there is scalar code; checks it as scalars and as vectors.
  bool checkScalar(Operation *op) {
    bool hasCode = false;
    for (int64_t lanes : {0, 8}) {
      auto shaped = [&](Type tensorType) {
        Type element = kernelElementType(getElementTypeOrSelf(tensorType));
        return lanes ? Type(VectorType::get({lanes}, element)) : element;
      };
      SmallVector<Type> types;
      for (Type type : op->getOperandTypes())
        types.push_back(shaped(type));
      Type resultType = shaped(op->getResult(0).getType());
      OpBuilder::InsertionGuard guard(builder);
      func::FuncOp code = function(types, resultType);
      Value value = cast<Elementwise>(op).emitScalar(builder, op->getLoc(), code.getArguments());
      hasCode = bool(value);
      if (value) {
        EXPECT_EQ(value.getType(), resultType) << op->getName().getStringRef().str();
        builder.create<func::ReturnOp>(op->getLoc(), value);
        EXPECT_TRUE(succeeded(verify(code)));
      }
      code->erase();
    }
    return hasCode;
  }

  MLIRContext context;
  OpBuilder builder;
  std::vector<std::unique_ptr<Block>> blocks;
};

struct ScalarRule {
  const char *name;
  unsigned operands;
  bool isBoolean; // the result
};

const ScalarRule kScalarRules[] = {
    {"abs", 1, 0},
    {"neg", 1, 0},
    {"sign", 1, 0},
    {"ceil", 1, 0},
    {"floor", 1, 0},
    {"round", 1, 0},
    {"sqrt", 1, 0},
    {"rsqrt", 1, 0},
    {"exp", 1, 0},
    {"log", 1, 0},
    {"log1p", 1, 0},
    {"sin", 1, 0},
    {"cos", 1, 0},
    {"tan", 1, 0},
    {"asin", 1, 0},
    {"acos", 1, 0},
    {"atan", 1, 0},
    {"sinh", 1, 0},
    {"cosh", 1, 0},
    {"tanh", 1, 0},
    {"asinh", 1, 0},
    {"acosh", 1, 0},
    {"atanh", 1, 0},
    {"erf", 1, 0},
    {"sigmoid", 1, 0},
    {"not", 1, 0},
    {"bitwise_not", 1, 0},
    {"isnan", 1, 1},
    {"isinf", 1, 1},
    {"add", 2, 0},
    {"sub", 2, 0},
    {"mul", 2, 0},
    {"div", 2, 0},
    {"mod", 2, 0},
    {"pow", 2, 0},
    {"min", 2, 0},
    {"max", 2, 0},
    {"and", 2, 0},
    {"or", 2, 0},
    {"xor", 2, 0},
    {"bitwise_and", 2, 0},
    {"bitwise_or", 2, 0},
    {"bitwise_xor", 2, 0},
    {"bit_shift", 2, 0},
    {"equal", 2, 1},
    {"less", 2, 1},
    {"less_or_equal", 2, 1},
    {"greater", 2, 1},
    {"greater_or_equal", 2, 1},
};

TEST_F(OperatorCode, OfScalarsAndVectorsVerifies) {
  for (const ScalarRule &rule : kScalarRules) {
    bool hasAny = false;
    for (Type element : elementTypes()) {
      SmallVector<Type> operands(rule.operands, tensor(element));
      Type result = tensor(rule.isBoolean ? builder.getI1Type() : element);
      Operation *op = create((Twine("graph.") + rule.name).str(), operands, result);
      bool hasCode = checkScalar(op);
      hasAny |= hasCode;
      // The types whose arithmetic the kernels don't have stay with the runtime.
      if (!isa<IntegerType>(element) && element.getIntOrFloatBitWidth() == 8)
        EXPECT_FALSE(hasCode) << rule.name;
    }
    EXPECT_TRUE(hasAny) << rule.name;
  }
}

TEST_F(OperatorCode, OfFmodAndShiftsRightVerifies) {
  for (Type element : elementTypes()) {
    SmallVector<Type> operands(2, tensor(element));
    checkScalar(create("graph.mod", operands, tensor(element),
                       attribute("fmod", builder.getBoolAttr(true))));
    checkScalar(create("graph.bit_shift", operands, tensor(element),
                       attribute("left", builder.getBoolAttr(false))));
  }
}

TEST_F(OperatorCode, OfMixedTypesVerifies) {
  for (Type a : elementTypes())
    for (Type b : elementTypes()) {
      checkScalar(create("graph.pow", {tensor(a), tensor(b)}, tensor(a)));
      if (isa<IntegerType>(a) && isa<IntegerType>(b))
        checkScalar(create("graph.bit_shift", {tensor(a), tensor(b)}, tensor(a)));
    }
  for (Type element : elementTypes())
    EXPECT_TRUE(checkScalar(create("graph.where",
                                   {tensor(builder.getI1Type()), tensor(element), tensor(element)},
                                   tensor(element))));
}

TEST_F(OperatorCode, OfCastsVerifies) {
  for (Type from : elementTypes())
    for (Type to : elementTypes()) {
      bool hasCode = checkScalar(
          create("graph.cast", tensor(from), tensor(to), attribute("to", TypeAttr::get(to))));
      auto isByteFloat = [](Type type) {
        return isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8;
      };
      EXPECT_EQ(hasCode, !isByteFloat(from) && !isByteFloat(to));
      if (from.getIntOrFloatBitWidth() == to.getIntOrFloatBitWidth())
        checkScalar(
            create("graph.bit_cast", tensor(from), tensor(to), attribute("to", TypeAttr::get(to))));
    }
}

// ---- element code ------------------------------------------------------------------------------

/// Operands in memrefs, loops of scf.for, checks as calls that nothing removes.
class MemoryContext : public ElementContext {
public:
  MemoryContext(OpBuilder &builder, Operation *op, ValueRange memories, ValueRange resultSizes)
      : ElementContext(builder, op->getLoc()), op(op), memories(memories),
        resultSizes(resultSizes) {}

  Value operand(unsigned number, ValueRange indices) override {
    return builder.create<memref::LoadOp>(location, memories[number], indices);
  }
  Value operandSize(unsigned number, unsigned dim) override {
    auto type = cast<RankedTensorType>(op->getOperand(number).getType());
    if (!type.isDynamicDim(dim))
      return builder.create<arith::ConstantIndexOp>(location, type.getDimSize(dim));
    return builder.create<memref::DimOp>(location, memories[number], int64_t(dim));
  }
  Value resultSize(unsigned number, unsigned dim) override {
    auto type = cast<RankedTensorType>(op->getResult(number).getType());
    return type.isDynamicDim(dim)
               ? resultSizes[dim]
               : builder.create<arith::ConstantIndexOp>(location, type.getDimSize(dim));
  }
  SmallVector<Value> loop(ValueRange extents, ValueRange initial, LoopBody body) override {
    Value zero = builder.create<arith::ConstantIndexOp>(location, 0);
    Value one = builder.create<arith::ConstantIndexOp>(location, 1);
    SmallVector<Value> indices;
    std::function<SmallVector<Value>(unsigned, ValueRange)> nest =
        [&](unsigned depth, ValueRange carried) -> SmallVector<Value> {
      if (depth == extents.size())
        return body(indices, carried);
      auto loop = builder.create<scf::ForOp>(location, zero, extents[depth], one, carried);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(loop.getBody());
      indices.push_back(loop.getInductionVar());
      SmallVector<Value> last = nest(depth + 1, loop.getRegionIterArgs());
      indices.pop_back();
      builder.create<scf::YieldOp>(location, last);
      return SmallVector<Value>(loop.getResults());
    };
    return nest(0, initial);
  }
  void check(Value condition, StringRef, Value) override { checks.push_back(condition); }

  SmallVector<Value> checks;

private:
  Operation *op;
  ValueRange memories, resultSizes;
};

class ElementCode : public OperatorCode {
protected:
  bool checkElement(Operation *op) {
    auto resultType = cast<RankedTensorType>(op->getResult(0).getType());
    SmallVector<Type> types;
    for (Type type : op->getOperandTypes()) {
      auto tensorType = dyn_cast<RankedTensorType>(type);
      types.push_back(tensorType
                          ? Type(MemRefType::get(tensorType.getShape(),
                                                 kernelElementType(tensorType.getElementType())))
                          : builder.getIndexType());
    }
    unsigned operands = types.size(), rank = resultType.getRank();
    types.append(2 * rank, builder.getIndexType());
    Type element = kernelElementType(resultType.getElementType());
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp code = function(types, element);
    ValueRange arguments = code.getArguments();
    MemoryContext memory(builder, op, arguments.take_front(operands), arguments.take_back(rank));
    Value value = cast<Indexed>(op).emitElement(memory, 0, arguments.slice(operands, rank));
    if (value) {
      EXPECT_EQ(value.getType(), element) << op->getName().getStringRef().str();
      builder.create<func::ReturnOp>(op->getLoc(), value);
      EXPECT_TRUE(succeeded(verify(code))) << op->getName().getStringRef().str();
    }
    code->erase();
    return bool(value);
  }
  Type f32(ArrayRef<int64_t> shape) { return tensor(builder.getF32Type(), shape); }
  Type i64(ArrayRef<int64_t> shape) { return tensor(builder.getI64Type(), shape); }
  NamedAttribute integer64(StringRef name, int64_t value) {
    return attribute(name, builder.getI64IntegerAttr(value));
  }
};

constexpr int64_t kDynamic = ShapedType::kDynamic;

TEST_F(ElementCode, OfMovementVerifies) {
  Type none = builder.getNoneType();
  EXPECT_TRUE(checkElement(create("graph.reshape", f32({2, 6, 5}), f32({2, 2, 3, 5}))));
  EXPECT_TRUE(checkElement(create("graph.reshape", f32({2, 6, 5}), f32({60}))));
  EXPECT_TRUE(checkElement(create("graph.reshape", f32({1}), f32({}))));
  EXPECT_TRUE(checkElement(create("graph.reshape", f32({0, 3}), f32({3, 0}))));
  EXPECT_TRUE(checkElement(create("graph.reshape", f32({kDynamic, 12}), f32({kDynamic, 3, 4}))));
  EXPECT_TRUE(checkElement(create("graph.transpose", f32({2, 3, 4}), f32({4, 2, 3}),
                                  integers("permutation", {2, 0, 1}))));
  EXPECT_TRUE(checkElement(create("graph.broadcast", f32({3, 1}), f32({2, 3, 4}))));
  EXPECT_TRUE(checkElement(create("graph.broadcast", f32({kDynamic}), f32({2, kDynamic}))));
  EXPECT_TRUE(checkElement(create("graph.slice", f32({5, 7}), f32({2, 3}),
                                  {integers("starts", {4, 0}), integers("steps", {-2, 3})})));
  EXPECT_TRUE(checkElement(create("graph.concat", {f32({2, 3}), f32({2, 0}), f32({2, 4})},
                                  f32({2, 7}), integer64("axis", 1))));
  EXPECT_TRUE(checkElement(create("graph.concat", {f32({kDynamic, 3}), f32({2, 3})},
                                  f32({kDynamic, 3}), integer64("axis", 0))));
  for (const char *mode : {"constant", "reflect", "edge", "wrap"})
    EXPECT_TRUE(checkElement(create("graph.pad", {f32({2, 3}), f32({})}, f32({3, 4}),
                                    {integers("low", {1, -1}), integers("high", {0, 2}),
                                     attribute("mode", builder.getStringAttr(mode))})))
        << mode;
  EXPECT_TRUE(checkElement(create("graph.pad", {f32({kDynamic, 3}), none}, f32({kDynamic, 3}),
                                  {integers("low", {1, 0}), integers("high", {0, 0})})));
  EXPECT_TRUE(
      checkElement(create("graph.reverse", f32({2, 3}), f32({2, 3}), integers("axes", {1}))));
  EXPECT_TRUE(checkElement(create("graph.trilu", {f32({2, 3}), i64({})}, f32({2, 3}))));
  EXPECT_TRUE(checkElement(create("graph.trilu", {f32({2, 3}), none}, f32({2, 3}))));
  for (bool transposed : {false, true})
    EXPECT_TRUE(checkElement(
        create("graph.pack", f32({5, 9}), transposed ? f32({2, 9, 4}) : f32({3, 5, 4}),
               {integer64("width", 4), attribute("transposed", builder.getBoolAttr(transposed))})));
  EXPECT_TRUE(
      checkElement(create("graph.unpack", f32({3, 5, 4}), f32({5, 9}), integer64("columns", 9))));
}

TEST_F(ElementCode, OfGathersRangesAndIndicesVerifies) {
  for (int64_t rows : {int64_t(7), kDynamic}) {
    EXPECT_TRUE(checkElement(create("graph.gather", {f32({2, rows, 3}), i64({4, 5})},
                                    f32({2, 4, 5, 3}), integer64("axis", 1))));
    EXPECT_TRUE(checkElement(create("graph.gather_elements", {f32({rows, 3}), i64({2, 3})},
                                    f32({2, 3}), integer64("axis", 0))));
    EXPECT_TRUE(checkElement(create("graph.gather_nd", {f32({2, rows, 3}), i64({2, 5, 1})},
                                    f32({2, 5, 3}), integer64("batch_dims", 1))));
  }
  for (Type element : {Type(builder.getF32Type()), Type(builder.getF64Type()),
                       Type(builder.getI64Type()), Type(builder.getIntegerType(16))}) {
    SmallVector<Type> operands(3, tensor(element, {}));
    EXPECT_TRUE(checkElement(create("graph.range", operands, tensor(element, {kDynamic}))));
    EXPECT_TRUE(
        checkElement(create("graph.iota", {}, tensor(element, {3, 4}), integer64("axis", 1))));
  }
}

TEST_F(ElementCode, OfReductionsVerifies) {
  for (Type element : elementTypes()) {
    bool isNumber =
        element.getIntOrFloatBitWidth() >= 16 || element.isInteger(8) || element.isInteger(1);
    for (bool keepdims : {false, true}) {
      SmallVector<NamedAttribute> attributes{integers("axes", {0, 2}),
                                             attribute("keepdims", builder.getBoolAttr(keepdims))};
      SmallVector<int64_t> shape =
          keepdims ? SmallVector<int64_t>{1, 3, 1} : SmallVector<int64_t>{3};
      for (const char *name : {"sum", "prod", "max", "min"})
        EXPECT_EQ(checkElement(create((Twine("graph.reduce_") + name).str(),
                                      tensor(element, {2, 3, kDynamic}), tensor(element, shape),
                                      attributes)),
                  isNumber)
            << name;
      for (const char *name : {"graph.arg_max", "graph.arg_min"})
        for (bool last : {false, true})
          EXPECT_EQ(checkElement(
                        create(name, tensor(element, {2, 3}), keepdims ? i64({2, 1}) : i64({2}),
                               {integer64("axis", 1), attribute("last", builder.getBoolAttr(last)),
                                attribute("keepdims", builder.getBoolAttr(keepdims))})),
                    isNumber)
              << name;
    }
  }
}

TEST_F(ElementCode, OfPoolsVerifies) {
  for (bool channelsLast : {false, true})
    for (int64_t width : {int64_t(9), kDynamic})
      for (int64_t pad : {0, 1})
        for (const char *name : {"graph.max_pool", "graph.average_pool", "graph.lp_pool"}) {
          SmallVector<int64_t> in = channelsLast ? SmallVector<int64_t>{1, 7, width, 2}
                                                 : SmallVector<int64_t>{1, 2, 7, width};
          SmallVector<NamedAttribute> attributes{
              integers("kernel", {3, 2}),
              integers("strides", {2, 1}),
              integers("pads", {pad, 0, 0, pad}),
              integers("dilations", {1, 2}),
              attribute("layout",
                        builder.getStringAttr(channelsLast ? "channels_last" : "channels_first")),
              attribute("ceil_mode", builder.getBoolAttr(pad != 0))};
          EXPECT_TRUE(checkElement(create(name, f32(in), f32(in), attributes))) << name;
        }
}

} // namespace
} // namespace tensmith::graph
