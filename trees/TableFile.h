// Tables of rows in files, as what trees are trained on and predict: CSV, TSV, Parquet, LibSVM's
// text, NumPy's .npy and .npz.
//
// A field that is empty, or says NA or nan, is a missing value. A target of text names classes,
// which are numbered in the order of the alphabet, as are the texts of a column of categories; but
// where a forest knows the column's list (Feature::levels) its numbers count. LibSVM's entries
// count columns from 0, as XGBoost reads them; what has no entry is missing.
#pragma once

#include "trees/Matrix.h"

#include "base/Status.h"

#include <optional>
#include <string>
#include <vector>

namespace tensmith::trees {

struct TableOptions {
  std::string target; // a column; empty: "target", "label" or "y", or else the last
  std::string weight; // a column of rows' weights; empty: none
  std::vector<std::string> categorical; // columns of categories: 0, 1, ..., or texts
  std::string group;        // a column that is the same for the rows of a query, which lie together
  bool hasTarget = true;    // false: the target is left out where it is there
  int64_t leastColumns = 0; // of LibSVM's text, whose rows name the columns that they have
  /// What training or a forest has. Columns are taken by these names, where there are some, in this
  /// order; others are left out. Lists of categories count more than the table's own: a text that
  /// is in none is a missing value, which goes the way of a category that training has not seen;
  /// with `addsLevels` it becomes the list's next one.
  const std::vector<Feature> *like = nullptr;
  bool addsLevels = false;
};

struct Table {
  Matrix matrix;
  std::string target;               // the name of its column; empty: it has none
  std::vector<std::string> classes; // of a target of text, in the order of their numbers
};

/// Errors name the file, the row and the column. InvalidArgument where a column that is asked for
/// is not there, or the table is empty.
Result<Table> readTable(const std::string &path, const TableOptions &options);

} // namespace tensmith::trees
