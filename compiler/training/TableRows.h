// Tables of which a step reads few rows, updated by these rows alone.
//
// The gradient of a table is rows added into zeros. Where an optimiser's definition leaves alone
// what has a gradient of zero, or says that rows without one wait (its setting `lazy_rows`), the
// parameter's and the slots' rows that the step has read are taken out, updated, and written back:
// nothing goes through the whole table. An index that comes several times gives the same row as
// often, with the sum of its gradients, and so is written as often with the same numbers.
#pragma once

#include "compiler/graph/GraphCode.h"

#include <optional>

namespace tensmith::training {

struct TableRows {
  mlir::Value places;   // [n, 1], of rows that were read, counted from the front
  mlir::Value distinct; // [n, ...]: the sums of the distinct rows' gradients, and zeros behind them
  mlir::Value gradient; // [n, ...]: of each place its row's

  /// The table's rows at the places.
  mlir::Value of(mlir::Value table, const graph::GraphCode &code) const;
  /// The table with those rows in their places.
  mlir::Value into(mlir::Value table, mlir::Value rows, const graph::GraphCode &code) const;
};

/// Of a table's gradient that is rows added into zeros, or a sum of such; of f32 and f64 alone,
/// which can be written in place.
std::optional<TableRows> tableRows(mlir::Value gradient, const graph::GraphCode &code);

/// What an update program has made of a gradient, the old values and numbers.
struct UpdateValues {
  llvm::ArrayRef<mlir::Value> results, old; // in the same order
  mlir::Value gradient;
};
/// Whether elements keep their values where the gradient is zero, all numbers being finite.
bool leavesZeros(const UpdateValues &update);

} // namespace tensmith::training
