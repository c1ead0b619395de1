// Memory that a process shares with those that it forks: where workers leave what they found.
#pragma once

#include <cstddef>
#include <new>
#include <sys/mman.h>

namespace tensmith::random_graphs {

/// `count` objects, each as its default constructor makes it; null where there is no memory.
template <typename T> T *shareMemory(size_t count) {
  void *memory =
      mmap(nullptr, sizeof(T) * count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) T[count]();
}

} // namespace tensmith::random_graphs
