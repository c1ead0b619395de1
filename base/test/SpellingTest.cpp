// Either spelling finds a name, and no other name is found by it.
#include "base/Spelling.h"

#include <gtest/gtest.h>

#include <vector>

using namespace tensmith;

namespace {

const std::vector<std::string> kNames = {"--optimiser", "--optimize", "--resize", "--grey"};

TEST(Spelling, EitherOneFindsTheName) {
  EXPECT_EQ(knownSpelling("--optimizer", kNames), "--optimiser");
  EXPECT_EQ(knownSpelling("--optimise", kNames), "--optimize");
  EXPECT_EQ(knownSpelling("--gray", kNames), "--grey");
}

TEST(Spelling, WhatIsKnownOrUnknownStays) {
  EXPECT_EQ(knownSpelling("--optimize", kNames), "--optimize");
  EXPECT_EQ(knownSpelling("--resize", kNames), "--resize");
  EXPECT_EQ(knownSpelling("--optimizers", kNames), "--optimizers");
  EXPECT_EQ(knownSpelling("", kNames), "");
}

} // namespace
