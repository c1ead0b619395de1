// The table behind DataType.h: one row for each type, in the order of the enumeration.
//
// Names are those of the text form; the aliases are NumPy's and ml_dtypes', which people type from
// habit.
#include "base/DataType.h"

#include <array>
#include <utility>

namespace tensmith {
namespace {

constexpr std::array<DataTypeInfo, kDataTypeCount> kInfos = {{
    {"undefined", TypeClass::None, 0, 0},   {"f32", TypeClass::Float, 32, 4},
    {"u8", TypeClass::Unsigned, 8, 1},      {"i8", TypeClass::Signed, 8, 1},
    {"u16", TypeClass::Unsigned, 16, 2},    {"i16", TypeClass::Signed, 16, 2},
    {"i32", TypeClass::Signed, 32, 4},      {"i64", TypeClass::Signed, 64, 8},
    {"string", TypeClass::String, 0, 0},    {"bool", TypeClass::Bool, 1, 1},
    {"f16", TypeClass::Float, 16, 2},       {"f64", TypeClass::Float, 64, 8},
    {"u32", TypeClass::Unsigned, 32, 4},    {"u64", TypeClass::Unsigned, 64, 8},
    {"c64", TypeClass::Complex, 64, 8},     {"c128", TypeClass::Complex, 128, 16},
    {"bf16", TypeClass::Float, 16, 2},      {"f8e4m3fn", TypeClass::Float, 8, 1},
    {"f8e4m3fnuz", TypeClass::Float, 8, 1}, {"f8e5m2", TypeClass::Float, 8, 1},
    {"f8e5m2fnuz", TypeClass::Float, 8, 1}, {"u4", TypeClass::Unsigned, 4, 1},
    {"i4", TypeClass::Signed, 4, 1},        {"f4e2m1", TypeClass::Float, 4, 1},
    {"f8e8m0", TypeClass::Float, 8, 1},     {"u2", TypeClass::Unsigned, 2, 1},
    {"i2", TypeClass::Signed, 2, 1},
}};

constexpr std::pair<std::string_view, DataType> kAliases[] = {
    {"float32", DataType::F32},
    {"float", DataType::F32},
    {"float64", DataType::F64},
    {"double", DataType::F64},
    {"float16", DataType::F16},
    {"half", DataType::F16},
    {"bfloat16", DataType::BF16},
    {"uint8", DataType::U8},
    {"uint16", DataType::U16},
    {"uint32", DataType::U32},
    {"uint64", DataType::U64},
    {"int8", DataType::I8},
    {"int16", DataType::I16},
    {"int32", DataType::I32},
    {"int64", DataType::I64},
    {"i1", DataType::Bool},
    {"bool_", DataType::Bool},
    {"str", DataType::String},
    {"object", DataType::String},
    {"complex64", DataType::C64},
    {"complex128", DataType::C128},
    {"float8_e4m3fn", DataType::F8E4M3FN},
    {"float8_e4m3fnuz", DataType::F8E4M3FNUZ},
    {"float8_e5m2", DataType::F8E5M2},
    {"float8_e5m2fnuz", DataType::F8E5M2FNUZ},
    {"float8_e8m0fnu", DataType::F8E8M0},
    {"float4_e2m1fn", DataType::F4E2M1},
    {"uint4", DataType::U4},
    {"int4", DataType::I4},
    {"uint2", DataType::U2},
    {"int2", DataType::I2},
};

} // namespace

const DataTypeInfo &info(DataType type) {
  auto index = size_t(type);
  return kInfos[index < kInfos.size() ? index : 0];
}

std::optional<DataType> parseDataType(std::string_view name) {
  for (size_t i = 1; i < kInfos.size(); ++i)
    if (kInfos[i].name == name)
      return DataType(i);
  for (const auto &[alias, type] : kAliases)
    if (alias == name)
      return type;
  return std::nullopt;
}

std::optional<DataType> dataTypeFromOnnx(int64_t value) {
  if (value <= 0 || value >= kDataTypeCount)
    return std::nullopt;
  return DataType(value);
}

} // namespace tensmith
