// The steps under way, of all threads, and the lock that keeps others out while a call of one waits
// without the interpreter's lock. One lock for all, as steps read each other's tensors. It is never
// waited for with the interpreter's lock.
#pragma once

#include "eager/Dispatch.h"

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
    if (lock().try_lock())
      return;
    LetGo unlocked;
    lock().lock();
  }
  ~Entry() { lock().unlock(); }
  Entry(const Entry &) = delete;

private:
  static std::recursive_mutex &lock() {
    static auto *mutex = new std::recursive_mutex; // threads may outlive the process's statics
    return *mutex;
  }
};

} // namespace tensmith::eager
