// Reading GGUF files; see Gguf.h.
#include "files/Gguf.h"

#include "files/Failure.h"
#include "files/Mapping.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace tensmith {
namespace {

constexpr size_t kMostName = 1 << 16; // bytes of a key or a name
constexpr uint32_t kMostRank = 4;

/// Kinds of metadata, numbered as in the file.
enum Kind : uint32_t { U8, I8, U16, I16, U32, I32, F32, Boolean, Text, List, U64, I64, F64 };

constexpr size_t kBytesOfKind[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/// Element types of tensors, by their numbers: the name of a format, or of plain integers, or of
/// one that is known and not read.
struct ElementType {
  uint32_t number;
  const char *name;
  uint16_t bytes = 0; // of an element that is no float; 0: a format, if there is one of that name
};
constexpr ElementType kTypes[] = {
    {0, "f32"},     {1, "f16"},      {2, "q4_0"},   {3, "q4_1"},    {6, "q5_0"},
    {7, "q5_1"},    {8, "q8_0"},     {9, "q8_1"},   {10, "q2_K"},   {11, "q3_K"},
    {12, "q4_K"},   {13, "q5_K"},    {14, "q6_K"},  {15, "q8_K"},   {16, "iq2_xxs"},
    {17, "iq2_xs"}, {18, "iq3_xxs"}, {19, "iq1_s"}, {20, "iq4_nl"}, {21, "iq3_s"},
    {22, "iq2_s"},  {23, "iq4_xs"},  {24, "i8", 1}, {25, "i16", 2}, {26, "i32", 4},
    {27, "i64", 8}, {28, "f64", 8},  {29, "iq1_m"}, {30, "bf16"},   {34, "tq1_0"},
    {35, "tq2_0"},  {39, "mxfp4"},
};

/// Bytes in order, with what they are when one is missing.
class Reader {
public:
  Reader(std::span<const std::byte> bytes, const std::string &name) : bytes_(bytes), name_(name) {}

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  [[noreturn]] void wrong(const std::string &what) const {
    fail(name_, what + fmt::format(
                           " (at byte {}); the file is damaged, or was not downloaded whole", at_));
  }

  [[noreturn]] void refuse(const std::string &what) const { fail(name_, what); }

  std::span<const std::byte> take(uint64_t count, const std::string &what) {
    if (count > left())
      wrong(fmt::format("{} has {} bytes, and {} are left", what, count, left()));
    auto taken = bytes_.subspan(at_, size_t(count));
    at_ += size_t(count);
    return taken;
  }
  template <typename T> T number(const std::string &what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  /// How many of something follow, of at least so many bytes each.
  size_t count(const std::string &what, size_t bytesOfEach) {
    auto count = number<uint64_t>("the number of " + what);
    if (count > left() / bytesOfEach)
      wrong(fmt::format("there are to be {} {}, and {} bytes are left", count, what, left()));
    return size_t(count);
  }
  std::string text(const std::string &what, size_t most = SIZE_MAX) {
    auto length = number<uint64_t>("the length of " + what);
    if (length > most)
      wrong(fmt::format("{} has {} bytes", what, length));
    auto bytes = take(length, what);
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
  }

private:
  std::span<const std::byte> bytes_;
  const std::string &name_;
  size_t at_ = 0;
};

int64_t integerOf(Reader &reader, uint32_t kind, const std::string &what) {
  switch (kind) {
  case U8:
    return reader.number<uint8_t>(what);
  case I8:
    return reader.number<int8_t>(what);
  case U16:
    return reader.number<uint16_t>(what);
  case I16:
    return reader.number<int16_t>(what);
  case U32:
    return reader.number<uint32_t>(what);
  case I32:
    return reader.number<int32_t>(what);
  case Boolean:
    return reader.number<uint8_t>(what) != 0;
  default:
    return reader.number<int64_t>(what); // of 64 bits, those of no sign as their complement
  }
}

bool isReal(uint32_t kind) { return kind == F32 || kind == F64; }
double realOf(Reader &reader, uint32_t kind, const std::string &what) {
  return kind == F32 ? double(reader.number<float>(what)) : reader.number<double>(what);
}

GgufValue listOf(Reader &reader, const std::string &what) {
  auto kind = reader.number<uint32_t>(what);
  if (kind == List || kind > F64)
    reader.wrong(fmt::format("{} is a list of kind {}, which is not read", what, kind));
  if (kind == Text) {
    std::vector<std::string> texts(reader.count("texts of " + what, 8));
    for (std::string &text : texts)
      text = reader.text(what);
    return texts;
  }
  size_t count = reader.count("elements of " + what, kBytesOfKind[kind]);
  if (isReal(kind)) {
    std::vector<double> reals(count);
    for (double &real : reals)
      real = realOf(reader, kind, what);
    return reals;
  }
  std::vector<int64_t> integers(count);
  for (int64_t &integer : integers)
    integer = integerOf(reader, kind, what);
  return integers;
}

GgufValue valueOf(Reader &reader, const std::string &what) {
  auto kind = reader.number<uint32_t>("the kind of " + what);
  if (kind > F64)
    reader.wrong(fmt::format("{} is of kind {}, which there is not", what, kind));
  if (kind == List)
    return listOf(reader, what);
  if (kind == Text)
    return reader.text(what);
  if (isReal(kind))
    return realOf(reader, kind, what);
  if (kind == Boolean)
    return integerOf(reader, kind, what) != 0;
  return integerOf(reader, kind, what);
}

/// Of a tensor's description; its place is counted from where the data begins.
struct Described {
  GgufTensor tensor;
  uint64_t offset = 0, bytes = 0;
};

uint64_t bytesOf(Reader &reader, const Described &described, uint32_t number) {
  const GgufTensor &tensor = described.tensor;
  auto type = std::ranges::find(kTypes, number, &ElementType::number);
  auto elements = elementCount(tensor.shape);
  if (!elements)
    reader.wrong(fmt::format("tensor '{}' has a shape of too many elements", tensor.name));
  if (type == std::end(kTypes))
    reader.wrong(fmt::format("tensor '{}' is of type {}, which is not known", tensor.name, number));
  if (type->bytes)
    return uint64_t(*elements) * type->bytes;
  if (!tensor.format)
    reader.refuse(fmt::format("stores tensor '{}' as {}, which is not read; quantise the model to "
                              "another type, as q4_K or iq4_xs",
                              tensor.name, type->name));
  // Of plain floats a row may end anywhere.
  if (tensor.format->plain != DataType::Undefined)
    return uint64_t(*elements) * uint64_t(byteSize(tensor.format->plain));
  if (tensor.shape.back() % tensor.format->elements)
    reader.wrong(fmt::format("tensor '{}' has rows of {}, which are no whole blocks of {}",
                             tensor.name, tensor.shape.back(), tensor.format->elements));
  return uint64_t(*elements) / tensor.format->elements * tensor.format->bytes;
}

Described describe(Reader &reader) {
  Described described;
  GgufTensor &tensor = described.tensor;
  tensor.name = reader.text("the name of a tensor", kMostName);
  auto rank = reader.number<uint32_t>("the rank of tensor '" + tensor.name + "'");
  if (rank < 1 || rank > kMostRank)
    reader.wrong(fmt::format("tensor '{}' has {} dimensions", tensor.name, rank));
  for (uint32_t i = 0; i < rank; ++i) {
    auto size = reader.number<uint64_t>("a dimension of tensor '" + tensor.name + "'");
    if (size > uint64_t(kMostElements) || size == 0)
      reader.wrong(fmt::format("tensor '{}' has a dimension of {}", tensor.name, size));
    tensor.shape.insert(tensor.shape.begin(), int64_t(size));
  }
  auto number = reader.number<uint32_t>("the type of tensor '" + tensor.name + "'");
  auto type = std::ranges::find(kTypes, number, &ElementType::number);
  if (type != std::end(kTypes) && !type->bytes)
    tensor.format = findBlockFormat(type->name);
  described.offset = reader.number<uint64_t>("the place of tensor '" + tensor.name + "'");
  described.bytes = bytesOf(reader, described, number);
  return described;
}

void checkApart(std::vector<const Described *> tensors, const std::string &name) {
  std::ranges::sort(tensors, {}, &Described::offset);
  for (size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i - 1]->offset + tensors[i - 1]->bytes > tensors[i]->offset)
      fail(name, fmt::format("tensors '{}' and '{}' overlap; the file is damaged",
                             tensors[i - 1]->tensor.name, tensors[i]->tensor.name));
}

void checkStart(Reader &reader, const std::string &name) {
  auto magic = reader.take(4, "the beginning");
  if (std::memcmp(magic.data(), "GGUF", 4) != 0)
    fail(name, "is no GGUF file: it doesn't begin with 'GGUF'");
  auto version = reader.number<uint32_t>("the version");
  if (version == 0x02000000 || version == 0x03000000)
    fail(name, "is a GGUF file of the other byte order, which is not read");
  if (version != 2 && version != 3)
    fail(name, fmt::format("is of version {} of GGUF; versions 2 and 3 are read", version));
}

} // namespace

GgufFile GgufFile::open(const std::string &path) {
  MappedFile mapped = mapFile(path);
  return read(mapped.bytes, mapped.owner, path);
}

GgufFile GgufFile::assembled(const std::string &name, std::shared_ptr<const void> owner,
                             std::map<std::string, GgufValue> metadata,
                             std::vector<GgufTensor> tensors) {
  GgufFile file;
  file.name_ = name, file.owner_ = std::move(owner);
  file.metadata_ = std::move(metadata), file.tensors_ = std::move(tensors);
  for (size_t i = 0; i < file.tensors_.size(); ++i)
    file.byName_.emplace(file.tensors_[i].name, i);
  return file;
}

GgufFile GgufFile::read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                        const std::string &name) {
  GgufFile file;
  file.name_ = name;
  file.owner_ = std::move(owner);
  Reader reader(bytes, name);
  checkStart(reader, name);
  // A name's length, a dimension, and so on: the least that each takes.
  size_t tensors = reader.count("tensors", 32);
  size_t entries = reader.count("entries of metadata", 13);
  for (size_t i = 0; i < entries; ++i) {
    std::string key = reader.text("a key", kMostName);
    GgufValue value = valueOf(reader, "'" + key + "'");
    if (!file.metadata_.emplace(key, std::move(value)).second)
      reader.wrong("'" + key + "' is there twice");
  }
  int64_t alignment = file.integer("general.alignment", 32);
  if (alignment < 8 || alignment > 1 << 20 || (alignment & (alignment - 1)))
    fail(name,
         fmt::format("has an alignment of {}, which is no power of two from 8 on", alignment));
  std::vector<Described> described;
  for (size_t i = 0; i < tensors; ++i)
    described.push_back(describe(reader));
  uint64_t start =
      (reader.at() + uint64_t(alignment) - 1) / uint64_t(alignment) * uint64_t(alignment);
  std::vector<const Described *> places;
  for (Described &one : described) {
    GgufTensor &tensor = one.tensor;
    if (start > bytes.size() || one.offset > bytes.size() - start ||
        one.bytes > bytes.size() - start - one.offset)
      fail(name,
           fmt::format("tensor '{}' has {} bytes at {}, beyond the end of the file, which has "
                       "{}: it was not downloaded whole, or is damaged",
                       tensor.name, one.bytes, one.offset, bytes.size()));
    if (one.offset % uint64_t(alignment))
      fail(name, fmt::format("tensor '{}' lies at {}, no multiple of {}; the file is damaged",
                             tensor.name, one.offset, alignment));
    tensor.bytes = bytes.subspan(size_t(start + one.offset), size_t(one.bytes));
    if (!file.byName_.emplace(tensor.name, file.tensors_.size()).second)
      fail(name, fmt::format("tensor '{}' is there twice; the file is damaged", tensor.name));
    places.push_back(&one);
    file.tensors_.push_back(tensor);
  }
  checkApart(std::move(places), name);
  return file;
}

