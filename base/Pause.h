// What a thread does between two looks at what another one is to change.
#pragma once

#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tensmith {

/// Tells the core that this is a wait; yields now and then to whoever has no core. `turn` counts
/// the looks.
inline void pauseBetweenLooks(unsigned turn) {
  if (turn % 1024 == 1023)
    return std::this_thread::yield();
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#elif defined(__riscv)
  asm volatile(".4byte 0x0100000f"); // pause, which is a fence of nothing where it is not known
#endif
}

} // namespace tensmith
