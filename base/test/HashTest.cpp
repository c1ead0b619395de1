// Hashes and random numbers against the published values of their algorithms: files and compiled
// kernels depend on both staying as they are.
#include "base/Hash.h"
#include "base/Philox.h"

#include <gtest/gtest.h>

namespace tensmith {
namespace {

TEST(Hash, IsXxh3) {
  EXPECT_EQ(toHex(hash128(std::string_view())), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(toHex({0x0123456789abcdef, 1}), "0123456789abcdef0000000000000001");
}

TEST(Hash, OfPiecesIsThatOfTheWhole) {
  std::string text(1000, 'x');
  Hasher hasher;
  for (size_t i = 0; i < text.size(); i += 100)
    hasher.addBytes(std::as_bytes(std::span(text).subspan(i, 100)));
  EXPECT_EQ(hasher.finish(), hash128(text));
}

TEST(Hash, DelimitsStrings) {
  Hasher a, b;
  a.add("ab");
  a.add("c");
  b.add("a");
  b.add("bc");
  EXPECT_NE(a.finish(), b.finish());
}

// The known answers of Random123 (kat_vectors, philox4x32 10).
TEST(Philox, HasTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, NumbersAreSpreadAsTheirDistribution) {
  constexpr int kCount = 100000;
  double sum = 0, fine = 0, normal = 0, squares = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    double u = uniformAt(42, i), v = uniform53At(42, i), z = normalAt(42, i);
    ASSERT_TRUE(u >= 0 && u < 1 && v >= 0 && v < 1 && std::isfinite(z));
    sum += u;
    fine += v;
    normal += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.005);
  EXPECT_NEAR(fine / kCount, 0.5, 0.005);
  EXPECT_NEAR(normal / kCount, 0, 0.02);
  EXPECT_NEAR(squares / kCount, 1, 0.03);
}

TEST(Philox, DependsOnSeedAndIndex) {
  EXPECT_NE(philoxAt(1, 0), philoxAt(2, 0));
  EXPECT_NE(philoxAt(1, 0), philoxAt(uint64_t(1) << 32 | 1, 0));
  EXPECT_NE(philoxAt(1, 0), philoxAt(1, uint64_t(1) << 32));
}

} // namespace
} // namespace tensmith
