// What is wrong with the schedules in a text of comprehensions, without compiling it: for editors.
#pragma once

#include "compiler/nest/Schedule.h"
#include "reference/comprehension/Schedules.h"

#include "mlir/IR/MLIRContext.h"

namespace tensmith::nest {

/// Each line that is refused, with the reason; lines behind it of the same statement are not looked
/// at. The context has the graph's dialects. Nothing where the text itself is wrong.
std::vector<std::pair<comprehension::ScheduleLine, std::string>>
refusedLines(const std::string &text, const TargetUnits &units, mlir::MLIRContext &context);

} // namespace tensmith::nest
