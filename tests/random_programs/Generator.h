// Well-typed programs of the language, drawn at random: closures, data types, recursion that ends,
// tuples, lists, matches, references, and tensors of odd sizes.
//
// An expression is drawn for the type that it must have, from variables, operators, calls and
// binding forms, until its depth is used up. Recursion goes by a counter that decreases or over the
// parts of a value, so that every program ends. What is compared to a tolerance stays continuous in
// its floats: no condition looks at one. (Palka and others, "Testing an Optimising Compiler by
// Generating Random Lambda Terms", 2011.)
#pragma once

#include "tests/random_programs/Terms.h"

#include <map>
#include <random>

namespace tensmith::random_programs {

/// The inputs that every program's main takes.
struct Input {
  std::string name;
  Type type;
};
std::vector<Input> inputs();

class Generator {
public:
  /// All names at the top begin with the prefix (a small letter), so that programs can be joined.
  Generator(uint64_t seed, std::string prefix);

  /// Declarations, the last of which is PREFIXmain.
  text::Module run();

private:
  struct Variable {
    std::string name;
    Type type;
  };
  struct Function {
    std::string name;
    std::vector<std::string> variables; // types that it takes any for
    std::vector<Type> params;
    Type result;
  };
  struct Constructor {
    std::string name;
    std::vector<Type> fields;
  };
  struct Data {
    std::vector<std::string> params;
    std::vector<Constructor> constructors; // the first one is not recursive
  };

  int below(int count) { return int(random_() % uint64_t(count)); }
  bool chance(int percent) { return below(100) < percent; }
  std::string fresh(const char *stem) { return stem + std::to_string(number_++); }
  template <typename Element> const Element &oneOf(const std::vector<Element> &elements) {
    return elements[size_t(below(int(elements.size())))];
  }

  void declareData();
  std::vector<Type> fieldsOf(const Type &type, size_t constructor) const;

  Type randomTensor();
  Type randomType(int depth, bool functions);
  ExprPointer variable(const Type &type);
  ExprPointer leaf(const Type &type);
  ExprPointer value(const Type &type, int depth);
  ExprPointer built(const Type &type, int depth);
  ExprPointer constructed(const Type &type, size_t constructor, std::vector<ExprPointer> fields);
  ExprPointer integerValue(int depth);
  ExprPointer integersValue(const Type &type, int depth);
  ExprPointer booleanValue(int depth);
  ExprPointer realValue(const Type &type, int depth);
  ExprPointer scalarValue(int depth);
  ExprPointer rowValue(const Type &type, int depth);
  ExprPointer matrixValue(const Type &type, int depth);
  ExprPointer elementwise(const Type &type, int depth);
  ExprPointer lambdaValue(const Type &type, int depth);
  ExprPointer listValue(const Type &type, int depth);

  ExprPointer assigning(const Type &type, int depth);
  ExprPointer binding(const Type &type, int depth);
  ExprPointer matching(const Type &type, int depth);
  ExprPointer folding(const Type &type, int depth);
  ExprPointer applying(const Type &type, int depth);
  ExprPointer calling(const Type &type, int depth);

  /// Draws in a scope of its own; what is bound inside is gone afterwards.
  template <typename Draw> ExprPointer scoped(const std::vector<Variable> &bound, Draw draw);
  text::Pattern bindAll(const Type &type, std::vector<Variable> &bound);

  const Function *callable(const Type &result, std::vector<Type> &types);
  const Function *makeFunction(const Type &result);
  void makeRecursive(Function &function, ExprPointer &body);
  void makeStructural(Function &function, ExprPointer &body);
  void makeGeneric();
  void addDeclaration(const Function &function, const std::vector<std::string> &names,
                      ExprPointer body);
  ExprPointer callOf(const Function &function, const std::vector<Type> &types, int depth);

  std::mt19937_64 random_;
  std::string prefix_;
  text::Module module_;
  std::map<std::string, Data> data_;
  std::vector<std::string> dataNames_;
  std::vector<std::unique_ptr<Function>> functions_;
  std::vector<Variable> scope_;
  bool open_ = true;   // whether values with open sizes are at hand
  bool named_ = false; // whether "n" has a meaning here: in main, whose parameters have types
  int number_ = 0, left_ = 0, functionsLeft_ = 0;
  static constexpr int kGenericExpressions = 40;
};

} // namespace tensmith::random_programs
