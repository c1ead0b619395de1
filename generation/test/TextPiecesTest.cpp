// Pieces of texts. Breaks when what is sent depends on how the bytes came, or a stop sequence, or a
// part of a character, is sent.
#include "generation/serving/TextPieces.h"

#include <gtest/gtest.h>

#include <random>

namespace tensmith::generation {
namespace {

struct Sent {
  std::string text;
  bool isStopped;
  bool operator==(const Sent &) const = default;
};

/// By pieces of up to `most` bytes.
Sent sent(const std::string &bytes, const std::vector<std::string> &stops, size_t most,
          std::mt19937 &random) {
  TextPieces pieces(stops);
  Sent result{};
  for (size_t at = 0; at < bytes.size() && !pieces.isStopped();) {
    size_t count = std::min(bytes.size() - at, 1 + random() % most);
    result.text += pieces.add(bytes.substr(at, count));
    at += count;
  }
  result.text += pieces.finish();
  result.isStopped = pieces.isStopped();
  return result;
}

TEST(TextPieces, AreTheSameHoweverTheBytesCome) {
  std::mt19937 random(7);
  const std::string letters = "ab\xc3\xa9\xe2\x96\x81\xf0\x9f\xff";
  auto draw = [&](size_t least, size_t most) {
    std::string text(least + random() % (most - least + 1), ' ');
    for (char &c : text)
      c = letters[random() % letters.size()];
    return text;
  };
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = draw(0, 30);
    std::vector<std::string> stops(random() % 3);
    for (std::string &stop : stops)
      stop = draw(1, 3);
    Sent whole = sent(bytes, stops, 1, random);
    for (size_t most : {2, 5, 100})
      EXPECT_EQ(sent(bytes, stops, most, random), whole) << i;
    for (const std::string &stop : stops)
      EXPECT_EQ(whole.text.find(stop), std::string::npos) << i;
  }
}

TEST(TextPieces, AreWholeCharacters) {
  TextPieces pieces({"stop"});
  EXPECT_EQ(pieces.add("a\xe2\x96"), "a");
  EXPECT_EQ(pieces.add("\x81st"), "\xe2\x96\x81");
  EXPECT_EQ(pieces.add("ar"), "star");
  EXPECT_EQ(pieces.add("sto"), "");
  EXPECT_EQ(pieces.add("p it"), "");
  EXPECT_TRUE(pieces.isStopped());
  EXPECT_EQ(pieces.finish(), "");
  TextPieces open({});
  EXPECT_EQ(open.add("\xe2\x96"), "");
  EXPECT_EQ(open.finish(), "\xef\xbf\xbd");
}

} // namespace
} // namespace tensmith::generation
