// Which choices of a candidate a module tells to have been taken.
#include "tune/DecisionBench.h"

#include <gtest/gtest.h>

namespace tensmith::tune {
namespace {

// Breaks if a candidate counts as measured where the compiler took another choice: it would be the
// incumbent by another name.
TEST(DecisionBench, NamesTheChoiceThatWasNotTaken) {
  const std::string told = R"([{"key": "a", "winograd_outputs": 4, "error": 0.1},
                               {"key": "b", "winograd_outputs": 2, "chain": 1}])";
  EXPECT_EQ(choiceNotTaken(told, "a", R"("winograd_outputs": 4)"), "");
  EXPECT_EQ(choiceNotTaken(told, "a", R"("winograd_outputs": 6)"), "winograd_outputs");
  EXPECT_EQ(choiceNotTaken(told, "b", R"("winograd_outputs": 2, "chain": 0)"), "chain");
  EXPECT_EQ(choiceNotTaken(told, "c", R"("winograd_outputs": 6)"), "");
  EXPECT_EQ(errorTold(told, "a"), 0.1);
  EXPECT_EQ(errorTold(told, "b"), 0);
}

} // namespace
} // namespace tensmith::tune
