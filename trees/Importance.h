// What each feature does in a forest, as numbers: how often it is split, and by what that helps.
#pragma once

#include "trees/Forest.h"

#include <string>
#include <vector>

namespace tensmith::trees {

/// As XGBoost defines them; gains and covers are means over the splits, or their totals.
enum class Importance { Weight, Gain, Cover, TotalGain, TotalCover };

/// By feature, of the trees that count; 0 of one that no split tests.
std::vector<double> importances(const Forest &forest, Importance kind);

/// "f7", or the name it has.
std::string nameOf(const Forest &forest, int64_t feature);
/// What sends a row left: "age < 30.5", "colour in {1, 4}".
std::string testOf(const Forest &forest, const Tree &tree, int32_t node);

/// All trees in lines, a node a line: its number, its test and where it leads, or its value.
std::string dumpText(const Forest &forest);

} // namespace tensmith::trees
