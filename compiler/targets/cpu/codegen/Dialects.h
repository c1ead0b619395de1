// The dialects that code generation knows: all that a kernel's module may be written in.
//
// One file registers them, since each costs compile time, and registering everything that MLIR has
// costs most of a minute.
#pragma once

namespace mlir {
class DialectRegistry;
}

namespace tensmith::targets::cpu {

void registerCodegenDialects(mlir::DialectRegistry &registry);

} // namespace tensmith::targets::cpu
