// The front end of the language: text to a program in the program and graph dialects.
#pragma once

#include "base/DataType.h"
#include "base/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <optional>
#include <set>
#include <string>

namespace tensmith::text {

struct ImportOptions {
  std::string folder;                      // that `load` reads from
  std::map<std::string, int64_t> sizes;    // of symbols: "n" = 4
  std::map<std::string, double> constants; // at the top, that have these values and not their own
  DataType reals = DataType::F32;          // numbers with a point, where nothing else says it
  /// Constants at the top that become inputs of main: "w", or "first.1" of one that is a tuple.
  std::set<std::string> inputs;
  /// All of those that the program uses do, each with its first value and drawn by this seed.
  std::optional<uint64_t> parameters;
};

/// `name` stands for the file in messages, which are "name:line:column: what is wrong", one a line.
Result<mlir::OwningOpRef<mlir::ModuleOp>> import(const std::string &text, const std::string &name,
                                                 mlir::MLIRContext &context,
                                                 const ImportOptions &options);

} // namespace tensmith::text
