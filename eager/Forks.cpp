// Before a fork all is done; see Forks.h.
#include "eager/Forks.h"

#include "eager/CoexecutionLock.h"
#include "eager/Engine.h"
#include "eager/Kernels.h"

#include <pthread.h>

namespace tensmith::eager {

void orderForks() {
  static thread_local bool isOrdered = false;
  auto before = [] {
    isOrdered = !Engine::isInTask() && !Kernels::isMaking();
    if (!isOrdered)
      return;
    Engine::ofProcess().beforeFork();
    Kernels::ofProcess().beforeFork();
  };
  static constexpr auto after = [](bool isChild) {
    if (!isOrdered)
      return;
    Kernels::ofProcess().afterFork(isChild);
    Engine::ofProcess().afterFork(isChild);
  };
  auto inParent = [] { after(false); };
  auto inChild = [] {
    after(true);
    Entry::beginAnew();
  };
  static const int ordered = pthread_atfork(before, inParent, inChild);
  (void)ordered;
}

} // namespace tensmith::eager
