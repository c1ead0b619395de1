// A compiled module that runs on arrays: what kernels of operators and recorded programs share.
#pragma once

#include "eager/Array.h"
#include "reference/Reference.h"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

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
  /// Of the host, or of a device that inputs and outputs are resident on. Throws tensmith::Error.
  explicit Compiled(Module module, const Device *device = nullptr);
  ~Compiled();
  Compiled(const Compiled &) = delete;

  /// The same module, with a session of its own on that memory; its text is not known.
  std::shared_ptr<Compiled> on(std::shared_ptr<const SharedArenas> memory) const {
    std::shared_ptr<Compiled> same(new Compiled(module_, std::move(memory), device_));
    same->source = source;
    return same;
  }
  /// Whom its intermediate results' memory is shared with; null: nobody.
  const std::shared_ptr<const SharedArenas> &memory() const { return memory_; }

  /// Null: the host.
  const Device *device() const { return device_; }
  /// The same program on a device, made when it is first asked for. With the interpreter's lock.
  using MakeOn = Result<std::shared_ptr<Compiled>> (*)(const Compiled &program,
                                                       const Device &device);
  Result<std::shared_ptr<const Compiled>> on(const Device &device, MakeOn make) const;

  /// All arrays are dense and ready; outputs are written over. Those that lie elsewhere than the
  /// program are copied. Any number of threads may call.
  Status run(std::span<const Array> inputs, std::span<const Array> outputs) const;
  /// A result that a run writes over an input where one array is given as both: a state that each
  /// run takes and gives. A run that fails leaves it as it was.
  struct Update {
    size_t input, result;
  };
  std::span<const Update> updates() const { return updates_; }
  /// Whether its last run took less than a tenth of the time after which CPython hands the
  /// interpreter's lock to another thread that asks for it (5 ms).
  bool isShort() const { return nanoseconds_.load(std::memory_order_relaxed) < 500'000; }

  /// The tape's text that it was compiled from, in base64.
  std::string source;
  /// The same, where a run of it is a step of co-executed programs; else empty.
  std::string text;
  /// Whether it is, among others, a backward pass, which computes the forward one again.
  bool derives = false;
  /// Whether it has a loop, whose turns, and so its time, may depend on its inputs.
  bool repeats = false;

private:
  class Handles;
  Compiled(std::shared_ptr<const Module> module, std::shared_ptr<const SharedArenas> memory,
           const Device *device);
  Status call(std::span<const Array> inputs, std::span<const Array> outputs) const;
  std::unique_ptr<Handles> takeHandles(size_t count) const;

  std::shared_ptr<const Module> module_;
  const Device *device_;
  mutable std::map<const Device *, std::shared_ptr<const Compiled>> elsewhere_; // on devices
  std::shared_ptr<const SharedArenas> memory_;
  std::vector<Update> updates_;
  std::unique_ptr<Session> session_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Handles>> idle_;   // of runs that are over
  mutable std::atomic<int64_t> nanoseconds_ = INT64_MAX; // of the last run
};

/// Memory of a program's results, kept for the results of its next calls. What a call gives lies
/// where what an earlier one gave lay, once nobody has that any more: a state that each call
/// computes anew, a gradient that Python keeps up to the next one. So calls ask the system for no
/// memory, and their operands lie at one of two places each.
class SpareResults {
public:
  explicit SpareResults(size_t count) : kept_(count) {}
  /// Of a result's type and shape, which all arrays that are kept for it have. Nothing where
  /// somebody else has each of them.
  std::optional<Array> take(size_t number) {
    for (Array &array : kept_[number])
      if (std::optional<Array> reused = std::move(array).reused())
        return reused;
    return std::nullopt;
  }
  /// It may be somebody else's yet.
  void keep(size_t number, Array array) {
    auto &[last, before] = kept_[number];
    before = std::exchange(last, std::move(array));
  }

private:
  std::vector<std::array<Array, 2>> kept_;
};

struct IssueOptions {
  SpareResults *spare = nullptr; // of these outputs
  /// They are computed when it returns, and the failure of a run is its own.
  bool isAwaited = false;
  /// Inputs are written over by what the program updates (`Compiled::updates`): these outputs are
  /// the inputs' arrays.
  bool updatesInputs = false;
};

/// By the engine: the outputs, which are set aside now, once the inputs are there. `types`: arrays
/// of the outputs' types and shapes, whose storages are of no matter. `name` is what a trace calls
/// it; it lives as long as the process.
Result<std::vector<Array>> issue(std::shared_ptr<const Compiled> compiled, const char *name,
                                 std::span<const Array> inputs, std::span<const Array> types,
                                 const IssueOptions &options = {});

} // namespace tensmith::eager
