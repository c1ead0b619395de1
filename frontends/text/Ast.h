// The language as it is written: what the parser makes, the printer writes and inference types.
#pragma once

#include "base/Tokens.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tensmith::text {

using tensmith::Comment;
using tensmith::counted;
using tensmith::Message;
using tensmith::Place;

/// "graph.conv" is the operator conv, whatever else has its name.
inline constexpr char kOperatorPrefix[] = "graph.";

/// A size in a type: a number, a name, `?`, or arithmetic on those.
struct DimExpr {
  enum class Kind : uint8_t { Size, Name, Unknown, Add, Sub, Mul, Div } kind = Kind::Size;
  Place place;
  int64_t size = 0;
  std::string name;
  std::vector<DimExpr> parts;
};

struct TypeExpr {
  /// Tensor: `f32[n, 3]`; Name: a data type `List[a]` or a variable `a`; Tuple: `(a, b)`; Function:
  /// `(a, b) -> c`, the result last in `parts`.
  enum class Kind : uint8_t { Tensor, Name, Tuple, Function } kind = Kind::Name;
  Place place;
  std::string name;
  std::vector<DimExpr> dims;
  std::vector<TypeExpr> parts;
};

struct Pattern {
  enum class Kind : uint8_t { Name, Wildcard, Constructor, Tuple } kind = Kind::Wildcard;
  Place place;
  std::string name;
  std::vector<Pattern> parts;
};

struct Expr;
using ExprPointer = std::unique_ptr<Expr>;

struct Parameter {
  Place place;
  std::string name;
  std::unique_ptr<TypeExpr> type; // may be null
};

struct Case {
  Pattern pattern;
  ExprPointer body;
};

struct Argument { // by name
  Place place;
  std::string name;
  ExprPointer value;
};

struct Expr {
  enum class Kind : uint8_t {
    Integer,  // text
    Real,     // text
    Boolean,  // text: true or false
    String,   // text, without its quotes: the value of an operator's attribute
    Name,     // text
    Call,     // parts[0](parts[1]..., arguments...)
    Operator, // text is the operator's record; parts its operands; written with an infix sign
    Function, // fn(params) => parts[0]
    Let,      // let cases[0].pattern = cases[0].body; parts[0]
    If,       // parts: condition, then, else
    Match,    // parts[0], cases
    Tuple,    // parts
    List,     // parts
    Ascribe,  // parts[0] : type
    Load,     // load("text")
    Ref,      // ref(parts[0])
    Read,     // *parts[0]
    Assign,   // parts[0] := parts[1]
  } kind = Kind::Name;
  uint32_t depth = 1; // of the tree below
  Place place;
  Place end;    // of its last token
  Place middle; // Function: of the ')' after the parameters; If: of the first '}'; Let: of the '{',
                // where it is the first of its block
  std::string text;
  std::vector<ExprPointer> parts;
  std::vector<Argument> arguments;
  std::vector<Parameter> params;
  std::vector<Case> cases;
  std::unique_ptr<TypeExpr> type;
};

struct ConstructorDecl {
  Place place;
  std::string name;
  std::vector<TypeExpr> fields;
};

struct TypeDecl {
  Place place;
  std::string name;
  std::vector<std::string> params;
  std::vector<ConstructorDecl> constructors;
};

/// A function, or a constant where it has no list of parameters.
struct FunctionDecl {
  Place place;
  Place middle; // of the ')' after the parameters
  std::string name;
  bool constant = false;
  bool prelude = false; // of the language's own
  std::vector<Parameter> params;
  std::unique_ptr<TypeExpr> result; // may be null
  ExprPointer body;
};

/// import "path"
struct ImportDecl {
  Place place;
  std::string path;
};

struct Module {
  std::vector<ImportDecl> imports;
  std::vector<TypeDecl> types;
  std::vector<FunctionDecl> functions;
};

/// What stands in the text. Where `messages` is not empty, the module holds what could be read.
Module parse(const std::string &text, std::vector<Message> &messages,
             std::vector<Comment> *comments = nullptr, uint32_t file = 0);

/// The module as text, laid out in one way, with comments where they belong.
std::string print(const Module &module, const std::vector<Comment> &comments = {});
std::string print(const TypeExpr &type);
std::string print(const Pattern &pattern);

/// Whether both say the same, wherever it stands in the text.
bool equal(const Module &a, const Module &b);
bool equal(const Expr &a, const Expr &b);

} // namespace tensmith::text
