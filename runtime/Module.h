// A module in memory: its code mapped, its plan verified and decoded, its weights mapped.
//
// Everything is immutable once loaded, and so shared by sessions and threads without locks.
#pragma once

#include "runtime/CodeImage.h"
#include "runtime/LibraryAbi.h"
#include "runtime/Program.h"

#include <memory>
#include <set>
#include <string>

namespace tensmith::runtime {

struct LoadOptions {
  bool verifyWeights = false;
  uint64_t bytes = 0; // of the file, with which it begins; 0: all
  /// It can be described, and not run; then it may be of any machine, and its code isn't mapped.
  bool onlyDescribed = false;
};

class Module {
public:
  /// Checks version, integrity, plan and CPU features before any code is mapped. Errors: IoError
  /// where the file can't be read, InvalidModule; both name the file.
  static Result<std::shared_ptr<const Module>> load(const std::string &path,
                                                    const LoadOptions &options);
  /// From bytes, which are copied (into memory that code can be mapped from).
  static Result<std::shared_ptr<const Module>> loadBytes(std::span<const std::byte> bytes,
                                                         const LoadOptions &options);
  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  const plan::Module &plan() const { return *plan_; }
  const Program &program() const { return program_; }
  std::span<const std::byte> weights() const { return weights_; }
  std::string_view location(uint32_t index) const;
  bool canRun() const { return canRun_; }
  /// What it is done without, in words; empty: nothing.
  const std::string &warning() const { return warning_; }
  /// Gives back the memory of weights that were copied; they are read from the file again where
  /// they are needed.
  void releaseWeights(std::span<const std::byte> bytes) const;

private:
  Module() = default;
  static Result<std::shared_ptr<const Module>> loadFile(int file, const LoadOptions &options);
  Status mapWeights(int file, uint64_t offset, uint64_t size);

  CodeImage code_;
  void *weightsMapping_ = nullptr;
  size_t weightsMappingSize_ = 0;
  std::span<const std::byte> weights_;
  std::vector<uint64_t> planBytes_; // a copy: what was verified must not change in the file
  const plan::Module *plan_ = nullptr;
  Program program_;
  std::string warning_;
  std::set<TensmithForget> forgets_; // of libraries that are called
  bool canRun_ = true;
};

} // namespace tensmith::runtime
