// Type inference: Hindley and Milner's, by the algorithm W, with the relations of operators beside
// the equations.
//
// A function's type scheme has the relations that wait for types which only its callers know; each
// use brings them along. What is compiled are instances: a function is inferred again for each list
// of types that it is called with, and then everything in it is known.
#pragma once

#include "frontends/text/Relations.h"

#include <unordered_map>

namespace tensmith::text {

struct ConstructorInfo {
  const TypeDecl *type;
  uint32_t tag;
};

/// What names mean at the top.
struct Names {
  std::map<std::string, const TypeDecl *> types;
  std::map<std::string, ConstructorInfo> constructors;
  std::map<std::string, const FunctionDecl *> functions;
};
/// Whether a constant's or function's text, or that of what it names, makes or uses references.
bool usesReferences(const FunctionDecl &function, const Names &names);
/// Tells of names that are given twice.
Names collectNames(const Module &module, std::vector<Message> &messages);

/// The types of one instance.
struct Typing {
  std::unordered_map<const Expr *, Term *> exprs;
  std::unordered_map<const Pattern *, Term *> patterns;
  std::unordered_map<const Expr *, Relation> relations; // of calls of operators
};

/// A value that no case of a match covers, or nothing; `unreached`: the first case that never
/// matches, or the number of cases.
std::string uncovered(const std::vector<Case> &cases, const Names &names, size_t &unreached);

/// Parts of the type, those that it shares counted wherever they stand; no more than `most`, beyond
/// which a type is too large to be worked with.
constexpr size_t kLargestType = 20'000;
size_t sizeOf(Term *type, size_t most = kLargestType);

/// Reads the tensor of `load("path")`; what is wrong in `error`.
using Loader = std::function<const HostTensor *(const std::string &path, std::string &error)>;

class Inference {
public:
  Inference(const Module &module, const Names &names, Types &types, Relations &relations,
            Loader loader, std::vector<Message> &messages);

  /// Every function by itself, and main for what its inputs are. Whether there was no error.
  bool check();
  /// The types of a function's body where the function is of this type.
  Typing instance(const FunctionDecl &function, Term *type);
  /// The type of a function as it is written, dimensions' names being symbols.
  Term *declared(const FunctionDecl &function);
  /// The fields of a constructor, of a value of that type.
  std::vector<Term *> fields(const ConstructorInfo &constructor, Term *value);
  /// "fold: ((a, b) -> a, a, List[b]) -> a", for each function of the program itself.
  std::string signature(const FunctionDecl &function);

  std::map<std::string, int64_t> fixed; // sizes that main's types name
  std::set<std::string> met;            // of those

private:
  struct Scheme {
    Term *type = nullptr;
    std::vector<Relation> relations;
  };
  /// The names of one declaration's types.
  struct Scope {
    std::map<std::string, Term *> names;
    bool symbols = false;
  };

  /// Whether values of the type may hold references, other than in functions.
  bool holdsReferences(Term *type, std::set<std::string> &seen);
  void checkReferences(const FunctionDecl &function, Term *type);
  void error(Place place, const std::string &text);
  bool equate(Place place, Term *expected, Term *found);

  Term *annotate(const TypeExpr &type, Scope &scope);
  Term *annotateElement(const TypeExpr &type, Scope &scope);
  Term *annotateSize(const DimExpr &size, Scope &scope);
  Term *computedSize(Place place, DimExpr::Kind kind, Term *a, Term *b);
  Term *sizeValue(const Expr &expr);

  void inferGroup(const std::vector<const FunctionDecl *> &group, const FunctionDecl *wanted,
                  Term *type);
  Term *begin(const FunctionDecl &function);
  void inferBody(const FunctionDecl &function, Term *type);
  void solvePending(bool all);
  void shareRelations();
  void defaultNumbers();

  Term *infer(const Expr &expr);
  Term *inferKind(const Expr &expr);
  Term *inferName(const Expr &expr);
  Term *inferCall(const Expr &expr);
  Term *inferArgument(const Expr &expr, Term *expected);
  Term *inferOperator(const Expr &expr, const OperatorInfo &info,
                      const std::vector<const Expr *> &given);
  Term *inferFunction(const Expr &expr);
  Term *inferLet(const Expr &expr);
  Term *inferMatch(const Expr &expr);
  Term *inferLoad(const Expr &expr);
  Term *useScheme(const Scheme &scheme, Place place);
  bool addAttribute(const Argument &argument, const OperatorInfo::Attribute &info,
                    Relation &relation);
  bool addComputed(const Argument &argument, const OperatorInfo::Attribute &info,
                   Relation &relation);
  void bindPattern(const Pattern &pattern, Term *type);
  void bind(const std::string &name, Term *type);
  void unbind(size_t count);
  Term *constructorType(const ConstructorInfo &constructor, std::vector<Term *> &fields,
                        bool matched = false);

  const Module &module_;
  const Names &names_;
  Types &types_;
  Relations &relations_;
  Loader loader_;
  std::vector<Message> &messages_;
  std::set<std::string> told_;
  bool silent_ = false; // the generic check has told of it
  bool partly_ = false; // what waits for the callers of a function's result may go on waiting

  std::map<const FunctionDecl *, Scheme> schemes_;
  std::map<const FunctionDecl *, Term *> current_; // of the group in work
  std::map<const FunctionDecl *, std::vector<const FunctionDecl *>> groups_;
  std::vector<std::pair<std::string, Term *>> locals_;
  std::unordered_map<std::string, std::vector<Term *>> visible_;
  Scope scope_;
  std::vector<Relation> pending_;
  std::vector<Term *> literals_;
  Typing typing_;
};

/// Functions in groups that call one another, callees first.
std::vector<std::vector<const FunctionDecl *>> groupsOf(const Module &module, const Names &names);

} // namespace tensmith::text
