// The syntax of templates of chats (ChatTemplate.h): text to statements and expressions.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace tensmith::generation::jinja {

struct Expression;
using ExpressionPtr = std::shared_ptr<const Expression>;

struct Expression {
  enum Kind {
    Text,
    Number,
    Real,
    Name,
    List,
    Object,    // Object: keys and values by turns
    Attribute, // text, of operands[0]
    Item,      // operands: of what, which
    Slice,     // operands: of what, first, end, step; null: left out
    Call,      // operands: what, then arguments
    Filter,
    Test, // text; operands: of what, then arguments
    Unary,
    Binary, // text is the operator
    Choice, // operands: if, then, else (may be null)
  } kind;
  int line = 0;
  std::string text;
  int64_t number = 0;
  double real = 0;
  int depth = 1; // of operands within one another
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> names; // of the last arguments: keywords
};

struct Statement;
using Statements = std::vector<Statement>;

struct Statement {
  enum Kind { Text, Output, If, For, Set, SetAttribute, Macro, Break, Continue } kind;
  int line = 0;
  std::string text;               // what is written, or the name that is set
  std::vector<std::string> names; // of a loop or a macro's; of an attribute that is set
  ExpressionPtr value, filter;
  Statements body, otherwise;
  std::vector<ExpressionPtr> defaults; // of a macro's last names
};

/// Throws Failure, with the line.
Statements parse(const std::string &source);

} // namespace tensmith::generation::jinja
