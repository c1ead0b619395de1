// An .npy file is a magic number, a version, the length of a header, the header (a Python literal
// of three keys), and the elements.
//
// The header is matched as NumPy writes it; the element count is checked against the bytes that
// are there before any memory is taken.
#include "files/Npy.h"

#include "files/Failure.h"

#include <algorithm>
#include <fmt/format.h>
#include <regex>

namespace tensmith {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  char order;    // '<', '>', '|' or '='
  char kind;     // 'f', 'i', 'u', 'b', 'c', 'U', 'S', 'V'
  int64_t bytes; // of an element; characters for 'U'
  bool fortran;
  Shape shape;
  size_t dataStart;
};

uint64_t littleEndian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | uint64_t(bytes[i]);
  return value;
}

/// The text of the header, and where the elements begin.
std::pair<std::string, size_t> headerText(std::span<const std::byte> bytes,
                                          const std::string &where) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    fail(where, "is not an .npy file; write it with numpy.save");
  auto major = uint8_t(bytes[6]);
  if (major < 1 || major > 3)
    fail(where, fmt::format(".npy version {} is unknown; write it with numpy.save", major));
  size_t lengthBytes = major == 1 ? 2 : 4, start = 8 + lengthBytes;
  if (bytes.size() < start)
    fail(where, "is cut off in its header; write it again");
  uint64_t length = littleEndian(bytes.subspan(8, lengthBytes));
  if (length > bytes.size() - start || length > 4096)
    fail(where, "is cut off in its header; write it again");
  return {{reinterpret_cast<const char *>(bytes.data()) + start, size_t(length)},
          start + size_t(length)};
}

Shape parseShape(const std::string &text, const std::string &where) {
  Shape shape;
  static const std::regex number(R"(\d+)");
  for (std::sregex_iterator it(text.begin(), text.end(), number), end; it != end; ++it) {
    if (it->length() > 18 || shape.size() == 64)
      fail(where, "has the shape (" + text + "), which no tensor can have");
    shape.push_back(std::stoll(it->str()));
  }
  return shape;
}

Header parseHeader(std::span<const std::byte> bytes, const std::string &where) {
  auto [text, start] = headerText(bytes, where);
  static const std::regex descr(R"('descr'\s*:\s*'([<>|=])([a-zA-Z])(\d{0,9})')");
  static const std::regex fortran(R"('fortran_order'\s*:\s*(True|False))");
  static const std::regex shape(R"('shape'\s*:\s*\(([0-9,\s]{0,600})\))");
  std::smatch type, order, dims;
  if (!std::regex_search(text, type, descr))
    fail(where, "has elements of a structured type; save a plain array");
  if (!std::regex_search(text, order, fortran) || !std::regex_search(text, dims, shape))
    fail(where, "has a header without order or shape; write it with numpy.save");
  std::string size = type[3].str();
  return {type[1].str()[0],
          type[2].str()[0],
          size.empty() ? 0 : std::stoll(size),
          order[1].str() == "True",
          parseShape(dims[1].str(), where),
          start};
}

DataType elementType(const Header &header, DataType expected, const std::string &where) {
  std::string name = fmt::format("{}{}", header.kind, header.bytes);
  constexpr std::pair<std::string_view, DataType> kTypes[] = {
      {"f4", DataType::F32}, {"f8", DataType::F64},   {"f2", DataType::F16}, {"i1", DataType::I8},
      {"i2", DataType::I16}, {"i4", DataType::I32},   {"i8", DataType::I64}, {"u1", DataType::U8},
      {"u2", DataType::U16}, {"u4", DataType::U32},   {"u8", DataType::U64}, {"b1", DataType::Bool},
      {"c8", DataType::C64}, {"c16", DataType::C128},
  };
  for (auto [known, type] : kTypes)
    if (name == known)
      return type;
  if (header.kind == 'U' || header.kind == 'S')
    return DataType::String;
  if (header.kind == 'O')
    fail(where, "holds Python objects; save an array of numbers or of str");
  if (header.kind == 'V' && expected != DataType::Undefined && byteSize(expected) == header.bytes)
    return expected;
  fail(where, "has elements of the type '" + name +
                  "', which are unknown; convert them with numpy's astype first");
}

void appendUtf8(std::string &text, uint32_t c) {
  if (c < 0x80)
    text += char(c);
  else if (c < 0x800)
    (text += char(0xc0 | c >> 6)) += char(0x80 | (c & 0x3f));
  else if (c < 0x10000)
    ((text += char(0xe0 | c >> 12)) += char(0x80 | (c >> 6 & 0x3f))) += char(0x80 | (c & 0x3f));
  else
    (((text += char(0xf0 | (c >> 18 & 7))) += char(0x80 | (c >> 12 & 0x3f))) +=
     char(0x80 | (c >> 6 & 0x3f))) += char(0x80 | (c & 0x3f));
}

HostTensor readStrings(const Header &header, std::span<const std::byte> data, int64_t count) {
  bool wide = header.kind == 'U';
  size_t unit = wide ? 4 : 1, length = size_t(header.bytes) * unit;
  std::vector<std::string> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = 0; j < length; j += unit) {
      auto c = uint32_t(littleEndian(data.subspan(i * length + j, unit)));
      if (wide && header.order == '>')
        c = __builtin_bswap32(c);
      if (c == 0)
        break;
      wide ? appendUtf8(values[i], c) : void(values[i] += char(c));
    }
  return HostTensor::ofStrings(header.shape, std::move(values));
}

