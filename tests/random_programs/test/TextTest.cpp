// Programs drawn at random through text and back, with comments at any place.
//
// What would break these: a sign that binds otherwise in the printer than in the parser, a missing
// parenthesis, a literal that is read as another, a comment that is lost or that wanders when the
// text is laid out again.
#include "tests/random_programs/Generator.h"

#include "frontends/text/Lexer.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace tensmith;

namespace {

constexpr uint64_t kPrograms = 5000, kCommented = 1000;

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

std::vector<std::string> textsOf(const std::vector<text::Comment> &comments) {
  std::vector<std::string> texts;
  for (const text::Comment &comment : comments)
    texts.push_back(comment.text);
  return texts;
}

/// The text with comments, and ends of lines, between some of its tokens.
std::string commented(const std::string &program, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<text::Message> messages;
  std::string result;
  uint32_t line = 1;
  int number = 0;
  for (const text::Token &token : text::tokenize(program, messages)) {
    // A name at the start of a line is one that begins a declaration, where it is 'fn' or 'type'.
    bool begins = token.place.column == 1;
    result += begins || token.place.line != line ? "\n" : " ";
    line = token.place.line;
    if (random() % 25 == 0)
      result += "// comment " + std::to_string(number++) + "\n" + (begins ? "" : "  ");
    if (random() % 40 == 0)
      result += begins ? "\n" : "\n\n  ";
    if (token.kind != text::Token::Kind::End)
      result += token.kind == text::Token::Kind::String ? '"' + token.text + '"' : token.text;
  }
  return result;
}

TEST(ProgramText, KeepsCommentsAndIsLaidOutOnce) {
  for (uint64_t seed = 1; seed <= kCommented; ++seed) {
    std::string given = commented(text::print(random_programs::Generator(seed, "p").run()), seed);
    std::vector<text::Message> messages;
    std::vector<text::Comment> before, after;
    text::Module first = text::parse(given, messages, &before);
    ASSERT_TRUE(messages.empty()) << "seed " << seed << ": " << messages[0].text << "\n" << given;
    std::string once = text::print(first, before);
    text::Module second = text::parse(once, messages, &after);
    ASSERT_TRUE(messages.empty()) << "seed " << seed << ": " << messages[0].text << "\n" << once;
    ASSERT_TRUE(text::equal(first, second)) << "seed " << seed << "\n" << once;
    ASSERT_EQ(textsOf(before), textsOf(after)) << "seed " << seed << "\n" << once;
    ASSERT_EQ(text::print(second, after), once) << "seed " << seed;
  }
}

} // namespace
