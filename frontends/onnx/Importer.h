// Turns a parsed model into graph IR, node by node; what a rule sees of its node is in
// NodeImport.h.
#pragma once

#include "compiler/graph/GraphBuilder.h"
#include "frontends/onnx/Model.h"
#include "frontends/onnx/NodeOrder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tensmith::onnx_import {
class NodeImport;

/// The opset of each domain that a model or function imports.
using Opsets = std::map<std::string, int64_t, std::less<>>;

Opsets opsetsOf(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> &imports);

/// The names that nodes of a graph see. A null value is an optional argument that a function's
/// caller left out.
struct Scope {
  Scope *parent = nullptr; ///< a subgraph's surroundings; a function has none
  const Opsets *opsets = nullptr;
  std::string prefix;          ///< of the names of nodes in locations
  bool isStandardBody = false; ///< the standard's definition of a function, not the model's
  llvm::StringMap<mlir::Value> values;

  /// Null where the name is not defined.
  const mlir::Value *find(llvm::StringRef name) const;
};

class Importer {
public:
  Importer(std::shared_ptr<Model> model, mlir::MLIRContext &context, const ImportOptions &options)
      : model(std::move(model)), options(options), shapes(&context), builder(&context) {}

  Result<mlir::OwningOpRef<mlir::ModuleOp>> run();

  /// Imports nodes at the insertion point, so that `scope` has the values of `wanted` names among
  /// them; fails with an error emitted.
  mlir::LogicalResult importNodes(const Nodes &nodes, llvm::ArrayRef<std::string> wanted,
                                  Scope &scope, mlir::Location location);
  /// A subgraph's initialisers and nodes, and the values of its outputs. Its inputs must be in
  /// `scope`.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  importSubgraph(const onnx::GraphProto &graph, Scope &scope, mlir::Location location);
  /// A call of a function, replaced by its body.
  mlir::LogicalResult expandFunction(NodeImport &call, const onnx::FunctionProto &function);

  TensorSource tensorSource() { return {model->folder, model->hasFolder, model, &externalFiles_}; }
  /// A type of onnx.proto's; dimensions without a size are symbols named by their dim_param or
  /// after `name`.
  mlir::FailureOr<mlir::Type> mapType(const onnx::TypeProto::Map &type, llvm::StringRef name,
                                      mlir::Location location);
  mlir::FailureOr<mlir::Type> typeOf(const onnx::TypeProto &type, llvm::StringRef name,
                                     mlir::Location location);
  const onnx::FunctionProto *localFunction(const onnx::NodeProto &node) const;
  /// The value that small constants alone lead to, as exporters' computations of pads, axes and
  /// conditions do, evaluated.
  std::optional<HostTensor> evaluated(mlir::Value value);
  /// Keeps a region whose values the shape context may remember.
  void retire(std::unique_ptr<mlir::Region> region) { retired_.push_back(std::move(region)); }

  std::shared_ptr<Model> model;
  const ImportOptions &options;
  graph::ShapeContext shapes;
  mlir::OpBuilder builder;
  int64_t randomSeeds = 0; ///< given out to operators that have none
  /// The numbers of the iterations, of the loops whose bodies are being imported, the outermost
  /// first.
  llvm::SmallVector<mlir::Value> iterations;
  /// In training: values that have another in the next run.
  std::vector<std::pair<mlir::Value, mlir::Value>> updates;

private:
  // What follows an If whose branches differ in rank; see Branches.h.
  mlir::LogicalResult importInOrder(const Nodes &nodes, llvm::ArrayRef<int> order,
                                    llvm::ArrayRef<std::string> wanted, Scope &scope);
  mlir::LogicalResult continueBranches(graph::IfOp branches, const Nodes &nodes,
                                       llvm::ArrayRef<int> order,
                                       llvm::ArrayRef<std::string> wanted, Scope &scope);
  struct Path;
  void follow(Path &path, graph::IfOp branches, const Nodes &nodes, llvm::ArrayRef<int> order,
              llvm::ArrayRef<std::string> wanted, Scope &scope);
  mlir::LogicalResult keepBoth(graph::IfOp branches, std::array<Path *, 2> paths,
                               llvm::ArrayRef<std::string> wanted, Scope &scope);
  mlir::LogicalResult keepOne(graph::IfOp branches, Path &path, llvm::StringRef reason,
                              llvm::ArrayRef<std::string> wanted, Scope &scope);
  void discard(graph::IfOp branches);

  const onnx::FunctionProto *bodyFor(NodeImport &call, const onnx::FunctionProto &function);
  Status checkOpsets();
  Status checkOperators();
  Status importMain(mlir::ModuleOp module);
  mlir::LogicalResult importMainGraph(mlir::func::FuncOp function);
  mlir::LogicalResult importInitializers(const onnx::GraphProto &graph, Scope &scope, bool isMain,
                                         mlir::Location location);
  mlir::FailureOr<mlir::Value> importInitializer(const onnx::TensorProto &tensor,
                                                 const RawData &raw, mlir::Location location);
  mlir::LogicalResult importNode(const onnx::NodeProto &node, int number, Scope &scope);
  mlir::FailureOr<llvm::SmallVector<mlir::AffineExpr>>
  dimsOf(const onnx::TensorShapeProto &shape, llvm::StringRef name, mlir::Location location);
  mlir::FailureOr<mlir::Type> inputType(const onnx::ValueInfoProto &input, mlir::Location location);
  mlir::AffineExpr symbol(llvm::StringRef name);
  mlir::Location locationOf(const onnx::NodeProto &node, int number, const Scope &scope);
  void addUpdates(mlir::func::FuncOp function, const Scope &scope);
  mlir::LogicalResult keepTensors(mlir::func::FuncOp function, const Scope &scope);
  std::string innermost(const std::string &message) const;

  Opsets opsets_;
  std::map<std::string, const onnx::FunctionProto *> functions_;
  std::vector<const onnx::FunctionProto *> calls_; // being expanded
  llvm::DenseMap<mlir::Value, std::optional<HostTensor>> evaluated_;
  std::vector<std::unique_ptr<mlir::Region>> retired_;
  llvm::StringSet<> fixedSymbols_; // those of the options that the model has
  ExternalFiles externalFiles_;
  /// Whether a function's body refers to attributes of its call.
  llvm::DenseMap<const onnx::FunctionProto *, bool> refersToAttributes_;
  int64_t nodeCount_ = 0, instanceBytes_ = 0;
  int followed_ = 0; // Ifs whose branches are being continued, one within the other
};

/// The nodes of a model (subgraphs and functions included) that nothing can import, as one error.
Status checkOperatorsSupported(const Model &model, const Opsets &opsets);

/// Whether a function's body has references to its attributes, in its subgraphs, too.
bool refersToAttributes(const onnx::FunctionProto &function);

/// A function's body with references to its attributes replaced by the call's.
onnx::FunctionProto instantiate(const onnx::FunctionProto &function, const onnx::NodeProto &call);

} // namespace tensmith::onnx_import
