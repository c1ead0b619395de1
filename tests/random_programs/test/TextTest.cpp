// Programs drawn at random through text and back.
//
// What would break these: a sign that binds otherwise in the printer than in the parser, a missing
// parenthesis, a literal that is read as another.
#include "tests/random_programs/Generator.h"

#include <gtest/gtest.h>

using namespace tensmith;

namespace {

constexpr uint64_t kPrograms = 5000;

TEST(ProgramText, ComesBackAsItWasPrinted) {
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    text::Module drawn = random_programs::Generator(seed, "p").run();
    std::string printed = text::print(drawn);
    std::vector<text::Message> messages;
    text::Module read = text::parse(printed, messages);
    ASSERT_TRUE(messages.empty()) << "seed " << seed << ": " << messages[0].text << "\n" << printed;
    ASSERT_TRUE(text::equal(drawn, read)) << "seed " << seed << "\n" << printed;
    ASSERT_EQ(text::print(read), printed) << "seed " << seed;
  }
}

} // namespace
