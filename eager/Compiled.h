// A compiled module that runs on arrays: what kernels of operators and recorded programs share.
#pragma once

#include "eager/Array.h"
#include "reference/Reference.h"

#include <memory>
#include <span>

namespace tensmith {
class MemoryPool;
class Module;
class Session;
} // namespace tensmith

namespace tensmith::eager {

/// Memory for intermediate results that compiled modules share: those of one pool run one after
/// another, by its variable.
struct SharedArenas {
  SharedArenas();
  ~SharedArenas();
  int64_t bytes() const; // while none of the modules runs

  std::unique_ptr<MemoryPool> pool;
  VariableRef variable = std::make_shared<Variable>(/*isScratch=*/true);
};

class Compiled {
public:
  /// Throws tensmith::Error.
  explicit Compiled(Module module);
  ~Compiled();
  Compiled(const Compiled &) = delete;

  /// The same module, with a session of its own on that memory; its text is not known.
  std::shared_ptr<Compiled> on(std::shared_ptr<const SharedArenas> memory) const {
    return std::shared_ptr<Compiled>(new Compiled(module_, std::move(memory)));
  }
  /// Whom its intermediate results' memory is shared with; null: nobody.
  const std::shared_ptr<const SharedArenas> &memory() const { return memory_; }

  /// All arrays are dense and ready; outputs are written over. Any number of threads may call.
  Status run(std::span<const Array> inputs, std::span<const Array> outputs) const;

  /// The tape's text that it was compiled from, in base64; empty where that is not known.
  std::string text;
  /// Whether it is, among others, a backward pass, which computes the forward one again.
  bool derives = false;

private:
  Compiled(std::shared_ptr<const Module> module, std::shared_ptr<const SharedArenas> memory);

  std::shared_ptr<const Module> module_;
  std::shared_ptr<const SharedArenas> memory_;
  std::unique_ptr<Session> session_;
};

/// By the engine: the outputs, which are set aside now, once the inputs are there. `name` is what a
/// trace calls it; it lives as long as the process.
Result<std::vector<Array>> issue(std::shared_ptr<const Compiled> compiled, const char *name,
                                 std::span<const Array> inputs,
                                 std::vector<reference::ResultType> types);

} // namespace tensmith::eager
