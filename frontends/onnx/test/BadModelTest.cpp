// Files that are no good: each gives an error that says what is wrong and where, and nothing
// crashes.
#include "TestModels.h"

#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace tensmith;
using onnx_test::Builder;

namespace {

/// The message of the error that importing gives; "" where it gives none.
std::string errorOf(const std::string &bytes) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = importBytes(onnx_test::span(bytes), "bad.onnx", context);
  return module.ok() ? "" : module.status().message();
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(BadModel, Empty) { EXPECT_HAS(errorOf(""), "bad.onnx: is empty"); }

TEST(BadModel, TruncatedAnywhere) {
  Builder model;
  model.input("x", {2, 3});
  model.weight("w", {2, 3});
  model.node("Add", {"x", "w"}, {"y"}, "sum");
  model.output("y");
  std::string bytes = model.bytes();
  ASSERT_EQ(errorOf(bytes), "");
  for (size_t size = 1; size < bytes.size(); ++size)
    (void)errorOf(bytes.substr(0, size)); // an error or, rarely, a shorter model: never a crash
  EXPECT_HAS(errorOf(bytes.substr(0, bytes.size() / 2)), "truncated");
}

TEST(BadModel, FlippedBytes) {
  Builder model;
  model.input("x", {2, 3});
  model.weight("w", {2, 3});
  model.node("Gemm", {"x", "w"}, {"y"}, "product").add_attribute()->set_name("transB");
  model.output("y");
  std::string bytes = model.bytes();
  for (size_t at = 0; at < bytes.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[at] = char(flipped[at] ^ (1 << bit));
      (void)errorOf(flipped);
    }
}

TEST(BadModel, TensorOf2To62Elements) {
  Builder model;
  auto &tensor = model.weight("w", {});
  tensor.clear_dims();
  tensor.add_dims(int64_t(1) << 31);
  tensor.add_dims(int64_t(1) << 31);
  model.node("Identity", {"w"}, {"y"});
  model.output("y");
  EXPECT_HAS(errorOf(model.bytes()), "initialiser 'w' claims a shape of 2147483648x2147483648");
}

TEST(BadModel, TensorWithFewerBytesThanItClaims) {
  Builder model;
  model.weight("w", {2, 3}).set_dims(0, 1000000);
  model.node("Identity", {"w"}, {"y"});
  model.output("y");
  EXPECT_HAS(errorOf(model.bytes()), "initialiser 'w' has 24 bytes where its shape needs 12000000");
}

TEST(BadModel, Cycle) {
  Builder model;
  model.input("x", {2});
  model.node("Add", {"x", "b"}, {"a"}, "first");
  model.node("Neg", {"a"}, {"b"}, "second");
  model.node("Neg", {"x"}, {"c"}, "apart");
  model.output("b");
  std::string error = errorOf(model.bytes());
  EXPECT_HAS(error, "cycle");
  EXPECT_HAS(error, "node 'first' (Add), node 'second' (Neg)");
  EXPECT_EQ(error.find("apart"), std::string::npos);
}

TEST(BadModel, MissingInitialiser) {
  Builder model;
  model.input("x", {2});
  model.node("Add", {"x", "w"}, {"y"}, "sum");
  model.output("y");
  EXPECT_HAS(errorOf(model.bytes()), "node 'sum' (Add) has as input 1 'w', which is no input");
}

TEST(BadModel, TypeErrorBetweenNodes) {
  Builder model;
  model.input("x", {2});
  model.node("Shape", {"x"}, {"s"});
  model.node("Add", {"x", "s"}, {"y"}, "sum");
  model.output("y");
  std::string error = errorOf(model.bytes());
  EXPECT_HAS(error, "sum (Add)");
  EXPECT_HAS(error, "different element types");
}

TEST(BadModel, AllUnsupportedOperatorsAreListed) {
  Builder model;
  model.input("x", {2});
  model.node("Frobnicate", {"x"}, {"a"}, "one").set_domain("com.example");
  model.node("Neg", {"a"}, {"b"}, "fine");
  model.node("Wobble", {"b"}, {"y"}, "two");
  model.output("y");
  std::string error = errorOf(model.bytes());
  EXPECT_HAS(error, "2 nodes");
  EXPECT_HAS(error, "node 'one' (Frobnicate): operator 'Frobnicate', domain 'com.example'");
  EXPECT_HAS(error, "node 'two' (Wobble): operator 'Wobble', domain 'ai.onnx', opset 17");
  EXPECT_EQ(error.find("fine"), std::string::npos);
}

TEST(BadModel, FutureOpset) {
  Builder model;
  model.proto.mutable_opset_import(0)->set_version(9999);
  EXPECT_HAS(errorOf(model.bytes()), "imports opset 9999");
}

/// If within If within ..., written from the inside out, since building it as messages recurses.
std::string nestedIfs(int depth) {
  auto field = [](int number, const std::string &payload) {
    std::string result(1, char(number << 3 | 2));
    for (uint64_t size = payload.size();; size >>= 7) {
      result.push_back(char(size < 128 ? size : (size & 127) | 128));
      if (size < 128)
        return result + payload;
    }
  };
  std::string graph;
  for (int i = 0; i < depth; ++i)
    graph = field(1, field(4, "If") + field(5, field(1, "then_branch") + field(6, graph)));
  return field(7, graph);
}

TEST(BadModel, SubgraphsNested10000Deep) {
  EXPECT_HAS(errorOf(nestedIfs(10000)), "nested more than 64 deep");
  EXPECT_HAS(errorOf(nestedIfs(64)), "nested more than 64 deep"); // the main graph is one, too
  EXPECT_EQ(errorOf(nestedIfs(63)).find("nested more than"), std::string::npos);
}

TEST(BadModel, RecursiveFunction) {
  Builder model;
  auto &function = *model.proto.add_functions();
  function.set_name("F");
  function.set_domain("own");
  function.add_input("a");
  function.add_output("b");
  auto &call = *function.add_node();
  call.set_op_type("F");
  call.set_domain("own");
  call.add_input("a");
  call.add_output("b");
  model.input("x", {2});
  model.node("F", {"x"}, {"y"}, "call").set_domain("own");
  model.output("y");
  EXPECT_HAS(errorOf(model.bytes()), "function 'F' calls itself");
}

TEST(BadModel, AttributeOfAnotherKind) {
  auto error = [](auto set) {
    Builder model;
    model.input("x", {2, 2});
    auto &attribute = *model.node("Concat", {"x", "x"}, {"y"}, "join").add_attribute();
    attribute.set_name("axis");
    set(attribute);
    model.output("y");
    return errorOf(model.bytes());
  };
  using Proto = onnx::AttributeProto;
  EXPECT_EQ(error([](Proto &axis) { axis.set_type(Proto::INT), axis.set_i(1); }), "");
  EXPECT_EQ(error([](Proto &axis) { axis.set_i(1); }), ""); // from before attributes had types
  std::string wrong = "node 'join (Concat)': attribute 'axis' is of kind FLOAT, not INT";
  EXPECT_HAS(error([](Proto &axis) { axis.set_type(Proto::FLOAT), axis.set_f(1); }), wrong);
  EXPECT_HAS(error([](Proto &axis) { axis.set_f(1); }), wrong);
}

/// A model of 100 calls of a function that holds a weight of 1 MB.
std::string hundredCalls(bool withAttribute, int64_t maxInstanceBytes) {
  Builder model;
  auto &function = *model.proto.add_functions();
  function.set_name("F");
  function.set_domain("own");
  function.add_input("a");
  function.add_output("b");
  function.add_attribute("to");
  function.add_opset_import()->set_version(17);
  auto node = [&](const char *type, const char *input, const char *output) -> auto & {
    auto &node = *function.add_node();
    node.set_op_type(type);
    node.add_output(output);
    if (*input)
      node.add_input(input);
    return *node.add_attribute();
  };
  auto &value = node("Constant", "", "c");
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  value.mutable_t()->add_dims(1 << 18);
  value.mutable_t()->set_raw_data(std::string(1 << 20, '\0'));
  auto &to = node("Cast", "a", "b");
  to.set_name("to");
  to.set_type(onnx::AttributeProto::INT);
  withAttribute ? to.set_ref_attr_name("to") : to.set_i(onnx::TensorProto::FLOAT);
  model.input("x0", {2});
  for (int i = 0; i < 100; ++i) {
    std::string number = std::to_string(i);
    auto &call = model.node("F", {"x" + number}, {"x" + std::to_string(i + 1)}, "call" + number);
    call.set_domain("own");
    auto &given = *call.add_attribute();
    given.set_name("to");
    given.set_type(onnx::AttributeProto::INT);
    given.set_i(onnx::TensorProto::FLOAT);
  }
  model.output("x100");
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  ImportOptions options;
  options.maxInstanceBytes = maxInstanceBytes;
  std::string bytes = model.bytes();
  auto module = importBytes(onnx_test::span(bytes), "bad.onnx", context, options);
  return module.ok() ? "" : module.status().message();
}

TEST(BadModel, FunctionsAreCopiedOnlyForAttributesAndWithinALimit) {
  EXPECT_EQ(hundredCalls(/*withAttribute=*/false, 10 << 20), "");
  EXPECT_EQ(hundredCalls(/*withAttribute=*/true, 200 << 20), "");
  EXPECT_HAS(hundredCalls(/*withAttribute=*/true, 10 << 20),
             "node 'call9 (F)': function 'F' is copied for each of its calls' attributes");
}

class ExternalData : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "onnx-external-" + std::to_string(getpid());
    mkdir(folder.c_str(), 0700);
    std::ofstream(folder + "/weights") << std::string(24, '\0');
    std::ofstream(folder + "/linked") << std::string(24, '\0');
    symlink("weights", (folder + "/symbolic").c_str());
    symlink(".", (folder + "/loop").c_str());
    link((folder + "/linked").c_str(), (folder + "/hard").c_str());
  }
  void TearDown() override {
    for (const char *name : {"weights", "linked", "symbolic", "loop", "hard", "model.onnx"})
      unlink((folder + "/" + name).c_str());
    rmdir(folder.c_str());
  }
  std::string errorFor(const std::string &location, const std::string &offset = "") {
    Builder model;
    auto &tensor = model.weight("w", {2, 3});
    tensor.clear_raw_data();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    auto entry = [&](const char *key, const std::string &value) {
      auto &added = *tensor.add_external_data();
      added.set_key(key);
      added.set_value(value);
    };
    entry("location", location);
    if (!offset.empty())
      entry("offset", offset);
    model.node("Identity", {"w"}, {"y"});
    model.output("y");
    std::ofstream(folder + "/model.onnx", std::ios::binary) << model.bytes();
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    auto module = importFile(folder + "/model.onnx", context);
    return module.ok() ? "" : module.status().message();
  }
  std::string folder;
};

