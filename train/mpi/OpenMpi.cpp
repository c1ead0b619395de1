// Collectives by MPI's that don't block, in a library of its own: only runs that were started as
// one of several processes load it, and MPI along with it.
//
// A large sum goes in two phases: each process gets all others' elements of its own part, adds
// them, and gives the others the result. What MPI does by itself may send whole vectors to one
// process and back, and adds in an order of its own: so parameters are the same bits whether the
// optimiser's state is shared out or not, by any MPI.
//
// Errors come back as codes instead of ending the process, so that a message can be given first.
// Calls come from several threads, one at a time.
#include "train/Transport.h"

#include "base/Cpus.h"
#include "files/Failure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <mpi.h>
#include <sched.h>
#include <vector>

namespace tensmith::train {
namespace {

constexpr int kSignOfLife = 1; // tag of messages without content
/// Bytes from which on a sum goes in two phases. A smaller one is as fast as its messages are few,
/// of which MPI needs fewer; Open MPI's own is as fast up to here, for 2 and 4 processes.
constexpr int64_t kLarge = 64 << 10;

void check(int code, const char *what) {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Failure(fmt::format("MPI: {} failed: {}; another process may have ended", what, text));
}

MPI_Datatype typeOf(DataType type) { return type == DataType::F64 ? MPI_DOUBLE : MPI_FLOAT; }

/// Where a process of this rank has its part of the sum.
std::byte *partOf(const Collective &of, int rank, int processes) {
  if (of.kind == Collective::Kind::SumParts)
    return of.part;
  return of.data + of.count / processes * rank * byteSize(of.type);
}

/// In the order of the processes, so that all come to the same bits whoever has the part.
template <typename T> void addParts(const Collective &of, std::byte *part, int processes) {
  std::array<T, 1024> sum; // the part may be one of those that are added
  int64_t count = of.count / processes;
  for (int64_t begin = 0; begin < count; begin += int64_t(sum.size())) {
    int64_t size = std::min(int64_t(sum.size()), count - begin);
    const T *from = reinterpret_cast<const T *>(of.data) + begin;
    std::copy_n(from, size, sum.begin());
    for (int64_t process = 1; process < processes; ++process)
      for (int64_t i = 0; i < size; ++i)
        sum[size_t(i)] += from[process * count + i];
    std::copy_n(sum.begin(), size, reinterpret_cast<T *>(part) + begin);
  }
}

int count(const std::array<unsigned long, 1024> &cpus) {
  return CPU_COUNT_S(sizeof cpus, reinterpret_cast<const cpu_set_t *>(cpus.data()));
}

class Mpi : public Transport {
public:
  Mpi() {
    int given = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread");
    if (given < MPI_THREAD_SERIALIZED)
      throw Failure("MPI: this library can't be called from several threads; take one that gives "
                    "MPI_THREAD_SERIALIZED, as Open MPI does");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_dup(MPI_COMM_WORLD, &second_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(second_, MPI_ERRORS_RETURN);
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  }
  ~Mpi() override {
    if (underWay_.empty()) // else another process is gone, and MPI would wait for it
      MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  bool hasCpusFor(int threads) override {
    MPI_Comm machine = MPI_COMM_NULL;
    check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
          "MPI_Comm_split_type");
    // Each process may be bound to CPUs of its own, or all to the same ones.
    std::array<unsigned long, 1024> cpus = {};
    ::sched_getaffinity(0, sizeof cpus, reinterpret_cast<cpu_set_t *>(cpus.data()));
    int own = count(cpus), quota = availableCpus();
    check(MPI_Allreduce(MPI_IN_PLACE, cpus.data(), int(cpus.size()), MPI_UNSIGNED_LONG, MPI_BOR,
                        machine),
          "MPI_Allreduce");
    check(MPI_Allreduce(MPI_IN_PLACE, &threads, 1, MPI_INT, MPI_SUM, machine), "MPI_Allreduce");
    MPI_Comm_free(&machine);
    return threads <= (quota < own ? std::min(quota, count(cpus)) : count(cpus));
  }

  int64_t begin(const Collective &collective) override {
    Begun begun = {collective};
    if (isShared(collective))
      beginShared(begun);
    else
      beginWhole(begun);
    underWay_[++begun_] = begun;
    tell();
    return begun_;
  }

  bool done(int64_t number) override {
    auto found = underWay_.find(number);
    Begun &begun = found->second;
    bool done = isOver(begun.request) && (begun.added || addAndGive(found)) && isOver(begun.rest);
    if (done)
      underWay_.erase(found);
    else if (Clock::now() - lastTold_ > kBetween)
      tell();
    return done;
  }

  std::string missing() override {
    if (rank_ != 0 || size_ == 1)
      return "process 0"; // else it would have named another before
    hear();
    return fmt::format("process {}",
                       std::ranges::min_element(heard_.begin() + 1, heard_.end()) - heard_.begin());
  }

  [[noreturn]] void abort(int status) override {
    MPI_Abort(MPI_COMM_WORLD, status);
    std::abort();
  }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kBetween = std::chrono::milliseconds(500);
  struct Begun {
    Collective collective;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Request rest = MPI_REQUEST_NULL; // of elements that are too few for parts
    bool added = true;                   // false: what is under way brings what is to be added
  };

  bool isShared(const Collective &of) const {
    return of.kind == Collective::Kind::SumParts ||
           (of.kind == Collective::Kind::Sum && of.count * byteSize(of.type) >= kLarge);
  }
  void beginShared(Begun &begun) const {
    const Collective &of = begun.collective;
    MPI_Datatype type = typeOf(of.type);
    int64_t part = of.count / size_, rest = of.count % size_;
    begun.added = false;
    check(MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, of.data, int(part), type,
                        MPI_COMM_WORLD, &begun.request),
          "MPI_Ialltoall");
    if (rest > 0)
      check(MPI_Iallreduce(MPI_IN_PLACE, of.data + part * size_ * byteSize(of.type), int(rest),
                           type, MPI_SUM, MPI_COMM_WORLD, &begun.rest),
            "MPI_Iallreduce");
  }
  void beginWhole(Begun &begun) const {
    const Collective &of = begun.collective;
    MPI_Datatype type = typeOf(of.type);
    auto all = int(of.count), part = all / size_;
    if (of.kind == Collective::Kind::Sum)
      check(
          MPI_Iallreduce(MPI_IN_PLACE, of.data, all, type, MPI_SUM, MPI_COMM_WORLD, &begun.request),
          "MPI_Iallreduce");
    else if (of.kind == Collective::Kind::Gather)
      check(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, of.data, part, type, MPI_COMM_WORLD,
                           &begun.request),
            "MPI_Iallgather");
    else
      check(
          MPI_Igather(of.part, part, type, of.data, part, type, 0, MPI_COMM_WORLD, &begun.request),
          "MPI_Igather");
  }
  static bool isOver(MPI_Request &request) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "a collective");
    return done != 0;
  }
  /// Adds what has come, and gives the others the sum where they want it. Whether that is all:
  /// second phases begin in the order of the first ones, since they do so on all processes.
  bool addAndGive(std::map<int64_t, Begun>::iterator found) {
    Begun &begun = found->second;
    const Collective &of = begun.collective;
    bool isAll = of.kind == Collective::Kind::SumParts;
    auto isBefore = [](const auto &entry) {
      return !entry.second.added && entry.second.collective.kind == Collective::Kind::Sum;
    };
    if (!isAll && std::any_of(underWay_.begin(), found, isBefore))
      return false;
    (of.type == DataType::F64 ? addParts<double> : addParts<float>)(of, partOf(of, rank_, size_),
                                                                    size_);
    begun.added = true;
    if (!isAll)
      check(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, of.data, int(of.count / size_),
                           typeOf(of.type), second_, &begun.request),
            "MPI_Iallgather");
    return isAll;
  }
  /// Those that wait tell the first process so again and again: it names the most silent. How much
  /// each has begun says less, since who waits in the middle of a collective may be as far behind
  /// as the one that has stopped there.
  void tell() {
    int sent = 1;
    lastTold_ = Clock::now();
    if (rank_ == 0)
      return hear();
    if (telling_ != MPI_REQUEST_NULL)
      check(MPI_Test(&telling_, &sent, MPI_STATUS_IGNORE), "MPI_Test");
    if (sent) // else the first has not even got the one before
      check(MPI_Isend(nullptr, 0, MPI_BYTE, 0, kSignOfLife, MPI_COMM_WORLD, &telling_),
            "MPI_Isend");
  }
  void hear() {
    heard_.resize(size_t(size_));
    while (true) {
      MPI_Status status;
      int there = 0;
      check(MPI_Iprobe(MPI_ANY_SOURCE, kSignOfLife, MPI_COMM_WORLD, &there, &status), "MPI_Iprobe");
      if (!there)
        return;
      check(MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kSignOfLife, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE),
            "MPI_Recv");
      heard_[size_t(status.MPI_SOURCE)] = Clock::now();
    }
  }

  int rank_ = 0, size_ = 1;
  int64_t begun_ = 0;
  MPI_Comm second_ = MPI_COMM_NULL; // for second phases
  MPI_Request telling_ = MPI_REQUEST_NULL;
  std::vector<Clock::time_point> heard_; // when from each of the others last, by rank
  Clock::time_point lastTold_;
  std::map<int64_t, Begun> underWay_;
};

} // namespace
} // namespace tensmith::train

extern "C" __attribute__((visibility("default"))) tensmith::train::Transport *tensmith_open_mpi() {
  return new tensmith::train::Mpi;
}
