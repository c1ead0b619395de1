// Constants, types and attributes on both sides of the border to MLIR; see Constants.h.
#include "compiler/graph/Constants.h"

#include "compiler/graph/Graph.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <mutex>

using namespace mlir;

namespace tensmith::graph {
namespace {

constexpr int64_t kPrintedElements = 64;

/// Types that DenseElementsAttr can hold with one element a byte or more, as we store them.
bool isDenseElement(Type type) {
  return isa<FloatType>(type) || (isa<IntegerType>(type) && type.getIntOrFloatBitWidth() >= 8);
}

mlir::Attribute elementAttr(Type type, const HostTensor &tensor, int64_t index) {
  if (isa<FloatType>(type))
    return FloatAttr::get(type, tensor.getDouble(index));
  uint64_t value = uint64_t(tensor.getInt(index));
  return IntegerAttr::get(type, APInt(64, value).sextOrTrunc(type.getIntOrFloatBitWidth()));
}

ElementsAttr stringsAttr(ShapedType type, const HostTensor &tensor) {
  SmallVector<StringRef> strings;
  for (int64_t i = 0; i < tensor.size(); ++i)
    strings.push_back(tensor.getString(i));
  return DenseStringElementsAttr::get(type, strings);
}

ElementsAttr denseAttr(ShapedType type, const HostTensor &tensor) {
  SmallVector<mlir::Attribute> elements;
  for (int64_t i = 0; i < tensor.size(); ++i)
    elements.push_back(elementAttr(type.getElementType(), tensor, i));
  return DenseElementsAttr::get(type, elements);
}

/// The tensors of the resources that scopes know. What is made of such a one without a copy, as by
/// a reshape, shares its memory, and so keeps it when the resource itself is released.
class Owners {
public:
  void add(const void *resource, const HostTensor &tensor) {
    std::lock_guard lock(mutex_);
    tensors_.try_emplace(resource, std::make_shared<const HostTensor>(tensor));
  }
  void forget(const void *resource) {
    std::lock_guard lock(mutex_);
    tensors_.erase(resource);
  }
  /// Null where it is no scope's.
  std::shared_ptr<const HostTensor> find(const void *resource) {
    std::lock_guard lock(mutex_);
    auto it = tensors_.find(resource);
    return it == tensors_.end() ? nullptr : it->second;
  }

private:
  std::mutex mutex_;
  std::map<const void *, std::shared_ptr<const HostTensor>> tensors_;
};

Owners owners;
thread_local ConstantScope *innermostScope = nullptr;

ElementsAttr resourceAttr(ShapedType type, const HostTensor &tensor) {
  // The blob keeps a copy of the tensor, and so its storage, alive.
  ArrayRef<char> bytes(reinterpret_cast<const char *>(tensor.data()), size_t(tensor.bytes()));
  auto keep = [tensor](void *, size_t, size_t) {};
  AsmResourceBlob blob(bytes, /*dataAlignment=*/1, keep, /*dataIsMutable=*/false);
  auto handle = DenseResourceElementsHandle::getManagerInterface(type.getContext())
                    .insert("tensor", std::move(blob));
  auto constant = DenseResourceElementsAttr::get(type, handle);
  if (innermostScope)
    innermostScope->made(constant, tensor);
  return constant;
}

Result<HostTensor> fromStrings(DenseStringElementsAttr strings, Shape shape) {
  std::vector<std::string> values;
  for (StringRef value : strings.getRawStringData())
    values.push_back(value.str());
  if (strings.isSplat() && values.size() == 1)
    values.resize(size_t(elementCount(shape).value_or(1)), values[0]);
  return HostTensor::ofStrings(std::move(shape), std::move(values));
}

Result<HostTensor> fromDense(DenseElementsAttr dense, DataType type, Shape shape) {
  ArrayRef<char> raw = dense.getRawData();
  int64_t width = byteSize(type);
  if (!dense.isSplat() && dense.getElementType().getIntOrFloatBitWidth() % 8 == 0)
    return HostTensor(type, std::move(shape), raw.data(), nullptr);
  HostTensor tensor(type, std::move(shape));
  if (!tensor.valid())
    return Status(StatusCode::ResourceExhausted,
                  "no memory for a constant of " + toString(tensor.shape()));
  if (dense.isSplat() && dense.getElementType().getIntOrFloatBitWidth() % 8 == 0) {
    for (int64_t i = 0; i < tensor.size(); ++i)
      std::memcpy(tensor.mutableData() + i * width, raw.data(), size_t(width));
    return tensor;
  }
  bool isSigned = info(type).kind == TypeClass::Signed;
  int64_t index = 0;
  for (APInt value : dense.getValues<APInt>())
    tensor.setInt(index++, isSigned ? value.getSExtValue() : int64_t(value.getZExtValue()));
  return tensor;
}

std::optional<tensmith::Attribute> attributeOf(mlir::Attribute value) {
  if (auto boolean = dyn_cast<BoolAttr>(value))
    return int64_t(boolean.getValue());
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return integer.getInt();
  if (auto real = dyn_cast<FloatAttr>(value))
    return real.getValueAsDouble();
  if (auto text = dyn_cast<StringAttr>(value))
    return text.str();
  if (auto type = dyn_cast<TypeAttr>(value))
    return int64_t(dataType(getElementTypeOrSelf(type.getValue())));
  if (auto integers = dyn_cast<DenseI64ArrayAttr>(value))
    return std::vector<int64_t>(integers.asArrayRef());
  if (auto reals = dyn_cast<DenseF64ArrayAttr>(value))
    return std::vector<double>(reals.asArrayRef());
  if (auto array = dyn_cast<ArrayAttr>(value)) {
    std::vector<std::string> texts;
    for (mlir::Attribute element : array)
      if (auto text = dyn_cast<StringAttr>(element))
        texts.push_back(text.str());
    return texts;
  }
  return std::nullopt;
}

} // namespace

DataType dataType(Type element) {
  if (auto integer = dyn_cast<IntegerType>(element)) {
    bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
    case 1:
      return DataType::Bool;
    case 2:
      return isUnsigned ? DataType::U2 : DataType::I2;
    case 4:
      return isUnsigned ? DataType::U4 : DataType::I4;
    case 8:
      return isUnsigned ? DataType::U8 : DataType::I8;
    case 16:
      return isUnsigned ? DataType::U16 : DataType::I16;
    case 32:
      return isUnsigned ? DataType::U32 : DataType::I32;
    case 64:
      return isUnsigned ? DataType::U64 : DataType::I64;
    default:
      return DataType::Undefined;
    }
  }
  if (auto complex = dyn_cast<ComplexType>(element))
    return complex.getElementType().isF32()   ? DataType::C64
           : complex.getElementType().isF64() ? DataType::C128
                                              : DataType::Undefined;
  return llvm::TypeSwitch<Type, DataType>(element)
      .Case<Float32Type>([](auto) { return DataType::F32; })
      .Case<Float64Type>([](auto) { return DataType::F64; })
      .Case<Float16Type>([](auto) { return DataType::F16; })
      .Case<BFloat16Type>([](auto) { return DataType::BF16; })
      .Case<Float8E4M3FNType>([](auto) { return DataType::F8E4M3FN; })
      .Case<Float8E4M3FNUZType>([](auto) { return DataType::F8E4M3FNUZ; })
      .Case<Float8E5M2Type>([](auto) { return DataType::F8E5M2; })
      .Case<Float8E5M2FNUZType>([](auto) { return DataType::F8E5M2FNUZ; })
      .Case<F4E2M1Type>([](auto) { return DataType::F4E2M1; })
      .Case<F8E8M0Type>([](auto) { return DataType::F8E8M0; })
      .Case<StringType>([](auto) { return DataType::String; })
      .Default([](Type) { return DataType::Undefined; });
}

