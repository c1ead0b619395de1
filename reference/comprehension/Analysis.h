// A comprehension with names, types and ranges resolved: what evaluation, shapes, code and
// derivatives are made from.
//
// Sizes, ranges and extents are integer expressions over the function's size variables (and indices
// and integer scalars), so that one inference serves whatever the sizes are.
#pragma once

#include "base/Status.h"
#include "reference/comprehension/Syntax.h"

#include <functional>
#include <optional>
#include <span>

namespace tensmith::comprehension {

/// An input, or what a statement defines. Indices into dimension d are from `lows[d]` on; inputs'
/// from 0.
struct Tensor {
  std::string name;
  DataType type = DataType::Undefined;
  std::vector<ExprRef> lows, extents;
  bool isInput = false;
  Place place;
};

/// A size variable: dimension `dim` of the input `tensor`.
struct SizeVariable {
  std::string name;
  size_t tensor = 0, dim = 0;
};

/// Takes the values low <= index < high.
struct Index {
  std::string name;
  ExprRef low, high;
  Place place;
};

/// tensors[target](indices) = value, or accumulated: the new value of the whole target comes of the
/// old values of all that is read.
struct Statement {
  Place place;
  size_t target = 0;
  bool isFirst = false; // of those with this target
  Assignment assignment = Assignment::Set;
  bool initialises = false;
  std::vector<Index> indices; // the target's, by its dimensions; then those that are reduced
  size_t rank = 0;            // of the target
  std::vector<size_t> order;  // of indices, in which bounds refer to those before
  ExprRef value;              // of the target's type
  std::vector<size_t> reads;  // tensors whose elements are needed, the target among them; sorted
  /// The index runs over every element of the target, so that none keeps its old value.
  bool coversTarget = true;

  /// Whether elements of the target before the statement count.
  bool readsTarget() const {
    return !initialises && !isFirst && (assignment != Assignment::Set || !coversTarget);
  }
  bool isReduction() const { return indices.size() > rank; }
};

/// a = b, or a <= b; only where no size of `extents` is 0.
struct Requirement {
  bool isEqual = false;
  ExprRef a, b;
  std::string message; // {a} and {b} stand for the values
  std::vector<ExprRef> extents;
  size_t statement = SIZE_MAX; // that it belongs to; the signature's where it is none
};

struct Function {
  std::string name;
  std::vector<Tensor> tensors; // inputs first
  size_t inputs = 0;
  std::vector<SizeVariable> sizes;
  std::vector<Statement> statements;
  std::vector<size_t> results;
  std::vector<Requirement> requirements;

  /// The result of that name, or nothing.
  std::optional<size_t> result(const std::string &name) const;
};

/// The comprehension of that name, with what it calls taken in. Where `messages` is not empty
/// afterwards, it is not to be used.
Function analyse(const Module &module, const Definition &definition,
                 std::vector<Message> &messages);

/// The function of that name in the text ("" where it has one alone): InvalidArgument with
/// "line:column: what is wrong", one a line. What was asked for last is remembered.
Result<std::shared_ptr<const Function>> functionOf(const std::string &text,
                                                   const std::string &name);
/// The tensors that a statement's value is computed from, in the order of their numbers: those that
/// it reads, and inputs that tell sizes. Of the whole function (no statement) its inputs.
std::vector<size_t> operandsOf(const Function &function, std::optional<size_t> statement);
/// Messages as an error: "NAME:line:column: text", one a line; without the name where it is empty.
Status statusOf(const std::vector<Message> &messages, const std::string &name);

// ---- what the files of analysis share

/// Visits the tree, parents first.
void visit(const Expr &expr, const std::function<void(const Expr &)> &each);
/// The tree with what `of` gives in the place of its nodes, children first; null keeps a node.
ExprRef rewrite(const ExprRef &expr, const std::function<ExprRef(const ExprRef &)> &of);
bool readsTensors(const Expr &expr);

/// Functions of numbers: how many arguments, and their value in double precision.
struct BuiltIn {
  std::string_view name;
  size_t arguments;
  double (*evaluate)(const double *arguments);
};
const BuiltIn *findBuiltIn(std::string_view name);
std::vector<std::string_view> builtInNames();

/// The type that both operands of arithmetic are converted to: floats before integers, then more
/// bits; a signed one of an unsigned and a signed one.
DataType matchTypes(DataType a, DataType b);
/// Whether elements of the type are computed with; others are only cast.
bool isArithmetic(DataType type);

} // namespace tensmith::comprehension
