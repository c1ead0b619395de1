// A session: a module, threads, and the frames in which its functions run.
//
// A run takes a frame for itself and gives it back, so that any number of threads run one session
// at once; there are never more frames than there were runs at the same time. A frame keeps its
// arena and everything that was computed from the shapes of its inputs: when the next run has the
// same shapes, only the addresses of what the caller gives are set anew.
#pragma once

#include "runtime/MemoryPool.h"
#include "runtime/Module.h"
#include "runtime/Tensor.h"
#include "runtime/Threads.h"
#include "runtime/Trace.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace tensmith::runtime {

struct Fibers; // Batches.h
class Launches;

/// What a kernel reaches through TensmithCall::context.
struct KernelContext {
  ThreadPool *pool = nullptr;
  std::shared_ptr<Budget> budget; // for scratch, which workers ask for too
  /// Of a device's kernels, which other threads run than the one that has the run's deadline.
  Clock::time_point deadline = Clock::time_point::max();
  ScratchStack scratch; // of the thread that runs the frame, outside of parallel bodies
  // The first failure counts: whoever sets `failed` writes the rest.
  std::atomic<bool> failed{false};
  int32_t code = 0;
  int64_t detail = 0;
  // Where the parts of loops are recorded, and as parts of which step; null in common runs.
  Trace *trace = nullptr;
  uint32_t function = 0, step = 0;
};

/// A value on its way between functions. Exclusive: nobody outside the run sees its memory.
struct Passed {
  TensorRef tensor;
  bool exclusive = false;
  bool last = false; // the caller needs it no more
};

/// Where a value is, during a run.
struct Slot {
  std::byte *data = nullptr;
  TensorRef tensor; // none for what lies in the arena or the weights
  bool exclusive = false;
  Tensor *destination = nullptr; // the caller's, for a result of main
};

struct Frame {
  Frame(const FunctionCode &code, ThreadPool &pool, std::shared_ptr<Budget> budget);
  ~Frame();

  const FunctionCode &code;
  KernelContext context;
  std::vector<int64_t> symbols;
  std::vector<int64_t> exprs;
  std::vector<Slot> slots;
  std::vector<void *> pointers; // kernels' operands, one after another
  std::vector<int64_t> sizes;   // kernels' sizes
  std::vector<TensmithCall> calls;
  Block arena;
  struct DeviceArena {
    std::shared_ptr<std::byte> memory;
    int64_t bytes = 0;
  };
  std::vector<DeviceArena> deviceArenas; // of the session's devices
  std::unique_ptr<Launches> launches;    // null: nothing of the function is put on streams
  /// What the arena was when addresses were set, where a pool has it between runs.
  std::byte *placedAt = nullptr;
  int64_t placedBytes = 0;
  std::vector<int64_t> key; // given symbols and parameters' shapes that the rest was computed from
  bool resolved = false;
  bool hasEmpty = false;        // a kernel has no element to compute, at these sizes
  std::vector<uint8_t> special; // of each value, where the run looks for such; see Observation.h

  void setAddress(uint32_t value, std::byte *data) {
    const ValueCode &info = code.values[value];
    slots[value].data = data;
    for (uint32_t i = 0; i < info.useCount; ++i)
      pointers[code.uses[info.firstUse + i]] = data;
  }
  int64_t dim(const ValueCode &value, size_t index) const { return exprs[value.dims[index]]; }
  /// The dimensions, all known by now; poison where one can't be had.
  void shape(const ValueCode &value, Shape &shape) const;
  /// Lets go of everything that belongs to the run.
  void clear();
};

/// That the size can't be computed: it is poison.
Status noSize(const Frame &frame, uint32_t expr);
/// An error that names the value, where one of its sizes that are known before the step of that
/// number can't be computed.
Status checkShape(const Frame &frame, const ValueCode &value, int32_t time);

/// Times of the steps of each function, filled by runs that are measured.
struct Profile {
  struct Entry {
    int64_t count = 0, nanoseconds = 0, bytes = 0;
    int64_t ownNanoseconds = 0;          // without those of the steps that it executes
    int64_t flops = 0;                   // kPoison where a call's are not known
    int64_t constantBytes = 0;           // of `bytes`, those of weights
    DataType type = DataType::Undefined; // of the largest tensor
  };
  std::vector<std::vector<Entry>> functions;
  /// Of each procedure's instructions, by position.
  struct Instruction {
    int64_t count = 0, nanoseconds = 0;
  };
  std::vector<std::vector<Instruction>> procedures;
  int64_t inside = 0;     // nanoseconds of what the step at hand has executed so far
  Trace *trace = nullptr; // filled too, if there is one
};

/// How far a session's runs may go.
struct Limits {
  int64_t depth = 16'000'000; // procedures' activations at a time
  int64_t instructions = INT64_MAX;
  /// Tensors and values that the runs make, arenas and scratch; 0: the machine's memory.
  int64_t memoryBytes = 0;
  /// Of one run: looked at before each iteration of a loop, each operator that has no kernel and
  /// each call of a procedure.
  double seconds = 3600; // 0: none
  /// Arenas of frames that wait for the next run, all together; a frame that would exceed it gives
  /// its own back.
  int64_t keepBytes = int64_t(4) << 30;
};

