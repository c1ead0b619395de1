// From typed instances to procedures of the program dialect.
#pragma once

#include "frontends/text/Inference.h"
#include "frontends/text/Modules.h"

#include "compiler/program/Structures.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tensmith::text {

class Lowering {
public:
  Lowering(mlir::ModuleOp module, const Names &names, Types &types, Relations &relations,
           Inference &inference, Loader loader, const Files &files);

  /// Main, and every instance that it leads to. Constants that are among `inputs` become such.
  Status run(const FunctionDecl &main, const std::set<std::string> &inputs);

  struct Instance {
    const FunctionDecl *function;
    Term *type;
    std::string symbol;
  };
  /// The constants at the top that main leads to, with the types that they are used with.
  const std::vector<Instance> &constants() const { return constants_; }

private:
  struct Column {
    mlir::Value value;
    Term *type;
  };
  struct Row {
    std::vector<const Pattern *> patterns; // null: a wildcard
    std::vector<std::pair<std::string, mlir::Value>> bindings;
    const Expr *body;
  };

  std::string instanceOf(const FunctionDecl &function, Term *type);
  void lowerInstance(const Instance &instance);
  void lowerMain(const FunctionDecl &main, Term *type, const std::string &procedure);
  mlir::func::FuncOp beginProcedure(const std::string &symbol, llvm::ArrayRef<mlir::Type> params,
                                    mlir::Location location);
  void finish(mlir::func::FuncOp procedure, mlir::Value result);

  mlir::Value lower(const Expr &expr);
  mlir::Value lowerName(const Expr &expr);
  mlir::Value lowerCall(const Expr &expr);
  mlir::Value lowerOperator(const Expr &expr, const std::vector<const Expr *> &given);
  mlir::Value lowerFunction(const Expr &expr);
  mlir::Value lowerLet(const Expr &expr);
  mlir::Value lowerIf(const Expr &expr);
  mlir::Value lowerMatch(const Expr &expr);
  mlir::Value lowerList(const Expr &expr);
  mlir::Value lowerReference(const Expr &expr);
  mlir::Value lowerRows(std::vector<Row> rows, std::vector<Column> columns, Term *type,
                        mlir::Location location);
  mlir::Value constructorFunction(const ConstructorInfo &constructor, Term *type,
                                  mlir::Location location);
  mlir::Value construct(uint32_t tag, mlir::ValueRange fields, mlir::Type type,
                        mlir::Location location);

  /// That parameters agree where callers don't know their sizes.
  void checkSizes(const FunctionDecl &function, mlir::Location location);
  Term *typeOf(const Expr &expr);
  mlir::Type lowerType(Term *type, bool named = true);
  void noteStructure(Term *type);
  bool isTooLarge(Term *type, llvm::ArrayRef<std::vector<Term *>> constructors);
  Status lift(const std::set<std::string> &inputs);
  /// "line:column", with the file in front where it isn't the program's own.
  std::string at(Place place) const;
  mlir::Location locate(const Expr &expr, llvm::StringRef what);
  mlir::Value find(const std::string &name);
  void bind(const std::string &name, mlir::Value value) { locals_.push_back({name, value}); }

  mlir::ModuleOp module_;
  const Names &names_;
  Types &types_;
  Relations &relations_;
  Inference &inference_;
  Loader loader_;
  const Files &files_;
  mlir::OpBuilder builder_;
  Typing typing_;
  std::vector<std::pair<std::string, mlir::Value>> locals_;
  std::map<std::string, std::string> symbols_; // of instances, by function and type
  std::vector<Instance> waiting_, constants_;
  program::Structures structures_;
  std::vector<Term *> around_; // types whose structure is being noted, each of the one before
  int64_t structureBudget_ = 1'000'000; // parts of the types in structures
  std::string function_;
  int number_ = 0;
  int64_t budget_ = 2'000'000; // expressions that are lowered: matches may repeat their cases
  std::string error_;
};

} // namespace tensmith::text
