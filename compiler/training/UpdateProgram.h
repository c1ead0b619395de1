// Optimisers and schedules: programs of the language, brought to graph code for the types at hand.
//
// An optimiser has a function `update(parameter, gradient, ..., learning_rate, step)` that gives
// the new parameter, and the new slots after it: what it is given beside those four names are its
// slots, of the parameter's shape. It may have functions for whole layers beside it (Layers.h). A
// schedule has a function `rate(step)`. Constants at the top,
// `let momentum = 0.9`, are settings, which the caller may set; they are f64 where what is given
// is, and else f32: 16 bits are widened by who applies a program. The function is typed for each
// shape that it is applied to and evaluated partially, so that what is left is tensor code.
#pragma once

#include "base/Status.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tensmith::training {

using NamedValues = std::vector<std::pair<std::string, mlir::Value>>;

/// The setting of an optimiser whose rows without a gradient wait (TableRows.h).
inline constexpr char kLazyRows[] = "lazy_rows";

class UpdateProgram {
public:
  /// `kind`: "optimiser" or "schedule"; `given`: the name of one that comes with Tensmith, or the
  /// path of a program; `function`: what is called. Settings that it has not are left alone.
  static Result<UpdateProgram> read(const std::string &kind, const std::string &given,
                                    const std::string &function,
                                    const std::vector<std::pair<std::string, double>> &settings,
                                    mlir::MLIRContext *context);

  /// The names that the function's parameters have, in order, and of the constants at the top.
  const std::vector<std::string> &parameters() const { return parameters_; }
  const std::vector<std::string> &settings() const { return settings_; }
  const std::string &name() const { return name_; }
  /// The number that a constant at the top is; 0 where there is none of that name.
  double setting(const std::string &name) const;

  /// Another function of the same program; null where it has none of that name.
  std::unique_ptr<UpdateProgram> other(const std::string &function) const;

  /// The function's results, computed where the builder stands. `arguments` are found by the names
  /// of the parameters.
  Result<llvm::SmallVector<mlir::Value>> apply(const NamedValues &arguments,
                                               mlir::OpBuilder &builder);
  /// Whether each row of the results is made of those in its place of the arguments of the table's
  /// shape, of numbers and of columns alone, as it would be with any other rows beside it.
  bool goesByRows(const NamedValues &arguments, mlir::RankedTensorType table);

private:
  UpdateProgram() = default;
  bool call(const std::string &function);
  Result<std::vector<mlir::Value>> inOrder(const NamedValues &arguments) const;
  Result<mlir::func::FuncOp> instance(const std::vector<mlir::Type> &arguments);

  std::string name_, text_, folder_, function_;
  std::vector<std::string> parameters_, settings_;
  std::map<std::string, std::vector<std::string>> functions_; // their parameters
  std::map<std::string, double> constants_, written_; // those that are set; the program's numbers
  mlir::MLIRContext *context_ = nullptr;
  std::map<std::string, mlir::OwningOpRef<mlir::ModuleOp>> instances_; // by the types given
};

/// "adam, sgd, ...": those of a kind that come with Tensmith.
std::string knownPrograms(const std::string &kind);

} // namespace tensmith::training
