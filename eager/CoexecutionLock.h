// The steps under way, of all threads, and the lock that keeps others out while a call of one waits
// without the interpreter's lock. One lock for all, as steps read each other's tensors. It is never
// waited for with the interpreter's lock.
#pragma once

#include "eager/Dispatch.h"

#include <memory>
#include <mutex>
#include <vector>

namespace tensmith::eager {

class Coexecution;

/// Changes with the interpreter's lock and an `Entry`.
inline std::vector<Coexecution *> &stepsUnderWay() {
  static auto *steps = new std::vector<Coexecution *>; // threads may outlive the process's statics
  return *steps;
}

class Entry {
public:
  Entry() {
    if (!lock().try_lock()) {
      LetGo unlocked;
      lock().lock();
    }
    ++held();
  }
  ~Entry() {
    --held();
    lock().unlock();
  }
  Entry(const Entry &) = delete;

  /// In the child of a fork: the thread that had the lock may not be there to give it back. What
  /// its step has put off is done by whoever reads it, as before.
  static void beginAnew() {
    std::construct_at(&lock());
    for (int i = 0; i < held(); ++i)
      lock().lock();
  }

private:
  static int &held() { // by the calling thread, so many times
    static thread_local int count = 0;
    return count;
  }
  static std::recursive_mutex &lock() {
    static auto *mutex = new std::recursive_mutex; // threads may outlive the process's statics
    return *mutex;
  }
};

} // namespace tensmith::eager
