// Reads at indices that are data (Indexed::emitElement).
//
// Constraint (G1) of the records is checked where the element is computed. The check ends the run
// only after the kernel, so the index is clamped as well and no read leaves the operand.
#include "compiler/graph/Bounds.h"
#include "compiler/graph/IndexCode.h"

#include "reference/Indexing.h"

using namespace mlir;

namespace tensmith::graph {

namespace {
/// What is told of an index that is not there. A kernel tells one number, the index; so a size that
/// only the run knows is not in the text.
std::string refusalText(Operation *op, int64_t size) {
  if (auto text = op->getAttrOfType<StringAttr>(kRefusal))
    return text.str();
  std::optional<int64_t> known;
  if (!ShapedType::isDynamic(size))
    known = size;
  return (op->getName().stripDialect() + ": operand 'indices' " +
          reference::indexRefusal("{}", known))
      .str();
}

/// A data-dependent index along a dimension of the first operand: negative ones counted from the
/// end, checked, and whether it was within them added to `inside`.
Value resolveIndex(const IndexCode &code, Operation *op, Value integer, unsigned dim,
                   Value &inside) {
  Value size = code.context.operandSize(0, dim);
  Value given = code.fromInteger(integer, /*isUnsigned=*/false);
  Value index = code.select(code.isNegative(given), code.add(given, size), given);
  Value isWithin = code.within(index, size);
  int64_t known = rankedType(op->getOperand(0)).getDimSize(dim);
  code.context.check(isWithin, refusalText(op, known), given);
  inside = code.both(inside, isWithin);
  return code.clamp(index, size);
}

/// Whether a dimension that is indexed by data may have no element: then a clamped index isn't one.
bool mayBeEmpty(RankedTensorType type, unsigned dim) {
  return type.getDimSize(dim) == 0 || type.isDynamicDim(dim);
}

Value readOperand(ElementContext &context, Value x, Value inside, bool asBranch,
                  ValueRange indices) {
  if (!asBranch || context.isForNest()) // which looks at each index that is data
    return context.operand(0, indices);
  return readWhere(IndexCode(context), inside, true, zeroElement(context, x),
                   [&] { return context.operand(0, indices); });
}

bool isIntegerTensor(Value tensor) {
  auto type = dyn_cast<IntegerType>(rankedType(tensor).getElementType());
  return type && type.getWidth() >= 32;
}
} // namespace

Value GatherOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this) || !isIntegerTensor(getIndices()))
    return {};
  IndexCode code(context);
  unsigned axis = getAxis(), indexRank = rankedType(getIndices()).getRank();
  bool isKnown = (*this)->hasAttr(kInRange);
  bool asBranch = !isKnown && mayBeEmpty(rankedType(getX()), axis);
  Value inside, position = context.operand(1, indices.slice(axis, indexRank));
  Value index = isKnown ? code.fromInteger(position, /*isUnsigned=*/false)
                        : resolveIndex(code, *this, position, axis, inside);
  SmallVector<Value> source(indices.take_front(axis));
  source.push_back(index);
  llvm::append_range(source, indices.drop_front(axis + indexRank));
  return readOperand(context, getX(), inside, asBranch, source);
}

Value GatherElementsOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this) || !isIntegerTensor(getIndices()))
    return {};
  IndexCode code(context);
  unsigned axis = getAxis();
  bool asBranch = mayBeEmpty(rankedType(getX()), axis);
  Value inside;
  SmallVector<Value> source(indices);
  source[axis] = resolveIndex(code, *this, context.operand(1, indices), axis, inside);
  return readOperand(context, getX(), inside, asBranch, source);
}

Value GatherNDOp::emitElement(ElementContext &context, unsigned, ValueRange indices) {
  if (!hasKernelTypes(*this) || !isIntegerTensor(getIndices()))
    return {};
  auto type = rankedType(getX()), indexType = rankedType(getIndices());
  int64_t depth = indexType.getDimSize(indexType.getRank() - 1);
  if (depth == ShapedType::kDynamic)
    return {};
  IndexCode code(context);
  unsigned tupleDims = indexType.getRank() - 1, batch = getBatchDims();
  bool asBranch = false;
  Value inside;
  SmallVector<Value> source(indices.take_front(batch));
  SmallVector<Value> position(indices.take_front(tupleDims));
  position.push_back({});
  for (int64_t component = 0; component < depth; ++component) {
    asBranch |= mayBeEmpty(type, batch + component);
    position.back() = code.constant(component);
    source.push_back(
        resolveIndex(code, *this, context.operand(1, position), batch + component, inside));
  }
  llvm::append_range(source, indices.drop_front(tupleDims));
  return readOperand(context, getX(), inside, asBranch, source);
}

} // namespace tensmith::graph
