// Events of steps, and the failure that counts; see Launches.h.
#include "runtime/Launches.h"

#include "runtime/Interpreter.h"

#include <algorithm>

namespace tensmith::runtime {

Launches::Launches(Session &session, Frame &frame)
    : session_(session), frame_(frame), code_(frame.code), laneOf_(frame.code.steps.size()),
      events_(frame.code.steps.size()) {
  size_t waits = 0, released = 0;
  for (const Step &step : code_.steps) {
    waits = std::max(waits, step.waits.size());
    released += step.releases.size();
    if (step.device == 0)
      continue;
    Device *device = &session.device(step.device);
    auto lane = std::ranges::find_if(lanes_, [&](const auto &one) {
      return one->device == device && one->stream == step.stream;
    });
    if (lane == lanes_.end()) {
      lane = lanes_.insert(lane, std::make_unique<Lane>(device, step.stream));
      (*lane)->context.pool = frame.context.pool;
      (*lane)->context.budget = frame.context.budget;
    }
    laneOf_[indexOf(step)] = lane->get();
    if (step.opcode == plan::Opcode::Kernel)
      frame.calls[step.call].context = &(*lane)->context;
  }
  after_.reserve(waits);
  kept_.reserve(released);
}

Launches::~Launches() {
  for (const auto &lane : lanes_)
    waitFor(lane->last);
}

void Launches::begin() {
  for (const auto &lane : lanes_) // of a call that ended by an exception
    waitFor(lane->last);
  kept_.clear();
  std::ranges::fill(events_, Event());
  for (auto &lane : lanes_) {
    lane->context.failed = false;
    lane->context.deadline = currentResources().deadline;
    lane->last = {};
  }
  failures_.clear();
}

std::span<const Event> Launches::eventsBefore(const Step &step) {
  after_.clear();
  for (uint32_t earlier : step.waits)
    if (events_[earlier].device)
      after_.push_back(events_[earlier]);
  return after_;
}

void Launches::note(const Step &step, const Event &event) {
  events_[indexOf(step)] = laneOf_[indexOf(step)]->last = event;
}

void Launches::launch(const Step &step) {
  Launch launch = {step.entry,
                   &frame_.calls[step.call],
                   step.operands.size() + step.results.size(),
                   step.sizes.size(),
                   indexOf(step),
                   &failures_};
  Lane &lane = *laneOf_[indexOf(step)];
  note(step, lane.device->launch(lane.stream, launch, eventsBefore(step)));
}

void Launches::pass(const Step &step) {
  Lane &lane = *laneOf_[indexOf(step)];
  note(step, lane.device->copyWithin(lane.stream, nullptr, nullptr, 0, eventsBefore(step)));
}

void Launches::copy(const Step &step, std::byte *to, const std::byte *from, int64_t bytes) {
  Lane &lane = *laneOf_[indexOf(step)];
  bool toDevice = code_.values[step.results[0]].device != 0;
  session_.countCopy(toDevice, bytes);
  note(step, toDevice ? lane.device->copyIn(lane.stream, to, from, bytes, eventsBefore(step))
                      : lane.device->copyOut(lane.stream, to, from, bytes, eventsBefore(step)));
}

Status Launches::wait(const Step &step) {
  for (const Event &event : eventsBefore(step))
    waitFor(event);
  return failures_.before(indexOf(step))
             ? Status(StatusCode::Internal, "an earlier instruction failed")
             : Status();
}

Status Launches::finish() {
  for (const auto &lane : lanes_)
    waitFor(lane->last);
  kept_.clear();
  uint32_t first = failures_.first();
  if (first == Failures::kNone)
    return {};
  return failureOf(session_.module(), code_.steps[first], laneOf_[first]->context);
}

} // namespace tensmith::runtime
