/* The contract between a compiled kernel and the runtime. It stands alone, in C.
 *
 * A kernel is `int32_t kernel(const TensmithCall *call)`: it returns 0, or what `fail` returned.
 * Its operands are dense, row-major buffers, aligned to 64 bytes unless they come from the caller
 * of the program (element alignment then). Results may overlap an operand only where the plan says
 * so; they may be parts of larger ones (element alignment), and their rows lie apart where the
 * kernel was made for it.
 * All the services it may use are in the table: a module has no undefined symbols. Version:
 * TENSMITH_KERNEL_ABI, part of the module's header. */
#ifndef TENSMITH_RUNTIME_KERNEL_ABI_H
#define TENSMITH_RUNTIME_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENSMITH_KERNEL_ABI 3

typedef struct TensmithCall TensmithCall;
typedef void (*TensmithBody)(void *closure, int64_t begin, int64_t end);

typedef struct TensmithServices {
  /* Calls body(closure, begin, end) on disjoint ranges that together are [0, count), possibly from
   * several threads, and returns when all are done. `grain` is the smallest range worth a thread.
   * Without threads it is one call. */
  void (*parallel_for)(const TensmithCall *call, int64_t count, int64_t grain, TensmithBody body,
                       void *closure);
  /* `bytes` of memory of the calling thread's own, aligned to 64, valid until the body (or kernel)
   * that asked returns; one request for each body. Null where it can't be had: the body must then
   * call `fail` and return. */
  void *(*scratch)(const TensmithCall *call, int64_t bytes);
  /* Records an error (the first one counts): `code` is an index into the kernel's messages in the
   * plan, or one of the codes below; `detail` stands where the message has {} (the status of a
   * library), and is ignored where it has none. Returns a non-zero value. */
  int32_t (*fail)(const TensmithCall *call, int32_t code, int64_t detail);
  /* Whether a kernel that may go on for long should go on: non-zero when its time is over, or when
   * it has failed. It then returns; nobody reads its results. */
  int32_t (*poll)(const TensmithCall *call);
} TensmithServices;

#define TENSMITH_FAIL_NO_MEMORY (-1)
#define TENSMITH_FAIL_NO_TIME (-2)
#define TENSMITH_FAIL_OUTSIDE (-3) /* of operand `detail`, or of memory that it asked for */

struct TensmithCall {
  void *const *operands; /* inputs, then results */
  const int64_t *sizes;  /* the values of the kernel's size parameters, in the order of the plan */
  const TensmithServices *services;
  void *context; /* the runtime's */
};

typedef int32_t (*TensmithKernel)(const TensmithCall *call);

#ifdef __cplusplus
}
#endif
#endif
