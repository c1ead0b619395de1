// The exchange over MPI. A process that fails ends all of them, since the others would wait for it.
#include "trees/ProcessExchange.h"

#include "trees/Agreement.h"

#include "files/Failure.h"
#include "train/Processes.h"

#include <cstring>

namespace tensmith::trees {

namespace {

constexpr double kPatience = 600; // seconds until the others are given up

class ProcessExchange : public Exchange {
public:
  explicit ProcessExchange(train::Processes &processes) : processes_(processes) {}

  int rank() const override { return processes_.rank(); }
  int size() const override { return processes_.size(); }

  Status sum(std::span<double> values) override {
    return guarded([&] {
      processes_.sum(DataType::F64, reinterpret_cast<std::byte *>(values.data()),
                     int64_t(values.size()), "histograms");
    });
  }
  Status sumAll(std::span<const std::span<double>> arrays) override {
    return sumEach(arrays, train::Collective::Kind::Sum);
  }
  Status sumParts(std::span<const std::span<double>> arrays) override {
    return sumEach(arrays, train::Collective::Kind::SumParts);
  }
  Status gather(std::span<const double> own, std::span<double> all) override {
    std::copy(own.begin(), own.end(), all.begin() + rank() * int64_t(own.size()));
    return guarded([&] {
      train::Collective gather;
      gather.kind = train::Collective::Kind::Gather;
      gather.type = DataType::F64;
      gather.data = reinterpret_cast<std::byte *>(all.data());
      gather.count = int64_t(all.size());
      gather.part = gather.data + rank() * int64_t(own.size_bytes());
      processes_.wait(processes_.begin(gather, "gathering"));
    });
  }

private:
  /// Begun at once, so that processes wait once for all.
  Status sumEach(std::span<const std::span<double>> arrays, train::Collective::Kind kind) {
    return guarded([&] {
      std::vector<int64_t> begun;
      for (std::span<double> array : arrays) {
        train::Collective sum;
        sum.kind = kind;
        sum.type = DataType::F64;
        sum.data = reinterpret_cast<std::byte *>(array.data());
        sum.count = int64_t(array.size());
        if (kind == train::Collective::Kind::SumParts)
          sum.part = sum.data + rank() * int64_t(array.size_bytes()) / size();
        begun.push_back(processes_.begin(sum, "histograms", {}, /*soon=*/true));
      }
      for (int64_t number : begun)
        processes_.wait(number);
    });
  }
  template <typename Body> Status guarded(Body body) {
    try {
      body();
      return {};
    } catch (const std::exception &failure) {
      return {StatusCode::IoError, failure.what()};
    }
  }
  train::Processes &processes_;
};

Result<Forest> trainOver(Exchange &exchange, const TrainingInput &input,
                         const Parameters &parameters) {
  Agreement agreement;
  if (Status status = agree(input, exchange, agreement); !status.ok())
    return status;
  if (agreement.sharesSource)
    std::fprintf(stderr,
                 "tensmith: warning: process %d has the same rows as another one, %s: they count "
                 "for each; give each process a file of its own\n",
                 exchange.rank(), input.source.c_str());
  agreement.input.exchange = &exchange;
  return train(agreement.input, parameters);
}

} // namespace

Result<Forest> trainTogether(const TrainingInput &input, const Parameters &parameters,
                             bool together) {
  if (!together || train::startedProcesses() == 1)
    return train(input, parameters);
  std::unique_ptr<train::Processes> processes;
  try {
    processes = train::openMpi(kPatience, int(std::max<int64_t>(1, parameters.threads)));
  } catch (const std::exception &failure) {
    return Status(StatusCode::Unsupported, failure.what());
  }
  ProcessExchange exchange(*processes);
  if (processes->size() == 1)
    return train(input, parameters);
  Result<Forest> forest = trainOver(exchange, input, parameters);
  if (!forest) {
    std::fprintf(stderr, "tensmith: process %d: %s\n", processes->rank(),
                 forest.status().message().c_str());
    processes->abort(1);
  }
  return forest;
}

} // namespace tensmith::trees
