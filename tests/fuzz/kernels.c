/* The kernels of fuzzed modules. A module's code is trusted, and could write wherever its plan
 * leads it; these touch no operand, so that whatever goes wrong is the runtime's own. */
#include "runtime/KernelAbi.h"

#define EXPORT __attribute__((visibility("default")))

static void nothing(void *closure, int64_t begin, int64_t end) {}

EXPORT int32_t fuzz_kernel(const TensmithCall *call) {
  call->services->parallel_for(call, 8, 1, nothing, 0);
  return call->services->scratch(call, 4096)
             ? 0
             : call->services->fail(call, TENSMITH_FAIL_NO_MEMORY, 0);
}

EXPORT int32_t fuzz_failure(const TensmithCall *call) { return call->services->fail(call, 3, -1); }
