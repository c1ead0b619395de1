// Programs that are accepted, with the type of main, and programs that are not, with the place and
// the text of the first message: accepted.txt and rejected.txt, whose blocks begin with a line
// "---- what is expected".
//
// What would break these: inference that loses a relation or generalises too much or too little, a
// place that points elsewhere, a message that says something else.
#include "frontends/text/Program.h"

#include "compiler/graph/Dialects.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>

using namespace tensmith;
using namespace tensmith::text;

namespace {

struct Block {
  std::string expected, program;
  int line = 0; // of the file
};

std::vector<Block> readBlocks(const std::string &name) {
  std::ifstream file(std::string(TEST_DATA) + "/" + name);
  std::vector<Block> blocks;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number)
    if (line.starts_with("---- "))
      blocks.push_back({line.substr(5), "", number});
    else if (!blocks.empty())
      blocks.back().program += line + '\n';
  return blocks;
}

class Typing : public ::testing::Test {
protected:
  Typing() : context_(registry(), mlir::MLIRContext::Threading::DISABLED) {
    context_.loadAllAvailableDialects();
  }

  /// "line:column: text" of the first message, or the type that main gives.
  std::string typed(const std::string &text) {
    Program program(text, "", "", context_);
    std::vector<Message> messages = program.messages;
    if (messages.empty() && program.main()) {
      Term *type = program.inference.declared(*program.main());
      program.inference.instance(*program.main(), type);
      return program.types.print(type->parts.back());
    }
    if (messages.empty())
      return "no main";
    const Message &first =
        *std::min_element(messages.begin(), messages.end(), [](const Message &a, const Message &b) {
          return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
        });
    return std::to_string(first.place.line) + ":" + std::to_string(first.place.column) + ": " +
           first.text;
  }

  void check(const std::string &name, size_t least) {
    std::vector<Block> blocks = readBlocks(name);
    EXPECT_GE(blocks.size(), least);
    for (const Block &block : blocks)
      EXPECT_EQ(typed(block.program), block.expected) << name << ":" << block.line << "\n"
                                                      << block.program;
  }

private:
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    graph::registerDialects(registry);
    return registry;
  }
  mlir::MLIRContext context_;
};

TEST_F(Typing, AcceptsWithTheTypeOfMain) { check("accepted.txt", 80); }
TEST_F(Typing, RejectsWithPlaceAndMessage) { check("rejected.txt", 80); }

} // namespace
