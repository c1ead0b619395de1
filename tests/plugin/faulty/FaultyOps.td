// Operators that make the mistake that their attribute names.
include "compiler/graph/GraphBase.td"

def Faulty_Dialect : Dialect {
  let name = "faulty";
  let cppNamespace = "::faulty";
  let dependentDialects = ["::tensmith::graph::GraphDialect"];
}

class Faulty_Op<string mnemonic, list<Trait> traits> : Graph_OperatorOf<Faulty_Dialect, mnemonic, traits> {
  let summary = "2 x, or a mistake";
  let description = "the mistake is in the shape function, in the code, in the decomposition or in the reference";
  let arguments = (ins Graph_Tensor:$x, DefaultValuedAttr<StrAttr, "\"\"">:$mistake);
  let results = (outs Graph_Tensor:$y);
}

def Faulty_ScalarOp : Faulty_Op<"scalar", [DeclareOpInterfaceMethods<Graph_Elementwise>]>;
def Faulty_ElementOp : Faulty_Op<"element", [DeclareOpInterfaceMethods<Graph_Indexed>]>;
def Faulty_WholeOp : Faulty_Op<"whole", [DeclareOpInterfaceMethods<Graph_Decomposable>]>;
