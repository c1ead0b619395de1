// Graphs by the builder: operators of all families with their types, sizes with names, regions; and
// calls that are no good, each of which is told and leaves the graph as it was.
#include <tensmith/builder.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace {

std::string textOf(ts_status *status) {
  if (!status)
    return "";
  std::string text = ts_status_message(status);
  ts_status_free(status);
  return text;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

ts_attribute integer(const char *name, int64_t value) {
  ts_attribute attribute{};
  attribute.name = name;
  attribute.kind = TS_ATTRIBUTE_INT;
  attribute.integer = value;
  return attribute;
}
ts_attribute boolean(const char *name, bool value) {
  ts_attribute attribute = integer(name, value);
  attribute.kind = TS_ATTRIBUTE_BOOL;
  return attribute;
}
ts_attribute element(const char *name, ts_type type) {
  ts_attribute attribute{};
  attribute.name = name;
  attribute.kind = TS_ATTRIBUTE_TYPE;
  attribute.type = type;
  return attribute;
}
/// The list must outlive the attribute.
ts_attribute integers(const char *name, const std::vector<int64_t> &list) {
  ts_attribute attribute{};
  attribute.name = name;
  attribute.kind = TS_ATTRIBUTE_INTS;
  attribute.integers = list.data();
  attribute.count = list.size();
  return attribute;
}

class BuilderTest : public testing::Test {
protected:
  void SetUp() override { ASSERT_EQ(textOf(ts_builder_create(&builder)), ""); }
  void TearDown() override { ts_builder_free(builder); }

  ts_value input(const char *name, ts_type type, std::vector<const char *> dims) {
    ts_value_type given{type, int64_t(dims.size()), dims.data()};
    ts_value value = TS_NO_VALUE;
    EXPECT_EQ(textOf(ts_builder_input(builder, name, &given, &value)), "");
    return value;
  }

  std::string failing(const char *name, std::vector<ts_value> operands,
                      std::vector<ts_attribute> attributes = {}) {
    ts_value result;
    return textOf(ts_builder_op(builder, name, operands.data(), operands.size(), attributes.data(),
                                attributes.size(), nullptr, "model.py:7 node", &result, 1,
                                nullptr));
  }

  ts_value op(const char *name, std::vector<ts_value> operands,
              std::vector<ts_attribute> attributes = {}, const ts_value_type *type = nullptr) {
    ts_value result = TS_NO_VALUE;
    EXPECT_EQ(
        textOf(ts_builder_op(builder, name, operands.data(), operands.size(), attributes.data(),
                             attributes.size(), type, "model.py:7 node", &result, 1, nullptr)),
        "")
        << name;
    return result;
  }

  ts_value typed(const char *name, std::vector<ts_value> operands, ts_type type,
                 std::vector<const char *> dims, std::vector<ts_attribute> attributes = {}) {
    ts_value_type given{type, int64_t(dims.size()), dims.data()};
    return op(name, operands, attributes, &given);
  }

  /// "f32 batch 4"
  std::string type(ts_value value) {
    ts_value_type type{};
    if (std::string said = textOf(ts_builder_type(builder, value, &type)); !said.empty())
      return said;
    std::string text = ts_type_name(type.type);
    for (int64_t i = 0; i < type.rank; ++i)
      text += std::string(" ") + type.dims[i];
    return text;
  }

  std::vector<float> run(std::vector<float> x, std::vector<int64_t> shape) {
    void *bytes = nullptr;
    size_t size = 0;
    ts_module *module = nullptr;
    ts_session *session = nullptr;
    ts_tensor *given = nullptr, *result = nullptr;
    EXPECT_EQ(textOf(ts_builder_compile_bytes(builder, nullptr, &bytes, &size)), "");
    EXPECT_EQ(textOf(ts_module_load_bytes(bytes, size, nullptr, &module)), "");
    EXPECT_EQ(textOf(ts_session_create(module, nullptr, &session)), "");
    EXPECT_EQ(textOf(ts_tensor_borrow(TS_F32, shape.data(), shape.size(), x.data(), nullptr,
                                      nullptr, &given)),
              "");
    EXPECT_EQ(textOf(ts_session_run(session, &given, 1, &result, 1)), "");
    std::vector<float> values;
    if (result)
      values.assign(static_cast<float *>(ts_tensor_data(result)),
                    static_cast<float *>(ts_tensor_data(result)) + ts_tensor_size(result));
    ts_tensor_free(result);
    ts_tensor_free(given);
    ts_session_free(session);
    ts_module_free(module);
    ts_bytes_free(bytes);
    return values;
  }

  ts_builder *builder = nullptr;
};

TEST_F(BuilderTest, TypesOperatorsOfAllFamilies) {
  ts_value x = input("x", TS_F32, {"batch", "4"}), w = input("w", TS_F32, {"4", "3"});
  ts_value image = input("image", TS_F32, {"batch", "3", "8", "8"});
  ts_value kernel = input("kernel", TS_F32, {"5", "3", "3", "3"});
  ts_value indices = input("indices", TS_I64, {"n"}), scale = input("scale", TS_F32, {"4"});
  for (const char *unary : {"abs", "neg", "exp", "log", "tanh", "erf", "sigmoid", "sqrt"})
    EXPECT_EQ(type(op(unary, {x})), "f32 batch 4") << unary;
  for (const char *binary : {"add", "sub", "mul", "div", "pow", "min", "max"})
    EXPECT_EQ(type(op(binary, {x, scale})), "f32 batch 4") << binary;
  for (const char *compared : {"equal", "less", "greater"})
    EXPECT_EQ(type(op(compared, {x, x})), "bool batch 4") << compared;
  std::vector<int64_t> last{1}, ones{1, 1}, pads{0, 0, 0, 0}, twos{2, 2}, swapped{1, 0};
  EXPECT_EQ(type(op("matmul", {x, w})), "f32 batch 3");
  EXPECT_EQ(
      type(op("conv", {image, kernel, TS_NO_VALUE},
              {integers("strides", twos), integers("pads", pads), integers("dilations", ones)})),
      "f32 batch 5 3 3");
  EXPECT_EQ(type(op("max_pool", {image},
                    {integers("kernel", twos), integers("strides", twos), integers("pads", pads),
                     integers("dilations", ones)})),
            "f32 batch 3 4 4");
  EXPECT_EQ(type(op("reduce_sum", {x}, {integers("axes", last), boolean("keepdims", true)})),
            "f32 batch 1");
  EXPECT_EQ(type(op("reduce_max", {x}, {integers("axes", last)})), "f32 batch");
  EXPECT_EQ(type(op("arg_max", {x}, {integer("axis", 1)})), "i64 batch");
  EXPECT_EQ(type(op("softmax", {x}, {integer("axis", 1)})), "f32 batch 4");
  EXPECT_EQ(type(op("layer_norm", {x, scale, TS_NO_VALUE}, {integer("axis", 1)})), "f32 batch 4");
  EXPECT_EQ(type(op("gather", {x, indices}, {integer("axis", 0)})), "f32 n 4");
  EXPECT_EQ(type(op("cast", {x}, {element("to", TS_I32)})), "i32 batch 4");
  EXPECT_EQ(type(op("transpose", {x}, {integers("permutation", swapped)})), "f32 4 batch");
  EXPECT_EQ(type(op("concat", {x, x}, {integer("axis", 1)})), "f32 batch 8");
  EXPECT_EQ(type(op("concat", {x, x}, {integer("axis", 0)})), "f32 2*batch 4");
  EXPECT_EQ(type(op("where", {op("less", {x, x}), x, x})), "f32 batch 4");
  EXPECT_EQ(type(typed("reshape", {x}, TS_F32, {"2*batch", "2"})), "f32 2*batch 2");
  EXPECT_EQ(type(typed("broadcast", {scale}, TS_F32, {"batch", "4"})), "f32 batch 4");
  EXPECT_EQ(type(typed("iota", {}, TS_I64, {"batch+1"}, {integer("axis", 0)})), "i64 batch+1");
  const char *const *texts = nullptr;
  size_t count = 0;
  ts_value shape = op("shape", {x});
  EXPECT_EQ(textOf(ts_builder_contents(builder, shape, &texts, &count)), "");
  ASSERT_EQ(count, 2u);
  EXPECT_STREQ(texts[0], "batch");
  EXPECT_STREQ(texts[1], "4");
}

TEST_F(BuilderTest, CompilesAndGoesOn) {
  ts_value x = input("x", TS_F32, {"n"});
  ASSERT_EQ(textOf(ts_builder_output(builder, "y", op("add", {x, x}))), "");
  EXPECT_EQ(run({1, 2, 3}, {3}), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(run({5}, {1}), (std::vector<float>{10}));
  EXPECT_EQ(type(op("neg", {x})), "f32 n");
}

// One that may find an index out of range, whatever comes first in the caller's program.
TEST_F(BuilderTest, StatesAreUpdatedBySuccessfulRunsAlone) {
  ts_value w = input("w", TS_F32, {"3"}), i = input("i", TS_I64, {});
  ts_value next = op("add", {w, w});
  ts_value found = op("gather", {op("exp", {w}), i}, {integer("axis", 0)});
  EXPECT_HAS(textOf(ts_builder_state(builder, "w", "next")), "'next' is no output");
  ASSERT_EQ(textOf(ts_builder_output(builder, "next", next)), "");
  ASSERT_EQ(textOf(ts_builder_output(builder, "found", found)), "");
  EXPECT_HAS(textOf(ts_builder_state(builder, "v", "next")), "'v' is no input");
  EXPECT_HAS(textOf(ts_builder_state(builder, "w", "found")), "one type of fixed sizes");
  ASSERT_EQ(textOf(ts_builder_state(builder, "w", "next")), "");
  EXPECT_HAS(textOf(ts_builder_state(builder, "w", "next")), "another state's");

  void *bytes = nullptr;
  size_t size = 0;
  ts_module *module = nullptr;
  ts_session *session = nullptr;
  ASSERT_EQ(textOf(ts_builder_compile_bytes(builder, nullptr, &bytes, &size)), "");
  ASSERT_EQ(textOf(ts_module_load_bytes(bytes, size, nullptr, &module)), "");
  ASSERT_EQ(textOf(ts_session_create(module, nullptr, &session)), "");
  ASSERT_EQ(ts_module_state_count(module), 1u);
  ts_state state = ts_module_state(module, 0);
  EXPECT_EQ(std::tuple(state.input, state.output, state.in_place), std::tuple(0u, 0u, 1));

  std::vector<float> weights{1, 2, 3};
  int64_t shape = 3, place = 1;
  float value = 0;
  ts_tensor *inputs[2], *outputs[2];
  ASSERT_EQ(textOf(ts_tensor_borrow(TS_F32, &shape, 1, weights.data(), nullptr, nullptr, inputs)),
            "");
  ASSERT_EQ(textOf(ts_tensor_borrow(TS_I64, nullptr, 0, &place, nullptr, nullptr, inputs + 1)), "");
  outputs[0] = inputs[0];
  ASSERT_EQ(textOf(ts_tensor_borrow(TS_F32, nullptr, 0, &value, nullptr, nullptr, outputs + 1)),
            "");
  ASSERT_EQ(textOf(ts_session_run(session, inputs, 2, outputs, 2)), "");
  EXPECT_EQ(weights, (std::vector<float>{2, 4, 6}));
  EXPECT_FLOAT_EQ(value, std::exp(2.0f));
  place = 3;
  EXPECT_HAS(textOf(ts_session_run(session, inputs, 2, outputs, 2)), "outside of the dimension");
  EXPECT_EQ(weights, (std::vector<float>{2, 4, 6}));
  for (ts_tensor *tensor : {inputs[0], inputs[1], outputs[1]})
    ts_tensor_free(tensor);
  ts_session_free(session);
  ts_module_free(module);
  ts_bytes_free(bytes);
}

TEST_F(BuilderTest, ResidentModulesTakeAndGiveTensorsOfTheirDevice) {
  // The sizes of the second result are found by the host, and the gather's rows by a kernel.
  ts_value x = input("x", TS_F32, {"n", "3"}), i = input("i", TS_I64, {"k"});
  ASSERT_EQ(textOf(ts_builder_output(builder, "y", op("exp", {x}))), "");
  ASSERT_EQ(textOf(ts_builder_output(builder, "rows", op("gather", {x, i}, {integer("axis", 0)}))),
            "");
  ASSERT_EQ(textOf(ts_builder_output(builder, "same", x)), "");
  ts_compile_options options{};
  options.size = sizeof options;
  options.resident = 1;
  void *bytes = nullptr;
  size_t size = 0;
  EXPECT_HAS(textOf(ts_builder_compile_bytes(builder, &options, &bytes, &size)), "none is named");
  options.device = "separate:1";
  ASSERT_EQ(textOf(ts_builder_compile_bytes(builder, &options, &bytes, &size)), "");
  ts_module *module = nullptr;
  ts_session *session = nullptr;
  ASSERT_EQ(textOf(ts_module_load_bytes(bytes, size, nullptr, &module)), "");
  ASSERT_EQ(textOf(ts_session_create(module, nullptr, &session)), "");

  std::vector<float> elements{1, 2, 3, 4, 5, 6};
  int64_t shape[] = {2, 3}, places[] = {1, 0, 1}, count = 3;
  ts_tensor *host[2], *there[2], *elsewhere = nullptr, *outputs[3] = {};
  ASSERT_EQ(textOf(ts_tensor_borrow(TS_F32, shape, 2, elements.data(), nullptr, nullptr, host)),
            "");
  ASSERT_EQ(textOf(ts_tensor_borrow(TS_I64, &count, 1, places, nullptr, nullptr, host + 1)), "");
  EXPECT_HAS(textOf(ts_tensor_copy_to(host[0], "absent", &elsewhere)), "'absent' is not there");
  for (int k = 0; k < 2; ++k) {
    ASSERT_EQ(textOf(ts_tensor_copy_to(host[k], "separate:1", there + k)), "");
    EXPECT_STREQ(ts_tensor_device(there[k]), "separate:1");
  }
  EXPECT_EQ(ts_tensor_device(host[0]), nullptr);
  EXPECT_HAS(textOf(ts_session_run(session, host, 2, outputs, 3)),
             "input 'x': it must lie in the memory of the device 'separate:1', and lies in that of "
             "the host");
  ts_tensor *mixed[] = {there[0], host[1]};
  EXPECT_HAS(textOf(ts_session_run(session, mixed, 2, outputs, 3)), "input 'i'");

  // By the runtime, and into tensors of the caller's.
  for (bool isGiven : {false, true}) {
    if (isGiven)
      ASSERT_EQ(textOf(ts_tensor_create_on("separate:1", TS_F32, shape, 2, outputs)), "");
    ts_tensor *given = outputs[0];
    ASSERT_EQ(textOf(ts_session_run(session, there, 2, outputs, 3)), "");
    EXPECT_TRUE(!isGiven || outputs[0] == given);
    std::vector<float> expected[] = {{}, {4, 5, 6, 1, 2, 3, 4, 5, 6}, elements};
    for (float each : elements)
      expected[0].push_back(std::exp(each));
    for (int k = 0; k < 3; ++k) {
      ASSERT_STREQ(ts_tensor_device(outputs[k]), "separate:1");
      ts_tensor *back = nullptr;
      ASSERT_EQ(textOf(ts_tensor_copy_to(outputs[k], nullptr, &back)), "");
      const auto *got = static_cast<const float *>(ts_tensor_data(back));
      for (size_t at = 0; at < expected[k].size(); ++at)
        EXPECT_FLOAT_EQ(got[at], expected[k][at]) << k;
      DLManagedTensor *exported = nullptr;
      EXPECT_HAS(textOf(ts_tensor_to_dlpack(outputs[k], &exported)), "copy it to the host first");
      ts_tensor_free(back);
      ts_tensor_free(std::exchange(outputs[k], nullptr));
    }
  }
  // Nothing of what callers have was copied between the memories.
  ts_copies copies = ts_session_copies(session);
  EXPECT_EQ(copies.to_device + copies.to_host, 0);

  outputs[0] = host[0];
  EXPECT_HAS(textOf(ts_session_run(session, there, 2, outputs, 3)), "lies in another one");
  ASSERT_EQ(textOf(ts_tensor_copy_to(there[0], "separate:2", &elsewhere)), "");
  ts_tensor *others[] = {elsewhere, there[1]};
  outputs[0] = nullptr;
  EXPECT_HAS(textOf(ts_session_run(session, others, 2, outputs, 3)),
             "that of the device 'separate:2'");
  EXPECT_HAS(textOf(ts_tensor_assign(there[0], there[1])), "can't be copied into");
  elements[0] = 9;
  ASSERT_EQ(textOf(ts_tensor_assign(elsewhere, host[0])), "");
  ASSERT_EQ(textOf(ts_tensor_assign(there[0], elsewhere)), "");
  elements[0] = 0;
  ASSERT_EQ(textOf(ts_tensor_assign(host[0], there[0])), "");
  EXPECT_EQ(elements[0], 9);
  for (ts_tensor *tensor : {host[0], host[1], there[0], there[1], elsewhere})
    ts_tensor_free(tensor);
  ts_session_free(session);
  ts_module_free(module);
  ts_bytes_free(bytes);
}

TEST_F(BuilderTest, ConstantsAreKeptWithoutACopy) {
  std::vector<float> weights(1000, 2);
  int64_t size = 1000;
  int released = 0;
  ts_tensor *tensor = nullptr;
  ASSERT_EQ(textOf(ts_tensor_borrow(
                TS_F32, &size, 1, weights.data(), [](void *count) { ++*static_cast<int *>(count); },
                &released, &tensor)),
            "");
  ts_value w = TS_NO_VALUE;
  ASSERT_EQ(textOf(ts_builder_constant(builder, "w", tensor, &w)), "");
  ts_tensor_free(tensor);
  EXPECT_EQ(released, 0);
  ts_value x = input("x", TS_F32, {"1000"});
  ASSERT_EQ(textOf(ts_builder_output(builder, "y", op("mul", {x, w}))), "");
  weights[1] = 7; // the bytes are those that were given
  EXPECT_EQ(run(std::vector<float>(1000, 3), {1000})[1], 21);
  ts_builder_free(std::exchange(builder, nullptr));
  EXPECT_EQ(released, 1);
}

TEST_F(BuilderTest, NamedConstantsBecomeInputs) {
  float two = 2;
  ts_tensor *tensor = nullptr;
  ASSERT_EQ(textOf(ts_tensor_borrow(TS_F32, nullptr, 0, &two, nullptr, nullptr, &tensor)), "");
  ts_value w = TS_NO_VALUE, x = input("x", TS_F32, {"n"});
  ASSERT_EQ(textOf(ts_builder_constant(builder, "w", tensor, &w)), "");
  ts_tensor_free(tensor);
  ASSERT_EQ(textOf(ts_builder_output(builder, "y", op("mul", {x, w}))), "");
  ts_compile_options options;
  ts_compile_options_init(&options);
  const char *names[] = {"w"};
  options.overridable = names;
  options.overridable_count = 1;
  void *bytes = nullptr;
  size_t size = 0;
  ts_module *module = nullptr;
  ASSERT_EQ(textOf(ts_builder_compile_bytes(builder, &options, &bytes, &size)), "");
  ASSERT_EQ(textOf(ts_module_load_bytes(bytes, size, nullptr, &module)), "");
  ASSERT_EQ(ts_module_input_count(module), 2u);
  EXPECT_STREQ(ts_module_input(module, 1).name, "w");
  ts_module_free(module);
  ts_bytes_free(bytes);
  names[0] = "v";
  EXPECT_HAS(textOf(ts_builder_compile_bytes(builder, &options, &bytes, &size)), "'v' is to be");
}

TEST_F(BuilderTest, RegionsChooseAndRepeat) {
  ts_value x = input("x", TS_F32, {"n"});
  std::vector<int64_t> first{0};
  ts_value sum = op("reduce_sum", {x}, {integers("axes", first)});
  ts_value isPositive = op("greater", {sum, op("sub", {sum, sum})});
  ts_value chosen[1], arguments[3], looped[1];
  size_t count = 1;
  ASSERT_EQ(textOf(ts_builder_begin_if(builder, isPositive, "model.py:9")), "");
  ts_value twice = op("add", {x, x});
  ASSERT_EQ(textOf(ts_builder_yield(builder, &twice, 1, chosen, 1, &count)), "");
  EXPECT_EQ(count, 0u);
  EXPECT_HAS(failing("neg", {twice}), "is of a region that has ended");
  ts_value negative = op("neg", {x});
  ASSERT_EQ(textOf(ts_builder_yield(builder, &negative, 1, chosen, 1, &count)), "");
  EXPECT_EQ(count, 1u);
  int64_t three = 3;
  ts_tensor *trips = nullptr;
  ts_value times = TS_NO_VALUE;
  ASSERT_EQ(textOf(ts_tensor_borrow(TS_I64, nullptr, 0, &three, nullptr, nullptr, &trips)), "");
  ASSERT_EQ(textOf(ts_builder_constant(builder, nullptr, trips, &times)), "");
  ASSERT_EQ(textOf(ts_builder_begin_loop(builder, times, TS_NO_VALUE, chosen, 1, "model.py:10",
                                         arguments)),
            "");
  ts_value wrong[] = {arguments[1], op("greater", {arguments[2], x})};
  EXPECT_HAS(textOf(ts_builder_yield(builder, wrong, 2, looped, 1, nullptr)),
             "carried value 0 is n:f32 before and");
  EXPECT_HAS(textOf(ts_builder_output(builder, "early", x)), "a region of 'loop' is open");
  ts_value next[] = {arguments[1], op("add", {arguments[2], arguments[2]})};
  ASSERT_EQ(textOf(ts_builder_yield(builder, next, 2, looped, 1, nullptr)), "");
  ASSERT_EQ(textOf(ts_builder_output(builder, "y", looped[0])), "");
  EXPECT_EQ(run({1, 2}, {2}), (std::vector<float>{16, 32}));
  EXPECT_EQ(run({-1, -2}, {2}), (std::vector<float>{8, 16}));
  ts_tensor_free(trips);
}

/// By a value in the middle, of a derivative, and by the constants that rules look for.
TEST_F(BuilderTest, DifferentiatesValues) {
  ts_value x = input("x", TS_F32, {"n"});
  ts_value square = op("mul", {x, x});
  ts_value cube = op("mul", {square, x});
  ts_value slopes[2], bend, along;
  ts_value by[] = {x, square}, of[] = {cube};
  ASSERT_EQ(textOf(ts_builder_differentiate(builder, TS_GRADIENT, of, 1, by, 2, &square, slopes)),
            "");
  ASSERT_EQ(textOf(ts_builder_differentiate(builder, TS_GRADIENT, slopes, 1, by + 1, 1, &x, &bend)),
            "");
  ASSERT_EQ(textOf(ts_builder_differentiate(builder, TS_TANGENT, of, 1, by, 1, &x, &along)), "");
  EXPECT_EQ(type(bend), "f32 n");
  ts_value sum = op("add", {op("add", {slopes[0], bend}), along}); // x^4 + 2 x^3 + 3 x^3
  ts_value twice[] = {x, x};
  EXPECT_HAS(textOf(ts_builder_differentiate(builder, TS_GRADIENT, of, 1, twice, 2, &x, slopes)),
             "a value is named twice");
  ts_value code = op("bit_cast", {x}, {element("to", TS_I32)});
  ts_value back = op("bit_cast", {code}, {element("to", TS_F32)});
  EXPECT_HAS(textOf(ts_builder_differentiate(builder, TS_GRADIENT, &back, 1, &x, 1, &x, slopes)),
             "'bit_cast' has no derivative");
  EXPECT_HAS(textOf(ts_builder_differentiate(builder, 7, of, 1, by, 1, &x, slopes)),
             "no kind of derivative 7");
  ASSERT_EQ(textOf(ts_builder_output(builder, "y", sum)), "");
  EXPECT_EQ(run({1, 2}, {2}), (std::vector<float>{6, 56}));
}

/// What is carried, and what lies outside where the derivative is by it; else that is constant.
TEST_F(BuilderTest, DifferentiatesWithinRegions) {
  ts_value x = input("x", TS_F32, {"2"}), w = op("mul", {x, x});
  int64_t count = 3;
  ts_tensor *tensor = nullptr;
  ASSERT_EQ(textOf(ts_tensor_borrow(TS_I64, nullptr, 0, &count, nullptr, nullptr, &tensor)), "");
  ts_value trips, arguments[3], slopes[2], looped[1];
  ASSERT_EQ(textOf(ts_builder_constant(builder, nullptr, tensor, &trips)), "");
  ts_tensor_free(tensor);
  ASSERT_EQ(textOf(ts_builder_begin_loop(builder, trips, TS_NO_VALUE, &x, 1, "", arguments)), "");
  ts_value carried = arguments[2], product = op("mul", {op("mul", {carried, carried}), w});
  ts_value by[] = {carried, w}, ones = op("div", {carried, carried});
  ASSERT_EQ(
      textOf(ts_builder_differentiate(builder, TS_GRADIENT, &product, 1, by, 2, &ones, slopes)),
      "");
  ts_value next[] = {arguments[1], op("sub", {slopes[0], slopes[1]})}; // 2 c w - c^2
  ASSERT_EQ(textOf(ts_builder_yield(builder, next, 2, looped, 1, nullptr)), "");
  ASSERT_EQ(textOf(ts_builder_output(builder, "y", looped[0])), "");
  std::vector<float> wanted{1, 2};
  for (float &c : wanted)
    for (float w = c * c, turn = 0; turn < 3; ++turn)
      c = 2 * c * w - c * c;
  EXPECT_EQ(run({1, 2}, {2}), wanted);
}

TEST_F(BuilderTest, TellsWhatIsWrongAndWhere) {
  ts_value x = input("x", TS_F32, {"batch", "4"}), w = input("w", TS_F32, {"3", "4"});
  std::vector<int64_t> list{1};
  ts_attribute text = integer("axis", 1);
  text.kind = TS_ATTRIBUTE_TEXT;
  text.text = "one";
  const std::pair<std::string, const char *> said[] = {
      {failing("matmul", {x, w}), "(C1)"},
      {failing("frobnicate", {x}), "there is no operator 'frobnicate'"},
      {failing("if", {x}), "there is no operator 'if' without regions"},
      {failing("add", {x}), "operand #1 must be"},
      {failing("add", {x, w, x}), "takes 2 operands, not 3"},
      {failing("add", {x, 999}), "there is no value 999"},
      {failing("softmax", {x}), "requires attribute 'axis'"},
      {failing("softmax", {x}, {integer("axis", 1), integer("dim", 1)}), "has no attribute 'dim'"},
      {failing("softmax", {x}, {integer("axis", 1), integer("axis", 1)}), "given twice"},
      {failing("softmax", {x}, {text}), "attribute 'axis' failed to satisfy"},
      {failing("softmax", {x}, {integer("axis", 7)}), "axis"},
      {failing("reduce_sum", {x}, {integer("axes", 1)}), "attribute 'axes' failed to satisfy"},
      {failing("reshape", {x}), "needs its result's type"},
      {failing("concat", {}, {integer("axis", 0)}), "concat"},
  };
  for (const auto &[message, part] : said) {
    EXPECT_HAS(message, part);
    EXPECT_EQ(message.rfind("model.py:7 node", 0), 0u) << message;
  }
  EXPECT_EQ(type(op("neg", {x})), "f32 batch 4");
}

std::string sumOf(int parts) {
  std::string text = "n";
  for (int i = 1; i < parts; ++i)
    text += "+n";
  return text;
}

TEST_F(BuilderTest, RefusesTypesThatAreNone) {
  ts_value value;
  auto said = [&](ts_type type, std::vector<const char *> dims, int64_t rank = -2) {
    ts_value_type given{type, rank == -2 ? int64_t(dims.size()) : rank, dims.data()};
    return textOf(ts_builder_input(builder, "x", &given, &value));
  };
  EXPECT_HAS(said(ts_type(99), {}), "there is no element type 99");
  EXPECT_HAS(said(TS_F32, {"a b"}), "'b' is left over");
  EXPECT_HAS(said(TS_F32, {"-1"}), "no possible number of elements");
  EXPECT_HAS(said(TS_F32, {"a/0"}), "it is divided by 0");
  EXPECT_HAS(said(TS_F32, {"(a"}), "a parenthesis is not closed");
  EXPECT_HAS(said(TS_F32, {""}), "something is missing");
  EXPECT_HAS(said(TS_F32, {nullptr}), "dimension 0 is a null pointer");
  EXPECT_HAS(said(TS_F32, {"99999999999999999999"}), "a number is too large");
  EXPECT_HAS(said(TS_F32, {"1000000000", "1000000000"}), "no possible number of elements");
  EXPECT_HAS(said(TS_F32, {std::string(500, '(').c_str()}), "more than 100 deep");
  std::string ceils, divided = "n";
  for (int i = 0; i < 500; ++i)
    ceils += "ceil(", divided += "/(n";
  EXPECT_HAS(said(TS_F32, {ceils.c_str()}), "more than 100 deep");
  EXPECT_HAS(said(TS_F32, {divided.c_str()}), "more than 100 deep");
  EXPECT_HAS(said(TS_F32, {(sumOf(2048) + "++").c_str()}), "4096 are possible");
  std::string product = "(a0+1)";
  for (int i = 1; i < 9; ++i)
    product += "*(a" + std::to_string(i) + "+1)";
  EXPECT_HAS(said(TS_F32, {product.c_str()}), "more than 256 terms");
  EXPECT_HAS(said(TS_F32, {"1"}, 1000), "64 are possible");
  EXPECT_EQ(said(TS_F32, {"(n+1)/2", "n%4", "ceil(n/3)"}), "");
  EXPECT_EQ(type(value), "f32 (n+1)/2 n%4 (n+2)/3");
  EXPECT_HAS(said(TS_F32, {}), "input 'x' is there already");
}

TEST_F(BuilderTest, TakesLongSums) {
  EXPECT_EQ(type(input("x", TS_F32, {sumOf(2048).c_str()})), "f32 2048*n");
  EXPECT_EQ(type(input("y", TS_F32, {("2*(" + sumOf(1024) + ")/4").c_str()})), "f32 512*n");
}

TEST_F(BuilderTest, GrowsAfterItsText) {
  for (int round = 0; round < 4; ++round) {
    std::string number = std::to_string(round), x = "x" + number, y = "y" + number;
    ASSERT_EQ(
        textOf(ts_builder_output(builder, y.c_str(), op("exp", {input(x.c_str(), TS_F32, {"n"})}))),
        "");
    char *text = nullptr;
    ASSERT_EQ(textOf(ts_builder_text(builder, 0, &text)), "");
    for (const std::string &name : {x, y, std::string("x0"), std::string("y0")})
      EXPECT_HAS(std::string(text), "graph.name = \"" + name + "\"");
    ts_bytes_free(text);
  }
}

TEST_F(BuilderTest, RefusesRegionsThatAreNestedWithoutEnd) {
  ts_value condition = input("condition", TS_BOOL, {});
  for (int depth = 0; depth < 200; ++depth)
    ASSERT_EQ(textOf(ts_builder_begin_if(builder, condition, "")), "");
  ts_value arguments[2];
  EXPECT_HAS(textOf(ts_builder_begin_if(builder, condition, "")), "more than 200 deep");
  EXPECT_HAS(
      textOf(ts_builder_begin_loop(builder, TS_NO_VALUE, condition, nullptr, 0, "", arguments)),
      "more than 200 deep");
}

TEST_F(BuilderTest, IsTextLikeAnyModel) {
  ts_value x = input("x", TS_F32, {"n"});
  void *bytes = nullptr;
  size_t size = 0;
  EXPECT_HAS(textOf(ts_builder_compile_bytes(builder, nullptr, &bytes, &size)), "has no output");
  ASSERT_EQ(textOf(ts_builder_output(builder, "y", op("exp", {x}))), "");
  char *text = nullptr;
  ASSERT_EQ(textOf(ts_builder_text(builder, 0, &text)), "");
  EXPECT_HAS(std::string(text), "graph.exp");
  EXPECT_EQ(textOf(ts_compile_bytes(text, strlen(text), "m.mlir", nullptr, &bytes, &size)), "");
  ts_bytes_free(bytes);
  ts_bytes_free(text);
  ASSERT_EQ(textOf(ts_builder_text(builder, 1, &text)), "");
  EXPECT_HAS(std::string(text), "model.py:7 node");
  ts_bytes_free(text);
  EXPECT_HAS(textOf(ts_builder_output(builder, "y", x)), "output 'y' is there already");
}

} // namespace
