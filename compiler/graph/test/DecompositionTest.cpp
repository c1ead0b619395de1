// Every decomposition against the reference evaluation of the operator that it replaces, on random
// tensors of odd sizes, with the optional operands there and absent.
//
// Fails where a decomposition means something else than its operator, gives another type or shape,
// or isn't found where all sizes are known.
#include "compiler/graph/Decomposition.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/Precision.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;

namespace tensmith::graph {
namespace {

class Decomposition : public testing::Test {
protected:
  Decomposition() : context(registryOfAll()), builder(&context) {
    context.loadAllAvailableDialects();
  }

  static DialectRegistry registryOfAll() {
    DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }

  /// Uniform in [low, high): integers whole.
  HostTensor random(Shape shape, double low = -2, double high = 2, DataType type = DataType::F32) {
    HostTensor tensor(type, std::move(shape));
    for (int64_t i = 0; i < tensor.size(); ++i) {
      seed = seed * 6364136223846793005ull + 1442695040888963407ull;
      double value = low + (high - low) * double(seed >> 11) * 0x1p-53;
      tensor.setDouble(i, isFloat(type) ? value : std::floor(value));
    }
    return tensor;
  }
  static HostTensor none() { return {}; }
  static HostTensor integers(Shape shape, std::vector<int64_t> values, DataType type) {
    HostTensor tensor(type, std::move(shape));
    for (size_t i = 0; i < values.size(); ++i)
      tensor.setInt(int64_t(i), values[i]);
    return tensor;
  }

  NamedAttribute integer(StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  }
  NamedAttribute boolean(StringRef name, bool value) {
    return builder.getNamedAttr(name, builder.getBoolAttr(value));
  }
  NamedAttribute real(StringRef name, double value) {
    return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
  }
  NamedAttribute text(StringRef name, StringRef value) {
    return builder.getNamedAttr(name, builder.getStringAttr(value));
  }
  NamedAttribute texts(StringRef name, ArrayRef<StringRef> values) {
    return builder.getNamedAttr(name, builder.getStrArrayAttr(values));
  }

  /// Evaluates the operator whole and decomposed.
  void check(const std::string &name, std::vector<HostTensor> operands,
             ArrayRef<NamedAttribute> attributes, double tolerance = 2e-5) {
    SCOPED_TRACE(name);
    ShapeContext shapes(&context);
    SmallVector<Type> types;
    for (const HostTensor &operand : operands)
      if (operand.type() != DataType::Undefined)
        types.push_back(
            RankedTensorType::get(operand.shape(), elementType(&context, operand.type())));
    OpBuilder::InsertionGuard guard(builder);
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
    auto function = builder.create<func::FuncOp>(builder.getUnknownLoc(), "f",
                                                 builder.getFunctionType(types, {}));
    builder.setInsertionPointToStart(function.addEntryBlock());
    GraphBuilder graph(builder, shapes, builder.getUnknownLoc());
    SmallVector<Value> values;
    std::vector<RuntimeValue> arguments;
    for (const HostTensor &operand : operands) {
      bool isPresent = operand.type() != DataType::Undefined;
      values.push_back(isPresent ? function.getArgument(arguments.size()) : graph.none());
      if (isPresent)
        arguments.push_back(operand);
    }
    Operation *whole = graph.create(name, values, attributes);
    ASSERT_NE(whole, nullptr);
    auto expected = evaluate(whole, operands);
    ASSERT_TRUE(expected.ok()) << expected.status().message();

    builder.setInsertionPoint(whole);
    SmallVector<Value> results;
    ASSERT_TRUE(succeeded(cast<Decomposable>(whole).decompose(graph, results)));
    ASSERT_EQ(results.size(), whole->getNumResults());
    for (auto [decomposed, result] : llvm::zip_equal(results, whole->getResults()))
      EXPECT_EQ(getElementTypeOrSelf(decomposed.getType()), getElementTypeOrSelf(result.getType()));
    whole->erase();
    builder.setInsertionPointToEnd(&function.getBody().front());
    builder.create<func::ReturnOp>(builder.getUnknownLoc(), results);
    function.setFunctionType(builder.getFunctionType(types, ValueRange(results).getTypes()));
    ASSERT_TRUE(succeeded(verify(*module)));
    auto actual = evaluate(function, arguments);
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    ASSERT_EQ(actual->size(), expected->size());
    for (size_t i = 0; i < expected->size(); ++i)
      compare((*actual)[i].tensor, (*expected)[i], tolerance, i);
  }

