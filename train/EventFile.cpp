// A record is its length in eight bytes, the masked checksum of those, the event, its masked
// checksum (tensorflow/core/lib/io/record_writer.h); checksums are CRC-32C (Castagnoli). An event
// has so few fields that they are written here by the rules of protobuf's wire format
// (protobuf.dev/programming-guides/encoding):
//
//   Event        1: wall_time (double)  2: step  3: file_version  5: summary  7: session_log
//   Summary      1: repeated Value, of  1: tag   2: simple_value (float)
//   SessionLog   1: status (1: START)
#include "train/Metrics.h"

#include "files/Failure.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

namespace tensmith::train {
namespace {

enum WireType { Varint = 0, Fixed64 = 1, Length = 2, Fixed32 = 5 };

constexpr std::array<uint32_t, 256> crcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = value >> 1 ^ (value & 1 ? 0x82F63B78u : 0);
    table[i] = value;
  }
  return table;
}

uint32_t maskedChecksum(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> table = crcTable();
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes)
    crc = crc >> 8 ^ table[(crc ^ byte) & 0xff];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

template <typename T> std::string littleEndian(T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  return {bytes, sizeof value};
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7)
    bytes += char(value | 0x80);
  return bytes + char(value);
}

std::string field(int number, WireType type, const std::string &contents) {
  return varint(uint64_t(number) << 3 | type) + (type == Length ? varint(contents.size()) : "") +
         contents;
}

std::string eventOf(int64_t step, const std::string &what) {
  double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return field(1, Fixed64, littleEndian(now)) + field(2, Varint, varint(uint64_t(step))) + what;
}

} // namespace

EventFile::EventFile(const std::filesystem::path &folder, int64_t step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  auto now = std::chrono::system_clock::now().time_since_epoch();
  path_ = folder / fmt::format("events.out.tfevents.{}.tensmith.{}.{}",
                               std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                               ::getpid(), step);
  file_ = std::fopen(path_.c_str(), "we");
  if (!file_)
    fail(path_, std::string("can't be written: ") + std::strerror(errno));
  record(eventOf(0, field(3, Length, "brain.Event:2")));
  if (step > 0) // steps after it, of a process that was killed, are void
    record(eventOf(step, field(7, Length, field(1, Varint, varint(1)))));
}

EventFile::~EventFile() { std::fclose(file_); }

void EventFile::record(const std::string &event) {
  std::string length = littleEndian(uint64_t(event.size()));
  std::string bytes =
      length + littleEndian(maskedChecksum(length)) + event + littleEndian(maskedChecksum(event));
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size() || std::fflush(file_) != 0)
    fail(path_, std::string("can't be written: ") + std::strerror(errno));
}

void EventFile::scalar(const std::string &tag, double value, int64_t step) {
  std::string entry = field(1, Length, tag) + field(2, Fixed32, littleEndian(float(value)));
  record(eventOf(step, field(5, Length, field(1, Length, entry))));
}

} // namespace tensmith::train
