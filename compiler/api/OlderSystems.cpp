// Packages run on systems older than the one they are built on. LLVM's archives call one function
// that the C library has from version 2.36 on; here it stands for that one, within this library
// alone, so that 2.35 is enough (`auditwheel` grants manylinux_2_35 then).
//
// LLVM draws the names of temporary files by it.
#include <cstdint>
#include <cstdlib>
#include <unistd.h>

extern "C" uint32_t arc4random() noexcept {
  uint32_t number = 0;
  if (::getentropy(&number, sizeof number) != 0) // the kernel has no such call
    std::abort();
  return number;
}
