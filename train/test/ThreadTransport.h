// Processes that are threads of one program: what collectives mean, said as simply as can be.
//
// A collective happens when the last of the threads has begun it.
#pragma once

#include "files/Failure.h"
#include "train/Transport.h"

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace tensmith::train {

class Meeting {
public:
  explicit Meeting(int size) : begun_(size_t(size)), size_(size) {}
  int size() const { return size_; }

  int64_t begin(int rank, const Collective &collective) {
    std::lock_guard lock(mutex_);
    auto number = int64_t(begun_[size_t(rank)].size());
    begun_[size_t(rank)].push_back(collective);
    bool all = true;
    for (const auto &of : begun_)
      all &= int64_t(of.size()) > number;
    if (all)
      happen(size_t(number));
    return number;
  }
  bool happened(int64_t number) {
    std::lock_guard lock(mutex_);
    return number < happened_;
  }
  std::string missing() {
    std::lock_guard lock(mutex_);
    auto behind = std::ranges::min_element(begun_, {}, &std::vector<Collective>::size);
    return "process " + std::to_string(behind - begun_.begin());
  }

private:
  template <typename T> void add(size_t number, int64_t from, int64_t count, std::vector<T> &sum) {
    sum.assign(size_t(count), 0);
    for (auto &of : begun_)
      for (int64_t i = 0; i < count; ++i)
        sum[size_t(i)] += reinterpret_cast<const T *>(of[number].data)[from + i];
  }
  template <typename T> void sum(size_t number) {
    int64_t count = begun_[0][number].count;
    std::vector<T> all;
    add(number, 0, count, all);
    for (int rank = 0; rank < size_; ++rank) {
      Collective &own = begun_[size_t(rank)][number];
      bool parts = own.kind == Collective::Kind::SumParts;
      int64_t size = parts ? count / size_ : count;
      std::memcpy(parts ? own.part : own.data, all.data() + (parts ? rank * size : 0),
                  size_t(size) * sizeof(T));
    }
  }
  void gather(size_t number, bool all) {
    const Collective &first = begun_[0][number];
    auto part = size_t(first.count / size_ * byteSize(first.type));
    for (int to = 0; to < (all ? size_ : 1); ++to)
      for (int from = 0; from < size_; ++from) {
        const Collective &given = begun_[size_t(from)][number];
        std::memmove(begun_[size_t(to)][number].data + size_t(from) * part,
                     all ? given.data + size_t(from) * part : given.part, part);
      }
  }
  void happen(size_t number) {
    const Collective &first = begun_[0][number];
    if (first.kind == Collective::Kind::Gather || first.kind == Collective::Kind::Collect)
      gather(number, first.kind == Collective::Kind::Gather);
    else if (first.type == DataType::F64)
      sum<double>(number);
    else
      sum<float>(number);
    happened_ = int64_t(number) + 1;
  }

  std::mutex mutex_;
  std::vector<std::vector<Collective>> begun_; // by rank
  int64_t happened_ = 0;
  int size_;
};

class ThreadTransport : public Transport {
public:
  ThreadTransport(std::shared_ptr<Meeting> meeting, int rank)
      : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }
  bool hasCpusFor(int) override { return true; }
  int64_t begin(const Collective &collective) override {
    return meeting_->begin(rank_, collective);
  }
  bool done(int64_t number) override { return meeting_->happened(number); }
  std::string missing() override { return meeting_->missing(); }
  [[noreturn]] void abort(int status) override { ::_exit(status); }

private:
  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

} // namespace tensmith::train
