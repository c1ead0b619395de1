// Zip archives as PKWARE's APPNOTE.TXT 6.3 has them, as far as NumPy writes them: stored or
// deflated entries, zip64 sizes, neither encryption nor several volumes.
//
// Every offset and size is checked against the file; an entry is only unpacked if its size is one
// that deflate can reach from what is packed, so a small file can't ask for much memory.
#include "files/Npz.h"

#include "files/Failure.h"

#include <algorithm>
#include <cstring>
#include <zlib.h>

namespace tensmith {
namespace {

using Span = std::span<const std::byte>;

constexpr uint32_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50,
                   kLocator64Signature = 0x07064b50, kCentralSignature = 0x02014b50,
                   kLocalSignature = 0x04034b50;
constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20, kCentralBytes = 46,
                 kLocalBytes = 30;
constexpr uint16_t kZip64Field = 1, kStored = 0, kDeflated = 8, kEncryptedFlag = 1;
constexpr uint64_t kBestRatio = 1032;       // of deflate, from its longest match
constexpr uint32_t kElsewhere = 0xffffffff; // the value is in the zip64 field

template <typename T> T get(Span bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T)); // callers have checked the bounds
  return value;
}

/// The part of the file, or nothing where it reaches past the end.
std::optional<Span> part(Span file, uint64_t offset, uint64_t size) {
  if (offset > file.size() || size > file.size() - offset)
    return std::nullopt;
  return file.subspan(offset, size);
}

/// Where the end record is: the last place with its signature.
std::optional<size_t> findEnd(Span file) {
  for (size_t back = kEndBytes; back <= file.size() && back <= kEndBytes + 0xffff; ++back)
    if (get<uint32_t>(file, file.size() - back) == kEndSignature)
      return file.size() - back;
  return std::nullopt;
}

/// Replaces the values that did not fit 32 bits, in the order in which APPNOTE 4.5.3 lists them.
bool applyZip64(Span extra, std::initializer_list<uint64_t *> values) {
  while (extra.size() >= 4) {
    auto id = get<uint16_t>(extra, 0), size = get<uint16_t>(extra, 2);
    if (size > extra.size() - 4)
      return false;
    Span field = extra.subspan(4, size);
    for (uint64_t *value : values)
      if (id == kZip64Field && *value == kElsewhere) {
        if (field.size() < 8)
          return false;
        *value = get<uint64_t>(field, 0);
        field = field.subspan(8);
      }
    extra = extra.subspan(4 + size);
  }
  return true;
}

} // namespace

Npz::Npz(const std::string &where) : where_(where), file_(readFile(where)) { readDirectory(); }

void Npz::readDirectory() {
  Span file = file_;
  auto end = findEnd(file);
  if (!end)
    fail(where_, "is not an .npz file, or is cut off; write it with numpy.savez");
  uint64_t offset = get<uint32_t>(file, *end + 16), count = get<uint16_t>(file, *end + 10);
  if (*end >= kLocator64Bytes &&
      get<uint32_t>(file, *end - kLocator64Bytes) == kLocator64Signature) {
    auto end64 = part(file, get<uint64_t>(file, *end - kLocator64Bytes + 8), kEnd64Bytes);
    if (!end64 || get<uint32_t>(*end64, 0) != kEnd64Signature)
      fail(where_, "has a broken directory; write it again");
    count = get<uint64_t>(*end64, 32);
    offset = get<uint64_t>(*end64, 48);
  }
  for (uint64_t i = 0; i < count; ++i) {
    auto fixed = part(file, offset, kCentralBytes);
    if (!fixed || get<uint32_t>(*fixed, 0) != kCentralSignature)
      fail(where_, "has a broken directory; write it again");
    uint64_t size = kCentralBytes + get<uint16_t>(*fixed, 28) + get<uint16_t>(*fixed, 30) +
                    get<uint16_t>(*fixed, 32);
    auto record = part(file, offset, size);
    if (!record)
      fail(where_, "has a broken directory; write it again");
    addEntry(*record);
    offset += size;
  }
}

void Npz::addEntry(Span record) {
  auto nameBytes = get<uint16_t>(record, 28), extraBytes = get<uint16_t>(record, 30);
  std::string name(reinterpret_cast<const char *>(record.data()) + kCentralBytes, nameBytes);
  Entry entry = {get<uint16_t>(record, 10), get<uint32_t>(record, 16), get<uint32_t>(record, 20),
                 get<uint32_t>(record, 24), get<uint32_t>(record, 42)};
  if (!applyZip64(record.subspan(kCentralBytes + nameBytes, extraBytes),
                  {&entry.size, &entry.packed, &entry.offset}))
    fail(where_, "has a broken directory; write it again");
  if (get<uint16_t>(record, 8) & kEncryptedFlag)
    fail(where_, "is encrypted; write it with numpy.savez");
  if (!name.ends_with(".npy"))
    return; // what else is in the archive is no array
  names_.push_back(name.substr(0, name.size() - 4));
  entries_.push_back(entry);
}

bool Npz::has(const std::string &name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

uint64_t Npz::size(const std::string &name) const {
  return entries_.at(size_t(std::find(names_.begin(), names_.end(), name) - names_.begin())).size;
}

Bytes Npz::read(const std::string &name) const {
  size_t index = size_t(std::find(names_.begin(), names_.end(), name) - names_.begin());
  const Entry &entry = entries_.at(index);
  auto local = part(file_, entry.offset, kLocalBytes);
  if (!local || get<uint32_t>(*local, 0) != kLocalSignature)
    fail(where_, "'" + name + "' is not where the directory says; write it again");
  uint64_t start =
      entry.offset + kLocalBytes + get<uint16_t>(*local, 26) + get<uint16_t>(*local, 28);
  auto packed = part(file_, start, entry.packed);
  if (!packed)
    fail(where_, "'" + name + "' reaches past the end of the file; write it again");
  Bytes bytes = unpack(entry, *packed);
  if (bytes.size() != entry.size ||
      ::crc32_z(0, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()) != entry.crc)
    fail(where_, "'" + name + "' does not match its checksum; write it again");
  return bytes;
}

Bytes Npz::unpack(const Entry &entry, Span packed) const {
  if (entry.method == kStored)
    return {packed.begin(), packed.end()};
  if (entry.method != kDeflated || entry.size / kBestRatio > packed.size())
    fail(where_, "is packed in a way that NumPy does not use; write it with numpy.savez");
  Bytes bytes(entry.size);
  z_stream stream = {};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    fail(where_, "can't be unpacked: there is not enough memory");
  uint64_t in = 0, out = 0;
  int result = Z_OK;
  while (result == Z_OK) { // zlib counts in 32 bits
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<std::byte *>(packed.data() + in));
    stream.avail_in = uInt(std::min<uint64_t>(packed.size() - in, 1 << 30));
    stream.next_out = reinterpret_cast<Bytef *>(bytes.data() + out);
    stream.avail_out = uInt(std::min<uint64_t>(bytes.size() - out, 1 << 30));
    uInt inBefore = stream.avail_in, outBefore = stream.avail_out;
    result = ::inflate(&stream, Z_NO_FLUSH);
    in += inBefore - stream.avail_in;
    out += outBefore - stream.avail_out;
  }
  ::inflateEnd(&stream);
  bytes.resize(out);
  return bytes;
}

} // namespace tensmith