void swapBytes(HostTensor &tensor) {
  bool complex = info(tensor.type()).kind == TypeClass::Complex;
  int64_t width = byteSize(tensor.type()) / (complex ? 2 : 1);
  for (int64_t at = 0; at < tensor.bytes(); at += width)
    std::reverse(tensor.mutableData() + at, tensor.mutableData() + at + width);
}

/// Elements stored with the first dimension fastest, put in row-major order.
HostTensor rowMajor(const HostTensor &stored) {
  HostTensor result(stored.type(), stored.shape());
  const Shape &shape = stored.shape();
  int64_t width = byteSize(stored.type());
  Shape index(shape.size(), 0);
  for (int64_t from = 0; from < stored.size(); ++from) {
    int64_t to = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      to = to * shape[d] + index[d];
    std::memcpy(result.mutableData() + to * width, stored.data() + from * width, size_t(width));
    for (size_t d = 0; d < shape.size() && ++index[d] == shape[d]; ++d)
      index[d] = 0;
  }
  return result;
}

std::string descrOf(DataType type) {
  static constexpr std::pair<DataType, const char *> kNames[] = {
      {DataType::F32, "<f4"}, {DataType::F64, "<f8"},   {DataType::F16, "<f2"},
      {DataType::I8, "|i1"},  {DataType::I16, "<i2"},   {DataType::I32, "<i4"},
      {DataType::I64, "<i8"}, {DataType::U8, "|u1"},    {DataType::U16, "<u2"},
      {DataType::U32, "<u4"}, {DataType::U64, "<u8"},   {DataType::Bool, "|b1"},
      {DataType::C64, "<c8"}, {DataType::C128, "<c16"}, {DataType::I4, "|i1"},
      {DataType::I2, "|i1"},  {DataType::U4, "|u1"},    {DataType::U2, "|u1"},
  };
  for (auto [known, name] : kNames)
    if (type == known)
      return name;
  return fmt::format("|V{}", byteSize(type)); // as ml_dtypes' arrays are saved
}

/// The strings as NumPy's 'U': UCS-4, padded to the longest.
std::u32string decodeUtf8(const std::string &text) {
  std::u32string result;
  for (size_t i = 0; i < text.size();) {
    auto c = uint8_t(text[i++]);
    int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
    char32_t value = more == 3 ? c & 7 : more == 2 ? c & 15 : more == 1 ? c & 31 : c;
    for (; more > 0 && i < text.size(); --more)
      value = value << 6 | (uint8_t(text[i++]) & 0x3f);
    result += value;
  }
  return result;
}

} // namespace

HostTensor readNpy(std::span<const std::byte> bytes, const std::string &where, DataType expected) {
  Header header = parseHeader(bytes, where);
  DataType type = elementType(header, expected, where);
  int64_t width = header.kind == 'U' ? 4 * header.bytes : header.bytes;
  auto count = elementCount(header.shape);
  std::span<const std::byte> data = bytes.subspan(header.dataStart);
  int64_t needed;
  if (!count || __builtin_mul_overflow(*count, width, &needed))
    fail(where, "has the shape " + toString(header.shape) + ", which no tensor can have");
  if (uint64_t(needed) > data.size() || (width == 0 && *count > int64_t(bytes.size())))
    fail(where, fmt::format("is cut off: {} elements need {} bytes, {} are there; write it again",
                            *count, needed, data.size()));
  if (type == DataType::String && header.fortran && header.shape.size() > 1)
    fail(where, "holds strings in Fortran order; save numpy.ascontiguousarray of it");
  if (type == DataType::String)
    return readStrings(header, data, *count);
  HostTensor tensor(type, header.shape);
  if (!tensor.valid())
    fail(where, fmt::format("needs {} bytes of memory, which can't be had", needed));
  if (needed)
    std::memcpy(tensor.mutableData(), data.data(), size_t(needed));
  if (header.order == '>')
    swapBytes(tensor);
  return header.fortran && header.shape.size() > 1 ? rowMajor(tensor) : std::move(tensor);
}

Bytes writeNpy(const HostTensor &tensor) {
  bool strings = tensor.type() == DataType::String;
  std::vector<std::u32string> wide;
  size_t longest = 1;
  for (int64_t i = 0; strings && i < tensor.size(); ++i) {
    wide.push_back(decodeUtf8(tensor.getString(i)));
    longest = std::max(longest, wide.back().size());
  }
  std::string dims;
  for (int64_t dim : tensor.shape())
    dims += fmt::format("{}, ", dim);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                  strings ? fmt::format("<U{}", longest) : descrOf(tensor.type()), dims);
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string text(kMagic);
  text += {1, 0, char(header.size() & 0xff), char(header.size() >> 8)};
  text += header;
  for (std::u32string &value : wide) {
    value.resize(longest);
    text.append(reinterpret_cast<const char *>(value.data()), 4 * longest);
  }
  auto begin = reinterpret_cast<const std::byte *>(text.data());
  Bytes result(begin, begin + text.size());
  if (!strings)
    result.insert(result.end(), tensor.data(), tensor.data() + tensor.bytes());
  return result;
}

} // namespace tensmith
