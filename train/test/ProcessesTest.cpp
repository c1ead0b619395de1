// Buckets hold every parameter once, processes' parts every sample once; and what several threads
// that stand for processes sum while they go on.
#include "ThreadTransport.h"

#include "TestFiles.h"

#include "train/Buckets.h"
#include "train/Order.h"
#include "train/Processes.h"

#include <numeric>
#include <thread>

namespace tensmith::train {
namespace {

std::vector<Bucketed> floats(const std::vector<int64_t> &counts) {
  std::vector<Bucketed> result;
  for (int64_t count : counts)
    result.push_back({"w" + std::to_string(result.size()), DataType::F32, {count}});
  return result;
}

TEST(Buckets, CloseWhenTheyAreFull) {
  auto parameters = floats({100, 28, 1, 0, 1000, 3});
  auto buckets = makeBuckets(parameters, 512, 1);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].pieces.size(), 2u); // 112 and 32 numbers with what fills them up
  EXPECT_EQ(buckets[1].pieces.size(), 3u);
  EXPECT_EQ(buckets[2].pieces.size(), 1u);
}

TEST(Buckets, AreOfOneEachWithoutASize) {
  auto buckets = makeBuckets(floats({100, 0, 3}), 0, 2);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[1].count, 32); // of no elements, and still a line for each process
}

// Parts are equal, and pieces begin at lines: kernels read and write them as tensors.
TEST(Buckets, HoldEveryParameterOnce) {
  std::vector<Bucketed> parameters = floats({1, 17, 300, 5, 5, 2049, 0, 31});
  parameters[2].type = parameters[5].type = DataType::F64;
  parameters[3].shape = {5, 7};
  for (int processes : {1, 2, 3, 4, 7})
    for (int64_t bytes : {1, 1000, 1 << 20}) {
      std::vector<int> seen(parameters.size());
      for (const Bucket &bucket : makeBuckets(parameters, bytes, processes)) {
        EXPECT_EQ(bucket.count % processes, 0);
        EXPECT_EQ(bucket.bytes() / processes % 64, 0);
        int64_t end = 0;
        for (const Bucket::Piece &piece : bucket.pieces) {
          ++seen[piece.parameter];
          EXPECT_EQ(parameters[piece.parameter].type, bucket.type);
          EXPECT_EQ(piece.count, *elementCount(parameters[piece.parameter].shape));
          EXPECT_GE(piece.offset, end);
          EXPECT_EQ(piece.offset * byteSize(bucket.type) % 64, 0);
          end = piece.offset + piece.count;
        }
        EXPECT_LE(end, bucket.count);
      }
      EXPECT_EQ(seen, std::vector<int>(parameters.size(), 1));
    }
}

TEST(Parts, OfBatchesAreTheBatches) {
  std::vector<int64_t> order(50);
  std::iota(order.begin(), order.end(), 100);
  for (int64_t count : {1, 2, 3, 4}) {
    int64_t size = 12 / count;
    for (int64_t part = 0; part < count; ++part) {
      auto own = partOfBatches(order, 12, {part, count});
      for (int64_t i = 0; i < 4 * size; ++i)
        EXPECT_EQ(own[size_t(i)], 100 + i / size * 12 + part * size + i % size);
    }
  }
}

TEST(Parts, OfAllAreAll) {
  std::vector<int64_t> rows = {3, 1, 4, 1, 5, 9, 2};
  for (int64_t count : {1, 2, 3, 9}) {
    std::vector<int64_t> together;
    for (int64_t part = 0; part < count; ++part) {
      auto own = partOfAll(rows, {part, count});
      EXPECT_LE(std::abs(int64_t(own.size()) * count - int64_t(rows.size())), count);
      together.insert(together.end(), own.begin(), own.end());
    }
    EXPECT_EQ(together, rows);
  }
}

/// Does the same in so many threads that are processes to one another.
template <typename Work> void inProcesses(int count, double seconds, Work work) {
  auto meeting = std::make_shared<Meeting>(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([=] {
      Processes processes([=] { return std::make_unique<ThreadTransport>(meeting, rank); },
                          seconds);
      work(processes);
    });
  for (std::thread &thread : threads)
    thread.join();
}

std::byte *bytes(std::vector<float> &values) {
  return reinterpret_cast<std::byte *>(values.data());
}

TEST(Processes, SumSeveralAtATime) {
  for (int count : {1, 2, 4})
    inProcesses(count, 60, [&](Processes &processes) {
      auto rank = float(processes.rank());
      for (int time = 0; time < 20; ++time) {
        std::vector<float> a(8, rank), b(8), part(size_t(8 / count)), c(8, -1);
        std::iota(b.begin(), b.end(), rank);
        std::fill_n(c.begin() + 8 / count * processes.rank(), 8 / count, rank);
        int called = 0;
        std::vector<int64_t> numbers = {
            processes.begin({Collective::Kind::Sum, DataType::F32, bytes(a), 8, nullptr}, "a",
                            [&] { ++called; }),
            processes.begin({Collective::Kind::SumParts, DataType::F32, bytes(b), 8, bytes(part)},
                            "b"),
            processes.begin({Collective::Kind::Gather, DataType::F32, bytes(c), 8, nullptr}, "c")};
        for (int64_t number : {numbers[2], numbers[0], numbers[1]})
          processes.wait(number);
        EXPECT_EQ(called, 1);
        float all = float(count * (count - 1)) / 2;
        EXPECT_EQ(a, std::vector<float>(8, all));
        for (int i = 0; i < 8 / count; ++i)
          EXPECT_EQ(part[size_t(i)], all + float(count * (8 / count * processes.rank() + i)));
        for (int i = 0; i < 8; ++i)
          EXPECT_EQ(c[size_t(i)], float(i / (8 / count)));
      }
      EXPECT_EQ(processes.takeSpans().size(), 60u);
      EXPECT_TRUE(processes.takeSpans().empty());
    });
}

TEST(Processes, TheFirstCollects) {
  inProcesses(4, 60, [](Processes &processes) {
    std::vector<float> own(3, float(processes.rank())), all(12, -1);
    bool first = processes.rank() == 0;
    processes.wait(processes.begin(
        {Collective::Kind::Collect, DataType::F32, first ? bytes(all) : nullptr, 12, bytes(own)},
        "slots"));
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(all[size_t(i)], first ? float(i / 3) : -1);
  });
}

// Of a run that hangs one has to be told which process to look at.
TEST(Processes, WhoDoesNotAnswerIsNamed) {
  inProcesses(3, 0.3, [](Processes &processes) {
    if (processes.rank() == 1)
      return;
    std::string said = refusal([&] { processes.meet(); });
    EXPECT_HAS(said, "process 1 has not answered for 0.3 seconds");
    EXPECT_HAS(said, "--process-timeout");
    EXPECT_HAS(refusal([&] { processes.meet(); }), "process 1"); // as all that comes after
  });
}

TEST(Processes, WhatCanNotBeOpenedIsSaid) {
  EXPECT_HAS(refusal([] {
               Processes([]() -> std::unique_ptr<Transport> { throw Failure("no MPI"); }, 1);
             }),
             "no MPI");
}

} // namespace
} // namespace tensmith::train
