// The angles by which a decoder turns keys and queries, and how files stretch them for contexts
// that are longer than those that the model was trained on.
//
// Three ways are read. Linear: all frequencies are divided by a factor. yarn (arXiv 2309.00071):
// those whose waves the original context holds fewer than `beta slow` times are divided by the
// factor, those that it holds more than `beta fast` times are not, those between partly; and
// cosines and sines are multiplied by 1 + 0.1 ln(factor). longrope (arXiv 2402.13753): each
// frequency has a divisor of its own, one for contexts up to the original one and another for
// longer ones. Layers with a window that rotate by a base of their own (Gemma 3) are not stretched.
#pragma once

#include "generation/Architecture.h"

namespace tensmith::generation {

/// Of a file whose sizes are known. `prefix`: of its metadata's names. Throws Failure where
/// something is missing or of another size.
void readRotations(Architecture &of, const GgufFile &file, const std::string &prefix);
/// Which divisors hold hangs on how long contexts may become.
void chooseRotations(Architecture &of, int64_t context);

/// Cosines and sines of positions [first, first + count), [count, rotated / 2] each. `windowed`: of
/// layers with a window.
void rotations(const Architecture &of, bool windowed, int64_t first, int64_t count, float *cosines,
               float *sines);

} // namespace tensmith::generation
