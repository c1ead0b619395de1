// What importing makes of good models: types, names, symbols, static forms, functions, the order of
// nodes.
#include "TestModels.h"

#include "compiler/graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace tensmith;
using onnx_test::Builder;

namespace {

class Import : public testing::Test {
protected:
  mlir::func::FuncOp import(const Builder &model, const ImportOptions &options = {}) {
    auto result = importBytes(onnx_test::span(model.bytes()), "model.onnx", context, options);
    EXPECT_TRUE(result.ok()) << result.status().message();
    if (!result.ok())
      return {};
    module = std::move(*result);
    return module->lookupSymbol<mlir::func::FuncOp>("main");
  }
  static std::string text(mlir::Type type) {
    std::string result;
    llvm::raw_string_ostream(result) << type;
    return result;
  }
  template <typename Op> static int count(mlir::func::FuncOp function) {
    int result = 0;
    function.walk([&](Op) { ++result; });
    return result;
  }
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(Import, NamesAndInferredTypes) {
  Builder model;
  model.input("x", {2, 3});
  model.weight("w", {4, 3});
  auto &gemm = model.node("Gemm", {"x", "w"}, {"y"}, "product");
  auto &turned = *gemm.add_attribute();
  turned.set_name("transB");
  turned.set_type(onnx::AttributeProto::INT);
  turned.set_i(1);
  model.output("y");
  auto main = import(model);
  ASSERT_TRUE(main);
  EXPECT_EQ(text(main.getResultTypes()[0]), "tensor<2x4xf32>");
  EXPECT_EQ(main.getArgAttrOfType<mlir::StringAttr>(0, "graph.name").getValue(), "x");
  EXPECT_EQ(main.getResultAttrOfType<mlir::StringAttr>(0, "graph.name").getValue(), "y");
  main.walk([](graph::MatMulOp op) {
    auto name = mlir::dyn_cast<mlir::NameLoc>(op.getLoc());
    ASSERT_TRUE(name);
    EXPECT_EQ(name.getName().getValue(), "product (Gemm)");
  });
}

TEST_F(Import, ShapeComputationsBecomeSymbols) {
  // Reshape to [shape(x)[0], -1]: the result keeps the batch's name, and no shape is computed.
  Builder model;
  auto &x = model.input("x", {1, 4, 5});
  x.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("batch");
  model.integers("zero", {0});
  model.integers("rest", {-1});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Gather", {"shape", "zero"}, {"batch"});
  model.node("Concat", {"batch", "rest"}, {"target"}).add_attribute()->set_name("axis");
  model.node("Reshape", {"x", "target"}, {"y"});
  model.output("y");
  auto main = import(model);
  ASSERT_TRUE(main);
  EXPECT_NE(text(main.getResultTypes()[0]).find("\"batch\""), std::string::npos);
  EXPECT_NE(text(main.getResultTypes()[0]).find("?x20"), std::string::npos);
  EXPECT_EQ(count<graph::ReshapeOp>(main), 1);
  EXPECT_EQ(count<graph::ShapeOp>(main), 0);
  EXPECT_EQ(count<graph::DynamicReshapeOp>(main), 0);
}

TEST_F(Import, OptionsGiveShapesAndSymbols) {
  Builder model;
  auto &x = model.input("x", {1, 1});
  auto &shape = *x.mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("n");
  shape.mutable_dim(1)->clear_dim_value();
  model.node("Neg", {"x"}, {"y"});
  model.output("y");
  EXPECT_NE(text(import(model).getResultTypes()[0]).find("[\"n\", \"x.1\"]"), std::string::npos);
  ImportOptions options;
  options.symbols["n"] = 7;
  options.shapes["x"] = {"n", "9"};
  EXPECT_EQ(text(import(model, options).getResultTypes()[0]), "tensor<7x9xf32>");
  options.shapes["z"] = {"1"};
  auto wrong = importBytes(onnx_test::span(model.bytes()), "model.onnx", context, options);
  EXPECT_FALSE(wrong.ok());
}

TEST_F(Import, NodesInAnyOrder) {
  Builder model;
  model.input("x", {2});
  model.node("Exp", {"a"}, {"y"});
  model.node("Neg", {"x"}, {"a"});
  model.output("y");
  EXPECT_TRUE(import(model));
}

TEST_F(Import, FunctionsAreExpandedWithTheirAttributes) {
  Builder model;
  auto &function = *model.proto.add_functions();
  function.set_name("Scale");
  function.set_domain("own");
  function.add_input("a");
  function.add_output("b");
  function.add_attribute("factor");
  function.add_opset_import()->set_version(17);
  auto &constant = *function.add_node();
  constant.set_op_type("Constant");
  constant.add_output("c");
  auto &reference = *constant.add_attribute();
  reference.set_name("value_float");
  reference.set_ref_attr_name("factor");
  reference.set_type(onnx::AttributeProto::FLOAT);
  auto &product = *function.add_node();
  product.set_op_type("Mul");
  product.add_input("a");
  product.add_input("c");
  product.add_output("b");
  model.input("x", {2});
  auto &call = model.node("Scale", {"x"}, {"y"}, "call");
  call.set_domain("own");
  auto &factor = *call.add_attribute();
  factor.set_name("factor");
  factor.set_type(onnx::AttributeProto::FLOAT);
  factor.set_f(3);
  model.output("y");
  auto main = import(model);
  ASSERT_TRUE(main);
  EXPECT_EQ(count<graph::MulOp>(main), 1);
  std::string printed;
  llvm::raw_string_ostream stream(printed);
  main.print(stream);
  EXPECT_NE(printed.find("3.000000e+00"), std::string::npos) << printed;
}

TEST_F(Import, InitialisersAreNoInputs) {
  Builder model;
  model.input("x", {2});
  model.input("w", {2}); // as files of IR version 3 list them
  model.weight("w", {2});
  model.node("Add", {"x", "w"}, {"y"});
  model.output("y");
  EXPECT_EQ(import(model).getNumArguments(), 1u);
}

} // namespace
