// Types and attributes of kernels that tests write out.
#pragma once

#include "base/HostTensor.h"

#include <string>
#include <vector>

namespace tensmith::kernel {

/// A function of one kernel.
inline std::string kernel(const std::string &arguments, const std::string &inputs,
                          const std::string &result, const std::string &body) {
  std::string parameters, types;
  return "func.func @main(" + arguments + ") -> " + result + " {\n  %k = \"graph.kernel\"(" +
         inputs + ") <{label = \"k\", kind = \"\"}> ({\n  ^bb0(" + body +
         "\n  return %k : " + result + "\n}";
}

inline std::string tensor(const Shape &shape) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + "f32>";
}

inline std::string integers(const std::vector<int64_t> &values) {
  std::string text = "array<i64";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : ": ") + std::to_string(values[i]);
  return text + ">";
}

} // namespace tensmith::kernel
