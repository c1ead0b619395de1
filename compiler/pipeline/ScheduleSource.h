// Where the pipeline gets points that tuning has found. It knows no database: clients inject one.
#pragma once

#include <string>

namespace tensmith::pipeline {

class ScheduleSource {
public:
  virtual ~ScheduleSource() = default;

  /// Of a kernel's or an operator's key: the choices of an entry of a schedule file, as a JSON
  /// object's members ("\"tile_rows\":6,\"grain\":2"); empty where nothing is known. `machine` is
  /// what the key depends on beside the graph, in words. Whatever is wrong with a text is told as a
  /// warning, and the kernel made by estimates.
  virtual std::string choicesOf(const std::string &machine, const std::string &key) = 0;
};

} // namespace tensmith::pipeline
