// What a frame has put on the streams of its session's devices.
//
// Each stream that the function uses has a lane: the context that its kernels see, one after the
// other. Steps that are put on streams leave an event; steps that the host does wait for those that
// they need. When the function ends, or fails, everything is waited for: nothing of it is under way
// while its frame is idle, and values that functions hand to one another are there.
//
// What a step let go of may still be read by what is under way: it is kept until the function ends.
// A call with the sizes of the last one makes no memory here.
#pragma once

#include "runtime/Device.h"
#include "runtime/Session.h"

namespace tensmith::runtime {

class Launches {
public:
  Launches(Session &session, Frame &frame);
  ~Launches();
  Launches(const Launches &) = delete;

  /// Nothing is under way, and nothing has failed.
  void begin();

  void launch(const Step &step);
  /// In the place of a kernel that has nothing to compute: others wait for what it waits for by
  /// waiting for it.
  void pass(const Step &step);
  /// Copies into the result's memory, which is there.
  void copy(const Step &step, std::byte *to, const std::byte *from, int64_t bytes);

  /// Before a step that the host does: returns when those that it waits for are over. An error
  /// where an earlier one failed, which `finish` tells.
  Status wait(const Step &step);
  void keep(TensorRef tensor) { kept_.push_back(std::move(tensor)); }

  /// Returns when everything is over: the first failure, in the function's order, with its place.
  Status finish();

private:
  struct Lane {
    Device *device;
    uint32_t stream;
    KernelContext context;
    Event last = {};
  };

  uint32_t indexOf(const Step &step) const { return uint32_t(&step - code_.steps.data()); }
  std::span<const Event> eventsBefore(const Step &step);
  void note(const Step &step, const Event &event);

  Session &session_;
  Frame &frame_;
  const FunctionCode &code_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Lane *> laneOf_; // of steps; null: the host does it
  std::vector<Event> events_;  // of steps
  std::vector<Event> after_;   // of the step at hand
  std::vector<TensorRef> kept_;
  Failures failures_;
};

} // namespace tensmith::runtime