TEST_F(ExternalData, InTheFolderIsRead) { EXPECT_EQ(errorFor("weights"), ""); }
TEST_F(ExternalData, IsMappedOnceForAllTensors) {
  Builder model;
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) {
    names.push_back("w" + std::to_string(i));
    auto &tensor = model.weight(names.back(), {2, 3});
    tensor.clear_raw_data();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    auto &location = *tensor.add_external_data();
    location.set_key("location");
    location.set_value("weights");
    model.output(names.back());
  }
  std::ofstream(folder + "/model.onnx", std::ios::binary) << model.bytes();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = importFile(folder + "/model.onnx", context);
  ASSERT_TRUE(module.ok()) << module.status().message();
  std::ifstream maps("/proc/self/maps");
  int mappings = 0;
  for (std::string line; std::getline(maps, line);)
    mappings += line.ends_with(folder + "/weights");
  EXPECT_LE(mappings, 1);
}
TEST_F(ExternalData, Upward) {
  EXPECT_HAS(errorFor("../../etc/passwd"), "leads out of the model's folder");
  EXPECT_HAS(errorFor("./loop/../../etc/passwd"), "external data at");
}
TEST_F(ExternalData, Absolute) { EXPECT_HAS(errorFor("/etc/passwd"), "is an absolute path"); }
TEST_F(ExternalData, SymbolicLink) {
  EXPECT_HAS(errorFor("symbolic"), "symbolic link");
  EXPECT_HAS(errorFor("loop/weights"), "symbolic link");
}
TEST_F(ExternalData, HardLink) { EXPECT_HAS(errorFor("hard"), "hard link"); }
TEST_F(ExternalData, Folder) { EXPECT_HAS(errorFor("."), "names no file"); }
TEST_F(ExternalData, Missing) { EXPECT_HAS(errorFor("absent"), "No such file"); }
TEST_F(ExternalData, OffsetPastTheEnd) {
  EXPECT_HAS(errorFor("weights", "25"), "ends at byte 24, before offset 25");
  EXPECT_HAS(errorFor("weights", "8"), "before offset 8 and length 24");
  EXPECT_HAS(errorFor("weights", "9223372036854775807"), "ends at byte 24");
  EXPECT_HAS(errorFor("weights", "-1"), "is no size");
}

} // namespace
