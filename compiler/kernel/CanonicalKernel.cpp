// A clone in a block of its own, whose types are written anew; see CanonicalKernel.h.
#include "compiler/kernel/CanonicalKernel.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;

namespace tensmith::kernel {
Type CanonicalSizes::operator()(RankedTensorType type) {
  ArrayRef<StringAttr> symbols = graph::symbolNames(type);
  if (symbols.empty())
    return type;
  SmallVector<AffineExpr> renamed, dims;
  for (StringAttr name : symbols)
    renamed.push_back(symbolOf(name));
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    dims.push_back(graph::dimExpression(type, dim).replaceSymbols(renamed));
  return shapes_.tensorType(type.getElementType(), dims);
}

AffineExpr CanonicalSizes::symbolOf(StringAttr name) {
  auto [it, isNew] = numbers_.try_emplace(name, names_.size());
  if (isNew)
    names_.push_back(name);
  return shapes_.symbol(StringAttr::get(name.getContext(), canonicalName(it->second)));
}

/// Sorted as the numbers are: the symbols of a type are sorted by name.
std::string canonicalName(size_t number) {
  std::string digits = std::to_string(number);
  return "s" + std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}

size_t canonicalNumber(StringRef name) {
  size_t number = 0;
  bool fails = name.drop_front().getAsInteger(10, number);
  assert(!fails && "no name of a canonical kernel");
  return fails ? std::numeric_limits<size_t>::max() : number;
}

CanonicalKernel::CanonicalKernel(graph::KernelOp kernel) : block_(std::make_unique<Block>()) {
  CanonicalSizes rename(kernel.getContext(), names_);
  AttrTypeReplacer replacer;
  replacer.addReplacement(
      [&](RankedTensorType type) -> std::optional<Type> { return rename(type); });
  IRMapping map;
  // Trees are only followed whose tables were looked at: these stay the constants that they are.
  bool hasTrees = !kernel.getBody().front().getOps<graph::TreeEnsembleOp>().empty();
  for (Value input : kernel.getInputs())
    if (Operation *table = hasTrees ? input.getDefiningOp<graph::ConstantOp>() : nullptr) {
      if (!map.contains(input)) {
        block_->push_back(table->clone());
        map.map(input, block_->back().getResult(0));
      }
    } else if (!map.contains(input))
      map.map(input, block_->addArgument(replacer.replace(input.getType()), input.getLoc()));
  op_ = cast<graph::KernelOp>(kernel->clone(map));
  block_->push_back(op_);
  replacer.recursivelyReplaceElementsIn(op_, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

StringAttr CanonicalKernel::nameOf(StringRef canonical) const {
  size_t number = canonicalNumber(canonical);
  return number < names_.size() ? names_[number] : StringAttr();
}

size_t CanonicalKernel::numberOf(StringRef name) const {
  return size_t(llvm::find_if(names_, [&](StringAttr own) { return own.getValue() == name; }) -
                names_.begin());
}

llvm::hash_code CanonicalKernel::hash() const {
  graph::KernelOp op = op_;
  llvm::hash_code hash = llvm::hash_combine(op.getKind(), op.getPitchAttr());
  op.getBody().walk([&](Operation *inner) {
    hash = llvm::hash_combine(
        hash, OperationEquivalence::computeHash(inner, OperationEquivalence::ignoreHashValue,
                                                OperationEquivalence::ignoreHashValue,
                                                OperationEquivalence::IgnoreLocations));
  });
  return hash;
}

bool CanonicalKernel::equals(const CanonicalKernel &other) const {
  graph::KernelOp a = op_, b = other.op_;
  return a.getKind() == b.getKind() && a.getPitchAttr() == b.getPitchAttr() &&
         OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(),
                                                    OperationEquivalence::IgnoreLocations);
}

} // namespace tensmith::kernel
