// The callback of ts_compile_options::tuned; see TunedOption.h.
#include "client/TunedOption.h"

#include "files/Failure.h"

#include <filesystem>

namespace tensmith::client {

std::unique_ptr<tune::TunedPoints> takeTuned(const TunedOption &option, ts_compile_options &options,
                                             const std::function<void(const std::string &)> &warn) {
  std::error_code unknown;
  if (option.database.empty() ||
      (!option.isNamed && !std::filesystem::exists(option.database, unknown)))
    return nullptr;
  std::unique_ptr<tune::TunedPoints> points;
  try {
    points = std::make_unique<tune::TunedPoints>(option.database);
  } catch (const Failure &failure) {
    if (option.isNamed)
      throw;
    warn(std::string(failure.what()) + "; kernels are compiled by estimates");
    return nullptr;
  }
  options.tuned = [](void *all, const char *machine, const char *key) {
    const std::string *found = static_cast<tune::TunedPoints *>(all)->find(machine, key);
    return found ? found->c_str() : nullptr;
  };
  options.tuned_context = points.get();
  options.tuned_state = points->state().c_str();
  return points;
}

void tellOfOthers(const tune::TunedPoints *points,
                  const std::function<void(const std::string &)> &warn) {
  if (points && points->isOfOtherMachines())
    warn(points->path() +
         ": holds no tuned points for this machine and precision, only for others, "
         "which are left alone");
}

} // namespace tensmith::client
