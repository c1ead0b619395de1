// NumPy's .npz files: zip archives of .npy files.
#pragma once

#include "files/Files.h"

#include <optional>

namespace tensmith {

/// The archive's directory; entries are unpacked when they are asked for.
class Npz {
public:
  /// `where` names the file in messages.
  explicit Npz(const std::string &where);

  /// As numpy.savez named the arrays, in the file's order.
  const std::vector<std::string> &names() const { return names_; }
  bool has(const std::string &name) const;
  /// How many bytes the .npy file of that name has, as the directory says, which `read` holds it
  /// to.
  uint64_t size(const std::string &name) const;
  /// The .npy file of that name.
  Bytes read(const std::string &name) const;

private:
  struct Entry {
    uint16_t method;
    uint32_t crc;
    uint64_t packed, size, offset;
  };
  void readDirectory();
  void addEntry(std::span<const std::byte> record);
  Bytes unpack(const Entry &entry, std::span<const std::byte> packed) const;

  std::string where_;
  Bytes file_;
  std::vector<std::string> names_;
  std::vector<Entry> entries_;
};

} // namespace tensmith
