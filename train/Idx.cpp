// IDX files, as MNIST and Fashion-MNIST come: two zero bytes, the element type, the rank, the sizes
// as big-endian 32-bit numbers, the elements (yann.lecun.com/exdb/mnist). With gzip around them or
// without: zlib reads both alike.
//
// The sizes are believed only up to what is in the file: elements are read in pieces, so that a
// header that promises terabytes takes no memory.
#include "files/Failure.h"
#include "train/Dataset.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <zlib.h>

namespace tensmith::train {
namespace {

constexpr int64_t kMostElements = int64_t(1) << 40;
constexpr size_t kPiece = 1 << 22;

/// A file's contents, unpacked if it is packed.
class GzipFile {
public:
  explicit GzipFile(const std::string &path) : path_(path), file_(::gzopen(path.c_str(), "rb")) {
    if (!file_)
      fail(path, std::string(std::strerror(errno ? errno : ENOMEM)) + "; check the path");
  }
  ~GzipFile() { ::gzclose_r(file_); }
  GzipFile(const GzipFile &) = delete;
  GzipFile &operator=(const GzipFile &) = delete;

  size_t read(std::span<std::byte> into) {
    int count = ::gzread(file_, into.data(), unsigned(into.size()));
    int error = Z_OK;
    const char *reason = ::gzerror(file_, &error);
    if (count < 0 || (error != Z_OK && error != Z_STREAM_END && error != Z_BUF_ERROR))
      fail(path_, std::string("can't be unpacked: ") +
                      (error == Z_ERRNO ? std::strerror(errno) : reason) + "; fetch it again");
    if (error == Z_BUF_ERROR)
      fail(path_, "is cut off; fetch it again");
    return size_t(count);
  }

private:
  std::string path_;
  gzFile file_;
};

DataType elementType(uint8_t code) {
  switch (code) {
  case 0x08:
    return DataType::U8;
  case 0x09:
    return DataType::I8;
  case 0x0B:
    return DataType::I16;
  case 0x0C:
    return DataType::I32;
  case 0x0D:
    return DataType::F32;
  case 0x0E:
    return DataType::F64;
  default:
    return DataType::Undefined;
  }
}

uint32_t bigEndian(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (std::byte byte : bytes.first(4))
    value = value << 8 | uint32_t(byte);
  return value;
}

struct Header {
  DataType type;
  Shape shape;
  int64_t bytes;
};

Header readHeader(GzipFile &file, const std::string &path) {
  std::array<std::byte, 4> magic = {}, size;
  size_t there = file.read(magic);
  auto type = elementType(uint8_t(magic[2]));
  if (there != 4 || magic[0] != std::byte(0) || magic[1] != std::byte(0) ||
      type == DataType::Undefined)
    fail(path, "is no IDX file: it does not start with two zeros and an element type");
  Header header = {type, {}, 0};
  for (int i = 0; i < int(magic[3]); ++i) {
    if (file.read(size) != 4)
      fail(path, "is cut off in its header; fetch it again");
    header.shape.push_back(bigEndian(size));
  }
  auto count = elementCount(header.shape, kMostElements);
  if (header.shape.empty() || !count)
    fail(path, "has the shape " + toString(header.shape) + ", which is none of a data set");
  header.bytes = *count * byteSize(type);
  checkFits(header.bytes, path);
  return header;
}

HostTensor readIdx(const std::string &path) {
  GzipFile file(path);
  Header header = readHeader(file, path);
  auto bytes = std::make_shared<std::vector<std::byte>>();
  while (int64_t(bytes->size()) < header.bytes) {
    size_t before = bytes->size();
    size_t piece = size_t(std::min<int64_t>(kPiece, header.bytes - int64_t(before)));
    bytes->resize(before + piece);
    size_t count = file.read(std::span(*bytes).subspan(before));
    bytes->resize(before + count);
    if (count == 0)
      fail(path, fmt::format("is cut off: {} elements need {} bytes, {} are there; fetch it again",
                             toString(header.shape), header.bytes, before));
  }
  std::byte more;
  if (file.read({&more, 1}) != 0)
    fail(path, "has more bytes than its header says; fetch it again");
  int64_t width = byteSize(header.type);
  for (size_t at = 0; width > 1 && at < bytes->size(); at += size_t(width))
    std::reverse(bytes->begin() + int64_t(at), bytes->begin() + int64_t(at) + width);
  const void *data = bytes->data();
  return HostTensor(header.type, header.shape, data, std::move(bytes));
}

} // namespace

std::optional<std::string> findIdx(const std::string &folder, bool test, const std::string &what) {
  std::error_code none;
  for (const char *set : test ? std::initializer_list<const char *>{"t10k", "test"}
                              : std::initializer_list<const char *>{"train"})
    for (int rank : {3, 1, 4})
      for (const char *end : {".gz", ""})
        for (char dash : {'-', '.'}) {
          std::string path =
              fmt::format("{}/{}-{}{}idx{}-ubyte{}", folder, set, what, dash, rank, end);
          if (std::filesystem::exists(path, none))
            return path;
        }
  return std::nullopt;
}

Dataset openIdx(const std::string &images, const std::string &labels) {
  HostTensor pictures = readIdx(images), classes = readIdx(labels);
  if (pictures.shape()[0] != classes.shape()[0])
    fail(labels, fmt::format("has {} labels, but {} has {} samples", classes.shape()[0], images,
                             pictures.shape()[0]));
  Dataset data = {images, pictures.shape()[0], {}, 1, {}};
  data.columns.push_back(arrayColumn("images", std::move(pictures)));
  data.columns.push_back(arrayColumn("labels", std::move(classes)));
  return data;
}

} // namespace tensmith::train
