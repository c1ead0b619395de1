// Element types by name and number, and host tensors: access to elements of every type, sizes,
// storage.
#include "base/HostTensor.h"

#include "base/Budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <unistd.h>
#include <vector>

// Where it is used, AddressSanitizer must let an allocation fail: a test below asks for too much.
extern "C" __attribute__((used, visibility("default"))) const char *__asan_default_options() {
  return "allocator_may_return_null=1";
}

namespace tensmith {
namespace {

std::vector<DataType> numericTypes() {
  std::vector<DataType> types;
  for (int i = 1; i < kDataTypeCount; ++i)
    if (info(DataType(i)).kind != TypeClass::String)
      types.push_back(DataType(i));
  return types;
}

TEST(DataType, NamesAndNumbersLeadBack) {
  for (int i = 1; i < kDataTypeCount; ++i) {
    EXPECT_EQ(parseDataType(name(DataType(i))), DataType(i));
    EXPECT_EQ(dataTypeFromOnnx(i), DataType(i));
  }
  EXPECT_EQ(parseDataType("float32"), DataType::F32);
  EXPECT_EQ(parseDataType("int4"), DataType::I4);
  EXPECT_FALSE(parseDataType("f33"));
  EXPECT_FALSE(parseDataType("undefined"));
  for (int64_t wrong : {int64_t(-1), int64_t(0), int64_t(kDataTypeCount), INT64_MAX})
    EXPECT_FALSE(dataTypeFromOnnx(wrong)) << wrong;
}

TEST(HostTensor, CountsElements) {
  EXPECT_EQ(elementCount(Shape{}), 1);
  EXPECT_EQ(elementCount(Shape{2, 3, 4}), 24);
  EXPECT_EQ(elementCount(Shape{INT64_MAX, 0, INT64_MAX}), 0);
  EXPECT_FALSE(elementCount(Shape{2, -1}));
  EXPECT_FALSE(elementCount(Shape{0, -1}));
  EXPECT_FALSE(elementCount(Shape{int64_t(1) << 32, int64_t(1) << 32}));
  EXPECT_FALSE(elementCount(Shape{4}, 3));
  EXPECT_EQ(toString(Shape{2, 3}), "2x3");
  EXPECT_EQ(toString(Shape{}), "scalar");
}

TEST(HostTensor, StartsAsZerosOnACacheLine) {
  for (DataType type : numericTypes()) {
    HostTensor tensor(type, {3, 5});
    ASSERT_TRUE(tensor.valid());
    EXPECT_EQ(tensor.bytes(), 15 * byteSize(type));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
    for (int64_t i = 0; i < tensor.bytes(); ++i)
      EXPECT_EQ(tensor.data()[i], std::byte(0));
  }
}

// Breaks if large ones are cut out of the C library's heap, which keeps what lies before others.
TEST(HostTensor, LargeOnesGiveTheirMemoryBack) {
  constexpr int64_t kMany = 64, kElements = 256 << 10;
  auto resident = [] {
    long all = 0, pages = 0;
    std::ifstream("/proc/self/statm") >> all >> pages;
    return int64_t(pages) * sysconf(_SC_PAGESIZE);
  };
  {
    HostTensor first(DataType::F32, {kElements});
  } // from then on it would
  std::vector<HostTensor> large, small;
  int64_t before = resident();
  for (int64_t i = 0; i < kMany; ++i) {
    std::ranges::fill(large.emplace_back(DataType::F32, Shape{kElements}).as<float>(), 1.0f);
    small.emplace_back(DataType::F32, Shape{1000});
  }
  int64_t bytes = kMany * kElements * int64_t(sizeof(float));
  EXPECT_GT(resident(), before + bytes / 2);
  large.clear();
  EXPECT_LT(resident(), before + bytes / 2);
}

TEST(HostTensor, WantOfMemoryIsNoCrash) {
  EXPECT_FALSE(HostTensor(DataType::F32, {int64_t(1) << 46}).valid());
  EXPECT_FALSE(HostTensor(DataType::String, {int64_t(1) << 46}).valid());
  EXPECT_FALSE(HostTensor(DataType::F32, {int64_t(1) << 40, int64_t(1) << 40}).valid());
  EXPECT_TRUE(HostTensor(DataType::F32, {0}).valid());
}

TEST(HostTensor, OneIsOneInEveryType) {
  for (DataType type : numericTypes()) {
    HostTensor tensor(type, {2});
    tensor.setDouble(0, 1);
    tensor.setInt(1, 1);
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_EQ(tensor.getDouble(i), 1) << name(type);
      EXPECT_EQ(tensor.getInt(i), 1) << name(type);
    }
  }
}

TEST(HostTensor, IntegersWrapAtTheirWidth) {
  for (DataType type : numericTypes()) {
    if (!isInteger(type) || info(type).bits == 64)
      continue;
    int bits = info(type).bits;
    bool isSigned = info(type).kind == TypeClass::Signed;
    HostTensor tensor(type, {1});
    for (int64_t value :
         {int64_t(-1), int64_t(1) << (bits - 1), int64_t(1) << bits, (int64_t(5) << bits) + 1}) {
      int64_t low = value & ((int64_t(1) << bits) - 1);
      int64_t expected = isSigned && (low >> (bits - 1)) ? low - (int64_t(1) << bits) : low;
      tensor.setInt(0, value);
      EXPECT_EQ(tensor.getInt(0), expected) << name(type) << " " << value;
      tensor.setDouble(0, double(value));
      EXPECT_EQ(tensor.getInt(0), expected) << name(type) << " " << value;
      EXPECT_EQ(tensor.getDouble(0), double(expected));
    }
  }
}

TEST(HostTensor, WideIntegersKeepAllBits) {
  HostTensor tensor(DataType::U64, {1});
  tensor.setInt(0, -1);
  EXPECT_EQ(tensor.getInt(0), -1);
  EXPECT_EQ(tensor.getDouble(0), 0x1p64);
  HostTensor integer(DataType::I64, {1});
  integer.setInt(0, INT64_MAX);
  EXPECT_EQ(integer.getInt(0), INT64_MAX);
}

TEST(HostTensor, FloatsRoundOrSaturate) {
  HostTensor half(DataType::F16, {1}), quarter(DataType::F8E4M3FN, {1}),
      tiny(DataType::F4E2M1, {1});
  half.setDouble(0, 1e6);
  quarter.setDouble(0, 1e6);
  tiny.setDouble(0, -1e6);
  EXPECT_EQ(half.getDouble(0), HUGE_VAL);
  EXPECT_EQ(quarter.getDouble(0), 448);
  EXPECT_EQ(tiny.getDouble(0), -6);
  HostTensor single(DataType::F32, {1});
  single.setInt(0, (int64_t(1) << 60) + (int64_t(1) << 36) + 1); // just above half an ulp
  EXPECT_EQ(single.getDouble(0), 0x1.000002p60);
}

TEST(HostTensor, BooleansHoldNothingElse) {
  HostTensor tensor(DataType::Bool, {3});
  tensor.setInt(0, 256);
  tensor.setDouble(1, 0.25);
  tensor.setDouble(2, NAN);
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(tensor.data()[i], std::byte(1));
}

TEST(HostTensor, ComplexNumbersTakeRealsWithoutImaginaryPart) {
  HostTensor tensor(DataType::C64, {2});
  std::memset(tensor.mutableData(), 0x3F, size_t(tensor.bytes()));
  tensor.setDouble(1, 2.5);
  std::span<const float> parts{reinterpret_cast<const float *>(tensor.data()), 4};
  EXPECT_EQ(parts[2], 2.5f);
  EXPECT_EQ(parts[3], 0.0f);
  EXPECT_NE(parts[0], 0.0f);
}

TEST(HostTensor, ReshapesWithoutACopy) {
  HostTensor tensor = HostTensor::of<float>(DataType::F32, {2, 3}, std::vector<float>(6, 1.5f));
  HostTensor other = tensor.reshaped({3, 2});
  EXPECT_EQ(other.data(), tensor.data());
  EXPECT_EQ(other.shape(), (Shape{3, 2}));
  HostTensor words = HostTensor::ofStrings({2}, {"a", "b"}).reshaped({1, 2});
  EXPECT_EQ(words.getString(1), "b");
}

TEST(HostTensor, KeepsTheOwnerOfBorrowedMemory) {
  auto owner = std::make_shared<std::vector<int32_t>>(std::vector<int32_t>{7, 8});
  HostTensor tensor(DataType::I32, {2}, owner->data(), owner);
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_EQ(tensor.getInt(1), 8);
  tensor = HostTensor();
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(HostTensor, ReadsUnalignedMemory) {
  std::vector<std::byte> bytes(9);
  double value = 0.1;
  std::memcpy(bytes.data() + 1, &value, sizeof(value));
  HostTensor tensor(DataType::F64, {}, bytes.data() + 1, nullptr);
  EXPECT_EQ(tensor.getDouble(0), 0.1);
}

// Breaks if a number that a rule makes is refused, which nobody expects.
TEST(HostTensor, ANumberIsThereWhateverTheLimit) {
  ResourceScope scope({std::make_shared<Budget>(1)});
  HostTensor number(DataType::F64, {});
  ASSERT_TRUE(number.valid());
  number.setDouble(0, 2.5);
  EXPECT_EQ(number.getDouble(0), 2.5);
  EXPECT_FALSE(HostTensor(DataType::F64, {3}).valid());
}

} // namespace
} // namespace tensmith
