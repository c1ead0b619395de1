// What the categories are called in a model of XGBoost's (since its version 3.1): `cats` beside the
// trees, a list for each feature.
//
// A list of texts is all their UTF-8 bytes, as signed numbers, and where each begins; a list of
// whole numbers is these. Beside them are the places of the lists in one sequence, and each list's
// order: XGBoost finds the categories of other data by them, and numbers them anew.
#pragma once

#include "trees/Forest.h"
#include "trees/ModelText.h"

namespace tensmith::trees {

/// Of a learner's attributes: names of classes, which XGBoost has no field for, as a list in JSON.
inline constexpr char kClassNames[] = "class_names";

/// Empty where a feature of categories has no list, or one of fractions, which XGBoost refuses.
Document xgboostCategories(const Forest &forest);
/// InvalidModel where a list's places are not in it.
Status readXgboostCategories(const Document &cats, Forest &forest);

} // namespace tensmith::trees
