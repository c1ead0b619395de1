// Records check an attribute's kind by themselves, but drop what they don't know; see
// BuilderAttributes.h.
#include "compiler/api/Handles.h"

#include "compiler/api/BuilderAttributes.h"
#include "compiler/graph/Constants.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tensmith {
namespace {

Status null(const char *what) { return invalidArgument(std::string(what) + " is a null pointer"); }

Result<mlir::Attribute> converted(const ts_attribute &given, MLIRContext &context) {
  Builder b(&context);
  switch (given.kind) {
  case TS_ATTRIBUTE_BOOL:
    return mlir::Attribute(b.getBoolAttr(given.integer != 0));
  case TS_ATTRIBUTE_INT:
    return mlir::Attribute(b.getI64IntegerAttr(given.integer));
  case TS_ATTRIBUTE_FLOAT:
    return mlir::Attribute(b.getF64FloatAttr(given.real));
  case TS_ATTRIBUTE_TEXT:
    if (!given.text)
      return null("its text");
    return mlir::Attribute(b.getStringAttr(given.text));
  case TS_ATTRIBUTE_INTS:
    if (given.count && !given.integers)
      return null("its list");
    return mlir::Attribute(b.getDenseI64ArrayAttr({given.integers, given.count}));
  case TS_ATTRIBUTE_FLOATS:
    if (given.count && !given.reals)
      return null("its list");
    return mlir::Attribute(b.getDenseF64ArrayAttr({given.reals, given.count}));
  case TS_ATTRIBUTE_TYPE: {
    bool isKnown = given.type > TS_UNDEFINED && given.type < kDataTypeCount;
    Type type = isKnown ? graph::elementType(&context, DataType(given.type)) : Type();
    if (!type)
      return invalidArgument("there is no element type " + std::to_string(int(given.type)));
    return mlir::Attribute(TypeAttr::get(type));
  }
  case TS_ATTRIBUTE_TENSOR: {
    auto tensor = given.tensor ? retainedTensor(given.tensor) : null("its tensor");
    if (!tensor.ok())
      return tensor.status();
    return mlir::Attribute(graph::elementsAttr(&context, *tensor));
  }
  }
  return invalidArgument("there is no kind " + std::to_string(int(given.kind)));
}

std::string listOf(ArrayRef<StringAttr> names) {
  std::vector<std::string> texts;
  for (StringAttr name : names)
    texts.push_back("'" + name.str() + "'");
  return texts.empty() ? "none" : llvm::join(texts, ", ");
}

} // namespace

Result<HostTensor> retainedTensor(ts_tensor *handle) {
  if (ts_tensor_kind(handle) != TS_TENSOR)
    return invalidArgument("a graph has tensors for constants, and this is none");
  if (ts_tensor_type(handle) == TS_STRING) {
    auto value = fromHandle(handle);
    return value.ok() ? Result<HostTensor>(value->tensor) : value.status();
  }
  ts_tensor_retain(handle);
  std::shared_ptr<ts_tensor> kept(handle, ts_tensor_free);
  const int64_t *dims = ts_tensor_shape(handle);
  Shape shape(dims, dims + ts_tensor_rank(handle));
  return HostTensor(DataType(ts_tensor_type(handle)), std::move(shape), ts_tensor_data(handle),
                    kept);
}

Result<SmallVector<NamedAttribute>>
operatorAttributes(OperationName name, ArrayRef<ts_attribute> given, MLIRContext &context) {
  NamedAttrList result;
  ArrayRef<StringAttr> known = name.getAttributeNames();
  llvm::StringSet<> seen;
  for (const ts_attribute &attribute : given) {
    if (!attribute.name)
      return null("the name of an attribute");
    auto isNamed = [&](StringAttr known) { return known.getValue() == attribute.name; };
    if (llvm::none_of(known, isNamed))
      return invalidArgument("'" + name.getStringRef().str() + "' has no attribute '" +
                             attribute.name + "'; it has " + listOf(known));
    std::string what = "attribute '" + std::string(attribute.name) + "'";
    if (!seen.insert(attribute.name).second)
      return invalidArgument(what + " is given twice");
    auto value = converted(attribute, context);
    if (!value.ok())
      return value.status().within(what);
    result.push_back(NamedAttribute(StringAttr::get(&context, attribute.name), *value));
  }
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  auto emit = [&] { return mlir::emitError(UnknownLoc::get(&context)); };
  if (failed(name.getRegisteredInfo()->verifyInherentAttrs(result, emit)))
    return invalidArgument("'" + name.getStringRef().str() + "' " + message);
  return SmallVector<NamedAttribute>(result.getAttrs());
}

} // namespace tensmith