Type elementType(MLIRContext *context, DataType type) {
  Builder b(context);
  switch (type) {
  case DataType::Undefined:
    return {};
  case DataType::F32:
    return b.getF32Type();
  case DataType::F64:
    return b.getF64Type();
  case DataType::F16:
    return b.getF16Type();
  case DataType::BF16:
    return b.getBF16Type();
  case DataType::F8E4M3FN:
    return b.getFloat8E4M3FNType();
  case DataType::F8E4M3FNUZ:
    return b.getFloat8E4M3FNUZType();
  case DataType::F8E5M2:
    return b.getFloat8E5M2Type();
  case DataType::F8E5M2FNUZ:
    return b.getFloat8E5M2FNUZType();
  case DataType::F4E2M1:
    return F4E2M1Type::get(context);
  case DataType::F8E8M0:
    return F8E8M0Type::get(context);
  case DataType::String:
    return StringType::get(context);
  case DataType::C64:
    return ComplexType::get(b.getF32Type());
  case DataType::C128:
    return ComplexType::get(b.getF64Type());
  default:
    break;
  }
  bool isUnsigned = info(type).kind == TypeClass::Unsigned;
  unsigned bits = type == DataType::Bool ? 1 : info(type).bits;
  return IntegerType::get(context, bits,
                          isUnsigned ? IntegerType::Unsigned : IntegerType::Signless);
}

