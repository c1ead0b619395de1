// What estimates of bytes take a size for that only the run knows.
//
// Buffers of open sizes are compared by it, and what a rewrite would store against what it reads.
// Algorithms that depend on the size of a picture or a batch are chosen by usual ones of these
// (rewrite/ConvolutionCost.h, rewrite/FourierPasses.cpp).
#pragma once

#include <cstdint>

namespace tensmith::graph {

inline constexpr int64_t kOpenSize = 64;

} // namespace tensmith::graph
