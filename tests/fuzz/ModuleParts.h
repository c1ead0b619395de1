// The parts of a module that a fuzzer changes, as one input: the plan, the weights, and in the last
// eight bytes the size of the plan. The rest of the module, its code and its hashes, is made anew
// for each input, so that what is refused is refused for what it says and not for a wrong hash.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tensmith::fuzz {

struct ModuleParts {
  std::string plan, weights;
};

inline std::string joinParts(const ModuleParts &parts) {
  uint64_t size = parts.plan.size();
  std::string joined = parts.plan + parts.weights;
  return joined.append(reinterpret_cast<const char *>(&size), sizeof(size));
}

/// Whatever the bytes are.
inline ModuleParts splitParts(std::string_view joined) {
  uint64_t size = 0;
  if (joined.size() < sizeof(size))
    return {};
  std::memcpy(&size, joined.data() + joined.size() - sizeof(size), sizeof(size));
  joined.remove_suffix(sizeof(size));
  size = size > joined.size() ? joined.size() : size;
  return {std::string(joined.substr(0, size)), std::string(joined.substr(size))};
}

} // namespace tensmith::fuzz
