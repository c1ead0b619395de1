// How texts are cut into words: by hand from the patterns, at the places where they differ.
#include "generation/Tokenizer.h"

#include <gtest/gtest.h>

namespace tensmith::generation {
namespace {

constexpr WordPattern kGpt2{};
constexpr WordPattern kLlama3{
    .ignoresCase = true, .letterPrefix = true, .mostDigits = 3, .newlinesApart = true};

void expectWords(const WordPattern &pattern, std::vector<std::string> want) {
  std::string text;
  for (const std::string &word : want)
    text += word;
  std::vector<std::string> got;
  for (std::string_view word : words(pattern, text))
    got.emplace_back(word);
  EXPECT_EQ(got, want) << pattern.mostDigits;
}

TEST(Words, OfGpt2) {
  expectWords(kGpt2, {"Hello", ",", " world", "!", " It", "'s", " 2024", "?"});
  expectWords(kGpt2, {"a", "  ", " b", "\n", "\n", "c", "   "});
  expectWords(kGpt2, {"IT", "'", "S", " we", "'ll"});
  expectWords(kGpt2, {"na\xc3\xafve", " \xe6\xbc\xa2\xe5\xad\x97", "..."});
}

TEST(Words, OfLlama3) {
  expectWords(kLlama3, {"Hello", ",", " world", "!\n\n", "It", "'S", " ", "202", "4", "?"});
  expectWords(kLlama3, {"(hello", ")", " \n\n", "  ", " x", "\t", "1"});
  expectWords(kLlama3, {"a", "   "});
}

// Breaks where a byte that is no UTF-8 is lost, or read beyond the end.
TEST(Words, OfAnyBytesAreAllOfThem) {
  for (std::string text : {"\xff\xfe", "a\xe6\xbc", "\xf0\x9f\x99\x82 x\xc0", "\x80\x80 1"}) {
    for (const WordPattern &pattern : {kGpt2, kLlama3}) {
      std::string all;
      for (std::string_view word : words(pattern, text))
        all += word;
      EXPECT_EQ(all, text);
    }
  }
}

} // namespace
} // namespace tensmith::generation
