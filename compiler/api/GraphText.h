// Reads a model that is written in the graph dialect's text, which comes from outside like any
// other and so is checked against what the compiler takes: one function @main of one block, of
// graph operators alone, on tensors, sequences and optionals.
#pragma once

#include "base/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tensmith {

/// Whether the bytes are the text form, which begins with a comment, a module or a function; ONNX's
/// protobuf begins with a field's number.
bool isGraphText(std::string_view bytes);

/// `name` stands for the file in messages, which also have the line.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
parseGraphText(std::string_view text, const std::string &name, mlir::MLIRContext &context);

} // namespace tensmith
