// lld takes files and gives a file: they are in a temporary folder that is gone afterwards; see
// Linker.h.
#include "compiler/module/Linker.h"

#include "compiler/module/OutputFile.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stdlib.h>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

namespace fs = std::filesystem;

namespace tensmith::modules {
namespace {

constexpr char kExports[] = "{ global: k_*; local: *; };\n";

class Scratch {
public:
  Scratch() {
    std::error_code error;
    std::string pattern = (fs::temp_directory_path(error) / "tensmith-link-XXXXXX").string();
    if (!error && mkdtemp(pattern.data()))
      path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty())
      fs::remove_all(path_, ignored);
  }
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

Status writeFile(const std::string &path, std::span<const char> bytes) {
  OutputFile file;
  Status status = file.open(path, int64_t(bytes.size()));
  if (status.ok())
    status = file.write(0, std::as_bytes(bytes));
  return status.ok() ? file.commit() : status;
}

/// That the linked file will fit beside the objects: where it doesn't lld would exit halfway, and
/// couldn't be used again.
Status checkSpace(const std::string &path, const std::vector<std::span<const char>> &objects) {
  constexpr int64_t kTablesAndPadding = 64 << 10;
  int64_t bytes = kTablesAndPadding;
  for (std::span<const char> object : objects)
    bytes += int64_t(object.size());
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  int error = file < 0 ? errno : posix_fallocate(file, 0, bytes);
  if (file >= 0)
    close(file);
  unlink(path.c_str());
  if (error != ENOSPC && error != EDQUOT)
    return {};
  return {StatusCode::IoError, "no space left on device for temporary files in '" +
                                   fs::path(path).parent_path().parent_path().string() +
                                   "'; set TMPDIR to a folder with room"};
}

Status runLinker(const std::vector<std::string> &arguments) {
  static std::mutex linking; // lld keeps its state in globals
  static bool usable = true;
  std::lock_guard lock(linking);
  if (!usable)
    return {StatusCode::Internal, "the linker crashed earlier in this process"};
  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());
  std::string messages;
  llvm::raw_string_ostream out(messages);
  // Where lld gives up it exits; within this context it comes back instead. The context's signal
  // handlers are in place for the link alone: the host program has its own.
  llvm::CrashRecoveryContext::Enable();
  lld::Result result = lld::lldMain(pointers, out, out, {{lld::Gnu, &lld::elf::link}});
  llvm::CrashRecoveryContext::Disable();
  usable = result.canRunAgain;
  if (result.retCode != 0)
    return {StatusCode::Internal, "linking failed: " + llvm::StringRef(messages).rtrim().str()};
  return {};
}

Result<std::string> readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::string bytes(in ? size_t(in.tellg()) : 0, '\0');
  in.seekg(0);
  in.read(bytes.data(), std::streamsize(bytes.size()));
  if (!in)
    return Status(StatusCode::IoError, "cannot read the temporary file '" + path + "'");
  return bytes;
}

} // namespace

Result<std::string> linkShared(const std::vector<std::span<const char>> &objects,
                               const std::string &name) {
  Scratch scratch;
  if (scratch.path().empty())
    return Status(
        StatusCode::IoError,
        "cannot make a folder for temporary files; set TMPDIR to one that can be written");
  std::string output = scratch.path() + "/image.so", exports = scratch.path() + "/exports";
  std::vector<std::string> arguments = {"ld.lld",
                                        "-shared",
                                        "--build-id=none",
                                        "-z",
                                        "now",
                                        "-z",
                                        "noexecstack",
                                        "-z",
                                        "separate-loadable-segments",
                                        "--gc-sections",
                                        "--no-undefined",
                                        "--threads=1",
                                        "-soname",
                                        name,
                                        "--version-script",
                                        exports,
                                        "-o",
                                        output};
  if (Status status = writeFile(exports, std::span(kExports, sizeof kExports - 1)); !status.ok())
    return status;
  for (size_t number = 0; number < objects.size(); ++number) {
    arguments.push_back(scratch.path() + "/" + std::to_string(number) + ".o");
    if (Status status = writeFile(arguments.back(), objects[number]); !status.ok())
      return status;
  }
  if (Status status = checkSpace(output, objects); !status.ok())
    return status;
  if (Status status = runLinker(arguments); !status.ok())
    return status;
  return readFile(output);
}

} // namespace tensmith::modules
