// A module's code in memory, mapped from its file without the system's loader.
//
// A module imports nothing and has nothing to run when it is loaded, so that little is left of what
// the loader does: to map the segments, and to add the place where they lie to the addresses that
// they hold (relative relocations). Doing it here serves static programs, which have no loader, and
// loads a file as often as it is asked to, whatever path or descriptor it comes by. The pages are
// the file's: processes that run one module share them, and profilers find the functions' names in
// the file.
//
// Nothing is ever writable and executable. No code is written, so that it is the system that keeps
// the caches of instructions up to date, as it does for every page that it maps to be executed.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tensmith::runtime {

/// What has to be done to map an image: in bounds, once `readCodeLayout` has given it.
struct CodeLayout {
  struct Segment {
    uint64_t address, memoryBytes; // in the image; whole pages are mapped
    uint64_t offset, fileBytes;    // where it comes from; the rest is zeros
    int protection;                // of mmap
  };
  struct Relocation {
    uint64_t address; // of what the image's place is added to, in a segment that may be written
    bool inPlace;     // the addend stands there
    uint64_t addend;
  };
  std::vector<Segment> segments; // by address, on pages of their own
  std::vector<Relocation> relocations;
  std::vector<std::pair<uint64_t, uint64_t>> constant; // address and bytes: read-only afterwards
  size_t addressBytes = 8;
  /// The functions that it exports, by name, in the file's bytes.
  std::unordered_map<std::string_view, uint64_t> functions;
};

/// Errors: InvalidModule, also where a loader would run code of the image, or load other files for
/// it.
Result<CodeLayout> readCodeLayout(std::span<const std::byte> file);

class CodeImage {
public:
  CodeImage() = default;
  CodeImage(CodeImage &&other) noexcept { *this = std::move(other); }
  CodeImage &operator=(CodeImage &&other) noexcept;
  ~CodeImage();

  /// Maps what the layout says of the file. Errors: IoError.
  static Result<CodeImage> map(int file, const CodeLayout &layout);

  void *at(uint64_t address) const { return begin_ + (address - firstAddress_); }

private:
  Status mapSegment(int file, const CodeLayout::Segment &segment);
  Status relocate(const CodeLayout &layout);

  std::byte *begin_ = nullptr; // of the first page
  uint64_t size_ = 0;
  uint64_t firstAddress_ = 0;
};

} // namespace tensmith::runtime
