// The element types a tensor can have, from the sub-byte integers to strings, and what is known of
// each.
//
// The values are those of ONNX's TensorProto.DataType (onnx.proto), so that models, modules and the
// public API number them alike. In memory every element occupies a whole number of bytes: the 4-bit
// and 2-bit types take one byte each, sign- or zero-extended; packing them is the business of file
// formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tensmith {

enum class DataType : uint8_t {
  Undefined = 0,
  F32 = 1,
  U8 = 2,
  I8 = 3,
  U16 = 4,
  I16 = 5,
  I32 = 6,
  I64 = 7,
  String = 8,
  Bool = 9,
  F16 = 10,
  F64 = 11,
  U32 = 12,
  U64 = 13,
  C64 = 14,  // two F32
  C128 = 15, // two F64
  BF16 = 16,
  F8E4M3FN = 17,
  F8E4M3FNUZ = 18,
  F8E5M2 = 19,
  F8E5M2FNUZ = 20,
  U4 = 21,
  I4 = 22,
  F4E2M1 = 23,
  F8E8M0 = 24,
  U2 = 25,
  I2 = 26,
};

inline constexpr int kDataTypeCount = 27;

/// How the values of a type are interpreted.
enum class TypeClass : uint8_t { None, Bool, Signed, Unsigned, Float, Complex, String };

struct DataTypeInfo {
  std::string_view name; // as in the text form and on the command line: "f32", "i8", "f8e4m3fn"
  TypeClass kind;
  uint8_t bits;  // of the value: 4 for I4
  uint8_t bytes; // in memory: 1 for I4; 0 for String, whose elements are no plain bytes
};

const DataTypeInfo &info(DataType type);

inline std::string_view name(DataType type) { return info(type).name; }
inline int64_t byteSize(DataType type) { return info(type).bytes; }
inline bool isFloat(DataType type) { return info(type).kind == TypeClass::Float; }
inline bool isInteger(DataType type) {
  return info(type).kind == TypeClass::Signed || info(type).kind == TypeClass::Unsigned;
}

/// The type of that name ("f32", also NumPy's "float32", "int8", "bool"), if there is one.
std::optional<DataType> parseDataType(std::string_view name);

/// The type with that number in ONNX, if it is one of ours.
std::optional<DataType> dataTypeFromOnnx(int64_t value);

} // namespace tensmith
