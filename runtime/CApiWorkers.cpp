// The public C API over the process's workers: a call is remembered in memory of its own until a
// worker begins it.
#include <tensmith/workers.h>

#include "runtime/Workers.h"

#include <new>

using tensmith::runtime::Workers;

namespace {

struct Call : Workers::Job {
  void (*work)(void *);
  void *context;
};

void run(Workers::Job &job) {
  Call call = static_cast<Call &>(job);
  delete static_cast<Call *>(&job);
  call.work(call.context);
}

} // namespace

void ts_workers_allow(int threads) { Workers::ofProcess().allow(threads); }

int ts_workers_call(void (*body)(void *), void *context) {
  auto *call = new (std::nothrow) Call;
  if (!call)
    return 0;
  call->body = run;
  call->work = body;
  call->context = context;
  if (Workers::ofProcess().call(*call))
    return 1;
  delete call;
  return 0;
}
