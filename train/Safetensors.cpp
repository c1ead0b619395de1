// Every offset is checked against the file and against the tensor's own size before it is used, and
// the parts have to follow one another without gaps, as the format demands.
#include "train/Safetensors.h"

#include "base/Hash.h"
#include "files/Failure.h"
#include "files/Files.h"
#include "files/Mapping.h"
#include "files/Words.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tensmith::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLargestHeader = 100'000'000; // the format's own limit
constexpr const char *kHashKey = "tensmith.hash";

constexpr std::pair<DataType, const char *> kTypes[] = {
    {DataType::F32, "F32"},   {DataType::F64, "F64"}, {DataType::F16, "F16"},
    {DataType::BF16, "BF16"}, {DataType::I8, "I8"},   {DataType::I16, "I16"},
    {DataType::I32, "I32"},   {DataType::I64, "I64"}, {DataType::U8, "U8"},
    {DataType::U16, "U16"},   {DataType::U32, "U32"}, {DataType::U64, "U64"},
    {DataType::Bool, "BOOL"},
};

const char *typeName(DataType type, const std::string &tensor) {
  for (auto [known, name] : kTypes)
    if (known == type)
      return name;
  fail("checkpoint", "the tensor '" + printable(tensor) + "' is of the type " +
                         std::string(name(type)) + ", which safetensors does not have");
}

std::span<const std::byte> bytesOf(const HostTensor &tensor) {
  return {tensor.data(), size_t(tensor.bytes())};
}

[[noreturn]] void broken(const std::string &path, const std::string &what) {
  fail(path, "is no whole safetensors file: " + what);
}

NamedTensor readTensor(const std::string &path, const std::string &name, const Json &entry,
                       std::span<const std::byte> data, const std::shared_ptr<const void> &owner,
                       uint64_t &expected) {
  auto is = [&](const char *key) { return entry.is_object() && entry.contains(key); };
  if (!is("dtype") || !is("shape") || !is("data_offsets") || !entry["dtype"].is_string() ||
      !entry["shape"].is_array() || !entry["data_offsets"].is_array() ||
      entry["data_offsets"].size() != 2)
    broken(path, "'" + printable(name) + "' has no type, shape or place");
  DataType type = DataType::Undefined;
  for (auto [known, text] : kTypes)
    if (entry["dtype"] == text)
      type = known;
  Shape shape;
  for (const Json &dim : entry["shape"])
    shape.push_back(dim.is_number_unsigned() ? dim.get<int64_t>() : -1);
  auto count = elementCount(shape);
  for (const Json &offset : entry["data_offsets"])
    if (!offset.is_number_unsigned())
      broken(path, "'" + printable(name) + "' has no place");
  uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
  if (type == DataType::Undefined || !count)
    broken(path, "'" + printable(name) + "' has an unknown type, or a shape that none can have");
  if (begin != expected || end < begin || end > data.size() ||
      end - begin != uint64_t(*count) * uint64_t(byteSize(type)))
    broken(path, "'" + printable(name) + "' lies outside of it, or its size is wrong");
  expected = end;
  return {name, HostTensor(type, shape, data.data() + begin, owner)};
}

} // namespace

void writeSafetensors(const std::filesystem::path &path, const std::vector<NamedTensor> &tensors,
                      Metadata metadata) {
  Hasher hasher;
  for (const NamedTensor &named : tensors)
    hasher.addBytes(bytesOf(named.tensor));
  metadata[kHashKey] = toHex(hasher.finish());
  Json header = {{"__metadata__", metadata}};
  int64_t at = 0;
  for (const NamedTensor &named : tensors) {
    int64_t end = at + named.tensor.bytes();
    header[named.name] = {{"dtype", typeName(named.tensor.type(), named.name)},
                          {"shape", named.tensor.shape()},
                          {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t size = text.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(std::as_bytes(std::span(text)));
  for (const NamedTensor &named : tensors)
    file.write(bytesOf(named.tensor));
  file.commit(/*durable=*/true);
}

namespace {

/// Of bytes that `owner` keeps.
Safetensors parsed(const std::string &where, std::span<const std::byte> bytes,
                   const std::shared_ptr<const void> &owner) {
  uint64_t size = 0;
  if (bytes.size() < sizeof size)
    broken(where, "it is cut off");
  std::memcpy(&size, bytes.data(), sizeof size);
  if (size > bytes.size() - sizeof size || size > kLargestHeader)
    broken(where, "it is cut off in its header");
  auto text = reinterpret_cast<const char *>(bytes.data()) + sizeof size;
  Json header = Json::parse(text, text + size, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object())
    broken(where, "its header is no JSON");
  Safetensors result{owner, {}, {}};
  auto data = bytes.subspan(sizeof size + size);
  std::vector<std::pair<std::string, Json>> entries;
  for (const auto &[name, entry] : header.items())
    if (name != "__metadata__")
      entries.emplace_back(name, entry);
    else if (entry.is_object())
      for (const auto &[key, value] : entry.items()) {
        if (!value.is_string())
          broken(where, "its metadata '" + printable(key) + "' is no text");
        result.metadata[key] = value.get<std::string>();
      }
  auto beginOf = [](const std::pair<std::string, Json> &entry) {
    const Json &offsets = entry.second.is_object() && entry.second.contains("data_offsets")
                              ? entry.second["data_offsets"]
                              : Json();
    return offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned()
               ? std::pair(offsets[0].get<uint64_t>(),
                           offsets[1].is_number_unsigned() ? offsets[1].get<uint64_t>() : 0)
               : std::pair<uint64_t, uint64_t>(0, 0);
  };
  std::ranges::sort(entries, {}, beginOf);
  uint64_t expected = 0;
  for (const auto &[name, entry] : entries)
    result.tensors.push_back(readTensor(where, name, entry, data, owner, expected));
  if (expected != data.size())
    broken(where, "it has other bytes than its tensors'");
  return result;
}

} // namespace

Safetensors readSafetensors(const std::filesystem::path &path) {
  auto file = std::make_shared<const Bytes>(readFile(path));
  Safetensors result = parsed(path.string(), *file, file);
  auto hash = result.metadata.find(kHashKey);
  if (hash == result.metadata.end())
    return result;
  uint64_t header = 0;
  std::memcpy(&header, file->data(), sizeof header);
  if (hash->second != toHex(hash128(std::span(*file).subspan(sizeof header + header))))
    fail(path.string(), "is damaged: its bytes are not those that were written");
  return result;
}

Safetensors mapSafetensors(const std::filesystem::path &path) {
  MappedFile file = mapFile(path);
  return parsed(path.string(), file.bytes, file.owner);
}

} // namespace tensmith::train