  static void compare(const HostTensor &actual, const HostTensor &expected, double tolerance,
                      size_t number) {
    ASSERT_EQ(actual.shape(), expected.shape()) << "result " << number;
    ASSERT_EQ(actual.type(), expected.type()) << "result " << number;
    for (int64_t i = 0; i < expected.size(); ++i) {
      double a = actual.getDouble(i), b = expected.getDouble(i);
      if (a == b || (std::isnan(a) && std::isnan(b)))
        continue;
      ASSERT_LE(std::abs(a - b), tolerance * std::max(1.0, std::abs(b)))
          << "result " << number << ", element " << i;
    }
  }

  MLIRContext context;
  OpBuilder builder;
  uint64_t seed = 7;
};

/// Fails where a block's operators are taken apart by other rules than a function's: what is made
/// of an operator is as precise as it, and no size gets the name of another.
TEST_F(Decomposition, WithinABlock) {
  auto module = parseSourceString<ModuleOp>(R"(
!x = tensor<?x3xf32, #graph.dims<["unknown.0"], ()[s0] -> (s0, 3)>>
func.func @f(%x: !x) -> !x {
  %0 = "graph.softmax"(%x) {axis = 1 : i64, graph.keeps_precision} : (!x) -> !x
  return %0 : !x
})",
                                            &context);
  ASSERT_TRUE(module);
  Block &block = module->lookupSymbol<func::FuncOp>("f").getBody().front();
  SizeNames names;
  names.add(block);
  std::string made;
  EXPECT_FALSE(replaceOperator(&block.front(), names,
                               [&](Operation *, GraphBuilder &graph, SmallVectorImpl<Value> &) {
                                 graph.shapes.freshSymbol("unknown");
                                 made = graph.shapes.symbols().back().str();
                                 return failure();
                               }));
  EXPECT_EQ(made, "unknown.1");

  auto isSoftmax = [](Operation *op) { return op->getName().stripDialect() == "softmax"; };
  ASSERT_TRUE(succeeded(takeApart(block, isSoftmax)));
  ASSERT_TRUE(succeeded(verify(*module)));
  EXPECT_GT(llvm::range_size(block.without_terminator()), 3);
  for (Operation &op : block.without_terminator())
    EXPECT_TRUE(op.hasAttr(kKeepsPrecision)) << op.getName().getStringRef().str();
}

TEST_F(Decomposition, OfSoftmax) {
  for (int64_t axis : {0, 1, 2}) {
    check("graph.softmax", {random({3, 5, 1}, -80, 80)}, integer("axis", axis));
    check("graph.log_softmax", {random({3, 5, 7}, -9, 9)}, integer("axis", axis));
  }
  check("graph.softmax", {random({3, 5}, -9, 9, DataType::F16)}, integer("axis", 1), 2e-3);
}

TEST_F(Decomposition, OfNormalisations) {
  for (int64_t axis : {1, 2}) {
    Shape rest = axis == 1 ? Shape{5, 7} : Shape{7};
    check("graph.layer_norm", {random({3, 5, 7}), random(rest), random(rest)},
          {integer("axis", axis), real("epsilon", 1e-3)});
    check("graph.layer_norm", {random({3, 5, 7}), random(rest), none()}, integer("axis", axis));
    check("graph.rms_norm", {random({3, 5, 7}), random(rest)}, integer("axis", axis));
  }
  for (Shape shape : {Shape{3, 5, 7}, Shape{2, 5, 1, 3}, Shape{3, 5}})
    check("graph.batch_norm",
          {random(shape), random({5}), random({5}), random({5}), random({5}, 0.1, 2)},
          real("epsilon", 1e-3), 1e-4);
  check("graph.instance_norm", {random({2, 3, 5, 7}), random({3}), random({3})}, {});
  check("graph.group_norm", {random({2, 6, 5}), random({6}), random({6})}, integer("groups", 3));
  for (int64_t size : {1, 3, 4, 5})
    check("graph.lrn", {random({2, 6, 3, 1})},
          {integer("size", size), real("alpha", 0.3), real("bias", 1.5)});
}

TEST_F(Decomposition, OfAttention) {
  auto mask = [&](Shape shape) { return random(std::move(shape), -1, 1); };
  auto booleans = [&](Shape shape) { return random(std::move(shape), 0, 2, DataType::Bool); };
  auto q = random({2, 4, 3, 5}), k = random({2, 4, 7, 5}), v = random({2, 4, 7, 6});
  std::vector<HostTensor> plain{q, k, v, none(), none(), none(), none()};
  for (int64_t mode : {0, 1, 2, 3})
    check("graph.attention", {q, k, v, mask({3, 7}), none(), none(), none()},
          {integer("qk_matmul_output_mode", mode), real("softcap", 1.5)});
  check("graph.attention", plain, boolean("is_causal", true));
  check("graph.attention", plain, real("scale", 0.3));
  check("graph.attention", {q, k, v, booleans({2, 1, 3, 7}), none(), none(), none()}, {});
  check("graph.attention", {q, k, v, mask({2, 4, 3, 5}), none(), none(), none()}, {});
  check("graph.attention", {q, k, v, none(), random({2, 4, 2, 5}), random({2, 4, 2, 6}), none()},
        boolean("is_causal", true));
  check("graph.attention", {q, k, v, none(), none(), none(), integers({2}, {4, 7}, DataType::I64)},
        boolean("is_causal", true));
  check("graph.attention",
        {q, random({2, 2, 7, 5}), random({2, 2, 7, 6}), none(), none(), none(), none()}, {});
  check(
      "graph.attention",
      {random({2, 3, 24}), random({2, 7, 12}), random({2, 7, 10}), none(), none(), none(), none()},
      {integer("q_num_heads", 4), integer("kv_num_heads", 2)});
}

// Windows that the strides divide, that overlap, that leave gaps and that are dilated; padding on
// one side, elements that no window reaches, groups.
TEST_F(Decomposition, OfTransposedConvolution) {
  struct Layer {
    Shape x, w;
    std::vector<int64_t> strides, pads, dilations, outputPadding;
    int64_t group = 1;
  };
  auto integers = [&](StringRef name, ArrayRef<int64_t> values) {
    return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(values));
  };
  for (const Layer &layer :
       {Layer{{2, 3, 5, 4}, {3, 4, 2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}, {0, 0}},
        Layer{{1, 4, 5, 3}, {4, 3, 4, 6}, {2, 3}, {1, 2, 1, 0}, {1, 1}, {1, 2}, 2},
        Layer{{1, 3, 4, 5}, {3, 2, 3, 2}, {2, 3}, {0, 1, 1, 0}, {1, 1}, {1, 0}},
        Layer{{2, 6, 5, 4}, {6, 2, 3, 3}, {1, 2}, {1, 1, 1, 1}, {2, 1}, {0, 1}, 3},
        Layer{{1, 4, 7}, {4, 1, 4}, {4}, {0, 0}, {1}, {3}, 4},
        Layer{
            {1, 2, 3, 2, 3}, {2, 3, 2, 1, 2}, {2, 1, 2}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}, {0, 0, 0}}})
    for (bool hasBias : {false, true})
      check(
          "graph.conv_transpose",
          {random(layer.x), random(layer.w), hasBias ? random({layer.w[1] * layer.group}) : none()},
          {integers("strides", layer.strides), integers("pads", layer.pads),
           integers("dilations", layer.dilations), integers("output_padding", layer.outputPadding),
           integer("group", layer.group)});
}

