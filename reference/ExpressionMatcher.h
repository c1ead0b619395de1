// What the library of regular expressions exports (reference/expressions/).
#pragma once

#include <cstddef>

extern "C" {
/// Whether each of `count` texts is matched as a whole: matches[i] is set to 1 or 0. Returns null,
/// or what is wrong with the pattern (valid until the thread's next call).
using TensmithMatchTexts = const char *(const char *pattern, size_t patternSize,
                                        const char *const *texts, const size_t *sizes, size_t count,
                                        unsigned char *matches);
}
