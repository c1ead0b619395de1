// The evaluators of the resampling family that have a file of their own.
#pragma once

#include "reference/Workspace.h"

namespace tensmith::reference {

/// What the elements of a resized axis are made of: each of x's elements at `positions` times
/// `weights`.
struct ResizedAxis {
  struct Element {
    std::vector<int64_t> positions;
    std::vector<double> weights;
  };
  size_t axis = 0;
  std::vector<Element> elements;
};

/// The axes of an x of that shape that resizing changes; `operands[0]` isn't read. Fails where
/// elements lie outside of a crop, of which x says nothing.
Result<std::vector<ResizedAxis>> resizedAxes(const Invocation &invocation, const Shape &shape);
Outcome evaluateResize(const Invocation &invocation);
Outcome evaluateGridSample(const Invocation &invocation);
Outcome evaluateAffineGrid(const Invocation &invocation);
Outcome evaluateRoiAlign(const Invocation &invocation);
Outcome evaluateMaxRoiPool(const Invocation &invocation);

} // namespace tensmith::reference
