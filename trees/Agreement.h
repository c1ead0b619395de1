// What processes that train together have to agree on before their first sum: how many columns
// there are, what the numbers of classes mean, and how many categories each column has.
//
// A histogram has a bin for each category, so sums over processes need the same number everywhere.
// Each process knows the categories of its own rows, and all take the greatest number.
#pragma once

#include "trees/Training.h"

namespace tensmith::trees {

/// Not to be moved once it is reached: `input` points into it.
struct Agreement {
  TrainingInput input;          // as it was given, with the agreed numbers of categories
  std::vector<Matrix> matrices; // the input's, where these numbers are not its own
  bool sharesSource = false;    // another process has the same TrainingInput::source
};

/// All processes call it. InvalidArgument where columns, classes, or numbers and categories differ.
Status agree(const TrainingInput &given, Exchange &exchange, Agreement &agreement);

} // namespace tensmith::trees
