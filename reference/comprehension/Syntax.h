// Tensor comprehensions as they are written: what the parser makes and the printer writes.
//
// A comprehension defines tensors by statements over indices whose ranges are inferred:
//
//     def matmul(float(M, K) A, float(K, N) B) -> (C) {
//       C(m, n) +=! A(m, k) * B(k, n)
//     }
//
// The grammar is that of N. Vasilache et al., "Tensor Comprehensions: Framework-Agnostic
// High-Performance Machine Learning Abstractions", 2018, and of its documentation; bounds of a
// `where` may use other indices as well. Trees are shared and never changed once they are made.
#pragma once

#include "base/DataType.h"
#include "base/Tokens.h"

#include <memory>
#include <string>
#include <vector>

namespace tensmith::comprehension {

inline constexpr size_t kMostText = size_t(1) << 20; // bytes of a text
inline constexpr uint32_t kMostDepth = 400;          // of a tree
inline constexpr uint32_t kMostNodes = 20000;        // of a statement's

struct Expr;
using ExprRef = std::shared_ptr<const Expr>;

struct Expr {
  enum class Kind : uint8_t {
    Integer, // integer
    Real,    // number
    Boolean, // integer
    Name,    // text
    Extent,  // text.integer: the size of a dimension
    Call,    // text(parts...): an element of a tensor, or a function
    Unary,   // text: - !
    Binary,  // text: + - * / % == != <= >= < > && ||, and min and max
    Select,  // parts[0] ? parts[1] : parts[2]
    Cast,    // type(parts[0])
    // What analysis makes of names and calls:
    Index,    // of the statement, number `integer`
    Size,     // of the function, number `integer`
    Read,     // an element of tensor number `integer` at parts
    Function, // text(parts...)
  } kind = Kind::Integer;
  Place place = {};
  DataType type = DataType::Undefined; // of a cast; after analysis of any
  std::string text = {};
  int64_t integer = 0;
  double number = 0;
  std::vector<ExprRef> parts = {};
  uint32_t depth = 1;
  uint32_t nodes = 1; // at most kMostNodes + 1
  /// Of a read after analysis: dimensions whose index is checked where the element is read, since
  /// neither ranges nor sizes tell that it is inside.
  uint64_t checked = 0;
};

/// The tree of these parts, its depth among it.
ExprRef makeExpr(Expr expr);
ExprRef integerExpr(int64_t value);
ExprRef binaryExpr(std::string sign, ExprRef a, ExprRef b);

enum class Assignment : uint8_t { Set, Add, Multiply, Minimum, Maximum };

struct Named {
  Place place;
  std::string name;
};

/// Of a `where`: `i in low:high`, `name = low`, or `exists low`.
struct Clause {
  enum class Kind : uint8_t { Range, Let, Exists } kind = Kind::Range;
  Place place;
  std::string name;
  ExprRef low, high;
};

/// target(indices) = value where ..., or targets = f(arguments), a call of another comprehension.
struct StatementSyntax {
  Place place;
  Place end; // of its last token
  std::vector<Named> targets;
  bool hasIndices = false;
  std::vector<Named> indices;
  Assignment assignment = Assignment::Set;
  bool initialises = false; // written with '!'
  ExprRef value;
  std::vector<Clause> where;
};

/// float(M, 3) A: dimensions are sizes' names or numbers. A result may be without a type.
struct ParameterSyntax {
  Place place;
  std::string name;
  DataType type = DataType::Undefined;
  std::vector<ExprRef> dims;
};

struct Definition {
  Place place, end; // of `def`, and of the '}'
  std::string name;
  std::vector<ParameterSyntax> parameters, results;
  std::vector<StatementSyntax> statements;
};

struct Module {
  std::vector<Definition> definitions;

  const Definition *find(const std::string &name) const;
};

/// The tokens of a text; what is none is left out.
std::vector<Token> tokens(const std::string &text);
/// What stands in the text. Where `messages` is not empty, the module holds what could be read.
Module parse(const std::string &text, std::vector<Message> &messages,
             std::vector<Comment> *comments = nullptr);

/// As the language writes it: "float", "int32".
std::string typeName(DataType type);
std::string print(const Expr &expr);
std::string print(const StatementSyntax &statement);
/// With those of a module's comments that stand in it.
std::string print(const Definition &definition, const std::vector<Comment> &comments);
/// The module in one layout, with comments before what they stood at; lines of a schedule stay
/// behind their statement.
std::string print(const Module &module, const std::vector<Comment> &comments = {});

} // namespace tensmith::comprehension
