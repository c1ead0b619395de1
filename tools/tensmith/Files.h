// Files in and out, with errors that name the file and say what to do.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tensmith::cli {

using Bytes = std::vector<std::byte>;

/// The whole file; refuses folders and devices without an end.
Bytes readFile(const std::string &path);

/// Written beside its place and renamed, so that a failure (a full disk) leaves no half of it.
void writeFile(const std::filesystem::path &path, std::span<const std::byte> bytes);

/// By content: what is no ELF object is taken for a model, unless it is named like a module.
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

} // namespace tensmith::cli
