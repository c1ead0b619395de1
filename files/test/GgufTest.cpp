// GGUF files: what is read of them, and that no damage does more than give an error in words.
#include "files/Gguf.h"

#include "files/Failure.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace tensmith {
namespace {

/// A file, written piece by piece.
class Writer {
public:
  template <typename T> Writer &number(T value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
    return *this;
  }
  Writer &text(const std::string &text) {
    number(uint64_t(text.size()));
    bytes += text;
    return *this;
  }
  Writer &start(uint64_t tensors, uint64_t entries, uint32_t version = 3) {
    bytes = "GGUF";
    return number(version).number(tensors).number(entries);
  }
  Writer &tensor(const std::string &name, std::vector<uint64_t> sizes, uint32_t type, uint64_t at) {
    text(name).number(uint32_t(sizes.size()));
    for (uint64_t size : sizes)
      number(size);
    return number(type).number(at);
  }
  Writer &data(size_t count) {
    bytes.resize((bytes.size() + 31) / 32 * 32 + count, 'x');
    return *this;
  }
  std::string bytes;
};

GgufFile read(const std::string &bytes) {
  return GgufFile::read(std::as_bytes(std::span(bytes)), nullptr, "test.gguf");
}

void expectFailure(const std::string &bytes, const std::string &what) {
  try {
    read(bytes);
    FAIL() << "nothing was wrong where '" << what << "' is";
  } catch (const Failure &failure) {
    EXPECT_NE(std::string(failure.what()).find(what), std::string::npos) << failure.what();
    EXPECT_NE(std::string(failure.what()).find("test"), std::string::npos) << failure.what();
  }
}

std::string wholeFile() {
  Writer w;
  w.start(2, 5);
  w.text("general.architecture").number(uint32_t(8)).text("llama");
  w.text("count").number(uint32_t(4)).number(uint32_t(7));
  w.text("real").number(uint32_t(6)).number(1.5f);
  w.text("yes").number(uint32_t(7)).number(uint8_t(1));
  w.text("names").number(uint32_t(9)).number(uint32_t(8)).number(uint64_t(2)).text("a").text("bc");
  w.tensor("w", {64, 3}, 2, 0).tensor("b", {5}, 0, 128);
  return w.data(128 + 20).bytes;
}

TEST(Gguf, IsReadAsItWasWritten) {
  std::string bytes = wholeFile();
  GgufFile file = read(bytes);
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("count"), 7);
  EXPECT_EQ(file.real("real", 0), 1.5);
  EXPECT_TRUE(file.flag("yes", false));
  EXPECT_EQ(file.texts("names"), (std::vector<std::string>{"a", "bc"}));
  const GgufTensor &w = file.tensor("w");
  EXPECT_EQ(w.shape, (Shape{3, 64}));
  EXPECT_EQ(w.format->name, "q4_0");
  EXPECT_EQ(w.rowBytes(), 36);
  EXPECT_EQ(file.tensor("b").bytes.size(), 20u);
  EXPECT_THROW(file.integer("real"), Failure);
  EXPECT_THROW(file.tensor("c"), Failure);
  EXPECT_EQ(file.integer("absent", 3), 3);
}

// Breaks where a count is believed before the bytes for it are there.
TEST(Gguf, CountsAreHeldAgainstWhatIsLeft) {
  constexpr uint64_t kHuge = uint64_t(1) << 63;
  expectFailure(Writer().start(kHuge, 0).bytes, "tensors");
  expectFailure(Writer().start(0, kHuge).bytes, "entries");
  expectFailure(Writer().start(0, 1).number(kHuge).data(32).bytes, "key");
  for (uint32_t kind : {0u, 4u, 8u, 12u})
    expectFailure(Writer()
                      .start(0, 1)
                      .text("k")
                      .number(uint32_t(9))
                      .number(kind)
                      .number(kHuge)
                      .data(32)
                      .bytes,
                  "'k'");
  expectFailure(Writer().start(0, 1).text("k").number(uint32_t(8)).number(kHuge).data(32).bytes,
                "'k'");
  expectFailure(Writer().start(1, 0).tensor("w", {kHuge}, 0, 0).data(64).bytes, "dimension");
  uint64_t large = uint64_t(1) << 40;
  expectFailure(Writer().start(1, 0).tensor("w", {large, large}, 0, 0).data(64).bytes, "elements");
  expectFailure(Writer().start(1, 0).tensor("w", {8}, 0, ~uint64_t(31)).data(64).bytes, "beyond");
}

TEST(Gguf, TensorsLieInTheFileAndApart) {
  expectFailure(Writer().start(1, 0).tensor("w", {64, 3}, 2, 0).data(64).bytes, "beyond the end");
  expectFailure(
      Writer().start(2, 0).tensor("a", {16}, 0, 0).tensor("b", {16}, 0, 32).data(128).bytes,
      "overlap");
  expectFailure(Writer().start(1, 0).tensor("w", {8}, 0, 4).data(64).bytes, "no multiple");
  expectFailure(Writer().start(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).data(64).bytes,
                "twice");
  expectFailure(Writer().start(1, 0).tensor("w", {33}, 2, 0).data(64).bytes, "whole blocks");
  expectFailure(Writer().start(1, 0).tensor("w", {32}, 777, 0).data(64).bytes, "type 777");
  expectFailure(Writer().start(1, 0).tensor("w", {1, 1, 1, 1, 1}, 0, 0).data(64).bytes,
                "5 dimensions");
}

TEST(Gguf, OtherFilesAndVersionsAreToldApart) {
  expectFailure("PK\3\4 something else", "is no GGUF file");
  expectFailure(Writer().start(0, 0, 1).bytes, "version 1");
  expectFailure(Writer().start(0, 0, 0x03000000).bytes, "byte order");
  expectFailure("", "the beginning");
}

/// Either it is read, or it fails in words.
void tryToRead(const std::string &bytes) {
  try {
    GgufFile file = read(bytes);
    for (const GgufTensor &tensor : file.tensors())
      for (std::byte byte : tensor.bytes)
        EXPECT_TRUE(byte == std::byte('x') || byte != std::byte('x'));
  } catch (const Failure &failure) {
    EXPECT_NE(std::string(failure.what()), "");
  }
}

// Breaks where a damaged file ends the process, which the sanitizers' builds see best.
TEST(Gguf, AnyDamageGivesAnErrorOrAFile) {
  const std::string whole = wholeFile();
  for (size_t size = 0; size < whole.size(); ++size)
    tryToRead(whole.substr(0, size));
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = whole;
    for (uint32_t change = random() % 4 + 1; change > 0; --change) {
      size_t at = random() % damaged.size();
      uint64_t value = random() % 3 ? random() : uint64_t(1) << random() % 64;
      std::memcpy(&damaged[at], &value,
                  std::min<size_t>(size_t(1) << random() % 4, damaged.size() - at));
    }
    tryToRead(damaged);
  }
}

} // namespace
} // namespace tensmith