// Breaks where a stride, a dilation, a pad or a group is another's, or patches are cut wrongly.
TEST_F(Decomposition, OfWeightsGradient) {
  struct Layer {
    std::vector<int64_t> x, g, kernel, strides, pads, dilations;
    int64_t group = 1;
  };
  auto integers = [&](StringRef name, ArrayRef<int64_t> values) {
    return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(values));
  };
  for (const Layer &layer :
       {Layer{{2, 3, 5, 6}, {2, 4, 4, 4}, {2, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
        Layer{{1, 4, 7, 6}, {1, 6, 4, 3}, {3, 2}, {2, 3}, {1, 1, 1, 1}, {1, 1}, 2},
        Layer{{2, 2, 6, 7}, {2, 3, 5, 6}, {2, 2}, {1, 1}, {1, 0, 0, 1}, {2, 2}},
        Layer{{2, 3, 5, 5}, {2, 3, 3, 3}, {3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 3},
        Layer{{3, 4, 9}, {3, 2, 9}, {3}, {1}, {2, 0}, {1}}})
    check("graph.conv_weights_gradient", {random(layer.x), random(layer.g)},
          {integers("kernel", layer.kernel), integers("strides", layer.strides),
           integers("pads", layer.pads), integers("dilations", layer.dilations),
           integer("group", layer.group)},
          1e-4);
}

TEST_F(Decomposition, OfEinsum) {
  auto a = random({2, 3, 5}), b = random({2, 5, 4});
  for (StringRef equation :
       {"bij,bjk->bik", "bij,bjk->kbi", "bij,bjk", "bij, bjk -> i", "bij,cjk->bcik", "bij,bjk->bj"})
    check("graph.einsum", {a, b}, text("equation", equation));
  check("graph.einsum", {a}, text("equation", "ijk->ki"));
  check("graph.einsum", {a}, text("equation", "ijk->"));
  check("graph.einsum", {a}, text("equation", "...k->k..."));
  check("graph.einsum", {random({3, 4, 2, 5}), random({2, 5, 6})},
        text("equation", "ab...d,...de->ab...e"), 1e-4);
  check("graph.einsum", {random({1, 3, 5}), random({4, 5, 2})},
        text("equation", "...ij,...jk->...ik"));
  check("graph.einsum", {random({3}), random({4}), random({3, 4, 2})},
        text("equation", "i,j,ijk->k"));
}

TEST_F(Decomposition, OfQuantisation) {
  auto to = [&](Type type) { return builder.getNamedAttr("to", TypeAttr::get(type)); };
  struct Code {
    DataType type;
    double low, high;
  };
  for (Code code : {Code{DataType::I8, -20, 20}, Code{DataType::U8, 0, 90},
                    Code{DataType::U16, 0, 900}, Code{DataType::I4, -8, 8}}) {
    Type type = elementType(&context, code.type);
    auto x = random({3, 5, 4}, -300, 300);
    auto zero = [&](Shape shape) {
      return random(std::move(shape), code.low, code.high, code.type);
    };
    check("graph.quantize", {x, random({}, 0.1, 3), zero({})}, {integer("axis", 1), to(type)});
    check("graph.quantize", {x, random({5}, 0.1, 3), zero({5})}, {integer("axis", 1), to(type)});
    check("graph.quantize", {x, random({3, 3, 4}, 0.1, 3), zero({3, 3, 4})},
          {integer("axis", 1), integer("block_size", 2), to(type)});
    auto codes = random({3, 5, 4}, code.low, code.high, code.type);
    check("graph.dequantize", {codes, random({5}, 0.1, 3), zero({5})},
          {integer("axis", 1), to(builder.getF32Type())});
    check("graph.dequantize", {codes, random({3, 2, 4}, 0.1, 3), none()},
          {integer("axis", 1), integer("block_size", 3), to(builder.getF32Type())});
    auto wide = random({3, 5, 4}, -300, 300, DataType::F64);
    auto scales = random({5}, 0.1, 3, DataType::F64);
    check("graph.quantize", {wide, scales, zero({5})}, {integer("axis", 1), to(type)});
    check("graph.dequantize", {codes, scales, zero({5})},
          {integer("axis", 1), to(builder.getF64Type())}, 1e-15);
  }
  check("graph.dequantize", {random({7}, -1e6, 1e6, DataType::I32), random({}, 0.1, 3), none()},
        {integer("axis", 0), to(builder.getF32Type())});
}

TEST_F(Decomposition, OfRecurrentLayers) {
  constexpr int64_t kSteps = 4, kBatch = 3, kInput = 5, kHidden = 2;
  struct Layer {
    const char *name;
    int64_t gates;
    std::vector<StringRef> others;
  };
  for (const Layer &layer :
       {Layer{"graph.rnn", 1, {"ScaledTanh"}}, Layer{"graph.gru", 3, {"HardSigmoid", "Softsign"}},
        Layer{"graph.lstm", 4, {"Sigmoid", "Elu", "Softplus"}}})
    for (StringRef direction : {"forward", "reverse", "bidirectional"})
      for (bool isFull : {false, true})
        for (bool flag : {false, true}) {
          int64_t dirs = direction == "bidirectional" ? 2 : 1, rows = layer.gates * kHidden;
          bool batchFirst = isFull && flag;
          Shape state = batchFirst ? Shape{kBatch, dirs, kHidden} : Shape{dirs, kBatch, kHidden};
          Shape input = batchFirst ? Shape{kBatch, kSteps, kInput} : Shape{kSteps, kBatch, kInput};
          auto optional = [&](HostTensor tensor) { return isFull ? tensor : none(); };
          std::vector<HostTensor> operands{random(input),
                                           random({dirs, rows, kInput}),
                                           random({dirs, rows, kHidden}),
                                           optional(random({dirs, 2 * rows})),
                                           optional(integers({kBatch}, {4, 2, 1}, DataType::I32)),
                                           optional(random(state))};
          bool isLstm = layer.gates == 4;
          if (isLstm) {
            operands.push_back(optional(random(state)));
            operands.push_back(optional(random({dirs, 3 * kHidden})));
          }
          std::vector<StringRef> names;
          for (int64_t d = 0; d < dirs && isFull; ++d)
            names.insert(names.end(), layer.others.begin(), layer.others.end());
          SmallVector<NamedAttribute> attributes{
              integer("hidden_size", kHidden), text("direction", direction),
              texts("activations", names), boolean("batch_first", batchFirst)};
          if (isFull)
            attributes.push_back(real("clip", 1.5));
          if (isLstm)
            attributes.push_back(boolean("input_forget", flag));
          if (layer.gates == 3)
            attributes.push_back(boolean("linear_before_reset", flag));
          SCOPED_TRACE(direction.str() + (isFull ? " full" : "") + (flag ? " flag" : ""));
          check(layer.name, operands, attributes);
        }
}

} // namespace
} // namespace tensmith::graph
