// Structures as an attribute of the module; see Structures.h.
#include "compiler/program/Structures.h"

#include "compiler/program/Knowledge.h"

using namespace mlir;

namespace tensmith::program {
namespace {

/// Of a module: a list of object types, and one of their constructors, each a list of types.
constexpr llvm::StringLiteral kTypes = "program.structures.types",
                              kConstructors = "program.structures";

} // namespace

Type withoutLocalSizes(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || llvm::none_of(graph::symbolNames(ranked), isLocalSize))
    return type;
  return RankedTensorType::get(ranked.getShape(), ranked.getElementType());
}

Structures::Structures(ModuleOp module) {
  auto types = module ? module->getAttrOfType<ArrayAttr>(kTypes) : ArrayAttr();
  auto all = types ? module->getAttrOfType<ArrayAttr>(kConstructors) : ArrayAttr();
  if (!all)
    return;
  for (auto [type, list] : llvm::zip(types, all)) {
    Constructors constructors;
    for (Attribute fields : cast<ArrayAttr>(list))
      constructors.emplace_back(cast<ArrayAttr>(fields).getAsValueRange<TypeAttr>());
    known_[cast<TypeAttr>(type).getValue()] = std::move(constructors);
  }
}

const Constructors *Structures::find(Type type) const {
  auto found = known_.find(type);
  return found == known_.end() ? nullptr : &found->second;
}

void Structures::add(ObjectType type, Constructors constructors) {
  for (auto &fields : constructors)
    for (Type &field : fields)
      field = withoutLocalSizes(field);
  known_[type] = std::move(constructors);
}

void Structures::store(ModuleOp module) const {
  if (known_.empty())
    return;
  Builder builder(module.getContext());
  SmallVector<Attribute> types, all;
  for (const auto &[type, constructors] : known_) {
    types.push_back(TypeAttr::get(type));
    SmallVector<Attribute> lists;
    for (const auto &fields : constructors)
      lists.push_back(builder.getTypeArrayAttr(fields));
    all.push_back(builder.getArrayAttr(lists));
  }
  module->setAttr(kTypes, builder.getArrayAttr(types));
  module->setAttr(kConstructors, builder.getArrayAttr(all));
}

} // namespace tensmith::program
