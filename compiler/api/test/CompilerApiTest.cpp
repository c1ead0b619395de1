// The compiler's C API under calls and models that are no good: each is refused with a message that
// names what is wrong, and none crashes.
#include <tensmith/compiler.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace {

/// "CODE: message", or "" of a success.
std::string textOf(ts_status *status) {
  if (!status)
    return "";
  std::string text = std::to_string(ts_status_get_code(status)) + ": " + ts_status_message(status);
  ts_status_free(status);
  return text;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::string compile(const std::string &model, const ts_compile_options *options = nullptr) {
  void *module = nullptr;
  size_t size = 0;
  std::string said =
      textOf(ts_compile_bytes(model.data(), model.size(), "m.mlir", options, &module, &size));
  EXPECT_EQ(said.empty(), module != nullptr);
  ts_bytes_free(module);
  return said;
}

constexpr const char *kDouble = R"(func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = graph.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
})";

/// A file of the test's own, gone after it.
class File {
public:
  File(const std::string &name, const std::string &text)
      : path_(std::filesystem::temp_directory_path() /
              ("tensmith-" + std::to_string(getpid()) + "-" + name)) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  const char *path() const { return path_.c_str(); }

private:
  std::filesystem::path path_;
};

ts_tensor *pair(float first, float second) {
  int64_t shape[] = {2};
  ts_tensor *tensor = nullptr;
  EXPECT_EQ(textOf(ts_tensor_create(TS_F32, shape, 1, &tensor)), "");
  static_cast<float *>(ts_tensor_data(tensor))[0] = first;
  static_cast<float *>(ts_tensor_data(tensor))[1] = second;
  return tensor;
}

TEST(GraphText, Compiles) { EXPECT_EQ(compile(kDouble), ""); }

TEST(GraphText, HasDictionariesOfAnyAttribute) {
  EXPECT_EQ(compile("func.func @main(%x: tensor<2xf32> {a.b = {c = 1 : i64}}) -> (tensor<2xf32> "
                    "{a.b = 2 : i64})\n"
                    "    attributes {a.list = [{}, {c = 3 : i64}], a.dict = {}} {\n"
                    "  return %x : tensor<2xf32>\n}"),
            "");
}

TEST(GraphText, IsCheckedLikeAnyModel) {
  const std::pair<std::string, const char *> cases[] = {
      {"func.func private @main()", "m.mlir:1: 'func.func' declares @main without a body"},
      {"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n^a:\n"
       "  return %x : tensor<2xf32>\n}",
       "m.mlir:1: 'func.func' has a region of 2 blocks"},
      {"func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {\n"
       "  %y = arith.addi %x, %x : tensor<2xi32>\n  return %y : tensor<2xi32>\n}",
       "m.mlir:2: 'arith.addi' is no operator of the graph dialect"},
      {"func.func @main(%x: i32) -> i32 {\n  return %x : i32\n}",
       "m.mlir:1: 'func.func' has a value of type 'i32'"},
      {"func.func @main(%x: tensor<2xi7>) -> tensor<2xi7> {\n  return %x : tensor<2xi7>\n}",
       "has a value of type 'tensor<2xi7>'"},
      {"func.func @main(%x: tensor<?xf32, #graph.dims<[\"n\"], ()[s0] -> (s0, s0)>>) {\n  "
       "return\n}",
       "m.mlir:1: 'func.func' has a value of type"},
      {"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
       "  %y = func.call @main(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
       "  return %y : tensor<2xf32>\n}",
       "m.mlir:2: 'func.call' is no operator of the graph dialect"},
      {"func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  return %b : tensor<f32>\n}",
       "m.mlir:2: '%b' is used before it is defined"},
      {"module {\n  module attributes {a = " + std::string(500, '[') + "} {}\n}",
       "m.mlir:2: brackets are nested more than 400 deep"},
      {"func.func @other() {\n  return\n}", "m.mlir:1: 'func.func' declares @other"},
      {"module {\n}", "m.mlir: has no function @main"},
      {"module {\n  module {\n  }\n}", "m.mlir:2: 'builtin.module' stands where a function"},
  };
  for (auto [text, message] : cases) {
    std::string said = compile(text);
    EXPECT_HAS(said, "2: "); // the code of an invalid model
    EXPECT_HAS(said, message);
  }
}

TEST(CompileOptions, ShapesAreRefusedByName) {
  const std::pair<const char *, const char *> cases[] = {
      {"batch=-5", "shape 'batch=-5': '-5' is no size"},
      {"batch", "shape 'batch': it must be NAME=DIMENSIONS"},
      {"=4", "shape '=4': it must be NAME=DIMENSIONS"},
      {"x=", "shape 'x=': a dimension is empty"},
      {"x=1xx3", "shape 'x=1xx3': a dimension is empty"},
      {"x=1x-3", "shape 'x=1x-3': '-3' is no size"},
      {"x=99999999999999999999", "'99999999999999999999' is no size"},
  };
  for (auto [shape, message] : cases) {
    ts_compile_options options;
    ts_compile_options_init(&options);
    options.shapes = &shape;
    options.shape_count = 1;
    std::string said = compile("no text", &options);
    EXPECT_HAS(said, "1: "); // the code of an invalid argument
    EXPECT_HAS(said, message);
  }
}