ConstantScope::ConstantScope() : outer_(innermostScope) { innermostScope = this; }

ConstantScope::~ConstantScope() {
  innermostScope = outer_;
  if (outer_) { // which gives back what outlived the module that this was of
    llvm::append_range(outer_->made_, made_);
    return;
  }
  for (DenseResourceElementsAttr constant : made_)
    owners.forget(constant.getRawHandle().getResource());
}

void ConstantScope::made(DenseResourceElementsAttr constant, const HostTensor &tensor) {
  made_.push_back(constant);
  owners.add(constant.getRawHandle().getResource(), tensor);
}

void ConstantScope::release(ModuleOp module) {
  if (made_.size() == looked_) // no new ones
    return;
  llvm::DenseSet<const void *> used;
  AttrTypeWalker walker;
  walker.addWalk([&](DenseResourceElementsAttr constant) {
    used.insert(constant.getRawHandle().getResource());
  });
  module->walk([&](Operation *op) { walker.walk(op->getAttrDictionary()); });
  llvm::erase_if(made_, [&](DenseResourceElementsAttr constant) {
    auto *resource = constant.getRawHandle().getResource();
    if (used.contains(resource))
      return false;
    resource->setBlob({});
    owners.forget(resource);
    return true;
  });
  looked_ = made_.size();
}

Result<HostTensor> hostTensor(ElementsAttr value) {
  auto shaped = cast<ShapedType>(value.getType());
  DataType type = dataType(shaped.getElementType());
  Shape shape(shaped.getShape());
  if (auto strings = dyn_cast<DenseStringElementsAttr>(value))
    return fromStrings(strings, std::move(shape));
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    if (auto owner = owners.find(resource.getRawHandle().getResource()))
      return HostTensor(type, std::move(shape), owner->data(), owner);
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    int64_t bytes = elementCount(shape).value_or(-1) * byteSize(type);
    if (!blob || int64_t(blob->getData().size()) != bytes)
      return Status(StatusCode::InvalidModel, "a constant's resource '" +
                                                  resource.getRawHandle().getKey().str() +
                                                  "' is missing or not of its type's size");
    return HostTensor(type, std::move(shape), blob->getData().data(), nullptr);
  }
  if (auto dense = dyn_cast<DenseElementsAttr>(value);
      dense && type != DataType::Undefined && byteSize(type))
    return fromDense(dense, type, std::move(shape));
  return unsupported("a constant of an element type that has no storage");
}

ElementsAttr elementsAttr(MLIRContext *context, const HostTensor &tensor) {
  auto type = RankedTensorType::get(tensor.shape(), elementType(context, tensor.type()));
  if (tensor.type() == DataType::String)
    return stringsAttr(type, tensor);
  bool complex = info(tensor.type()).kind == TypeClass::Complex;
  bool printable = isDenseElement(type.getElementType()) || type.getElementType().isInteger(1);
  if (!complex && printable && tensor.size() <= kPrintedElements)
    return denseAttr(type, tensor);
  return resourceAttr(type, tensor);
}

ElementsAttr foldedAttr(MLIRContext *context, const HostTensor &tensor) {
  // Whoever asks for a splat's elements has them made anew, each time.
  constexpr int64_t kMostBytes = int64_t(1) << 20;
  Type element = elementType(context, tensor.type());
  int64_t width = byteSize(tensor.type());
  bool isKnown = isDenseElement(element) || element.isInteger(1);
  bool isEqual =
      isKnown && tensor.size() > 1 && tensor.bytes() <= kMostBytes &&
      std::memcmp(tensor.data(), tensor.data() + width, size_t(tensor.bytes() - width)) == 0;
  if (!isEqual)
    return elementsAttr(context, tensor);
  return DenseElementsAttr::get(RankedTensorType::get(tensor.shape(), element),
                                elementAttr(element, tensor, 0));
}

std::optional<HostTensor> constantTensor(Value value) {
  ElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)))
    return std::nullopt;
  auto tensor = hostTensor(elements);
  return tensor.ok() ? std::optional(std::move(*tensor)) : std::nullopt;
}

Attributes attributes(Operation *op) {
  Attributes result;
  for (NamedAttribute attribute : op->getAttrs())
    if (auto value = attributeOf(attribute.getValue()))
      result.set(attribute.getName().str(), std::move(*value));
  return result;
}

} // namespace tensmith::graph
