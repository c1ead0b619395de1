// How a module lies in its file: an ELF shared object with three sections of ours.
//
//   .tensmith.header   ModuleHeader, below
//   .tensmith.plan     the FlatBuffer of plan.fbs
//   .tensmith.weights  the constants, page-aligned in the file, not loaded with the image: mapped
//   by themselves
//
// `imageHash` covers every byte of the file outside the weights section's contents, with the two
// hash fields of the header taken as zero: code, plan, signature, ELF headers. `weightsHash` covers
// the weights and is checked when asked. Nothing of the file is mapped executable before version,
// features and imageHash are found right.
//
// The hashes tell damage, not forgery: whoever can write a module can write its hashes. To load a
// module is to trust whoever made it, since its kernels are native code. The plan is data and is
// checked as such; so that nothing but kernels runs, an image is refused that has code to run when
// it is loaded (DT_INIT, DT_INIT_ARRAY, ...) or that names other libraries (DT_NEEDED). The runtime
// maps it itself (CodeImage.h): segments of different rights share no page of the machine, and
// relocations are relative ones.
#pragma once

#include <cstdint>

namespace tensmith::runtime {

inline constexpr char kHeaderSection[] = ".tensmith.header";
inline constexpr char kPlanSection[] = ".tensmith.plan";
inline constexpr char kWeightsSection[] = ".tensmith.weights";
inline constexpr uint64_t kMagic = 0x444f4d4854534e54; // "TNSTHMOD"
inline constexpr uint16_t kFormatMajor = 1;
inline constexpr uint16_t kFormatMinor = 9; // 1: procedures; 2: their scalars, forks and batches;
                                            // 3: states; 4: bounds, devices; 5: joins; 6: checks;
                                            // 7: several devices, streams; 8: layouts of images by
                                            // name; 9: arenas that are placed when sizes are known
inline constexpr uint32_t kAbsent = 0xffffffff;
// Of a register that an instruction of a procedure reads: it is empty afterwards.
inline constexpr uint32_t kTake = 0x80000000;
inline constexpr uint32_t kMostForked = 64; // calls of one fork

struct ModuleHeader {
  uint64_t magic;
  uint16_t formatMajor; // a reader takes its own major and any minor up to its own
  uint16_t formatMinor;
  uint32_t kernelAbi;
  uint64_t imageHash[2]; // XXH3-128, low word first
  uint64_t weightsHash[2];
};
static_assert(sizeof(ModuleHeader) == 48);

} // namespace tensmith::runtime
