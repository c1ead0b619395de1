// A table in a file, and the library that reads it: what train/parquet/ is asked for, which lies in
// a library of its own so that nothing else needs Arrow.
#pragma once

#include "base/HostTensor.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tensmith::train {

/// Takes a table's columns, one after the other. All throw Failure.
class TableSink {
public:
  virtual ~TableSink() = default;
  /// What all columns will take, by what the file says of them before any is decoded; below 0 where
  /// it is more than can be counted.
  virtual void announce(int64_t bytes) = 0;
  /// Where the elements go, whose first dimension are the rows.
  virtual std::byte *numbers(const std::string &name, DataType type, const Shape &shape) = 0;
  virtual void texts(const std::string &name, std::vector<std::string> rows) = 0;
};

/// Throws Failure where the file is broken, or holds what is neither.
using ReadTable = void (*)(const std::string &path, TableSink &sink);
inline constexpr char kReadParquet[] = "tensmith_read_parquet";

} // namespace tensmith::train
