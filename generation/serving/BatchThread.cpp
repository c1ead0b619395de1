// The thread that steps a batch; see BatchThread.h.
#include "generation/serving/BatchThread.h"

#include <cstdio>

namespace tensmith::generation {

BatchThread::BatchThread(std::shared_ptr<const LanguageModel> model, const BatchSettings &settings)
    : batch_(std::move(model), settings), thread_([this] { run(); }) {}

BatchThread::~BatchThread() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void BatchThread::post(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
  }
  posted_.notify_one();
}

template <typename Result> Result BatchThread::ask(std::function<Result()> work) {
  auto task = std::make_shared<std::packaged_task<Result()>>(std::move(work));
  std::future<Result> result = task->get_future();
  post([task] { (*task)(); });
  return result.get();
}

uint64_t BatchThread::add(BatchRequest request) {
  return ask<uint64_t>([&] { return batch_.add(std::move(request)); });
}

void BatchThread::cancel(std::span<const uint64_t> numbers) {
  ask<void>([&] {
    for (uint64_t number : numbers)
      batch_.cancel(number);
  });
}

BatchCounts BatchThread::counts() {
  return ask<BatchCounts>([&] { return batch_.counts(); });
}

void BatchThread::run() {
  bool isWork = false;
  for (;;) {
    std::vector<std::function<void()>> works;
    bool ends = false;
    {
      std::unique_lock lock(mutex_);
      if (!isWork)
        posted_.wait(lock, [&] { return ends_ || !works_.empty(); });
      works.swap(works_);
      ends = ends_;
    }
    if (ends)
      batch_.cancelAll();
    for (auto &work : works)
      work();
    if (ends)
      return;
    try {
      isWork = batch_.step();
    } catch (const std::exception &error) {
      std::fprintf(stderr, "tensmith: a step failed, and all texts with it: %s\n", error.what());
      batch_.cancelAll();
      isWork = false;
    }
  }
}

} // namespace tensmith::generation
