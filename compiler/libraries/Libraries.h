// Libraries of operators: libraries that do whole operators, beside the kernels that are generated.
//
// A library is a name and what it refuses. What it is asked about is a pattern: an operator with
// what stands before and behind it in the form that libraries have for it (a product of transposed
// matrices; a bias, an addend and an activation behind it). What it takes becomes a kernel of the
// kind "call.NAME", whose region still says what is computed, and whose code is a function of
// libtensmith_NAME.so (runtime/LibraryAbi.h). The library is needed by the run alone.
//
// Who does what is decided for each operator: by the order of a list, or by measurement
// (rewrite/CallLibraries.cpp); a schedule overrides both.
#pragma once

#include "base/Status.h"
#include "compiler/graph/Graph.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tensmith::libraries {

/// One of runtime/LibraryAbi.h's steps, done by one or more operators of the graph.
struct Step {
  int kind;
  double number = 0;
  mlir::OpOperand *operand = nullptr; // of a step that has one
  llvm::SmallVector<mlir::Operation *, 1> ops;

  mlir::Value result() const { return ops.back()->getResult(0); }
};

struct Pattern {
  mlir::Operation *root;
  /// A product's operands are transposed in memory: the operators that turn them are inside.
  bool leftTransposed = false, rightTransposed = false;
  std::vector<Step> steps;

  /// Where its operands come from, in the contract's order.
  llvm::SmallVector<mlir::OpOperand *> inputs() const;
  /// All its operators, in an order in which each follows what it uses.
  llvm::SmallVector<mlir::Operation *> operators() const;
  mlir::Value result() const;
  bool hasStep(int kind) const;
};

/// The longest pattern around a product, a convolution, a softmax or a layer normalisation of f32
/// along the last dimension, if the operator is one that the contract can say.
std::optional<Pattern> matchPattern(mlir::Operation *root);
/// Whether libraries have operators of this kind at all.
bool mayBeCalled(mlir::Operation *root);

/// Why not: a clause for people, or empty where there is nothing against it.
using Refusal = llvm::StringRef;
/// Why the contract can't say such an operator.
Refusal refusalOf(mlir::Operation *root);

struct Library {
  std::string name;
  /// Why it doesn't take a pattern; it is asked again for the same with fewer steps.
  std::function<Refusal(const Pattern &)> refusalOf;
};

/// All that are known, with those that a program has added: openblas, onednn and xsmm at first.
/// None of them needs its library to be there.
std::vector<Library> &knownLibraries();
/// Null where there is none.
const Library *findLibrary(llvm::StringRef name);
/// What is no library.
inline constexpr llvm::StringLiteral kGenerated = "generated";
/// "generated, openblas, onednn, xsmm"
std::string libraryNames();
/// By which schedules know them: 0 is `generated`.
std::optional<int64_t> libraryNumber(llvm::StringRef name);
std::string libraryName(int64_t number);

/// Who is asked for each operator: the libraries of a list, in its order, or whoever is fastest.
/// What none of them takes is generated.
struct Policy {
  std::vector<const Library *> order;
  bool measured = false;
};
/// Of "onednn,openblas", "generated" or "measured". InvalidArgument, with the names that there are,
/// where one is unknown, empty or there twice.
Result<Policy> parsePolicy(llvm::StringRef text);

/// The longest part of the pattern that the library takes. `why`: of the shortest, where it takes
/// none.
std::optional<Pattern> partTaken(const Library &library, Pattern pattern, Refusal *why = nullptr);

/// Copies of the pattern's operators, on those inputs; the value of its result.
mlir::Value clonePattern(const Pattern &pattern, mlir::OpBuilder &builder, mlir::ValueRange inputs);
/// Puts the pattern into a kernel of the library's kind, in place of its operators.
graph::KernelOp makeCall(const Pattern &pattern, llvm::StringRef library);
/// The library whose library does the kernel; empty where it is generated.
llvm::StringRef libraryOf(graph::KernelOp kernel);

/// What a call gives its library: over `symbols[i]`, as in a ShapeContext.
struct Call {
  std::string symbol;  // "onednn:tensmith_matmul"
  std::string summary; // for `inspect`
  llvm::SmallVector<mlir::AffineExpr> sizes;
  llvm::SmallVector<mlir::StringAttr> symbols;
};
/// Of a kernel that `makeCall` has made. Unsupported where its region is something else, as in a
/// file. `keepsConstants`: constants stay at their addresses until the module is unloaded.
Result<Call> callOf(graph::KernelOp kernel, bool keepsConstants);

} // namespace tensmith::libraries
