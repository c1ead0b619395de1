// Architectures and tokenizers of files: of whole ones, and of damaged ones.
#include "files/Failure.h"
#include "files/test/GgufWriter.h"
#include "generation/Rotations.h"
#include "generation/Tokenizer.h"

#include <gtest/gtest.h>

#include <random>

namespace tensmith::generation {
namespace {

constexpr uint32_t kU32 = 4, kI32 = 5, kF32 = 6, kText = 8, kList = 9;

/// A decoder's metadata with a tokenizer whose pairs are merged by rank, or by score.
std::string modelFile(bool byScore) {
  const std::vector<std::string> tokens = byScore ? std::vector<std::string>{"<s>",
                                                                             "</s>",
                                                                             "<0x41>",
                                                                             "a",
                                                                             "b",
                                                                             "ab",
                                                                             "\xe2\x96\x81",
                                                                             "\xe2\x96\x81"
                                                                             "ab"}
                                                  : std::vector<std::string>{"<|end|>",
                                                                             "a",
                                                                             "b",
                                                                             "ab",
                                                                             "\xc4\xa0",
                                                                             "\xc4\xa0"
                                                                             "a",
                                                                             "!",
                                                                             "c"};
  GgufWriter w;
  w.start(1, byScore ? 9 : 12);
  auto number = [&](const char *key, uint32_t value) { w.text(key).number(kU32).number(value); };
  w.text("general.architecture").number(kText).text("llama");
  number("llama.block_count", 2);
  number("llama.embedding_length", 32);
  number("llama.attention.head_count", 4);
  w.text("llama.rope.freq_base").number(kF32).number(10000.0f);
  w.text("tokenizer.ggml.model").number(kText).text(byScore ? "llama" : "gpt2");
  w.text("tokenizer.ggml.tokens").number(kList).number(kText).number(uint64_t(tokens.size()));
  for (const std::string &token : tokens)
    w.text(token);
  w.text("tokenizer.ggml.token_type").number(kList).number(kI32).number(uint64_t(tokens.size()));
  for (size_t i = 0; i < tokens.size(); ++i)
    w.number(int32_t(i == 0 || (byScore && i == 1) ? 3 : byScore && i == 2 ? 6 : 1));
  if (byScore) {
    w.text("tokenizer.ggml.scores").number(kList).number(kF32).number(uint64_t(tokens.size()));
    for (size_t i = 0; i < tokens.size(); ++i)
      w.number(-float(tokens.size() - i));
  } else {
    w.text("tokenizer.ggml.merges").number(kList).number(kText).number(uint64_t(2));
    w.text("a b").text("\xc4\xa0 a");
    w.text("llama.rope.scaling.type").number(kText).text("yarn");
    w.text("llama.rope.scaling.factor").number(kF32).number(4.0f);
    w.text("tokenizer.ggml.pre").number(kText).text("llama-bpe");
  }
  w.tensor("token_embd.weight", {32, tokens.size()}, 2, 0);
  return w.data(18 * tokens.size()).bytes;
}

GgufFile read(const std::string &bytes) {
  return GgufFile::read(std::as_bytes(std::span(bytes)), nullptr, "test.gguf");
}

TEST(ModelFiles, PairsAreMergedByRank) {
  std::string bytes = modelFile(false);
  GgufFile file = read(bytes);
  Tokenizer tokenizer = Tokenizer::of(file);
  EXPECT_EQ(tokenizer.encode("ab a!", false, true), (std::vector<Token>{3, 5, 6}));
  EXPECT_EQ(tokenizer.encode("<|end|>ab", true, true), (std::vector<Token>{0, 3}));
  EXPECT_EQ(tokenizer.decode({3, 5, 6}), "ab a!");
  Architecture architecture = architectureOf(file);
  EXPECT_EQ(architecture.headSize, 8);
  EXPECT_EQ(architecture.vocabulary, 8);
}

TEST(ModelFiles, PairsAreMergedByScore) {
  std::string bytes = modelFile(true);
  Tokenizer tokenizer = Tokenizer::of(read(bytes));
  EXPECT_EQ(tokenizer.encode("ab", false, false), (std::vector<Token>{7}));
  EXPECT_EQ(tokenizer.encode("abA", false, false), (std::vector<Token>{7, 2}));
  EXPECT_EQ(tokenizer.decode({7, 2}), "abA");
}

// Breaks where a number of a file is used before it is looked at. A million other draws:
// --gtest_filter='*AnyDamage*' --gtest_shuffle --gtest_random_seed=1 --gtest_repeat=50
TEST(ModelFiles, AnyDamageGivesAnErrorOrAModel) {
  std::mt19937 random(1 + uint32_t(testing::UnitTest::GetInstance()->random_seed()));
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = damaged(modelFile(round % 2), random);
    try {
      GgufFile file = read(bytes);
      Architecture architecture = architectureOf(file);
      Tokenizer tokenizer = Tokenizer::of(file);
      auto tokens = tokenizer.encode("ab a! <s>\xff\xe6 b", round % 3 == 0, true);
      tokenizer.decode(tokens);
      if (architecture.rotated <= 64) {
        std::vector<float> cosines(size_t(architecture.rotated)), sines(cosines.size());
        rotations(architecture, false, 0, 2, cosines.data(), sines.data());
      }
    } catch (const Failure &failure) {
      EXPECT_NE(std::string(failure.what()), "");
    }
  }
}

} // namespace
} // namespace tensmith::generation
