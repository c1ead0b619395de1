// Collectives by MPI's that don't block, in a library of its own: only runs that were started as
// one of several processes load it, and MPI along with it.
//
// Errors come back as codes instead of ending the process, so that a message can be given first.
// All calls come from one thread, which is the one that initialised MPI.
#include "train/Transport.h"

#include "files/Failure.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <map>
#include <mpi.h>
#include <vector>

namespace tensmith::train {
namespace {

constexpr int kProgress = 1; // tag of the messages that say how much a process has begun

void check(int code, const char *what) {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Failure(fmt::format("MPI: {} failed: {}; another process may have ended", what, text));
}

MPI_Datatype typeOf(DataType type) { return type == DataType::F64 ? MPI_DOUBLE : MPI_FLOAT; }

class Mpi : public Transport {
public:
  Mpi() {
    int given = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  }
  ~Mpi() override {
    if (requests_.empty()) // else another process is gone, and MPI would wait for it
      MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  int64_t begin(const Collective &collective) override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = typeOf(collective.type);
    std::byte *data = collective.data;
    auto all = int(collective.count), part = all / size_;
    switch (collective.kind) {
    case Collective::Kind::Sum:
      check(MPI_Iallreduce(MPI_IN_PLACE, data, all, type, MPI_SUM, MPI_COMM_WORLD, &request),
            "MPI_Iallreduce");
      break;
    case Collective::Kind::SumParts:
      check(MPI_Ireduce_scatter_block(data, collective.part, part, type, MPI_SUM, MPI_COMM_WORLD,
                                      &request),
            "MPI_Ireduce_scatter_block");
      break;
    case Collective::Kind::Gather:
      check(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, part, type, MPI_COMM_WORLD,
                           &request),
            "MPI_Iallgather");
      break;
    case Collective::Kind::Collect:
      check(MPI_Igather(collective.part, part, type, data, part, type, 0, MPI_COMM_WORLD, &request),
            "MPI_Igather");
      break;
    }
    requests_[++begun_] = request;
    tell();
    return begun_;
  }

  bool done(int64_t number) override {
    auto found = requests_.find(number);
    int done = 0;
    check(MPI_Test(&found->second, &done, MPI_STATUS_IGNORE), "a collective");
    if (done)
      requests_.erase(found);
    else if (Clock::now() - lastTold_ > kBetween)
      tell();
    return done != 0;
  }

  std::string missing(int64_t begun) override {
    if (rank_ != 0 || size_ == 1)
      return "process 0"; // else it would have named another before
    hear();
    // One that has not come so far; or else, in the middle of a collective, the most silent.
    auto first = std::ranges::min_element(heard_.begin() + 1, heard_.end(), {}, &Heard::begun);
    if (first->begun >= begun)
      first = std::ranges::min_element(heard_.begin() + 1, heard_.end(), {}, &Heard::when);
    return fmt::format("process {}", first - heard_.begin());
  }

  [[noreturn]] void abort(int status) override {
    MPI_Abort(MPI_COMM_WORLD, status);
    std::abort();
  }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kBetween = std::chrono::milliseconds(500);
  struct Heard {
    int64_t begun = 0; // collectives
    Clock::time_point when;
  };

  /// The first process knows how far the others are, so that it can name one that hangs.
  void tell() {
    int sent = 1;
    lastTold_ = Clock::now();
    if (rank_ == 0)
      return hear();
    if (telling_ != MPI_REQUEST_NULL)
      check(MPI_Test(&telling_, &sent, MPI_STATUS_IGNORE), "MPI_Test");
    if (!sent)
      return; // the next message says as much
    told_ = begun_;
    check(MPI_Isend(&told_, 1, MPI_INT64_T, 0, kProgress, MPI_COMM_WORLD, &telling_), "MPI_Isend");
  }
  void hear() {
    heard_.resize(size_t(size_));
    while (true) {
      MPI_Status status;
      int there = 0;
      check(MPI_Iprobe(MPI_ANY_SOURCE, kProgress, MPI_COMM_WORLD, &there, &status), "MPI_Iprobe");
      if (!there)
        return;
      Heard &from = heard_[size_t(status.MPI_SOURCE)];
      check(MPI_Recv(&from.begun, 1, MPI_INT64_T, status.MPI_SOURCE, kProgress, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE),
            "MPI_Recv");
      from.when = Clock::now();
    }
  }

  int rank_ = 0, size_ = 1;
  int64_t begun_ = 0, told_ = 0;
  MPI_Request telling_ = MPI_REQUEST_NULL;
  std::vector<Heard> heard_; // from the others, by rank
  Clock::time_point lastTold_;
  std::map<int64_t, MPI_Request> requests_;
};

} // namespace
} // namespace tensmith::train

extern "C" __attribute__((visibility("default"))) tensmith::train::Transport *tensmith_open_mpi() {
  return new tensmith::train::Mpi;
}
