// Programs over tensors: functions, data types and closures around the graph dialect's operators.
//
// A program's functions are func.func with the attribute `program.procedure` and one result. Inside, graph operators
// compute on tensors, and the operators below on objects. All are pure but for those on references and the calls that may
// lead to them (`effectful`; see Effects.h): a pure call that nobody needs is not made. `Segments.h`
// moves the tensor code out into functions of graph operators alone, which is what kernels are made from.
#ifndef TENSMITH_PROGRAM
#define TENSMITH_PROGRAM

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Program_Dialect : Dialect {
  let name = "program";
  let cppNamespace = "::tensmith::program";
  let summary = "Functions, data types and closures";
  let useDefaultTypePrinterParser = 1;
}

def Program_ObjectType : TypeDef<Program_Dialect, "Object"> {
  let mnemonic = "object";
  let summary = "a value of a data type, a tuple or a function; `text` is its type in the language";
  let parameters = (ins StringRefParameter<"the type">:$text);
  let assemblyFormat = "`<` $text `>`";
}

class Program_Op<string mnemonic, list<Trait> traits = []> : Op<Program_Dialect, mnemonic, traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Program_YieldOp : Op<Program_Dialect, "yield", [Pure, ReturnLike, Terminator]> {
  let summary = "the result of a region";
  let arguments = (ins AnyType:$value);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}
def Program_ConstructOp : Program_Op<"construct", [Pure]> {
  let summary = "a value of the constructor `tag`; tuples have tag 0";
  let arguments = (ins Variadic<AnyType>:$fields, I64Attr:$tag);
  let results = (outs Program_ObjectType:$value);
}
def Program_FieldOp : Program_Op<"field", [Pure]> {
  let summary = "field `index` of a value, whose constructor is known to be `tag`";
  let arguments = (ins Program_ObjectType:$value, I64Attr:$index, DefaultValuedAttr<I64Attr, "0">:$tag);
  let results = (outs AnyType:$field);
  let hasFolder = 1;
}
def Program_ClosureOp : Program_Op<"closure", [Pure]> {
  let summary = "a function: the procedure with its first arguments";
  let arguments = (ins Variadic<AnyType>:$captured, FlatSymbolRefAttr:$procedure);
  let results = (outs Program_ObjectType:$function);
}
defvar Program_CallTraits = [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
                             DeclareOpInterfaceMethods<ConditionallySpeculatable>];
def Program_CallOp : Program_Op<"call", Program_CallTraits> {
  let summary = "what a procedure returns";
  let arguments = (ins Variadic<AnyType>:$inputs, FlatSymbolRefAttr:$procedure, UnitAttr:$effectful);
  let results = (outs AnyType:$result);
}
def Program_ApplyOp : Program_Op<"apply", Program_CallTraits> {
  let summary = "what a function returns";
  let arguments = (ins Program_ObjectType:$function, Variadic<AnyType>:$inputs, UnitAttr:$effectful);
  let results = (outs AnyType:$result);
}
def Program_InvokeOp : Program_Op<"invoke", [Pure]> {
  let summary = "the results of a segment: a function of graph operators alone";
  let arguments = (ins Variadic<AnyType>:$inputs, FlatSymbolRefAttr:$segment);
  let results = (outs Variadic<AnyType>:$results);
}
def Program_EnterOp : Program_Op<"enter", [Pure]> {
  let summary = "what the first procedure returns; several results are the fields of a tuple. In @main alone";
  let arguments = (ins Variadic<AnyType>:$inputs, FlatSymbolRefAttr:$procedure);
  let results = (outs Variadic<AnyType>:$results);
}
def Program_ReferenceOp : Program_Op<"reference", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a new reference to a value; it lives as long as the run";
  let arguments = (ins AnyType:$value);
  let results = (outs Program_ObjectType:$reference);
}
def Program_ReadOp : Program_Op<"read", [MemoryEffects<[MemRead]>]> {
  let summary = "what a reference refers to";
  let arguments = (ins Program_ObjectType:$reference);
  let results = (outs AnyType:$value);
}
def Program_WriteOp : Program_Op<"write", [MemoryEffects<[MemWrite]>]> {
  let summary = "lets a reference refer to another value";
  let arguments = (ins Program_ObjectType:$reference, AnyType:$value);
}
def Program_MatchOp : Op<Program_Dialect, "match", [RecursiveMemoryEffects, NoRegionArguments]> {
  let summary = "the result of the region that has the number of the value's constructor";
  let arguments = (ins Program_ObjectType:$value);
  let results = (outs AnyType:$result);
  let regions = (region VariadicRegion<SizedRegion<1>>:$cases);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results) $cases";
}
def Program_IfOp : Op<Program_Dialect, "if", [RecursiveMemoryEffects, NoRegionArguments]> {
  let summary = "the result of the first region where the condition, one boolean, is true, else of the second";
  let arguments = (ins AnyType:$condition);
  let results = (outs AnyType:$result);
  let regions = (region SizedRegion<1>:$then_region, SizedRegion<1>:$else_region);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results) $then_region `else` $else_region";
}
#endif
