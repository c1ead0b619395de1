// Mapping by the layout: room for all of it first, so that nothing else comes in between; see
// CodeImage.h.
#include "runtime/CodeImage.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace tensmith::runtime {
namespace {

uint64_t pageBytes() { return uint64_t(sysconf(_SC_PAGESIZE)); }

uint64_t pageOf(uint64_t address) { return address / pageBytes() * pageBytes(); }

uint64_t pageAfter(uint64_t address) { return pageOf(address + pageBytes() - 1); }

Status cannotMap() {
  return {StatusCode::IoError,
          std::string("can't map the module's code: ") + std::strerror(errno) +
              (errno == EPERM || errno == EACCES
                   ? "; the file must lie where the system lets programs be run from"
                   : "")};
}

} // namespace

CodeImage &CodeImage::operator=(CodeImage &&other) noexcept {
  std::swap(begin_, other.begin_);
  std::swap(size_, other.size_);
  std::swap(firstAddress_, other.firstAddress_);
  return *this;
}

CodeImage::~CodeImage() {
  if (begin_)
    munmap(begin_, size_);
}

Status CodeImage::mapSegment(int file, const CodeLayout::Segment &segment) {
  uint64_t first = pageOf(segment.address), fileEnd = segment.address + segment.fileBytes;
  uint64_t zeros = segment.fileBytes ? pageAfter(fileEnd) : first; // whole pages of them
  uint64_t end = pageAfter(segment.address + segment.memoryBytes);
  if (segment.fileBytes &&
      mmap(at(first), zeros - first, segment.protection, MAP_PRIVATE | MAP_FIXED, file,
           off_t(segment.offset - (segment.address - first))) == MAP_FAILED)
    return cannotMap();
  if (zeros < end && mmap(at(zeros), end - zeros, segment.protection,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
    return cannotMap();
  if (segment.memoryBytes > segment.fileBytes && zeros > fileEnd)
    std::memset(at(fileEnd), 0, zeros - fileEnd);
  return {};
}

Status CodeImage::relocate(const CodeLayout &layout) {
  auto place = reinterpret_cast<uintptr_t>(begin_) - firstAddress_;
  for (const CodeLayout::Relocation &relocation : layout.relocations) {
    uint64_t value = relocation.addend; // little-endian, as the machines are
    if (relocation.inPlace)
      std::memcpy(&value, at(relocation.address), layout.addressBytes);
    value += place;
    std::memcpy(at(relocation.address), &value, layout.addressBytes);
  }
  for (auto [address, bytes] : layout.constant) {
    // A page that is only begun holds what stays writable.
    uint64_t first = pageOf(address), end = pageOf(address + bytes);
    if (first < end && mprotect(at(first), end - first, PROT_READ) != 0)
      return cannotMap();
  }
  return {};
}

Result<CodeImage> CodeImage::map(int file, const CodeLayout &layout) {
  CodeImage image;
  const CodeLayout::Segment &last = layout.segments.back();
  image.firstAddress_ = pageOf(layout.segments.front().address);
  image.size_ = pageAfter(last.address + last.memoryBytes) - image.firstAddress_;
  void *room =
      mmap(nullptr, image.size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    return cannotMap();
  image.begin_ = static_cast<std::byte *>(room);
  for (const CodeLayout::Segment &segment : layout.segments)
    if (Status status = image.mapSegment(file, segment); !status.ok())
      return status;
  if (Status status = image.relocate(layout); !status.ok())
    return status;
  return image;
}

} // namespace tensmith::runtime
