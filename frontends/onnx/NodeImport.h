// What an import rule works with: its node's operands, attributes and opset, and the builder.
//
// A value is null after an error, as in GraphCode: a rule is written as a formula, and `give` fails
// where a result is missing.
#pragma once

#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphCode.h"
#include "frontends/onnx/Importer.h"
#include "frontends/onnx/Operators.h"

namespace tensmith::onnx_import {

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using mlir::AffineExpr;
using mlir::failed;
using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::NamedAttribute;
using mlir::succeeded;
using mlir::success;
using mlir::Type;
using mlir::Value;
using Ints = SmallVector<int64_t>;

class NodeImport : public graph::GraphCode {
public:
  NodeImport(Importer &importer, graph::GraphBuilder &graph, const onnx::NodeProto &node,
             const onnx::FunctionProto *schema, int64_t opset, Scope &scope)
      : GraphCode(graph), importer(importer), node(node), opset(opset), scope(scope),
        schema_(schema) {}

  // Operands and results.
  size_t inputCount() const { return inputs.size(); }
  /// Null where the operand is absent.
  Value input(size_t number) const { return number < inputs.size() ? inputs[number] : Value(); }
  bool has(size_t number) const { return bool(input(number)); }
  /// The operand, or `graph.none`.
  Value maybe(size_t number) const { return has(number) ? input(number) : graph.none(); }
  bool wants(int number) const {
    return number < node.output_size() && !node.output(number).empty();
  }
  LogicalResult give(ArrayRef<Value> values);
  LogicalResult give(mlir::Operation *op);
  LogicalResult error(const llvm::Twine &message) const;
  /// Whether there was an error that no rule was told of.
  bool hasFailed() const { return hasFailed_; }
  /// The first value whose rank was asked for and is not known.
  Value lackingRank() const { return lackingRank_; }
  /// The node before any rule, with another operand.
  NodeImport with(size_t number, Value operand) const {
    NodeImport other(importer, graph, node, schema_, opset, scope);
    other.inputs = inputs;
    other.inputs[number] = operand;
    return other;
  }

  // Attributes of the node; where it has none of that name, the schema's default, or `fallback`.
  // One of another kind than is asked for is an error.
  const onnx::AttributeProto *attribute(StringRef name) const;
  const onnx::AttributeProto *attribute(StringRef name, onnx::AttributeProto::AttributeType) const;
  bool hasAttribute(StringRef name) const { return attribute(name) != nullptr; }
  int64_t intAttr(StringRef name, int64_t fallback = 0) const;
  double floatAttr(StringRef name, double fallback = 0) const;
  std::string stringAttr(StringRef name, StringRef fallback = "") const;
  Ints intsAttr(StringRef name, ArrayRef<int64_t> fallback = {}) const;
  SmallVector<double> floatsAttr(StringRef name) const;
  std::vector<std::string> stringsAttr(StringRef name) const;
  /// The element type whose number in onnx.proto the attribute is; null, with an error, of none.
  Type typeAttr(StringRef name, int64_t fallback);

  // Attributes of graph operators.
  NamedAttribute boolean(StringRef name, bool value) const {
    return builder.getNamedAttr(name, builder.getBoolAttr(value));
  }
  NamedAttribute real(StringRef name, double value) const {
    return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
  }
  NamedAttribute text(StringRef name, StringRef value) const {
    return builder.getNamedAttr(name, builder.getStringAttr(value));
  }
  NamedAttribute type(StringRef name, Type value) const {
    return builder.getNamedAttr(name, mlir::TypeAttr::get(value));
  }

  // Shapes.
  /// The elements of a vector or scalar of integers or booleans, where they follow from the model
  /// alone; `contents` are such that may depend on sizes.
  std::optional<Ints> constants(Value value) const;
  std::optional<graph::Contents> contents(Value value) const;
  static std::optional<int64_t> known(AffineExpr size) { return graph::constantOf(size); }
  /// A tensor's dimensions and their number. A rule that asks for those of a tensor of unknown rank
  /// goes on with some, and the node fails with an error afterwards.
  Dims dims(Value x) const;
  int64_t rank(Value x) const;
  /// Fails, with an error, where the operand is absent or of unknown rank.
  LogicalResult needRank(size_t number) const;
  /// x with that rank in its type, which the run checks: for an operand whose rank only the node's
  /// attributes tell.
  Value ranked(Value x, int64_t rank) const;
  /// In [0, rank); fails, with an error, outside [-rank, rank).
  FailureOr<int64_t> axis(int64_t axis, int64_t rank) const;
  FailureOr<Ints> axes(ArrayRef<int64_t> axes, int64_t rank) const;

  // Values.
  Value none() const { return graph.none(); }
  Value operator()(StringRef name, ArrayRef<Value> operands,
                   ArrayRef<NamedAttribute> attributes = {}) const {
    return op(name, operands, attributes);
  }
  Value vector(ArrayRef<int64_t> values) const; ///< of i64
  Value integerScalar(int64_t value) const;     ///< of i64
  Value constant(const HostTensor &tensor) const { return graph.constant(tensor); }
  /// The operand as a constant of one element, if it is one.
  std::optional<double> scalarConstant(Value value) const;
  /// 1 / sqrt(size) as a scalar of the element type of `like`, for a size as `sizeOf` gives it.
  Value inverseRoot(Value like, Value size) const;
  Value filled(Type element, ArrayRef<AffineExpr> dims, double value) const {
    return broadcast(graph.scalar(element, value), dims);
  }
  int64_t seed();
  /// What a random operator draws by besides its seed: absent where the node has one, else the
  /// run's key, another one for each iteration of the loops around it.
  Value key() const;

  Importer &importer;
  const onnx::NodeProto &node;
  int64_t opset;
  Scope &scope;
  SmallVector<Value> inputs;
  SmallVector<Value> results;

private:
  /// Sizes of the results of which nothing is known get names, by which the operators that take
  /// them say their own.
  void nameSizes();
  /// Whether the rank is known; an error the first time that it is not.
  bool checkRank(Value x) const;

  const onnx::FunctionProto *schema_;
  mutable bool hasFailed_ = false;
  mutable Value lackingRank_;
};

} // namespace tensmith::onnx_import
