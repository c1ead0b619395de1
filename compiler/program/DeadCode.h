// Dead code of procedures: what neither the result nor an effect needs.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tensmith::program {

/// Also drops references of the procedure's own that nobody reads, with what is written to them.
void dropDeadCode(mlir::func::FuncOp procedure);

} // namespace tensmith::program
