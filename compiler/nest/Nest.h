// A nest: what a kernel computes, as statements over integer points, without an order of its own.
//
// Problem: a template is code for one kind of kernel. Whatever has no template needs a form that
// says what is computed apart from how, so that the order, the memory and the vectors can be chosen
// afterwards and the choice can be proved right.
//
// Method: a statement has a domain (a conjunction of affine constraints over its iterators and the
// nest's parameters), writes one element of a tensor for each point of the domain, and computes it
// by an expression whose loads say their indices. From these come the access relations and the
// exact dependences (Dependences.h); a schedule (Schedule.h) is an order of all points that keeps
// them. A sum has a statement for its start and one that adds: `start[i] = 0; add[i, k] += ...`.
//
// Invariant: the meaning is that of the statements' points run one by one in the textual order
// (`Statement::position`). A reduction's points on one element may run in any order among
// themselves.
//
// Sources: P. Feautrier, Dataflow analysis of array and scalar references, 1991; W. Kelly and
// W. Pugh, A framework for unifying reordering transformations, 1993 (positions);
// N. Vasilache et al., Tensor Comprehensions, 2018.
//
// This header is free of isl and MLIR: front ends build nests by it. All integers are i64.
#pragma once

#include "base/DataType.h"
#include "base/Status.h"

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tensmith::nest {

/// constant + sum of coefficient * name, over iterators and parameters. A name has no coefficient
/// of zero.
struct Affine {
  std::map<std::string, int64_t> terms;
  int64_t constant = 0;

  Affine() = default;
  template <std::integral Integer> Affine(Integer constant) : constant(int64_t(constant)) {}
  Affine(const char *name) : terms{{name, 1}} {}
  Affine(const std::string &name) : terms{{name, 1}} {}

  bool isConstant() const { return terms.empty(); }
  int64_t coefficient(const std::string &name) const;
  bool operator==(const Affine &) const = default;
};
Affine operator+(Affine a, const Affine &b);
Affine operator-(Affine a, const Affine &b);
Affine operator*(int64_t factor, Affine a);
/// With these names replaced.
Affine substituted(const Affine &affine, const std::map<std::string, Affine> &by);
/// In isl's notation: "2 * i + N - 1".
std::string text(const Affine &affine);

/// value >= 0, or value = 0.
struct Constraint {
  Affine value;
  bool isEquality = false;

  bool operator==(const Constraint &) const = default;
};
Constraint atLeast(const Affine &a, const Affine &b); // a >= b
Constraint less(const Affine &a, const Affine &b);    // a < b
Constraint equal(const Affine &a, const Affine &b);
/// low <= name < high
std::vector<Constraint> within(const Affine &name, const Affine &low, const Affine &high);
std::string text(const Constraint &constraint);

/// A size, or what is not affine in sizes (a product or a quotient of them): the caller computes it
/// and passes it like a size. It is at least `least` and at most `most`.
struct Parameter {
  std::string name;
  int64_t least = 0;
  int64_t most = int64_t(1) << 31;
};

/// A dimension in memory, or what the quotients or the remainders of its indices by a block count.
struct LayoutDimension {
  enum class Part : uint8_t { Whole, Quotient, Remainder };

  size_t dim = 0;
  Part part = Part::Whole;
  int64_t block = 1;

  bool operator==(const LayoutDimension &) const = default;
};

/// Dense and row-major. A local tensor is memory of the kernel: all that is read of it is written
/// before, and it may lie in another way (`layout`).
///
/// Of a local tensor the first `instances` dimensions number instances: each has its own elements,
/// and all share one memory, since one is alive at a time (Instances.h). Their extents count for
/// nothing.
struct Tensor {
  enum class Role : uint8_t { Input, Output, Local };

  std::string name;
  DataType type = DataType::F32;
  std::vector<Affine> extents; // over parameters; none: a scalar of one element
  Role role = Role::Input;
  size_t instances = 0;
  /// How it lies in memory, from outside in: each dimension that isn't of instances as a whole, or
  /// its quotients and, further inside, its remainders by one block. Empty: row-major. The
  /// remainders of the last dimension of instances in front say that two of these are alive.
  std::vector<LayoutDimension> layout = {};
  std::string memory = {}; // of the target, by its name; empty: any

  bool hasTwoHalves() const { return !layout.empty() && layout[0].dim < instances; }
};

enum class Operation : uint8_t {
  Constant, // `number` or `integer`, of any type
  Index,    // `affine`, an I64
  Load,     // of `tensor`; operands: an I64 for each dimension, affine where it is an Index, else a
            // gather; where `guard` is given, one more: the value where the guard doesn't hold;
            // where it `isConditional`, one more: a Bool
  Operator, // the graph's element-wise operator `name`, of operands of one type
  Function, // `function`, of operands of any types
  // Of operands of one type, which is the result's.
  Add,
  Subtract,
  Multiply,
  Divide,    // floats; integers round towards zero, as in C
  Remainder, // of the sign of the dividend, as in C
  FloorDivide,
  FloorRemainder,
  Minimum, // NaN where an operand is NaN
  Maximum,
  Power,
  Negate,
  Absolute,
  Exponential,
  Logarithm,
  SquareRoot,
  ReciprocalSquareRoot,
  Sine,
  Cosine,
  Tangent,
  HyperbolicTangent,
  ErrorFunction,
  Floor,
  Ceiling,
  RoundEven,
  // Of operands of one type, to Bool.
  Less,
  LessEqual,
  Equal,
  NotEqual,
  // Of Bools.
  And,
  Or,
  Not,
  Select, // condition, value where true, value where false; both are evaluated
  Cast,   // between element types; floats to integers round towards zero, and saturate
  Check,  // the first operand; where the second, a Bool, doesn't hold, `reports` of 0 is reported
          // with the third, an I64
};

/// A function of numbers that a front end has code for.
struct ScalarFunction {
  std::string name;

  explicit ScalarFunction(std::string name) : name(std::move(name)) {}
  virtual ~ScalarFunction() = default;
};

struct Expression;
/// What is reported of a gather's index that is outside (the element read then is another one), or
/// of a check.
struct Report {
  std::string message; // "{}" stands for the index, counted from `low` on
  Affine low = {};     // over parameters
};

/// Shared and never changed; expressions that are one object are computed once.
using Expr = std::shared_ptr<const Expression>;

struct Expression {
  Operation operation = Operation::Constant;
  DataType type = DataType::F32;
  std::vector<Expr> operands = {};
  double number = 0;   // Constant of floats
  int64_t integer = 0; // Constant of integers and Bool
  Affine affine = {};  // Index
  std::string tensor = {};
  std::string name = {}; // Operator: "asin"
  std::shared_ptr<const ScalarFunction> function = {};
  std::vector<Constraint> guard = {}; // Load: it is read only where all of them hold
  /// Load: by dimension, where absent a default text. Check: its one message, at key 0.
  std::map<size_t, Report> reports = {};
  /// Load: its indices are reported only where its last operand holds.
  bool isConditional = false;
};

Expr constant(DataType type, double number); // integers: rounded towards zero
Expr wholeNumber(DataType type, int64_t number);
Expr both(const Expr &a, const Expr &b); // And; null is true
Expr index(Affine affine);
Expr load(const Tensor &tensor, std::vector<Expr> indices);
Expr load(const Tensor &tensor, std::vector<Affine> indices);
/// The element where all of `guard` holds, else `otherwise`: padding, for instance.
Expr read(const Tensor &tensor, std::vector<Affine> indices, std::vector<Constraint> guard,
          Expr otherwise);
/// The value; where the condition, a Bool, doesn't hold, the run ends with the message, in which
/// "{}" stands for `told`, an I64.
Expr checked(Expr value, Expr condition, std::string message, Expr told);
/// Comparisons are Bool, all others of the first operand's type, Select of the second's.
Expr apply(Operation operation, std::vector<Expr> operands);
Expr cast(DataType type, Expr value);
Expr byOperator(std::string name, std::vector<Expr> operands);
Expr byFunction(std::shared_ptr<const ScalarFunction> function, DataType type,
                std::vector<Expr> operands);
/// Indices of a load: its other operands stand behind them.
size_t rankOf(const Expression &load);
/// The expression with another in place of each load for which the function gives one; the load's
/// operands have been replaced before.
Expr withLoads(const Expr &expression, const std::function<Expr(const Expression &load)> &replace);
/// The expression with affine functions in place of names.
Expr substituted(const Expr &expression, const std::map<std::string, Affine> &by);

/// How a statement's value goes into its element.
enum class Reduction : uint8_t { None, Add, Multiply, Minimum, Maximum, Or, And };

/// The value that a reduction changes nothing by.
Expr identity(Reduction reduction, DataType type);

struct Statement {
  std::string name;
  std::vector<std::string> iterators;
  std::vector<Constraint> domain;
  std::string tensor; // an output or a local one
  /// As of a load; what is not affine scatters.
  std::vector<Expr> indices;
  Reduction reduction = Reduction::None; // None: the value replaces the element
  Expr value;                            // of the tensor's type
  /// Of 2d+1 numbers, those before, between and behind the iterators: statements that share the
  /// first n share n loops. Empty: the statement stands behind all those before it in the list,
  /// with loops of its own.
  std::vector<int64_t> position = {};
};

struct Nest {
  std::string name = "nest";
  std::vector<Parameter> parameters = {};
  std::vector<Constraint> context = {}; // of parameters alone
  std::vector<Tensor> tensors = {};     // a kernel's operands: inputs, then outputs, as they stand
  std::vector<Statement> statements = {};

  const Tensor *tensor(const std::string &name) const;
  const Statement *statement(const std::string &name) const;
  Statement *statement(const std::string &name);
};

/// Names that are identifiers and occur once, known tensors, ranks, types and iterators, nothing
/// written that is an input, at most 64 statements of 12 iterators. InvalidArgument names the
/// statement.
Status verify(const Nest &nest);

/// Each load in the statement's value and indices, once, with the number of its operands that are
/// indices: expressions are shared, and as trees they may be exponentially large.
void forEachLoad(const Statement &statement,
                 const std::function<void(const Expression &load, size_t rank)> &visit);

std::string text(const Expression &expression);
/// For people: one statement a line.
std::string text(const Nest &nest);

} // namespace tensmith::nest
