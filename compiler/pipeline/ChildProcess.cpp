// Between vfork and exec only what is safe in a child of a process with threads: system calls on
// memory that was made before; see ChildProcess.h.
#include "compiler/pipeline/ChildProcess.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tensmith::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostText = size_t(1) << 20; // of what it prints
constexpr int kCantStart = 127;               // the child's status where exec fails

/// Of a pipe: what the child writes into one end.
class Pipe {
public:
  Pipe() { ok_ = ::pipe2(ends_.data(), O_CLOEXEC) == 0; }
  ~Pipe() { closeReading(), closeWriting(); }
  bool ok() const { return ok_; }
  int reading() const { return ends_[0]; }
  int writing() const { return ends_[1]; }
  void closeReading() { close(ends_[0]); }
  void closeWriting() { close(ends_[1]); }

private:
  static void close(int &end) {
    if (end >= 0)
      ::close(end);
    end = -1;
  }
  std::array<int, 2> ends_{-1, -1};
  bool ok_ = false;
};

cpu_set_t firstCpus(int count) {
  cpu_set_t own, chosen;
  CPU_ZERO(&own);
  CPU_ZERO(&chosen);
  ::sched_getaffinity(0, sizeof own, &own);
  for (int cpu = 0; cpu < CPU_SETSIZE && count > 0; ++cpu)
    if (CPU_ISSET(cpu, &own)) {
      CPU_SET(cpu, &chosen);
      --count;
    }
  return chosen;
}

/// Takes what is there; false at the end.
bool take(int end, std::string &text) {
  std::array<char, 4096> buffer;
  ssize_t got = ::read(end, buffer.data(), buffer.size());
  if (got < 0)
    return errno == EINTR || errno == EAGAIN;
  if (text.size() < kMostText)
    text.append(buffer.data(), size_t(got));
  return got > 0;
}

} // namespace

Result<ChildResult> runChild(const std::vector<std::string> &command, const ChildLimits &limits) {
  std::vector<char *> words;
  for (const std::string &word : command)
    words.push_back(const_cast<char *>(word.c_str()));
  words.push_back(nullptr);
  Pipe output, errors, started; // the last is written to where it does not start
  if (!output.ok() || !errors.ok() || !started.ok())
    return Status(StatusCode::ResourceExhausted, "no pipe can be made");
  cpu_set_t cpus = firstCpus(limits.cpus);
  int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  pid_t parent = ::getpid();
  // Where this process ends before it: no candidate runs for ever.
  rlim_t cpuSeconds =
      rlim_t(limits.seconds + 1) * rlim_t(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  rlimit cpu{cpuSeconds, cpuSeconds},
      memory{rlim_t(limits.memoryBytes), rlim_t(limits.memoryBytes)}, noCore{0, 0};
  // Until it is another program the child has this process's memory and stack: no handler of a
  // signal may run on them. To copy the pages of a large compilation would take longer than what is
  // measured.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  pid_t child = ::vfork();
  if (child != 0)
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child != 0 && nothing >= 0)
    ::close(nothing);
  if (child < 0)
    return Status(StatusCode::ResourceExhausted, "no process can be started");
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL); // of the thread that forked, which waits here
    if (::getppid() != parent)
      ::_exit(kCantStart);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(output.writing(), STDOUT_FILENO);
    ::dup2(errors.writing(), STDERR_FILENO);
    if (limits.cpus > 0)
      ::sched_setaffinity(0, sizeof cpus, &cpus);
    if (limits.memoryBytes > 0)
      ::setrlimit(RLIMIT_DATA, &memory);
    ::setrlimit(RLIMIT_CPU, &cpu);
    ::setrlimit(RLIMIT_CORE, &noCore);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::execvp(words[0], words.data());
    int error = errno;
    [[maybe_unused]] ssize_t told = ::write(started.writing(), &error, sizeof error);
    ::_exit(kCantStart);
  }
  ::setpgid(child, child); // whoever of both is first
  output.closeWriting(), errors.closeWriting(), started.closeWriting();
  ChildResult result;
  auto end = Clock::now() + std::chrono::duration<double>(limits.seconds);
  std::array<pollfd, 2> ends{{{output.reading(), POLLIN, 0}, {errors.reading(), POLLIN, 0}}};
  bool isLate = false;
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) {
      isLate = true;
      break;
    }
    if (::poll(ends.data(), ends.size(), int(std::min<int64_t>(left, 1000))) <= 0)
      continue;
    for (auto [number, text] : {std::pair(0, &result.output), {1, &result.errors}})
      if (ends[size_t(number)].fd >= 0 && ends[size_t(number)].revents &&
          !take(ends[size_t(number)].fd, *text))
        ends[size_t(number)].fd = -1;
  }
  // One that closed its output may still run. What it has started goes with it, while its number is
  // still taken.
  siginfo_t ended{};
  while (!isLate && ::waitid(P_PID, id_t(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0) {
    isLate = Clock::now() > end;
    ::usleep(1000);
  }
  ::kill(-child, SIGKILL);
  int status = 0;
  pid_t reaped;
  while ((reaped = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (isLate) {
    result.end = ChildResult::End::TimedOut;
    return result;
  }
  if (reaped < 0)
    return Status(StatusCode::Internal, command[0] + ": nobody can tell how it ended, since this "
                                                     "process ignores the end of others");
  int error = 0;
  if (::read(started.reading(), &error, sizeof error) == ssize_t(sizeof error))
    return Status(StatusCode::IoError, command[0] + ": " + std::strerror(error));
  result.end = WIFSIGNALED(status) ? ChildResult::End::Killed : ChildResult::End::Exited;
  result.status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

} // namespace tensmith::pipeline
