// Memory that can't be had, wherever it is asked for: each allocation of loading and of running a
// module fails once, and each time there is an error, and after it everything works as before.
//
// The C library's allocator is replaced by one that fails the n-th request of the testing thread;
// operator new goes through it, and requests are counted. A sanitizer replaces it itself, and is
// left to it.
#include "TestModule.h"

#include <tensmith/tensmith.h>

#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TENSMITH_OTHER_ALLOCATOR 1
#endif
#endif
#ifndef TENSMITH_OTHER_ALLOCATOR
#define TENSMITH_INJECTS 1
#endif
#endif

#ifdef TENSMITH_INJECTS
namespace {

thread_local int64_t requestsLeft = -1; // before one fails; negative: none does
thread_local bool failed = false;
std::atomic<int64_t> requests{0}; // of all threads

bool denied() {
  requests.fetch_add(1, std::memory_order_relaxed);
  if (requestsLeft < 0 || requestsLeft-- > 0)
    return false;
  return failed = true;
}

} // namespace

#pragma GCC visibility push(default) // for the shared libraries, too
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) { return denied() ? nullptr : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return denied() ? nullptr : __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return denied() ? nullptr : __libc_realloc(block, size); }
void *aligned_alloc(size_t alignment, size_t size) {
  return denied() ? nullptr : __libc_memalign(alignment, size);
}
}
#pragma GCC visibility pop

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

/// A loop over a kernel and an operator without one, results in arena, heap and the caller's hands.
Bytes loopModule() {
  ModuleBuilder module;
  uint32_t add = module.kernel("test_add"), less = module.kernel("test_less");
  uint32_t softmax = module.routine("softmax");
  module.setAttribute(softmax, "axis", 0);
  FunctionBuilder body("body");
  uint32_t bn = body.constant(8), line = body.constant(64), zero = body.constant(0);
  body.function.arena_bytes = line;
  uint32_t iteration = body.param("iteration", DataType::I64, {});
  body.param("condition", DataType::Bool, {});
  uint32_t carried = body.param("carried", DataType::F32, {bn});
  uint32_t limit = body.param("limit", DataType::F32, {});
  uint32_t t = body.value("t", DataType::F32, {bn}, plan::Storage::Arena, zero);
  uint32_t go = body.value("go", DataType::Bool, {}, plan::Storage::Result);
  uint32_t next = body.value("next", DataType::F32, {bn}, plan::Storage::Result);
  uint32_t seen = body.value("seen", DataType::F32, {bn}, plan::Storage::Result);
  body.add(plan::Opcode::Kernel, less, {iteration, limit}, {go});
  body.add(plan::Opcode::Kernel, add, {carried, carried}, {t}, {bn});
  body.add(plan::Opcode::Routine, softmax, {t}, {next});
  body.add(plan::Opcode::Kernel, add, {t, carried}, {seen}, {bn});
  body.function.results = {go, next, seen};

  FunctionBuilder main("main");
  uint32_t n = main.constant(8), trips = main.symbol("trips");
  uint32_t x = main.param("x", DataType::F32, {n});
  uint32_t last = main.param("limit", DataType::F32, {});
  uint32_t y = main.value("y", DataType::F32, {n}, plan::Storage::Heap);
  uint32_t all = main.value("all", DataType::F32, {trips, n}, plan::Storage::Result);
  auto &loop = main.add(plan::Opcode::Loop, 0, {kAbsent, kAbsent, x, last}, {y, all});
  loop.functions = {1};
  loop.carried = 1;
  // A second loop of kernels alone.
  FunctionBuilder steady("steady");
  uint32_t sn = steady.constant(8), origin = steady.constant(0);
  steady.function.arena_bytes = steady.constant(64);
  uint32_t turn = steady.param("i", DataType::I64, {});
  steady.param("c", DataType::Bool, {});
  uint32_t from = steady.param("from", DataType::F32, {sn});
  uint32_t end = steady.param("limit", DataType::F32, {});
  uint32_t more = steady.value("more", DataType::Bool, {}, plan::Storage::Arena, origin);
  uint32_t to = steady.value("to", DataType::F32, {sn}, plan::Storage::Result);
  steady.add(plan::Opcode::Kernel, less, {turn, end}, {more});
  steady.add(plan::Opcode::Kernel, add, {from, from}, {to}, {sn});
  steady.function.results = {more, to, to};
  uint32_t rounds = main.symbol("rounds");
  uint32_t z = main.value("z", DataType::F32, {n}, plan::Storage::Result);
  uint32_t rows = main.value("rows", DataType::F32, {rounds, n}, plan::Storage::Result);
  auto &second = main.add(plan::Opcode::Loop, 0, {kAbsent, kAbsent, y, last}, {z, rows});
  second.functions = {2};
  second.carried = 1;
  main.function.results = {z, all};
  module.add(std::move(main));
  module.add(std::move(body));
  module.add(std::move(steady));
  return module.finish();
}

ts_status_code take(ts_status *status) {
  ts_status_code code = status ? ts_status_get_code(status) : TS_OK;
  if (code == TS_INVALID_ARGUMENT || code == TS_INTERNAL)
    ADD_FAILURE() << ts_status_message(status);
  ts_status_free(status);
  return code;
}

template <typename Work> int64_t failEach(Work work) {
  for (int64_t n = 0; n < 100'000; ++n) {
    requestsLeft = n;
    failed = false;
    ts_status_code code = work();
    requestsLeft = -1;
    if (!failed) {
      EXPECT_EQ(code, TS_OK);
      return n;
    }
    // The dynamic loader says in its own words that it has no memory. And there are requests that
    // can do without: a frame that is not kept, a huge page.
    EXPECT_TRUE(code == TS_RESOURCE_EXHAUSTED || code == TS_INVALID_MODULE || code == TS_IO_ERROR ||
                code == TS_OK)
        << "request " << n << " gave code " << code;
  }
  ADD_FAILURE() << "there is no end to the requests";
  return 0;
}

