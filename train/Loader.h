// Batches made ahead of the step, by threads of their own, and taken in order.
//
// A ring of `queue` batches; a worker takes the next number that nobody has while its place in the
// ring is free. What fails in a worker is thrown where that batch is taken, so that it does not
// depend on the threads which failure a run ends with.
#pragma once

#include "train/Feed.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace tensmith::train {

class Loader {
public:
  /// Batches from number `first` on of the samples in that order, each full: what does not fill one
  /// is left out, unless `last` asks for it.
  struct Work {
    const std::vector<Feed> *feeds;
    std::vector<int64_t> order;
    int64_t batch, first = 0, epoch = -1;
    bool last = false;
  };

  Loader(Work work, int workers, int queue);
  ~Loader();
  Loader(const Loader &) = delete;
  Loader &operator=(const Loader &) = delete;

  /// The next batch, or null after the last; good until the next call.
  const Batch *next();
  /// Seconds that `next` has waited for workers.
  double waited() const { return waited_; }

private:
  struct Place {
    Batch batch;
    bool ready = false;
    std::exception_ptr failure;
  };
  void work(std::stop_token stop);
  void make(Place &place, int64_t number);

  Work work_;
  int64_t count_;
  std::mutex mutex_;
  std::condition_variable_any made_, freed_;
  std::vector<Place> ring_;
  int64_t claimed_, taken_; // numbers of batches
  bool lent_ = false;       // the batch before `taken_` is being read
  double waited_ = 0;
  std::vector<std::jthread> workers_; // last: they stop before the rest goes
};

} // namespace tensmith::train
