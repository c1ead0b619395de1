// Reading JSON within bounds; see BoundedJson.h.
#include "generation/chat/BoundedJson.h"

#include "files/Failure.h"

#include <fmt/format.h>

namespace tensmith::generation {
namespace {

constexpr int kMostDepth = 64;
constexpr int kMostKeys = 1024; // of an object

} // namespace

Json boundedJson(const std::string &text) {
  bool isTooDeep = false, isTooWide = false;
  int keys[kMostDepth + 2] = {};
  // What is refused is thrown away as it is read.
  auto keep = [&](int depth, Json::parse_event_t event, Json &) {
    isTooDeep = isTooDeep || depth > kMostDepth;
    if (isTooDeep || isTooWide)
      return false;
    if (event == Json::parse_event_t::object_start)
      keys[depth + 1] = 0;
    if (event == Json::parse_event_t::key)
      isTooWide = ++keys[depth] > kMostKeys;
    return !isTooWide;
  };
  Json json = Json::parse(text, keep, /*allow_exceptions=*/false);
  if (isTooDeep)
    failUsage(fmt::format("the JSON is nested deeper than {}", kMostDepth));
  if (isTooWide)
    failUsage(fmt::format("an object of the JSON has more than {} keys", kMostKeys));
  if (json.is_discarded())
    failUsage("it is no JSON");
  return json;
}

} // namespace tensmith::generation
