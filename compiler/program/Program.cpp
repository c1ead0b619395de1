// Registration of the program dialect, and what its operators fold to.
#include "compiler/program/Program.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "compiler/program/ProgramDialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/program/ProgramTypes.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/program/ProgramOps.cpp.inc"

namespace tensmith::program {

void ProgramDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/program/ProgramTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/program/ProgramOps.cpp.inc"
      >();
}

/// A field of what was just built, as of a tuple that is taken apart again. In a match's case for
/// another constructor than the one that was built, which is never run, the field may be of any
/// type.
OpFoldResult FieldOp::fold(FoldAdaptor) {
  auto construct = getValue().getDefiningOp<ConstructOp>();
  if (!construct || getIndex() >= construct.getFields().size() ||
      construct.getFields()[getIndex()].getType() != getType())
    return {};
  return construct.getFields()[getIndex()];
}

/// Order among calls with effects is kept by what they say of memory.
static void
getCallEffects(bool effectful,
               SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  if (!effectful)
    return;
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}
static Speculation::Speculatability speculatabilityOfCall(bool effectful) {
  return effectful ? Speculation::NotSpeculatable : Speculation::Speculatable;
}

void CallOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  getCallEffects(getEffectful(), effects);
}
Speculation::Speculatability CallOp::getSpeculatability() {
  return speculatabilityOfCall(getEffectful());
}
void ApplyOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  getCallEffects(getEffectful(), effects);
}
Speculation::Speculatability ApplyOp::getSpeculatability() {
  return speculatabilityOfCall(getEffectful());
}

} // namespace tensmith::program
