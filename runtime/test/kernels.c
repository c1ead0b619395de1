/* Kernels of the modules that the tests make: as compiled ones are, without a symbol of anybody
 * else's. */
#include "runtime/KernelAbi.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct {
  const float *a, *b;
  float *out;
} AddClosure;

static void addRange(void *closure, int64_t begin, int64_t end) {
  const AddClosure *add = closure;
  for (int64_t i = begin; i < end; ++i)
    add->out[i] = add->a[i] + add->b[i];
}

/* out[n] = a[n] + b[n] */
EXPORT int32_t test_add(const TensmithCall *call) {
  AddClosure closure = {call->operands[0], call->operands[1], call->operands[2]};
  call->services->parallel_for(call, call->sizes[0], 16, addRange, &closure);
  return 0;
}

/* out[0] = sum of a[n], by way of scratch memory */
EXPORT int32_t test_sum(const TensmithCall *call) {
  const float *a = call->operands[0];
  float *copy = call->services->scratch(call, call->sizes[0] * (int64_t)sizeof(float)), sum = 0;
  if (!copy)
    return call->services->fail(call, TENSMITH_FAIL_NO_MEMORY, 0);
  for (int64_t i = 0; i < call->sizes[0]; ++i)
    copy[i] = a[i];
  for (int64_t i = 0; i < call->sizes[0]; ++i)
    sum += copy[i];
  *(float *)call->operands[1] = sum;
  return 0;
}

/* out[n] = a[n], which must not be negative */
EXPORT int32_t test_check(const TensmithCall *call) {
  const float *a = call->operands[0];
  float *out = call->operands[1];
  for (int64_t i = 0; i < call->sizes[0]; ++i) {
    if (a[i] < 0)
      return call->services->fail(call, 0, i);
    out[i] = a[i];
  }
  return 0;
}

typedef struct {
  const TensmithCall *call;
  const float *a;
} CheckClosure;

static void checkRange(void *closure, int64_t begin, int64_t end) {
  const CheckClosure *check = closure;
  for (int64_t i = begin; i < end; ++i)
    if (check->a[i] < 0)
      check->call->services->fail(check->call, 0, i);
}

/* The same, but nothing is copied, and only the body of a loop says that it failed. */
EXPORT int32_t test_check_within(const TensmithCall *call) {
  CheckClosure closure = {call, call->operands[0]};
  call->services->parallel_for(call, call->sizes[0], 16, checkRange, &closure);
  return 0;
}

/* Goes on until it is told that it should not. */
EXPORT int32_t test_endless(const TensmithCall *call) {
  while (!call->services->poll(call))
    ;
  return 0;
}

/* out = iteration + 1 < limit: the condition of a loop */
EXPORT int32_t test_less(const TensmithCall *call) {
  const int64_t *iteration = call->operands[0];
  const float *limit = call->operands[1];
  *(uint8_t *)call->operands[2] = (float)(*iteration + 1) < *limit;
  return 0;
}

/* Nothing: what calling a kernel costs. */
EXPORT int32_t test_nothing(const TensmithCall *call) { return 0; }

/* out[0] = 1 where two calls of this kernel have run at the same time so far; each gives another a
 * while to come. */
EXPORT int32_t test_meet(const TensmithCall *call) {
  static int64_t present, met;
  __atomic_add_fetch(&present, 1, __ATOMIC_SEQ_CST);
  for (int64_t turn = 0; turn < 100000 && !__atomic_load_n(&met, __ATOMIC_SEQ_CST); ++turn)
    if (__atomic_load_n(&present, __ATOMIC_SEQ_CST) > 1)
      __atomic_store_n(&met, 1, __ATOMIC_SEQ_CST);
  *(float *)call->operands[1] = __atomic_load_n(&met, __ATOMIC_SEQ_CST) != 0;
  __atomic_sub_fetch(&present, 1, __ATOMIC_SEQ_CST);
  return 0;
}

/* out[n] = the address that it was given */
EXPORT int32_t test_address(const TensmithCall *call) {
  int64_t *out = call->operands[0];
  for (int64_t i = 0; i < call->sizes[0]; ++i)
    out[i] = (int64_t)out;
  return 0;
}

static float twice(float x) { return 2 * x; }
static float thrice(float x) { return 3 * x; }

/* Addresses in the image, which whoever maps it has to complete. */
static float (*volatile factors[])(float) = {twice, thrice};

/* out[n] = a[n] twice and thrice in turn */
EXPORT int32_t test_table(const TensmithCall *call) {
  const float *a = call->operands[0];
  float *out = call->operands[1];
  for (int64_t i = 0; i < call->sizes[0]; ++i)
    out[i] = factors[i % 2](a[i]);
  return 0;
}
