// Operands and results go through .npy files; see Board.h.
#include "tests/random/Board.h"

#include "files/Failure.h"
#include "files/Npy.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

namespace tensmith::random_graphs {

Board::Board(std::string command, std::span<const char> module) : command_(std::move(command)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tensmith-board-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    fail(pattern, "can't be made; set TMPDIR to a folder that can be written");
  folder_ = pattern;
  writeFile(folder_ + "/module.so", std::as_bytes(module));
}

Board::~Board() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Result<std::string> Board::call(const std::string &arguments) {
  std::string output = folder_ + "/output", errors = folder_ + "/errors";
  int status = std::system(
      (command_ + " " + folder_ + "/module.so " + arguments + " >" + output + " 2>" + errors)
          .c_str());
  auto text = [](const std::string &path) {
    Bytes bytes = readFile(path);
    return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  };
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return text(output);
  // Debian's qemu 7.2 can't translate some of RISC-V's conversions of vectors, vfncvt.rtz.x.f.w say
  // (https://gitlab.com/qemu-project/qemu/-/issues/1441).
  if (text(errors).find("decode_save_opc: Assertion") != std::string::npos)
    return unsupported("the emulator fails at an instruction");
  // A shell says of a program that a signal ended that its status is above 128.
  bool refused = WIFEXITED(status) && WEXITSTATUS(status) == 1;
  return Status(refused ? StatusCode::InvalidArgument : StatusCode::Internal,
                text(errors) + (refused ? "" : " (status " + std::to_string(status) + ")"));
}

Result<std::vector<HostTensor>> Board::run(std::span<const HostTensor> inputs,
                                           std::span<const HostTensor> expected, int threads) {
  auto signature = call("--signature");
  if (!signature.ok())
    return Status(StatusCode::Internal, signature.status().message());
  auto ports = nlohmann::json::parse(*signature);
  std::string arguments = "--threads " + std::to_string(threads) + " --out " + folder_ + "/results";
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string path = folder_ + "/" + std::to_string(i) + ".npy";
    writeFile(path, writeNpy(inputs[i]));
    arguments += " --input '" + ports["inputs"][i]["name"].get<std::string>() + "=" + path + "'";
  }
  auto printed = call(arguments);
  if (!printed.ok())
    return printed.status();
  auto outputs = nlohmann::json::parse(*printed)["outputs"];
  std::vector<HostTensor> results;
  for (size_t i = 0; i < expected.size(); ++i) {
    auto path = outputs[i]["file"].get<std::string>();
    results.push_back(readNpy(readFile(path), path, expected[i].type()));
  }
  return results;
}

} // namespace tensmith::random_graphs
