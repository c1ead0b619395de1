// A graph that is made by the C API's caller, operator by operator; see tensmith/builder.h.
//
// The caller is trusted as little as a file: an operator is tried before its shape function sees
// it, since that relies on the attributes and operands of its record.
#pragma once

#include "base/HostTensor.h"
#include "compiler/graph/GraphBuilder.h"

#include <tensmith/builder.h>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringSet.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace tensmith {

class ModelBuilder {
public:
  ModelBuilder();

  Result<ts_value> input(const char *name, const ts_value_type &type);
  Result<ts_value> constant(const char *name, const HostTensor &tensor);
  Result<std::vector<ts_value>> op(const char *name, llvm::ArrayRef<ts_value> operands,
                                   llvm::ArrayRef<ts_attribute> attributes,
                                   const ts_value_type *result, const char *location);
  Status beginIf(ts_value condition, const char *location);
  /// The values of the body's arguments.
  Result<std::vector<ts_value>> beginLoop(ts_value trips, ts_value condition,
                                          llvm::ArrayRef<ts_value> carried, const char *location);
  /// The operator's results, where this ends it.
  Result<std::vector<ts_value>> yield(llvm::ArrayRef<ts_value> values);
  Status output(const char *name, ts_value value);
  Status state(const char *input, const char *output);
  /// See ts_builder_differentiate (BuilderDerivatives.cpp).
  Result<std::vector<ts_value>> differentiate(bool isForward, llvm::ArrayRef<ts_value> of,
                                              llvm::ArrayRef<ts_value> by,
                                              llvm::ArrayRef<ts_value> changes);

  Result<ts_value_type> type(ts_value value);
  Result<llvm::ArrayRef<const char *>> contents(ts_value value);

  /// A copy of the graph, complete, with named constants in `inputs` as inputs. Constants keep
  /// their names where `keepsNames`.
  Result<mlir::OwningOpRef<mlir::ModuleOp>> finish(llvm::ArrayRef<const char *> inputs,
                                                   bool keepsNames);
  Result<std::string> text(bool locations);
  bool hasStates() const { return !states_.empty(); }

private:
  /// An operator whose regions are being filled.
  struct Open {
    std::string operation;
    mlir::Location location;
    llvm::SmallVector<mlir::Value> operands;
    std::vector<std::unique_ptr<mlir::Region>> regions;
    size_t regionCount;
    mlir::OpBuilder::InsertPoint outside;
    size_t valuesOutside; ///< how many values there were before the region
  };

  /// What `work` gives, or the first error that was emitted meanwhile, with its place.
  Result<llvm::SmallVector<mlir::Value>>
  reported(llvm::function_ref<llvm::FailureOr<llvm::SmallVector<mlir::Value>>()> work);
  Status tryOperator(const mlir::OperationState &given);
  Result<mlir::Value> value(ts_value number) const;
  Result<llvm::SmallVector<mlir::Value>> values(llvm::ArrayRef<ts_value> numbers);
  Result<mlir::Type> typeOf(const ts_value_type &type);
  Status checkDerivative(bool isForward, llvm::ArrayRef<mlir::Value> of,
                         llvm::ArrayRef<mlir::Value> by, size_t changes) const;
  mlir::Value changeAs(mlir::Type wanted, mlir::Value given);
  Result<std::vector<ts_value>> inlined(mlir::func::FuncOp function,
                                        llvm::ArrayRef<mlir::Value> arguments,
                                        llvm::ArrayRef<mlir::Value> changes, size_t skipped);
  Status checkOutside() const;
  Status checkDepth() const;
  Status takeName(llvm::StringSet<> &names, const char *name, const char *what);
  void openRegion();
  Result<std::vector<ts_value>> close();
  ts_value add(mlir::Value value);
  std::vector<ts_value> add(mlir::ValueRange values);
  mlir::Location locationOf(const char *text);
  llvm::ArrayRef<const char *> keepTexts(std::vector<std::string> texts);

  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::func::FuncOp main_;
  mlir::OpBuilder builder_;
  graph::ShapeContext shapes_;
  std::vector<mlir::Value> values_; ///< null where they are out of reach
  std::deque<Open> open_;
  std::vector<std::string> inputs_;
  std::vector<std::pair<std::string, mlir::Value>> outputs_;
  std::vector<std::pair<size_t, size_t>> states_; ///< numbers of inputs and outputs
  llvm::StringSet<> inputNames_, outputNames_;
  std::vector<std::string> texts_;
  std::vector<const char *> pointers_;
};

} // namespace tensmith
