// A module run by a program of another machine, tensmith-run under qemu or on a board, instead of
// in this process.
#pragma once

#include "base/HostTensor.h"
#include "base/Status.h"

#include <span>
#include <string>
#include <vector>

namespace tensmith::random_graphs {

class Board {
public:
  /// `command` is what runs tensmith-run: "qemu-aarch64 build/aarch64/bin/tensmith-run". The module
  /// lies in a folder of the board's own, gone with it.
  Board(std::string command, std::span<const char> module);
  ~Board();
  Board(const Board &) = delete;
  Board &operator=(const Board &) = delete;

  /// One result for each of `expected`, of which the types are taken. InvalidArgument where the
  /// program refuses, Internal where it dies, Unsupported where the emulator does.
  Result<std::vector<HostTensor>> run(std::span<const HostTensor> inputs,
                                      std::span<const HostTensor> expected, int threads);

private:
  /// What the program printed; its message where it failed.
  Result<std::string> call(const std::string &arguments);

  std::string command_, folder_;
};

} // namespace tensmith::random_graphs
