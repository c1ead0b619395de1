// The header is a line of Python's: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// (numpy.lib.format). Files come from outside: every size is held to the file's.
#include "frontends/text/Npy.h"

#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

namespace tensmith::text {
namespace {

Result<DataType> typeOf(const std::string &text) {
  static const std::map<std::string, DataType> types = {
      {"<f4", DataType::F32},  {"<f8", DataType::F64}, {"<f2", DataType::F16},
      {"|b1", DataType::Bool}, {"|i1", DataType::I8},  {"<i2", DataType::I16},
      {"<i4", DataType::I32},  {"<i8", DataType::I64}, {"|u1", DataType::U8},
      {"<u2", DataType::U16},  {"<u4", DataType::U32}, {"<u8", DataType::U64}};
  auto found = types.find(text);
  if (found == types.end())
    return unsupported("elements of NumPy's type '" + text + "' can't be loaded");
  return found->second;
}

/// What follows 'key': up to a comma outside of parentheses.
std::string entry(const std::string &header, const std::string &key) {
  size_t begin = header.find("'" + key + "':");
  if (begin == std::string::npos)
    return {};
  begin += key.size() + 3;
  size_t end = begin;
  for (int depth = 0; end < header.size() && (depth || (header[end] != ',' && header[end] != '}'));
       ++end)
    depth += header[end] == '(' ? 1 : header[end] == ')' ? -1 : 0;
  std::string text = header.substr(begin, end - begin);
  std::erase_if(text, [](char c) { return c == ' ' || c == '\'' || c == '"'; });
  return text;
}

Result<Shape> shapeOf(const std::string &text) {
  Shape shape;
  if (text.size() < 2 || text.front() != '(' || text.back() != ')')
    return invalidArgument("it has no shape");
  std::stringstream stream(text.substr(1, text.size() - 2));
  for (std::string part; std::getline(stream, part, ',');) {
    if (part.empty() || part.size() > 15 ||
        part.find_first_not_of("0123456789") != std::string::npos)
      return invalidArgument("its shape is " + text);
    shape.push_back(std::stoll(part));
  }
  return shape;
}

} // namespace

Result<HostTensor> readNpy(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Status(StatusCode::IoError, "it can't be opened");
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY") != 0)
    return invalidArgument("it is no .npy file");
  auto byte = [&](size_t at) { return size_t(static_cast<unsigned char>(bytes[at])); };
  bool wide = byte(6) >= 2;
  size_t begin = wide ? 12 : 10, length = byte(8) | byte(9) << 8;
  if (wide)
    length |= byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - begin)
    return invalidArgument("its header is cut off");
  std::string header = bytes.substr(begin, length);
  auto type = typeOf(entry(header, "descr"));
  auto shape = shapeOf(entry(header, "shape"));
  if (!type.ok() || !shape.ok())
    return type.ok() ? shape.status() : type.status();
  if (entry(header, "fortran_order") != "False")
    return unsupported("it is in Fortran's order; save numpy.ascontiguousarray of it");
  auto count = elementCount(*shape);
  size_t given = bytes.size() - begin - length;
  if (!count || uint64_t(*count) != given / uint64_t(byteSize(*type)) ||
      given % uint64_t(byteSize(*type)))
    return invalidArgument("it has " + std::to_string(given) + " bytes of elements for the shape " +
                           toString(*shape));
  HostTensor tensor(*type, *shape);
  if (given)
    std::memcpy(tensor.mutableData(), bytes.data() + begin + length, given);
  return tensor;
}

} // namespace tensmith::text
