// Conversions between bytes and wider numbers as 64-bit ARM does them: a half of the width at a
// time, whole vectors at once.
//
// LLVM 19 takes a vector of floats apart before it extends the bytes that they are made of, and
// then extends each part by two shifts; and it clamps 32-bit numbers to the range of a byte before
// it drops three quarters of each. So these are written here as the instructions that there are:
//
// - Bytes become floats by way of integers: sshll twice, then scvtf. A whole number that is added
//   to the floats is added to 16 bits before, by saddw in place of the first sshll; that is exact,
//   and so the same.
// - Clamped numbers become bytes by instructions that saturate: sqxtn to 16 bits, then sqxtn or
//   sqxtun. What is left of narrower bounds is kept to in the narrow type.
//
// The loops' vectoriser and templates write both alike, so it is done on what LLVM has optimised.
#pragma once

namespace llvm {
class Module;
}

namespace tensmith::targets::cpu {

/// Of optimised code for 64-bit ARM, whose results stay the same.
void convertBytesByHalves(llvm::Module &module);

} // namespace tensmith::targets::cpu
