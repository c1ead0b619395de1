// Files in and out, with errors that name the file and say what to do.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tensmith {

using Bytes = std::vector<std::byte>;

/// The whole file; refuses folders and devices without an end.
Bytes readFile(const std::string &path);

/// A file written beside its place and renamed, so that a failure (a full disk, a process that is
/// killed) leaves no half of it: whoever opens `path` finds the old contents or the new ones. Of a
/// link the file that it names is written; a device or a pipe is not replaced.
class AtomicFile {
public:
  explicit AtomicFile(const std::filesystem::path &path);
  /// What was not committed is removed.
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  void write(std::span<const std::byte> bytes);
  /// `durable`: only once file and folder are on the disk, so that also a machine that loses its
  /// power has it.
  void commit(bool durable = false);

private:
  [[noreturn]] void giveUp(int error);
  void removePartial();
  std::string path_, partial_; // none where the file is no regular one, which is written as it is
  int number_ = -1;
};

/// The whole file by one.
void writeFile(const std::filesystem::path &path, std::span<const std::byte> bytes);
void writeFile(const std::filesystem::path &path, std::string_view text);

/// By content: what is no ELF object is taken for a model, unless it is named like a module. Fails
/// where it is neither, as far as that is known (ModelFile.h).
enum class FileKind { Model, Module };
FileKind kindOf(const std::string &path);

/// A folder for what is needed only as long as this object, removed with all that is in it.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  const std::filesystem::path &path() const { return path_; }

private:
  std::filesystem::path path_;
};

} // namespace tensmith
