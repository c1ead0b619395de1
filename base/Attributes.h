// Named parameters of an operator, free of MLIR: the form in which the reference evaluator reads
// them and in which a module stores those of the operators that the runtime evaluates itself.
#pragma once

#include "base/HostTensor.h"

#include <map>
#include <variant>

namespace tensmith {

/// A type attribute (as of a cast) is the number of its DataType.
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>, HostTensor>;

class Attributes {
public:
  void set(std::string name, Attribute value) { values_[std::move(name)] = std::move(value); }
  bool has(const std::string &name) const { return values_.count(name) != 0; }
  const std::map<std::string, Attribute> &all() const { return values_; }

  /// The attribute of that name; `fallback` where it is absent or of another kind.
  template <typename T> T get(const std::string &name, T fallback = {}) const {
    auto it = values_.find(name);
    if (it == values_.end())
      return fallback;
    const T *value = std::get_if<T>(&it->second);
    return value ? *value : fallback;
  }
  int64_t integer(const std::string &name, int64_t fallback = 0) const {
    return get(name, fallback);
  }
  double real(const std::string &name, double fallback = 0) const { return get(name, fallback); }
  std::string string(const std::string &name, std::string fallback = {}) const {
    return get(name, std::move(fallback));
  }
  std::vector<int64_t> integers(const std::string &name, std::vector<int64_t> fallback = {}) const {
    return get(name, std::move(fallback));
  }
  DataType type(const std::string &name) const { return DataType(integer(name)); }

private:
  std::map<std::string, Attribute> values_;
};

} // namespace tensmith
