// Attributes of operators from the C API's form.
#pragma once

#include "base/HostTensor.h"
#include "base/Status.h"

#include <tensmith/builder.h>

#include "mlir/IR/OperationSupport.h"

namespace tensmith {

/// Those of an operator of that name, each of a kind that its record takes. InvalidArgument, with
/// the attribute's name, else. Whether one is missing is not looked at.
Result<llvm::SmallVector<mlir::NamedAttribute>>
operatorAttributes(mlir::OperationName name, llvm::ArrayRef<ts_attribute> given,
                   mlir::MLIRContext &context);

/// A tensor that keeps the handle's memory, without a copy.
Result<HostTensor> retainedTensor(ts_tensor *handle);

} // namespace tensmith
