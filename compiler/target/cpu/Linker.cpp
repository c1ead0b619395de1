// lld takes files and gives a file: they are in a temporary folder that is gone afterwards; see
// Linker.h.
#include "compiler/target/cpu/Linker.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <fstream>
#include <mutex>
#include <stdlib.h>

LLD_HAS_DRIVER(elf)

namespace fs = std::filesystem;

namespace tensmith::target::cpu {
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
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), std::streamsize(bytes.size()));
  out.close();
  if (out)
    return {};
  return {StatusCode::IoError,
          "cannot write the temporary file '" + path + "': no space left on device?"};
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
  lld::Result result = lld::lldMain(pointers, out, out, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0)
    return {StatusCode::Internal, "linking failed: " + messages};
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
  if (Status status = runLinker(arguments); !status.ok())
    return status;
  return readFile(output);
}

} // namespace tensmith::target::cpu
