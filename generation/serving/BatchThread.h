// A batch that many threads ask: a thread of its own steps it, and does what others ask of it
// between two steps.
#pragma once

#include "generation/Batch.h"

#include <condition_variable>
#include <future>
#include <thread>

namespace tensmith::generation {

class BatchThread {
public:
  BatchThread(std::shared_ptr<const LanguageModel> model, const BatchSettings &settings);
  ~BatchThread(); // what runs or waits is cancelled

  /// As Batch's; `give`, `hidden` and `end` are called by the batch's thread. A step that fails
  /// cancels all that run or wait, whose fault it may be.
  uint64_t add(BatchRequest request);
  /// As Batch's, all within one break between steps.
  void cancel(std::span<const uint64_t> numbers);
  BatchCounts counts();

private:
  void run();
  void post(std::function<void()> work);
  template <typename Result> Result ask(std::function<Result()> work);

  Batch batch_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::vector<std::function<void()>> works_;
  bool ends_ = false;
  std::thread thread_;
};

/// Some requests of a batch, which are cancelled with this where they are not done.
class BatchRequests {
public:
  explicit BatchRequests(BatchThread &batch) : batch_(batch) {}
  BatchRequests(const BatchRequests &) = delete;
  BatchRequests &operator=(const BatchRequests &) = delete;
  ~BatchRequests() { batch_.cancel(numbers_); }

  void add(BatchRequest request) { numbers_.push_back(batch_.add(std::move(request))); }

private:
  BatchThread &batch_;
  std::vector<uint64_t> numbers_;
};

} // namespace tensmith::generation
