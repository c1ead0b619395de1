// The dialect, its types and attributes, and the classes that the families' records are written with.
//
// A value is a builtin tensor, `tensor<?x128xf32, #graph.dims<["batch"], ()[s0] -> (s0, 128)>>`: the encoding names
// the dimensions that are not constants, as expressions over symbols. Equal symbols are equal sizes. A tensor whose
// dimensions are all constants has no encoding; `?` without an encoding is a size of which nothing is known.
//
// Integers without a sign (`i8`) are signed, `ui8` is unsigned, `i1` is the boolean.
#ifndef TENSMITH_GRAPH_BASE
#define TENSMITH_GRAPH_BASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "compiler/graph/GraphInterfaces.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let cppNamespace = "::tensmith::graph";
  let summary = "A functional tensor language: what a model computes, before how is decided";
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  // Each family registers its own, in its own file: one list of all would take minutes to compile.
  let extraClassDeclaration = [{
    void addElementwise();
    void addReduction();
    void addMovement();
    void addGather();
    void addContraction();
    void addConvolution();
    void addResampling();
    void addNormalization();
    void addRecurrent();
    void addCreation();
    void addQuantization();
    void addText();
    void addStructure();
    void addTypesAndAttributes();
    ::mlir::Operation *materializeConstant(::mlir::OpBuilder &builder, ::mlir::Attribute value, ::mlir::Type type,
                                           ::mlir::Location location) override;
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect"];
}

class Graph_Type<string name, string typeMnemonic, string text> : TypeDef<Graph_Dialect, name> {
  let mnemonic = typeMnemonic;
  let summary = text;
}
def Graph_StringType : Graph_Type<"String", "string", "a string of bytes, as element of a tensor">;
def Graph_F4E2M1Type : Graph_Type<"F4E2M1", "f4E2M1FN", "4-bit float of the OCP Microscaling specification">;
def Graph_F8E8M0Type : Graph_Type<"F8E8M0", "f8E8M0FNU", "8-bit power of two of the OCP Microscaling specification">;
def Graph_SequenceType : TypeDef<Graph_Dialect, "Sequence"> {
  let mnemonic = "sequence";
  let summary = "a list of tensors of one element type, of any length";
  let parameters = (ins "::mlir::Type":$element);
  let assemblyFormat = "`<` $element `>`";
}
def Graph_OptionalType : TypeDef<Graph_Dialect, "Optional"> {
  let mnemonic = "optional";
  let summary = "a value or none";
  let parameters = (ins "::mlir::Type":$element);
  let assemblyFormat = "`<` $element `>`";
}

def Graph_MapType : TypeDef<Graph_Dialect, "Map"> {
  let mnemonic = "map";
  let summary = "values of one element type under keys, which are i64 or strings";
  let parameters = (ins "::mlir::Type":$key, "::mlir::Type":$value);
  let assemblyFormat = "`<` $key `,` $value `>`";
}

def Graph_DimsAttr : AttrDef<Graph_Dialect, "Dims"> {
  let mnemonic = "dims";
  let summary = "the dimensions of a tensor as expressions over named symbols";
  let description = [{
    One result of `map` for each dimension, over one symbol for each name; no dimensions (`d0`). The names are sorted,
    distinct and all used, and the expressions simplified, so that equal shapes are equal attributes.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$symbols, "::mlir::AffineMap":$map);
  let assemblyFormat = "`<` `[` $symbols `]` `,` $map `>`";
  let genVerifyDecl = 1;
}

def Graph_Tensor : AnyTypeOf<[AnyRankedTensor, AnyUnrankedTensor]>;
def Graph_Value : AnyTypeOf<[AnyRankedTensor, AnyUnrankedTensor, Graph_SequenceType, Graph_OptionalType, Graph_MapType, NoneType]>;
// An optional operand that is absent in the middle of others is the result of `graph.none`.
def Graph_MaybeTensor : AnyTypeOf<[AnyRankedTensor, AnyUnrankedTensor, NoneType]>;

// The result types are what the shape function gives for the operands, as far as both are known.
def Graph_ShapesVerified : NativeOpTrait<"ShapesVerified"> {
  let cppNamespace = "::tensmith::graph";
}

// Every operator has a shape function and a cost, and is pure, but for control flow, whose purity is that of its regions.
class Graph_OperatorOf<Dialect dialect, string mnemonic, list<Trait> traits = []>
    : Op<dialect, mnemonic, !listconcat([Pure, Graph_ShapesVerified, DeclareOpInterfaceMethods<Graph_ShapeFunction>,
                                         DeclareOpInterfaceMethods<Graph_Cost>], traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  // What the operator has to do (Cost): C++ of an expression over the symbols of `shapes`. Records give their own where
  // that of their kind is not theirs.
  code operations = "::tensmith::graph::operationsOfKind(*this, shapes)";
  code definitions = ""; // of further methods
  let extraClassDefinition = [{
    ::mlir::AffineExpr $cppClass::operations(::tensmith::graph::ShapeContext &shapes) {
      return }] # operations # [{;
    }
  }] # definitions;
}
class Graph_Op<string mnemonic, list<Trait> traits = []> : Graph_OperatorOf<Graph_Dialect, mnemonic, traits>;

#endif
