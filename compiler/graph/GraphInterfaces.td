// What the compiler asks of an operator. Each operator answers beside its family's other rules, in <Family>.cpp;
// the passes know only these interfaces.
#ifndef TENSMITH_GRAPH_INTERFACES
#define TENSMITH_GRAPH_INTERFACES

include "mlir/IR/OpBase.td"

def Graph_ShapeFunction : OpInterface<"ShapeFunction"> {
  let cppNamespace = "::tensmith::graph";
  let description = "Result types from the operands' types, and from their contents where a shape depends on them.";
  let methods = [
    InterfaceMethod<[{
      Computes the results' types. `operands` may be more refined than the types in the IR. Fails, with an error emitted
      through `context`, where the operands break a labelled constraint of the record. Sizes that depend on data which
      `context` doesn't know become fresh symbols.
    }], "::mlir::LogicalResult", "inferResults",
        (ins "::tensmith::graph::ShapeContext &":$context, "::llvm::SmallVectorImpl<::mlir::Type> &":$results)>,
  ];
}

def Graph_Cost : OpInterface<"Cost"> {
  let cppNamespace = "::tensmith::graph";
  let description = [{
    How much an operator has to do, as its record says: what estimates of time count by. It is what the operator's definition
    asks for, whatever a kernel does beyond that (padding, recomputed elements): a multiply-add is two operations, an element
    of an element-wise result one, transcendental ones too, an element that is reduced one; movement and the transforms of
    minimal filtering are none.
  }];
  let methods = [
    InterfaceMethod<"Operations of the whole operator, over the symbols of `shapes`. Operands and results must be ranked.",
        "::mlir::AffineExpr", "operations", (ins "::tensmith::graph::ShapeContext &":$shapes)>,
  ];
}

def Graph_KnownContents : OpInterface<"KnownContents"> {
  let cppNamespace = "::tensmith::graph";
  let description = [{
    Small integer tensors whose elements are known as expressions over symbols (the result of `graph.shape`, arithmetic on
    it): what turns an exported model's shape computations back into symbolic dimensions.
  }];
  let methods = [
    InterfaceMethod<"The elements of a result, row-major, or nothing where one of them is not known.",
        "std::optional<::tensmith::graph::Contents>", "contents",
        (ins "::tensmith::graph::ShapeContext &":$context, "unsigned":$result)>,
  ];
}

def Graph_Elementwise : OpInterface<"Elementwise"> {
  let cppNamespace = "::tensmith::graph";
  let description = [{
    result[i] = f(operand0[i], operand1[i], ...), operands broadcast to the result as NumPy does. What a kernel applies to
    scalars, to vectors and to a register tile alike.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits f with arith and math operations. `operands` are scalars, or vectors of one shape, of the kernel element types
      (compiler/graph/Lowering.h): 16-bit floats as f32, integers signless (the op's types tell the sign), booleans i1.
      Returns such a value of the result's element type, or null where there is no such code (then the runtime evaluates
      the operator as its reference does).
    }], "::mlir::Value", "emitScalar",
        (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$location, "::mlir::ValueRange":$operands)>,
    InterfaceMethod<"What an element takes, in additions: its code is about as long.", "int64_t", "additions", (ins), "",
        "return ::tensmith::graph::kAdditionsOfFunction;">,
  ];
}

def Graph_Indexed : OpInterface<"Indexed"> {
  let cppNamespace = "::tensmith::graph";
  let description = [{
    result[i] as code over the operands' elements: movement (i maps to another index), reductions and windows (loops).
    An operator with this interface can be computed where its result is used, or as a loop nest of its own.
  }];
  let methods = [
    InterfaceMethod<"The element of `result` at `indices` (one `index` value per dimension), or null where there is no such code.",
        "::mlir::Value", "emitElement",
        (ins "::tensmith::graph::ElementContext &":$context, "unsigned":$result, "::mlir::ValueRange":$indices)>,
    InterfaceMethod<"Whether reading one element costs about one element of an operand (movement), so that fusing it into its users repeats no work.",
        "bool", "isMovement", (ins), "", "return true;">,
  ];
}

def Graph_Decomposable : OpInterface<"Decomposable"> {
  let cppNamespace = "::tensmith::graph";
  let description = "Larger operators, as a graph of smaller ones: used where no kernel takes them whole.";
  let methods = [
    InterfaceMethod<"Builds the decomposition before the operator; its values in `results`. Fails where a needed size or type is not known.",
        "::mlir::LogicalResult", "decompose",
        (ins "::tensmith::graph::GraphBuilder &":$builder, "::llvm::SmallVectorImpl<::mlir::Value> &":$results)>,
  ];
}

#endif
