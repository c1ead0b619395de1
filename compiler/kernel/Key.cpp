// A text of all that counts, hashed; see Key.h.
#include "compiler/kernel/Key.h"

#include "compiler/graph/ChannelOrder.h"
#include "compiler/graph/TypeText.h"
#include "compiler/kernel/CanonicalKernel.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

/// Numbers values in the order in which they are named first.
class KeyText {
public:
  KeyText(MLIRContext *context, StringRef conditions) : sizes_(context, names_) {
    stream_ << conditions << '\n';
  }

  void add(Operation *op) {
    if (isa<graph::ConstantOp, graph::NoneOp>(op))
      return; // an operand of a type
    stream_ << op->getName().getStringRef();
    for (NamedAttribute attribute : op->getAttrs())
      stream_ << ' ' << attribute.getName().getValue() << '=' << attribute.getValue();
    for (Value operand : op->getOperands())
      name(operand);
    for (Region &region : op->getRegions())
      for (Block &block : region) {
        stream_ << " {";
        for (Value argument : block.getArguments())
          name(argument);
        for (Operation &inner : block)
          add(&inner);
        stream_ << '}';
      }
    stream_ << " ->";
    for (Value result : op->getResults())
      name(result);
    stream_ << '\n';
  }

  void name(Value value) {
    auto [it, isNew] = numbers_.try_emplace(value, numbers_.size());
    stream_ << ' ' << it->second;
    if (isNew)
      stream_ << ':' << text(value.getType());
  }

  Key key() const { return llvm::utohexstr(llvm::xxh3_64bits(text_), /*LowerCase=*/true, 16); }

  std::string text(Type type) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    return graph::typeText(ranked ? sizes_(ranked) : type);
  }
  raw_ostream &stream() { return stream_; }

private:
  SmallVector<StringAttr> names_;
  CanonicalSizes sizes_;
  llvm::DenseMap<Value, size_t> numbers_;
  std::string text_;
  llvm::raw_string_ostream stream_{text_};
};

Type channelsLast(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() < 3)
    return type;
  graph::ShapeContext shapes(type.getContext());
  auto dims = shapes.dims(tensor);
  SmallVector<AffineExpr> last;
  for (int64_t dim : graph::toChannelsLast(tensor.getRank()))
    last.push_back(dims[size_t(dim)]);
  return shapes.tensorType(tensor.getElementType(), last);
}

/// Of each operand and then each result; an image's as if its channels were last.
void visitTypes(Operation *op, llvm::function_ref<void(Type, bool isResult)> visit) {
  auto conv = dyn_cast<graph::ConvOp>(op);
  bool isTurned = conv && !graph::isChannelsLast(conv);
  for (OpOperand &operand : op->getOpOperands()) {
    Type type = operand.get().getType();
    visit(isTurned && operand.getOperandNumber() == 0 ? channelsLast(type) : type, false);
  }
  for (Type type : op->getResultTypes())
    visit(isTurned ? channelsLast(type) : type, true);
}

} // namespace

Key keyOf(ArrayRef<Operation *> operators, ValueRange results, StringRef conditions) {
  KeyText text(operators.front()->getContext(), conditions);
  for (Operation *op : operators)
    text.add(op);
  text.stream() << "gives";
  for (Value result : results)
    text.name(result);
  return text.key();
}

Key keyOf(graph::KernelOp kernel, StringRef conditions) {
  if (auto known = kernel->getAttrOfType<StringAttr>(kKeyAttribute))
    return known.getValue().str();
  SmallVector<Operation *> operators;
  Operation *yield = kernel.getBody().front().getTerminator();
  for (Operation &op : kernel.getBody().front().without_terminator())
    operators.push_back(&op);
  return operators.empty() ? keyOf(yield, conditions)
                           : keyOf(operators, yield->getOperands(), conditions);
}

Key keyOf(Operation *op, StringRef conditions) {
  KeyText text(op->getContext(), conditions);
  text.stream() << "alone " << op->getName().getStringRef();
  // What else stands on it are notes of passes, as a calibration's.
  for (StringAttr name : op->getName().getAttributeNames())
    if (Attribute attribute = name == graph::kLayout ? Attribute() : op->getAttr(name))
      text.stream() << ' ' << name.getValue() << '=' << attribute;
  visitTypes(op, [&](Type type, bool isResult) {
    text.stream() << (isResult ? " ->" : " ") << text.text(type);
  });
  return text.key();
}

std::string structureOf(Operation *root) {
  std::string operands, results;
  visitTypes(root, [&](Type type, bool isResult) {
    if (isResult || !isa<NoneType>(type))
      (isResult ? results : operands) += " " + graph::typeText(type);
  });
  return root->getName().stripDialect().str() + operands + " ->" + results;
}

} // namespace tensmith::kernel
