// The builder's C interface (tensmith/builder.h) as calls that throw: what a decoder's graph is
// written with.
#pragma once

#include "client/CompilerLibrary.h"

#include <tensmith/tensmith.hpp>

#include <string>
#include <variant>
#include <vector>

namespace tensmith::generation {

using Dims = std::vector<std::string>;

struct NamedAttribute {
  const char *name;
  std::variant<int64_t, bool, double, std::string, std::vector<int64_t>, ts_type> value;
};

class GraphOf {
public:
  using Value = ts_value;

  /// Throws Error where there is no compiler.
  GraphOf();
  ~GraphOf();
  GraphOf(const GraphOf &) = delete;
  GraphOf &operator=(const GraphOf &) = delete;

  Value input(const std::string &name, ts_type type, const Dims &dims);
  void output(const std::string &name, Value value);
  /// The first result. `dims`: of operators whose result type is given, whose elements are of
  /// `type`.
  Value op(const char *name, const std::vector<Value> &operands,
           const std::vector<NamedAttribute> &attributes = {}, const Dims *dims = nullptr,
           ts_type type = TS_F32);
  Value scalar(double value);

  /// `type`: that of x.
  Value reshape(Value x, const Dims &dims, ts_type type = TS_F32) {
    return op("reshape", {x}, {}, &dims, type);
  }
  /// From `start` along the last dimension, every `step`-th; `dims` of the result.
  Value columns(Value x, int64_t start, int64_t step, const Dims &dims, ts_type type = TS_F32);

  /// In the dialect's text, by which a compilation is known.
  std::string text();
  std::string compile(const ts_compile_options &options);

private:
  const client::CompilerLibrary &library_;
  ts_builder *builder_ = nullptr;
  std::string place_; // in the model, for messages
};

} // namespace tensmith::generation
