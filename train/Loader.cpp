// The ring's two ends: workers claim, the step takes. A batch that is lent out keeps its place
// until the next one is asked for.
#include "train/Loader.h"

#include <algorithm>
#include <chrono>

namespace tensmith::train {

Loader::Loader(Work work, int workers, int queue)
    : work_(std::move(work)), ring_(size_t(std::max(queue, 2))), claimed_(work_.first),
      taken_(work_.first) {
  auto samples = int64_t(work_.order.size());
  count_ = work_.last ? (samples + work_.batch - 1) / work_.batch : samples / work_.batch;
  for (Place &place : ring_)
    place.batch = makeBatch(*work_.feeds, work_.batch);
  for (int i = 0; i < workers; ++i)
    workers_.emplace_back([this](std::stop_token stop) { this->work(stop); });
}

Loader::~Loader() {
  for (std::jthread &worker : workers_)
    worker.request_stop();
}

void Loader::make(Place &place, int64_t number) {
  try {
    int64_t begin = number * work_.batch;
    int64_t end = std::min(begin + work_.batch, int64_t(work_.order.size()));
    fillBatch(*work_.feeds, std::span(work_.order).subspan(size_t(begin), size_t(end - begin)),
              work_.epoch, place.batch);
  } catch (...) {
    place.failure = std::current_exception();
  }
}

void Loader::work(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  auto size = int64_t(ring_.size());
  while (true) {
    auto free = [&] { return claimed_ >= count_ || claimed_ < taken_ - (lent_ ? 1 : 0) + size; };
    if (!freed_.wait(lock, stop, free) || claimed_ >= count_)
      return;
    int64_t number = claimed_++;
    Place &place = ring_[size_t(number % size)];
    lock.unlock();
    make(place, number);
    lock.lock();
    place.ready = true;
    made_.notify_all();
  }
}

const Batch *Loader::next() {
  std::unique_lock lock(mutex_);
  lent_ = false;
  freed_.notify_all();
  if (taken_ >= count_)
    return nullptr;
  Place &place = ring_[size_t(taken_ % int64_t(ring_.size()))];
  auto start = std::chrono::steady_clock::now();
  made_.wait(lock, [&] { return place.ready; });
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  place.ready = false;
  ++taken_;
  lent_ = true;
  if (place.failure)
    std::rethrow_exception(place.failure);
  return &place.batch;
}

} // namespace tensmith::train