struct Inputs {
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, limit = 3;
  ts_tensor *tensors[2] = {};

  Inputs() {
    const int64_t shape[] = {8};
    EXPECT_EQ(take(ts_tensor_borrow(TS_F32, shape, 1, x, nullptr, nullptr, &tensors[0])), TS_OK);
    EXPECT_EQ(take(ts_tensor_borrow(TS_F32, shape, 0, &limit, nullptr, nullptr, &tensors[1])),
              TS_OK);
  }
  ~Inputs() {
    for (ts_tensor *tensor : tensors)
      ts_tensor_free(tensor);
  }
};

ts_status_code run(ts_session *session, Inputs &inputs, int64_t &trips) {
  ts_tensor *outputs[2] = {};
  ts_status_code code = take(ts_session_run(session, inputs.tensors, 2, outputs, 2));
  if (code == TS_OK)
    trips = ts_tensor_shape(outputs[1])[0];
  for (ts_tensor *output : outputs)
    ts_tensor_free(output);
  return code;
}

TEST(NoMemory, LoadingFailsAtEachRequest) {
  Bytes file = loopModule();
  auto load = [&] {
    ts_module *module = nullptr;
    ts_status_code code = take(ts_module_load_bytes(file.data(), file.size(), nullptr, &module));
    EXPECT_EQ(code == TS_OK, module != nullptr);
    ts_module_free(module);
    return code;
  };
  ASSERT_EQ(load(), TS_OK);
  EXPECT_GT(failEach(load), 20);
}

TEST(NoMemory, ARunFailsAtEachRequestAndTheNextOneWorks) {
  Bytes file = loopModule();
  ts_module *module = nullptr;
  ASSERT_EQ(take(ts_module_load_bytes(file.data(), file.size(), nullptr, &module)), TS_OK);
  Inputs inputs;
  int64_t trips = 0;
  auto wholeLife = [&] {
    ts_session *session = nullptr;
    ts_session_options options = {sizeof(options), 1, 0, 0};
    ts_status_code code = take(ts_session_create(module, &options, &session));
    if (code == TS_OK)
      code = run(session, inputs, trips);
    ts_session_free(session);
    return code;
  };
  ASSERT_EQ(wholeLife(), TS_OK);
  EXPECT_EQ(trips, 3);
  EXPECT_GT(failEach(wholeLife), 20);

  ts_session *session = nullptr;
  ASSERT_EQ(take(ts_session_create(module, nullptr, &session)), TS_OK);
  failEach([&] { return run(session, inputs, trips); });
  trips = 0;
  EXPECT_EQ(run(session, inputs, trips), TS_OK);
  EXPECT_EQ(trips, 3);
  ts_session_free(session);
  ts_module_free(module);
}

/// So many kernels on two streams of a device.
Bytes streamedModule(uint32_t kernels) {
  ModuleBuilder module;
  module.module.devices = {"separate"};
  uint32_t add = module.kernel("test_add");
  FunctionBuilder main("main");
  uint32_t n = main.constant(8), bytes = main.constant(256);
  main.function.arena_bytes = bytes;
  main.function.device_arenas = {bytes};
  auto value = [&](int64_t place) {
    uint32_t made = main.value("v", DataType::F32, {n}, plan::Storage::Arena, main.constant(place));
    main.function.values[made]->device = 1;
    return made;
  };
  uint32_t x = main.param("x", DataType::F32, {n}), here = value(0), last = here;
  main.add(plan::Opcode::Copy, 0, {x}, {here}).stream = 0;
  for (uint32_t i = 0; i < kernels; ++i) {
    uint32_t next = value(64 + 64 * (i % 2));
    auto &kernel = main.add(plan::Opcode::Kernel, add, {last, here}, {next}, {n});
    kernel.stream = i % 2;
    kernel.waits = {i};
    last = next;
  }
  uint32_t y = main.value("y", DataType::F32, {n}, plan::Storage::Result);
  main.add(plan::Opcode::Copy, 0, {last}, {y}).stream = (kernels - 1) % 2;
  main.function.results = {y};
  module.add(std::move(main));
  return module.finish();
}

/// Requests of a session's run after many.
int64_t requestsOfReplay(uint32_t kernels) {
  Bytes file = streamedModule(kernels);
  ts_module *module = nullptr;
  ts_session *session = nullptr;
  EXPECT_EQ(take(ts_module_load_bytes(file.data(), file.size(), nullptr, &module)), TS_OK);
  EXPECT_EQ(take(ts_session_create(module, nullptr, &session)), TS_OK);
  Inputs inputs;
  float y[8] = {};
  const int64_t shape[] = {8};
  ts_tensor *output = nullptr;
  EXPECT_EQ(take(ts_tensor_borrow(TS_F32, shape, 1, y, nullptr, nullptr, &output)), TS_OK);
  int64_t before = 0;
  constexpr int kRuns = 100; // until each place on a stream has been used
  for (int i = 0; i <= kRuns; ++i) {
    before = requests;
    EXPECT_EQ(take(ts_session_run(session, inputs.tensors, 1, &output, 1)), TS_OK);
  }
  int64_t made = requests - before;
  EXPECT_EQ(y[7], 8.0F * float(kernels + 1));
  ts_tensor_free(output);
  ts_session_free(session);
  ts_module_free(module);
  return made;
}

TEST(NoMemory, IsNeededToPutKernelsOnStreamsAgain) {
  EXPECT_EQ(requestsOfReplay(40), requestsOfReplay(4));
}

} // namespace
#endif