const GgufTensor *GgufFile::find(const std::string &name) const {
  auto found = byName_.find(name);
  return found == byName_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor &GgufFile::tensor(const std::string &name) const {
  const GgufTensor *found = find(name);
  if (!found)
    fail(name_, "has no tensor '" + name + "', which its architecture needs");
  return *found;
}

template <typename T> const T *GgufFile::get(const std::string &key, const char *kind) const {
  auto found = metadata_.find(key);
  if (found == metadata_.end())
    return nullptr;
  const T *value = std::get_if<T>(&found->second);
  if (!value)
    fail(name_, "'" + key + "' is not " + kind);
  return value;
}

int64_t GgufFile::integer(const std::string &key, int64_t otherwise) const {
  const auto *value = get<int64_t>(key, "an integer");
  return value ? *value : otherwise;
}
int64_t GgufFile::integer(const std::string &key) const {
  if (!has(key))
    fail(name_, "has no '" + key + "', which its architecture needs");
  return integer(key, 0);
}
double GgufFile::real(const std::string &key, double otherwise) const {
  const auto *value = get<double>(key, "a real number");
  return value ? *value : otherwise;
}
bool GgufFile::flag(const std::string &key, bool otherwise) const {
  const auto *value = get<bool>(key, "a boolean");
  return value ? *value : otherwise;
}
std::string GgufFile::text(const std::string &key, const std::string &otherwise) const {
  const auto *value = get<std::string>(key, "a text");
  return value ? *value : otherwise;
}
std::string GgufFile::text(const std::string &key) const {
  if (!has(key))
    fail(name_, "has no '" + key + "'");
  return text(key, "");
}
const std::vector<std::string> &GgufFile::texts(const std::string &key) const {
  static const std::vector<std::string> kNone;
  const auto *value = get<std::vector<std::string>>(key, "a list of texts");
  return value ? *value : kNone;
}
const std::vector<int64_t> &GgufFile::integers(const std::string &key) const {
  static const std::vector<int64_t> kNone;
  const auto *value = get<std::vector<int64_t>>(key, "a list of integers");
  return value ? *value : kNone;
}
const std::vector<double> &GgufFile::reals(const std::string &key) const {
  static const std::vector<double> kNone;
  const auto *value = get<std::vector<double>>(key, "a list of real numbers");
  return value ? *value : kNone;
}

} // namespace tensmith
