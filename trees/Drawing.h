// Trees and importances as pictures: SVG that stands alone, and a page of both.
//
// Leaves stand side by side in their order, and a split in the middle above its children, so that
// no two ways cross. The colours are those that a browser's light or dark scheme asks for.
#pragma once

#include "trees/Importance.h"

#include "base/Status.h"

namespace tensmith::trees {

inline constexpr int32_t kMostDrawn = 4096; // leaves: more are too many to read

/// One tree. InvalidArgument where there is no such tree; Unsupported where it has too many leaves.
Result<std::string> treeSvg(const Forest &forest, int64_t tree);
/// Bars of the `most` greatest importances, the greatest first.
std::string importanceSvg(const Forest &forest, Importance kind, int64_t most = 20);
/// Both in a page of HTML.
Result<std::string> forestPage(const Forest &forest, int64_t tree, Importance kind);

} // namespace tensmith::trees