/// What is looked at in a run, besides its outputs. Either costs a look at each element.
struct Watch {
  /// Each step's results as they are computed, with the names that the plan gives them. They are
  /// good for the call alone.
  using Observe =
      std::function<void(std::string_view name, std::string_view location, const TensorRef &)>;

  const Observe *observe = nullptr;
  bool checkFinite = false; // the run fails at the step that makes a NaN or an infinity
  /// Told of each output that the caller gave a tensor for, when it lies there for good.
  const std::function<void(size_t output)> *written = nullptr;

  bool any() const { return observe || checkFinite || written; }
};

class Session {
public:
  /// `seed`: the key of all runs that are given none; without one each has a key of its own.
  /// `arenas`: who keeps the arenas between runs; null: the session's frames. Frames of procedures
  /// keep theirs.
  Session(std::shared_ptr<const Module> module, int threads, Limits limits = {},
          std::optional<uint64_t> seed = std::nullopt,
          std::shared_ptr<MemoryPool> arenas = nullptr);

  const Module &module() const { return *module_; }
  const std::shared_ptr<const Module> &modulePointer() const { return module_; }
  ThreadPool &pool() { return pool_; }
  const Limits &limits() const { return limits_; }
  int64_t keptBytes() const { return kept_; }

  /// One run. `outputs`: on entry null, or the caller's tensor to write into; on success each that
  /// was null holds a new tensor. On failure none is changed (but the contents of the caller's).
  /// `seed`: what random operators without a seed draw by.
  Status run(std::span<const TensorRef> inputs, std::span<TensorRef> outputs,
             Profile *profile = nullptr, const Watch &watch = {},
             std::optional<uint64_t> seed = std::nullopt);

  std::unique_ptr<Frame> makeFrame(uint32_t function);

  bool hasDevices() const { return !devices_.empty(); }
  /// By their numbers in the plan, from 1 on.
  Device &device(uint8_t number) const { return *devices_[number - 1u].device; }
  /// Whose memory a value is in; null: the host's.
  Device *memoryOf(const ValueCode &value) const {
    return value.device ? &device(value.device) : nullptr;
  }
  /// Where byte 0 of the weights is, or would be, in the host's memory (0) or a device's.
  std::byte *weights(uint8_t memory) const {
    return memory ? devices_[memory - 1u].weightsBegin
                  : const_cast<std::byte *>(module_->weights().data());
  }
  /// What keeps them.
  std::shared_ptr<const void> weightsOwner(uint8_t memory) const {
    return memory ? std::shared_ptr<const void>(devices_[memory - 1u].weights)
                  : std::shared_ptr<const void>(module_);
  }

  /// Copies between the host's memory and devices' that all runs made.
  struct Copies {
    std::atomic<int64_t> toDevice{0}, toHost{0}, bytesToDevice{0}, bytesToHost{0};
  };
  const Copies &copies() const { return copies_; }
  void countCopy(bool toDevice, int64_t bytes) {
    ++(toDevice ? copies_.toDevice : copies_.toHost);
    (toDevice ? copies_.bytesToDevice : copies_.bytesToHost) += bytes;
  }

  /// A frame of a function, for as long as the lease lives.
  class Lease {
  public:
    Lease(Session &session, uint32_t function);
    ~Lease();
    Lease(const Lease &) = delete;
    Lease &operator=(const Lease &) = delete;
    Frame &operator*() { return *frame_; }
    Frame *operator->() { return frame_.get(); }

  private:
    void takeArena();
    Session &session_;
    uint32_t function_;
    std::unique_ptr<Frame> frame_;
  };

  /// What a machine keeps for the next: frames of the functions, made as they are needed (null
  /// before), and fibers.
  struct MachineSpace {
    std::vector<std::unique_ptr<Frame>> frames;
    std::shared_ptr<Fibers> fibers;
  };
  MachineSpace takeSpace();
  void giveBack(MachineSpace space);

private:
  Status openDevices();
  Status copyWeights(uint8_t number);

  struct FramePool {
    std::mutex mutex;
    std::vector<std::unique_ptr<Frame>> idle;
  };

  std::shared_ptr<const Module> module_;
  ThreadPool pool_;
  Limits limits_;
  std::optional<uint64_t> seed_;
  std::shared_ptr<Budget> budget_;
  std::shared_ptr<MemoryPool> arenas_;
  std::vector<FramePool> frames_;
  std::mutex spacesMutex_;
  std::vector<MachineSpace> idleSpaces_;
  std::atomic<int64_t> kept_{0}; // by idle frames
  struct OpenedDevice {
    Device *device;
    std::shared_ptr<std::byte> weights; // those from the first that it reads to the last
    std::byte *weightsBegin = nullptr;
  };
  std::vector<OpenedDevice> devices_;
  Copies copies_;
  Status status_; // whether the devices are there
};

} // namespace tensmith::runtime
