// What layers say of where they are stands before a message once, whoever said it first.
#include "base/Status.h"

#include <gtest/gtest.h>

using namespace tensmith;

namespace {

std::string within(const std::string &message, const std::string &context) {
  return invalidArgument(message).within(context).message();
}

TEST(Status, AContextStandsInFront) {
  EXPECT_EQ(within("is empty", "m.onnx"), "m.onnx: is empty");
  EXPECT_EQ(within("is empty", "m.onnx: node 'a'"), "m.onnx: node 'a': is empty");
  EXPECT_EQ(within("m.onnx2: is empty", "m.onnx"), "m.onnx: m.onnx2: is empty");
  EXPECT_EQ(within("m.onnx is empty", "m.onnx"), "m.onnx: m.onnx is empty");
  EXPECT_EQ(within("is empty", ""), "is empty");
  EXPECT_TRUE(Status().within("m.onnx").ok());
}

// Breaks if a layer that knows the file adds it to what has it already.
TEST(Status, WhatIsSaidAlreadyIsNotSaidAgain) {
  EXPECT_EQ(within("m.onnx: is empty", "m.onnx"), "m.onnx: is empty");
  EXPECT_EQ(within("m.onnx: node 'a': is empty", "m.onnx: node 'a'"), "m.onnx: node 'a': is empty");
  EXPECT_EQ(within("node 'a': is empty", "m.onnx: node 'a'"), "m.onnx: node 'a': is empty");
  EXPECT_EQ(within("m.onnx: is empty", "m.onnx: node 'a'"), "m.onnx: node 'a': is empty");
  EXPECT_EQ(within("m.onnx: node 'a': is empty", "m.onnx"), "m.onnx: node 'a': is empty");
  EXPECT_EQ(within("m.onnx: node 'b': is empty", "m.onnx: node 'a'"),
            "m.onnx: node 'a': node 'b': is empty");
}

// Breaks if a program's file stands before the line that names it.
TEST(Status, ALineHasItsFile) {
  EXPECT_EQ(within("p.tsm:3:5: is empty", "p.tsm"), "p.tsm:3:5: is empty");
}

} // namespace
