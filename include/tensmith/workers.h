/* The process's threads beside its own, which the runtime's parallel loops use too: for libraries
 * that have work of their own to be done beside them. Links libtensmith_runtime. Conventions are
 * those of tensmith.h. */
#ifndef TENSMITH_WORKERS_H
#define TENSMITH_WORKERS_H

#include <tensmith/tensmith.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Lets there be so many threads, made when they are first called for; fewer than before change
 * nothing. */
TS_API void ts_workers_allow(int threads);
/* Has a thread call `body(context)`, once, when one is free. 0 where there is no thread and none
 * can be made, or no memory to remember the call: nothing is called then. Whoever waits for a body
 * must be able to go on without it. */
TS_API int ts_workers_call(void (*body)(void *context), void *context);

#ifdef __cplusplus
}
#endif
#endif
