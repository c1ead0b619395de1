// An integer of 128 bits, in which sums and products of two 64-bit ones don't overflow. Machines of
// 32 bits have no __int128; the compiler that builds for them (clang) has the other.
#pragma once

namespace tensmith {

#if defined(__SIZEOF_INT128__)
using Int128 = __int128;
#else
using Int128 = _BitInt(128);
#endif

} // namespace tensmith
