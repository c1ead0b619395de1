// The names here are those of plan::ScalarOperator; what the runtime has no code for is refused
// when the plan is built, and the tests compare each with its reference evaluation.
#include "compiler/program/Scalars.h"

#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tensmith::program {
namespace {

enum class Takes { Nothing, Booleans, Integers, Floats, Numbers, Anything };

Takes operandsOf(StringRef name) {
  static const llvm::StringMap<Takes> table = {{"add", Takes::Numbers},
                                               {"sub", Takes::Numbers},
                                               {"mul", Takes::Numbers},
                                               {"div", Takes::Numbers},
                                               {"mod", Takes::Numbers},
                                               {"min", Takes::Numbers},
                                               {"max", Takes::Numbers},
                                               {"pow", Takes::Numbers},
                                               {"and", Takes::Booleans},
                                               {"or", Takes::Booleans},
                                               {"xor", Takes::Booleans},
                                               {"not", Takes::Booleans},
                                               {"bitwise_and", Takes::Integers},
                                               {"bitwise_or", Takes::Integers},
                                               {"bitwise_xor", Takes::Integers},
                                               {"bitwise_not", Takes::Integers},
                                               {"equal", Takes::Anything},
                                               {"less", Takes::Numbers},
                                               {"less_or_equal", Takes::Numbers},
                                               {"greater", Takes::Numbers},
                                               {"greater_or_equal", Takes::Numbers},
                                               {"where", Takes::Anything},
                                               {"neg", Takes::Numbers},
                                               {"abs", Takes::Numbers},
                                               {"sign", Takes::Numbers},
                                               {"floor", Takes::Numbers},
                                               {"ceil", Takes::Numbers},
                                               {"round", Takes::Numbers},
                                               {"sqrt", Takes::Floats},
                                               {"rsqrt", Takes::Floats},
                                               {"exp", Takes::Floats},
                                               {"log", Takes::Floats},
                                               {"log1p", Takes::Floats},
                                               {"sin", Takes::Floats},
                                               {"cos", Takes::Floats},
                                               {"tanh", Takes::Floats},
                                               {"sigmoid", Takes::Floats},
                                               {"isnan", Takes::Floats},
                                               {"cast", Takes::Anything}};
  return table.lookup(name);
}

Type elementOf(Type type) { return cast<RankedTensorType>(type).getElementType(); }

bool takes(Takes what, Type element) {
  bool boolean = element.isInteger(1), number = !boolean;
  switch (what) {
  case Takes::Nothing:
    return false;
  case Takes::Booleans:
    return boolean;
  case Takes::Integers:
    return element.isInteger(64);
  case Takes::Floats:
    return isa<FloatType>(element);
  case Takes::Numbers:
    return number;
  case Takes::Anything:
    return true;
  }
  return false;
}

StringRef mnemonic(Operation *op) { return graph::operatorName(op); }

} // namespace

bool isScalarType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() != 0)
    return false;
  Type element = tensor.getElementType();
  return element.isInteger(1) || element.isF32() || element.isF64() ||
         (element.isInteger(64) && !element.isUnsignedInteger());
}

bool isScalarCode(Operation *op) {
  if (!graph::isOperator(op) || op->getNumOperands() == 0 || op->getNumResults() != 1 ||
      op->getNumRegions() != 0)
    return false;
  Takes what = operandsOf(mnemonic(op));
  bool where = mnemonic(op) == "where";
  Type element; // of all operands, but for the choice of a `where`
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isScalarType(operand.get().getType()))
      return false;
    Type own = elementOf(operand.get().getType());
    if (where && operand.getOperandNumber() == 0) {
      if (!own.isInteger(1))
        return false;
      continue;
    }
    if ((element && element != own) || !takes(what, own))
      return false;
    element = own;
  }
  auto fmod = op->getAttrOfType<BoolAttr>("fmod");
  return isScalarType(op->getResult(0).getType()) && !(fmod && fmod.getValue());
}

std::string scalarOperatorName(Operation *op) {
  std::string name = llvm::convertToCamelFromSnakeCase(mnemonic(op), /*capitalizeFirst=*/true);
  if (name != "Cast")
    return name;
  Type to = elementOf(op->getResult(0).getType());
  return name + (to.isInteger(1) ? "ToBool"
                 : to.isF32()    ? "ToF32"
                 : to.isF64()    ? "ToF64"
                                 : "ToI64");
}

} // namespace tensmith::program
