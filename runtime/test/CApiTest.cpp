// The public C API as a program uses it: handles, statuses, DLPack, and that nothing is lost.
#include "TestModule.h"

#include "runtime/DLPack.h"

#include <cstring>
#include <gtest/gtest.h>
#include <tensmith/tensmith.h>
#include <thread>

using namespace tensmith::runtime::test;

namespace {

/// Takes a status over, and gives its message.
std::string messageOf(ts_status *status) {
  std::string message = ts_status_message(status);
  ts_status_free(status);
  return message;
}

#define EXPECT_OK(call)                                                                            \
  do {                                                                                             \
    ts_status *status = (call);                                                                    \
    EXPECT_EQ(status, nullptr) << ts_status_message(status);                                       \
    ts_status_free(status);                                                                        \
  } while (false)

ts_tensor *makeFloats(int64_t count, float value) {
  ts_tensor *tensor = nullptr;
  EXPECT_OK(ts_tensor_create(TS_F32, &count, 1, &tensor));
  for (int64_t i = 0; i < count; ++i)
    static_cast<float *>(ts_tensor_data(tensor))[i] = value;
  return tensor;
}

TEST(CApi, LoadsDescribesAndRuns) {
  Bytes file = addModule(0, {});
  ts_module *module = nullptr;
  ts_load_options load = {sizeof(load), 1, 0, 0};
  EXPECT_OK(ts_module_load_bytes(file.data(), file.size(), &load, &module));
  ASSERT_EQ(ts_module_input_count(module), 1u);
  ASSERT_EQ(ts_module_output_count(module), 2u);
  ts_port x = ts_module_input(module, 0), none = ts_module_input(module, 9);
  EXPECT_STREQ(x.name, "x");
  EXPECT_EQ(x.kind, TS_TENSOR);
  EXPECT_EQ(x.type, TS_F32);
  ASSERT_EQ(x.rank, 1);
  EXPECT_STREQ(x.dims[0], "n");
  EXPECT_EQ(none.kind, TS_NONE);
  char *json = nullptr;
  EXPECT_OK(ts_module_describe(module, &json));
  EXPECT_NE(std::strstr(json, "test_add"), nullptr);
  ts_string_free(json);

  ts_session *session = nullptr;
  ts_session_options options = {sizeof(options), 2};
  EXPECT_OK(ts_session_create(module, &options, &session));
  EXPECT_EQ(ts_session_threads(session), 2);
  ts_module_free(module); // the session keeps it

  ts_tensor *input = makeFloats(5, 1), *outputs[2] = {nullptr, makeFloats(1, 0)};
  EXPECT_OK(ts_session_run(session, &input, 1, outputs, 2));
  EXPECT_EQ(ts_tensor_size(outputs[0]), 5);
  EXPECT_EQ(static_cast<float *>(ts_tensor_data(outputs[0]))[4], 3);
  EXPECT_EQ(static_cast<float *>(ts_tensor_data(outputs[1]))[0], 10);
  EXPECT_OK(ts_session_profile(session, &input, 1, 3, &json));
  EXPECT_NE(std::strstr(json, "\"count\":3"), nullptr) << json;
  ts_string_free(json);
  EXPECT_NE(messageOf(ts_session_run(session, &input, 1, outputs, 1)), "");
  EXPECT_NE(messageOf(ts_session_run(session, nullptr, 1, outputs, 2)), "");
  for (ts_tensor *tensor : {input, outputs[0], outputs[1]})
    ts_tensor_free(tensor);
  ts_session_free(session);
}

TEST(CApi, NullsAndNonsenseAreErrors) {
  ts_tensor *tensor = nullptr;
  ts_module *module = nullptr;
  ts_session *session = nullptr;
  int64_t negative[] = {-1}, huge[] = {int64_t(1) << 31, int64_t(1) << 31};
  EXPECT_NE(messageOf(ts_tensor_create(TS_F32, negative, 1, &tensor)), "");
  EXPECT_NE(messageOf(ts_tensor_create(TS_F32, huge, 2, &tensor)), "");
  EXPECT_NE(messageOf(ts_tensor_create(TS_F32, nullptr, 1, &tensor)), "");
  EXPECT_NE(messageOf(ts_tensor_create(ts_type(30), negative, 0, &tensor)), "");
  EXPECT_NE(messageOf(ts_tensor_create(TS_F32, negative, 0, nullptr)), "");
  float value = 0;
  EXPECT_NE(messageOf(ts_tensor_borrow(TS_F32, negative, 0, reinterpret_cast<char *>(&value) + 1,
                                       nullptr, nullptr, &tensor)),
            "");
  EXPECT_NE(messageOf(ts_module_load(nullptr, nullptr, &module)), "");
  EXPECT_NE(messageOf(ts_module_load("/nowhere", nullptr, &module)), "");
  EXPECT_NE(messageOf(ts_module_load_bytes(nullptr, 0, nullptr, &module)), "");
  EXPECT_NE(messageOf(ts_session_create(nullptr, nullptr, &session)), "");
  Bytes file = addModule(0, {});
  EXPECT_OK(ts_module_load_bytes(file.data(), file.size(), nullptr, &module));
  ts_session_options options = {sizeof(options), -3};
  EXPECT_NE(messageOf(ts_session_create(module, &options, &session)), "");
  options = {0, 1};
  EXPECT_NE(messageOf(ts_session_create(module, &options, &session)), "");
  ts_module_free(module);
  ts_module_free(nullptr);
  ts_session_free(nullptr);
  ts_tensor_free(nullptr);
  ts_status_free(nullptr);
  EXPECT_EQ(tensor, nullptr);
  EXPECT_EQ(session, nullptr);
}

// A caller must be told that it may give nothing.
TEST(CApi, OptionalPortsSaySo) {
  using namespace tensmith;
  ModuleBuilder builder;
  uint32_t has = builder.routine("optional_has_element");
  FunctionBuilder main("main");
  uint32_t x =
      main.valueOfKind("x", plan::ValueKind::Optional, DataType::F32, plan::Storage::Parameter);
  main.function.params = {x};
  uint32_t y = main.value("y", DataType::Bool, {}, plan::Storage::Result);
  main.add(plan::Opcode::Routine, has, {x}, {y});
  main.function.results = {y};
  builder.add(std::move(main));
  Bytes file = builder.finish();
  ts_module *module = nullptr;
  EXPECT_OK(ts_module_load_bytes(file.data(), file.size(), nullptr, &module));
  EXPECT_EQ(ts_module_input(module, 0).kind, TS_OPTIONAL);
  EXPECT_EQ(ts_module_output(module, 0).kind, TS_TENSOR);
  ts_module_free(module);
}

TEST(CApi, BorrowedMemoryIsReleasedOnce) {
  int released = 0;
  float data[3] = {1, 2, 3};
  int64_t shape[] = {3};
  ts_tensor *tensor = nullptr;
  auto count = [](void *context) { ++*static_cast<int *>(context); };
  EXPECT_OK(ts_tensor_borrow(TS_F32, shape, 1, data, count, &released, &tensor));
  EXPECT_EQ(ts_tensor_data(tensor), data);
  ts_tensor_retain(tensor);
  ts_tensor_free(tensor);
  EXPECT_EQ(released, 0);
  ts_tensor_free(tensor);
  EXPECT_EQ(released, 1);
}

TEST(CApi, MapsAreSortedByTheirKeys) {
  int64_t shape[] = {3}, two[] = {2};
  const char *names[] = {"c", "a", "b"};
  ts_tensor *keys = nullptr, *values = nullptr, *fewer = nullptr, *map = nullptr, *list = nullptr;
  EXPECT_OK(ts_tensor_strings(names, shape, 1, &keys));
  EXPECT_OK(ts_tensor_create(TS_F32, shape, 1, &values));
  EXPECT_OK(ts_tensor_create(TS_F32, two, 1, &fewer));
  for (int i = 0; i < 3; ++i)
    static_cast<float *>(ts_tensor_data(values))[i] = float(i);
  EXPECT_OK(ts_tensor_map(keys, values, &map));
  EXPECT_EQ(ts_tensor_kind(map), TS_MAP);
  EXPECT_EQ(ts_tensor_sequence_length(map), 2u);
  EXPECT_STREQ(ts_tensor_string(ts_tensor_sequence_at(map, 0), 0), "a");
  EXPECT_EQ(static_cast<float *>(ts_tensor_data(ts_tensor_sequence_at(map, 1)))[0], 1.0f);
  EXPECT_OK(ts_tensor_sequence(&map, 1, &list));
  EXPECT_EQ(ts_tensor_kind(ts_tensor_sequence_at(list, 0)), TS_MAP);
  ts_tensor *refused = nullptr;
  for (auto [k, v] : {std::pair(keys, fewer), std::pair(values, keys), std::pair(map, values),
                      std::pair(keys, static_cast<ts_tensor *>(nullptr))}) {
    ts_status *status = ts_tensor_map(k, v, &refused);
    EXPECT_NE(status, nullptr);
    ts_status_free(status);
  }
  const char *same[] = {"a", "a", "b"};
  ts_tensor *repeated = nullptr;
  EXPECT_OK(ts_tensor_strings(same, shape, 1, &repeated));
  ts_status *status = ts_tensor_map(repeated, values, &refused);
  EXPECT_NE(status, nullptr);
  ts_status_free(status);
  for (ts_tensor *tensor : {keys, values, fewer, map, list, repeated})
    ts_tensor_free(tensor);
}

TEST(CApi, StringsSequencesAndNone) {
  const char *texts[] = {"a", "bc"};
  int64_t shape[] = {2};
  ts_tensor *strings = nullptr, *sequence = nullptr, *none = nullptr;
  EXPECT_OK(ts_tensor_strings(texts, shape, 1, &strings));
  EXPECT_STREQ(ts_tensor_string(strings, 1), "bc");
  EXPECT_EQ(ts_tensor_string(strings, 2), nullptr);
  EXPECT_OK(ts_tensor_sequence(&strings, 1, &sequence));
  ts_tensor_free(strings);
  EXPECT_EQ(ts_tensor_kind(sequence), TS_SEQUENCE);
  EXPECT_EQ(ts_tensor_sequence_length(sequence), 1u);
  EXPECT_STREQ(ts_tensor_string(ts_tensor_sequence_at(sequence, 0), 0), "a");
  EXPECT_EQ(ts_tensor_sequence_at(sequence, 1), nullptr);
  EXPECT_OK(ts_tensor_none(&none));
  EXPECT_EQ(ts_tensor_kind(none), TS_NONE);
  ts_tensor_free(sequence);
  ts_tensor_free(none);
}

TEST(CApi, DlpackGoesBothWaysWithoutACopy) {
  ts_tensor *tensor = makeFloats(6, 2), *back = nullptr;
  DLManagedTensor *managed = nullptr;
  EXPECT_OK(ts_tensor_to_dlpack(tensor, &managed));
  EXPECT_EQ(managed->dl_tensor.data, ts_tensor_data(tensor));
  EXPECT_EQ(managed->dl_tensor.dtype.code, 2);
  void *data = ts_tensor_data(tensor);
  ts_tensor_free(tensor); // the view keeps it
  EXPECT_OK(ts_tensor_from_dlpack(managed, &back));
  EXPECT_EQ(ts_tensor_data(back), data);
  EXPECT_EQ(static_cast<float *>(ts_tensor_data(back))[5], 2);
  ts_tensor_free(back);
}

struct Strided {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {3, 2}, strides[2] = {1, 3}; // the transpose of 2x3
  int deleted = 0;
  DLManagedTensor managed = {
      {data, {1, 0}, 2, {2, 32, 1}, shape, strides, 0}, this, [](DLManagedTensor *self) {
        ++static_cast<Strided *>(self->manager_ctx)->deleted;
      }};
};

TEST(CApi, DlpackStridesAreCopied) {
  Strided strided;
  ts_tensor *tensor = nullptr;
  EXPECT_OK(ts_tensor_from_dlpack(&strided.managed, &tensor));
  EXPECT_EQ(strided.deleted, 1);
  const float expected[] = {0, 3, 1, 4, 2, 5};
  EXPECT_EQ(std::memcmp(ts_tensor_data(tensor), expected, sizeof(expected)), 0);
  ts_tensor_free(tensor);
}

TEST(CApi, DlpackThatCantBeTakenStaysTheCallers) {
  ts_tensor *tensor = nullptr;
  for (auto spoil :
       {+[](DLTensor &t) { t.device.device_type = 2; }, +[](DLTensor &t) { t.dtype.lanes = 4; },
        +[](DLTensor &t) { t.shape = nullptr; }, +[](DLTensor &t) { t.shape[0] = -1; },
        +[](DLTensor &t) { t.ndim = -1; }}) {
    Strided strided;
    spoil(strided.managed.dl_tensor);
    EXPECT_NE(messageOf(ts_tensor_from_dlpack(&strided.managed, &tensor)), "");
    EXPECT_EQ(strided.deleted, 0);
  }
  ts_tensor *none = nullptr;
  DLManagedTensor *managed = nullptr;
  EXPECT_OK(ts_tensor_none(&none));
  ts_status *status = ts_tensor_to_dlpack(none, &managed);
  EXPECT_EQ(ts_status_get_code(status), TS_UNSUPPORTED);
  ts_status_free(status);
  ts_tensor_free(none);
}

// Breaks if elements of less than a byte are in another order than DLPack says, lose their sign, or
// share a byte with what is behind the last one.
TEST(CApi, DlpackPacksElementsOfLessThanAByte) {
  struct {
    ts_type type;
    uint8_t code, bits;
    std::vector<uint8_t> elements, packed;
  } cases[] = {{TS_I4, 0, 4, {0x01, 0xff, 0xf8}, {0xf1, 0x08}}, // 1, -1, -8
               {TS_U4, 1, 4, {1, 15, 8}, {0xf1, 0x08}},
               {TS_F4E2M1, 17, 4, {2, 15, 8}, {0xf2, 0x08}},
               {TS_I2, 0, 2, {0x01, 0xff, 0xfe, 0, 1}, {0x2d, 0x01}}, // 1, -1, -2, 0, 1
               {TS_U2, 1, 2, {1, 3, 2, 0, 1}, {0x2d, 0x01}}};
  for (auto &one : cases) {
    int64_t count = int64_t(one.elements.size());
    ts_tensor *tensor = nullptr, *back = nullptr;
    EXPECT_OK(ts_tensor_create(one.type, &count, 1, &tensor));
    std::memcpy(ts_tensor_data(tensor), one.elements.data(), one.elements.size());
    DLManagedTensor *managed = nullptr;
    EXPECT_OK(ts_tensor_to_dlpack(tensor, &managed));
    EXPECT_EQ(managed->dl_tensor.dtype.code, one.code);
    EXPECT_EQ(managed->dl_tensor.dtype.bits, one.bits);
    EXPECT_EQ(std::memcmp(managed->dl_tensor.data, one.packed.data(), one.packed.size()), 0);
    ts_tensor_free(tensor);
    EXPECT_OK(ts_tensor_from_dlpack(managed, &back));
    EXPECT_EQ(ts_tensor_type(back), one.type);
    EXPECT_EQ(std::memcmp(ts_tensor_data(back), one.elements.data(), one.elements.size()), 0);
    ts_tensor_free(back);
  }
}

} // namespace
