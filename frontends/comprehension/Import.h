// The front end of tensor comprehensions: a definition of a text to a graph of one operator for
// each of its results.
#pragma once

#include "base/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <string>

namespace tensmith::comprehension {

struct ImportOptions {
  std::string function;                 // empty: the text's only one
  std::map<std::string, int64_t> sizes; // of size variables: "N" = 4
};

/// `name` stands for the file in messages, which are "name:line:column: what is wrong", one a line.
Result<mlir::OwningOpRef<mlir::ModuleOp>> import(const std::string &text, const std::string &name,
                                                 mlir::MLIRContext &context,
                                                 const ImportOptions &options);

/// The definitions of a text as JSON: [{"name": ..., "inputs": [{"name", "type", "dims"}],
/// "results": [...], "text": ...}].
Result<std::string> describe(const std::string &text, const std::string &name);

/// The text in the one layout.
Result<std::string> format(const std::string &text, const std::string &name);

} // namespace tensmith::comprehension
