// The model under construction: names, initialisers, nodes, and sizes that are computed.
#pragma once

#include "compiler/graph/GraphBuilder.h"
#include "frontends/onnx/ExportTypes.h"
#include "onnx-ml.pb.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

#include <map>

namespace tensmith::onnx_export {

class Exporter {
public:
  Exporter(mlir::func::FuncOp main, const std::map<std::string, HostTensor> &values);

  Status run();
  /// More of initialisers than any file can hold: they are left out then.
  bool isTooLarge() const;

  /// Of a value that was given one, or of a constant, which becomes an initialiser; empty of none.
  std::string nameOf(mlir::Value value);
  void setName(mlir::Value value, const std::string &name);
  /// One that nothing has: "conv", "conv_2".
  std::string freshName(llvm::StringRef stem);
  std::string addInitialiser(llvm::StringRef stem, const HostTensor &tensor);
  onnx::NodeProto &addNode(llvm::StringRef type);
  /// The name of a vector of one element that holds the size.
  Result<std::string> sizeOf(mlir::AffineExpr size);

  onnx::ModelProto model;
  graph::ShapeContext shapes;

private:
  struct Place {
    std::string name;
    int64_t dim;
  };

  Status prepare();
  bool fold(mlir::Operation *op);
  void nameInterface();
  Status addInputs();
  Status addOutputs();
  Status exportOperator(mlir::Operation *op);
  Status checkTypes(int firstNode, const std::string &what);
  void writeInitialiser(const HostTensor &tensor, const std::string &name);
  void describe(mlir::Type type, onnx::TypeProto &proto);
  void rename(const std::map<std::string, std::string> &names);
  Result<std::string> computeSize(mlir::AffineExpr size);

  mlir::func::FuncOp main_;
  const std::map<std::string, HostTensor> &values_;
  std::vector<std::string> ports_; // names of inputs, then of outputs
  ValueTypes types_;
  size_t bytes_ = 0; // of initialisers
  llvm::StringSet<> taken_;
  llvm::StringMap<unsigned> counts_;
  llvm::DenseMap<mlir::Value, std::string> names_;
  llvm::DenseMap<mlir::AffineExpr, Place> places_; // values that have the size
  llvm::DenseMap<mlir::AffineExpr, std::string> sizes_;
};

/// "3:5 matmul: ", or "3:5: " where the location has a line and no name.
std::string placeOf(mlir::Operation *op);

onnx::TensorProto tensorProto(const HostTensor &tensor, const std::string &name);

} // namespace tensmith::onnx_export
