// Reverse mode of building and taking apart, which are each other's transposes; see Reverse.h.
#include "compiler/autodiff/Procedures.h"

using namespace mlir;

namespace tensmith::autodiff {

Changes &Reverse::changes() { return procedures_->changes(); }

LogicalResult Reverse::addChange(Value value, Value change) {
  if (!change || !activity_.isActive(value))
    return success();
  if (isa<program::ObjectType>(value.getType()))
    return add(value, change);
  if (auto construct = change.getDefiningOp<program::ConstructOp>();
      construct && construct.getTag() < 2)
    return construct.getTag() ? add(value, construct.getFields()[0]) : success();
  cotangents_.insert({value, Value()});
  Value &sum = changes_[value];
  sum = changes().add(sum, change, value.getType());
  return success();
}

Value Reverse::takeChange(Value value) {
  Type type = value.getType();
  if (isa<program::ObjectType>(type)) {
    Value parts = joinParts(value), whole = cotangents_.lookup(value);
    cotangents_.erase(value);
    return changes().add(whole, parts, type);
  }
  Value change = changes_.lookup(value);
  changes_.erase(value);
  Value tensor = withTypeOf(code_, take(value), value);
  tensor = tensor ? changes().some(tensor, type) : tensor;
  return changes().add(tensor, change, type);
}

/// A product with a weight of the procedure, whose cotangent is left as rows.
bool Reverse::keepsRows(Operation *op) {
  auto product = dyn_cast<graph::MatMulOp>(op);
  auto weight = product ? dyn_cast<BlockArgument>(product.getB()) : BlockArgument();
  auto left = product ? dyn_cast<RankedTensorType>(product.getA().getType()) : RankedTensorType();
  return keepsRows_ && weight && isa<func::FuncOp>(weight.getOwner()->getParentOp()) && left &&
         left.getRank() >= 1 && activity_.isActive(weight) && Changes::mayBeRows(weight.getType());
}

LogicalResult Reverse::pullAsRows(Operation *op, Value cotangent) {
  auto asRows = [&](Value x) {
    auto dims = code_.dims(x);
    AffineExpr columns = dims.pop_back_val();
    return code_.reshape(x, {code_.graph.shapes.product(dims), columns});
  };
  Value left = op->getOperand(0), weight = op->getOperand(1);
  Value a = asRows(left), b = asRows(withType(code_, cotangent, op->getResult(0).getType()));
  if (!a || !b || failed(addChange(weight, changes().rows(a, b, weight.getType()))))
    return failure();
  if (!activity_.isActive(left))
    return success();
  return add(left, graph::findGradientRule(op)->pull({code_, op, cotangent}, 0));
}

LogicalResult Reverse::pullConstruct(program::ConstructOp construct, Value cotangent) {
  Type type = construct.getType();
  if (failed(changes().structureOf(type, construct)))
    return failure();
  SmallVector<Value> fields = changes().fields(cotangent, type, construct.getTag());
  if (fields.size() != construct.getFields().size())
    return success(fields.empty());
  auto dense = construct->getAttrOfType<DenseI64ArrayAttr>(kDenseFields);
  for (auto [index, value] : llvm::enumerate(construct.getFields())) {
    bool isDense = dense && llvm::is_contained(dense.asArrayRef(), int64_t(index));
    if (isDense && activity_.isActive(value)
            ? failed(add(value, changes().tensor(fields[index], value)))
            : failed(addChange(value, fields[index])))
      return failure();
  }
  return success();
}

LogicalResult Reverse::pullField(program::FieldOp field, Value cotangent) {
  Value whole = field.getValue();
  uint64_t tag = field.getTag(), index = field.getIndex();
  auto structure = changes().structureOf(whole.getType(), field);
  if (failed(structure))
    return failure();
  if (tag >= structure->size() || index >= (*structure)[tag].size())
    return reportNoGradient(field, "of a value that its type does not have");
  if (!activity_.isActive(whole))
    return success();
  cotangents_.insert({whole, Value()});
  auto &all = parts_[whole];
  auto *own = llvm::find_if(all, [&](const Parts &parts) { return parts.tag == tag; });
  if (own == all.end())
    own = all.insert(own, {tag, SmallVector<Value>((*structure)[tag].size())});
  Value &sum = own->fields[index];
  Type type = field.getType();
  auto isChange = [](Value value) { return isa<program::ObjectType>(value.getType()); };
  if (!sum)
    sum = withTypeOf(code_, cotangent, field);
  else if (!isChange(sum) && !isChange(cotangent))
    sum = code_.add(sum, cotangent);
  else
    sum = changes().add(asChange(sum, type), asChange(cotangent, type), type);
  return success(sum != nullptr);
}

/// What a value of the type has got, a tensor or a change, as a change.
Value Reverse::asChange(Value value, Type type) {
  return value && isa<TensorType>(value.getType()) ? changes().some(value, type)
                                                   : changes().orNone(value, type);
}

/// What the fields of a value have got, as its own change; null where there is none.
Value Reverse::joinParts(Value value) {
  SmallVector<Parts> all = parts_.lookup(value);
  parts_.erase(value);
  Value sum;
  for (const Parts &parts : all) {
    const program::Constructors structure = *changes().structures().find(value.getType());
    SmallVector<Value> fields;
    for (auto [part, type] : llvm::zip_equal(parts.fields, structure[parts.tag]))
      fields.push_back(asChange(part, type));
    Value whole = changes().construct(value.getType(), parts.tag, fields);
    sum = changes().add(sum, whole, value.getType());
  }
  return sum;
}

} // namespace tensmith::autodiff
