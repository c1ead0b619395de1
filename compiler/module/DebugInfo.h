// What debuggers and profilers are told of a module's kernels: which nodes of the model each is of,
// and at which line of the model's file these stand.
//
// A kernel's code is shared by all models that have its structure, and knows of no node. So the
// information is made when a module is linked, of the addresses that the functions have then: one
// compile unit for the model, a subprogram with a line for each function, and in it a label for
// each of its nodes (DWARF version 4: "DWARF Debugging Information Format", 2010,
// sections 3.1, 3.3, 3.6 and 6.2). A line of an ONNX file is the node's number in its graph, from 1
// on.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tensmith::modules {

struct SourceNode {
  std::string name; // "conv1 (Conv)"
  std::string file; // without folders, so that a module does not depend on where it was made
  unsigned line;    // from 1 on; 0: unknown
  bool operator==(const SourceNode &) const = default;
};

struct DebugFunction {
  uint64_t address, size;
  std::string name;
  std::span<const SourceNode> nodes; // one or more; the first has the function's line
};

/// The sections' names and contents; none where there is no function. `bits`: of an address.
Result<std::vector<std::pair<std::string, std::string>>>
debugSections(std::span<const DebugFunction> functions, int bits);

} // namespace tensmith::modules