TEST(CompileOptions, DerivativesAreRefusedByName) {
  const char *none = nullptr, *output = "output0", *input = "input0", *nothing = "nothing";
  const std::pair<ts_derivative, const char *> cases[] = {
      {{TS_GRADIENT, &output, 1, &input, 1, 0}, ""},
      {{TS_GRADIENT, &none, 1, &input, 1, 0}, "1: a name of derivative 0 is a null pointer"},
      {{TS_GRADIENT, &output, 1, nullptr, 1, 0}, "1: a name of derivative 0 is a null pointer"},
      {{ts_derivative_mode(7), &output, 1, &input, 1, 0}, "1: there is no kind of derivative 7"},
      {{TS_GRADIENT, nullptr, 0, &input, 1, 0}, "a gradient is of one output, not of 0"},
      {{TS_GRADIENT, &output, 1, nullptr, 0, 0}, "there is no input to differentiate by"},
      {{TS_GRADIENT, &nothing, 1, &input, 1, 0}, "there is no output 'nothing'"},
      {{TS_TANGENT, nullptr, 0, &nothing, 1, 0}, "there is no input 'nothing'"},
  };
  for (auto [derivative, message] : cases) {
    ts_compile_options options;
    ts_compile_options_init(&options);
    options.derivatives = &derivative;
    options.derivative_count = 1;
    std::string said = compile(kDouble, &options);
    if (derivative.of == &output && derivative.by == &input && derivative.mode == TS_GRADIENT)
      EXPECT_EQ(said, "");
    else
      EXPECT_HAS(said, message);
  }
}

TEST(CompileOptions, AreChecked) {
  ts_compile_options options;
  ts_compile_options_init(&options);
  options.size = 0;
  EXPECT_HAS(compile(kDouble, &options), "size is not set");
  ts_compile_options_init(&options);
  options.optimization = 2;
  EXPECT_HAS(compile(kDouble, &options), "no optimization level 2");
  ts_compile_options_init(&options);
  options.shape_count = 1;
  EXPECT_HAS(compile(kDouble, &options), "a shape is a null pointer");
  const char *shape = "x=2";
  options.shapes = &shape;
  EXPECT_HAS(compile(kDouble, &options), "shape 'x=2': a model in text");
  ts_compile_options_init(&options);
  options.size = offsetof(ts_compile_options, optimization); // an older caller's: fused
  options.optimization = 7;
  EXPECT_EQ(compile(kDouble, &options), "");
}

TEST(CompilerApi, NullPointersAreRefused) {
  void *module;
  size_t size;
  ts_tensor *none = nullptr, *output;
  File model("double.mlir", kDouble);
  EXPECT_HAS(textOf(ts_compile_file(nullptr, nullptr, "out.so")), "the path is a null pointer");
  EXPECT_HAS(textOf(ts_compile_file(model.path(), nullptr, nullptr)), "module's path is a null");
  EXPECT_HAS(textOf(ts_compile_bytes(nullptr, 1, "m", nullptr, &module, &size)), "the model is");
  EXPECT_HAS(textOf(ts_compile_bytes("", 0, nullptr, nullptr, &module, &size)), "the name is");
  EXPECT_HAS(textOf(ts_compile_bytes("", 0, "m", nullptr, nullptr, &size)), "the result is");
  EXPECT_HAS(textOf(ts_compile_bytes("", 0, "m", nullptr, &module, nullptr)), "the result is");
  EXPECT_HAS(textOf(ts_evaluate_file(nullptr, nullptr, &none, 1, &output, 1, nullptr, nullptr)),
             "the path is a null pointer");
  EXPECT_HAS(
      textOf(ts_evaluate_file(model.path(), nullptr, &none, 1, &output, 1, nullptr, nullptr)),
      "input 0 is a null pointer");
  EXPECT_HAS(
      textOf(ts_evaluate_file(model.path(), nullptr, nullptr, 1, &output, 1, nullptr, nullptr)),
      "the inputs or outputs");
  EXPECT_HAS(
      textOf(ts_evaluate_file(model.path(), nullptr, &none, 0, nullptr, 1, nullptr, nullptr)),
      "the inputs or outputs");
  EXPECT_HAS(textOf(ts_describe_model(nullptr, nullptr, nullptr)), "the path is a null pointer");
  EXPECT_HAS(textOf(ts_describe_model(model.path(), nullptr, nullptr)), "the result is a null");
  for (auto *describe : {ts_describe_spaces, ts_explain}) {
    EXPECT_HAS(textOf(describe(nullptr, nullptr, nullptr)), "the path is a null pointer");
    EXPECT_HAS(textOf(describe(model.path(), nullptr, nullptr)), "the result is a null");
  }
  EXPECT_HAS(textOf(ts_describe_machine(nullptr)), "the result is a null pointer");
  ts_compile_options_init(nullptr);
}

TEST(CompilerApi, EvaluatesAndLeavesNoOutputsAfterAFailure) {
  File model("double.mlir", kDouble);
  ts_tensor *input = pair(1, 2), *outputs[] = {input, input};
  EXPECT_HAS(
      textOf(ts_evaluate_file(model.path(), nullptr, &input, 1, outputs, 2, nullptr, nullptr)),
      "the model has 1 outputs, not 2");
  EXPECT_EQ(outputs[0], nullptr);
  EXPECT_EQ(outputs[1], nullptr);
  ASSERT_EQ(
      textOf(ts_evaluate_file(model.path(), nullptr, &input, 1, outputs, 1, nullptr, nullptr)), "");
  EXPECT_EQ(static_cast<float *>(ts_tensor_data(outputs[0]))[1], 4);
  ts_tensor_free(outputs[0]);
  ts_tensor_free(input);
}

} // namespace
