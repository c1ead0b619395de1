// Structures, and what differs; see SizeFamilies.h.
#include "compiler/kernel/SizeFamilies.h"

#include "compiler/graph/Shape.h"
#include "compiler/kernel/CanonicalKernel.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/Kernel.h"
#include "compiler/kernel/Work.h"
#include "compiler/libraries/Libraries.h"

#include "mlir/IR/IRMapping.h"

#include <map>
#include <set>

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr llvm::StringLiteral kColumns = "columns"; // of `unpack`: a size that its type has, too

/// The types of a region's values in their order, and of the kernel's results.
SmallVector<Type> typesOf(graph::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  SmallVector<Type> types(body.getArgumentTypes());
  for (Operation &op : body)
    llvm::append_range(types, op.getResultTypes());
  llvm::append_range(types, kernel.getResultTypes());
  return types;
}

/// Whether code relies on knowing that dimension: the width of panels, by which it is unrolled,
/// the weights of a convolution, and the channels of what it reads and writes.
bool mustBeKnown(Value value, int64_t dim) {
  int64_t last = cast<RankedTensorType>(value.getType()).getRank() - 1;
  auto isChannels = [&](graph::ConvOp conv) {
    return dim == (graph::isChannelsLast(conv) ? last : 1);
  };
  auto conv = value.getDefiningOp<graph::ConvOp>();
  return (conv && isChannels(conv)) || llvm::any_of(value.getUses(), [&](OpOperand &use) {
           if (auto reader = dyn_cast<graph::ConvOp>(use.getOwner()))
             return use.getOperandNumber() != 0 || isChannels(reader);
           return isa<graph::UnpackOp>(use.getOwner()) && dim == last;
         });
}

/// A kernel in text, but for its sizes; and these.
struct Shape {
  std::string structure;
  std::vector<int64_t> sizes;
  std::vector<bool> isFixed; // those that are part of the structure
  bool isExcluded = false;   // whether sizes are open, or it has what no family may have

  explicit Shape(graph::KernelOp kernel) {
    llvm::raw_string_ostream out(structure);
    out << kernel.getKind() << kernel.getPitchAttr();
    Block &body = kernel.getBody().front();
    for (Value input : kernel.getInputs()) // of two that are the same, memory is the same
      out << llvm::find(kernel.getInputs(), input).getIndex() << " ";
    for (BlockArgument argument : body.getArguments())
      add(out, argument);
    for (Operation &op : body)
      add(out, op);
    for (Type type : kernel.getResultTypes())
      add(out, type, [](int64_t) { return false; });
  }

private:
  void add(llvm::raw_ostream &out, Operation &op) {
    isExcluded |= op.getNumRegions() > 0 || isa<graph::TreeEnsembleOp>(op);
    out << op.getName();
    for (NamedAttribute attribute : op.getAttrs())
      if (!isa<graph::UnpackOp>(op) || attribute.getName() != kColumns)
        out << attribute.getName() << attribute.getValue();
    for (Value operand : op.getOperands())
      out << " " << numbers_.lookup(operand);
    for (Value result : op.getResults())
      add(out, result);
  }

  void add(llvm::raw_ostream &out, Value value) {
    numbers_.try_emplace(value, numbers_.size() + 1);
    add(out, value.getType(), [&](int64_t dim) { return mustBeKnown(value, dim); });
  }

  void add(llvm::raw_ostream &out, Type type, llvm::function_ref<bool(int64_t)> mustBeKnown) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked) {
      out << type;
      return;
    }
    isExcluded |= !ranked.hasStaticShape();
    out << ":" << ranked.getElementType() << "x" << ranked.getRank();
    for (int64_t dim = 0; dim < ranked.getRank(); ++dim) {
      sizes.push_back(ranked.getDimSize(dim));
      // One is broadcast, and of nothing there is no code.
      isFixed.push_back(mustBeKnown(dim) || sizes.back() <= 1);
      out << ",";
      if (isFixed.back())
        out << sizes.back();
    }
  }

  llvm::DenseMap<Value, size_t> numbers_;
};

bool isSmall(graph::KernelOp kernel, double flops) {
  Work work = workOf(kernel);
  auto known = dyn_cast_or_null<AffineConstantExpr>(work.flops);
  return known && double(known.getValue()) <= flops;
}

/// Panels that are filled up for a matrix unit say how far as long as all sizes are known.
bool isFilledUp(Operation &op) {
  auto contraction = matchContraction(&op);
  return contraction && contraction->multiple != contraction->step;
}

bool canBeMember(graph::KernelOp kernel) {
  return libraries::libraryOf(kernel).empty() && kernel.getKind() != algorithm::attentionGradient &&
         llvm::none_of(kernel.getBody().front(), isFilledUp);
}

struct Member {
  mutable graph::KernelOp kernel; // a handle
  std::vector<int64_t> sizes;
  std::vector<bool> isFixed;
};

class Opening {
public:
  explicit Opening(ArrayRef<Member> members) : members_(members) {
    MLIRContext *context = members.front().kernel.getContext();
    shapes_ = std::make_unique<graph::ShapeContext>(context);
    family_.block = std::make_unique<Block>();
    for (const Member &member : members)
      family_.values[member.kernel];
    for (auto [position, isFixed] : llvm::enumerate(members.front().isFixed))
      if (isFixed)
        known_.insert(columnOf(position));
  }

  SizeFamily run() {
    graph::KernelOp first = members_.front().kernel;
    SmallVector<Type> open;
    for (Type type : typesOf(first))
      open.push_back(opened(type));
    IRMapping map;
    for (auto [input, type] : llvm::zip(first.getInputs(), open))
      if (!map.contains(input))
        map.map(input, family_.block->addArgument(type, input.getLoc()));
    family_.open = cast<graph::KernelOp>(first->clone(map));
    family_.block->push_back(family_.open);
    Block &copy = family_.open.getBody().front();
    size_t next = 0;
    for (BlockArgument argument : copy.getArguments())
      argument.setType(open[next++]);
    for (Operation &op : copy)
      for (Value result : op.getResults())
        result.setType(open[next++]);
    for (Value result : family_.open.getResults())
      result.setType(open[next++]);
    return std::move(family_);
  }

private:
  Type opened(Type type) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked)
      return type;
    SmallVector<AffineExpr> dims;
    for (int64_t dim = 0; dim < ranked.getRank(); ++dim)
      dims.push_back(size(position_++));
    return shapes_->tensorType(ranked.getElementType(), dims);
  }

  /// The values of a dimension in each member.
  std::vector<int64_t> columnOf(size_t position) const {
    std::vector<int64_t> column;
    for (const Member &member : members_)
      column.push_back(member.sizes[position]);
    return column;
  }

  AffineExpr size(size_t position) {
    std::vector<int64_t> column = columnOf(position);
    MLIRContext *context = members_.front().kernel.getContext();
    bool differs = members_.size() == 1 || !llvm::all_equal(column);
    if (!differs || known_.count(column))
      return getAffineConstantExpr(column.front(), context);
    auto [it, isNew] = symbols_.try_emplace(column, symbols_.size());
    if (isNew)
      for (const Member &member : members_)
        family_.values[member.kernel].push_back(member.sizes[position]);
    return shapes_->symbol(StringAttr::get(context, canonicalName(it->second)));
  }

  ArrayRef<Member> members_;
  std::unique_ptr<graph::ShapeContext> shapes_;
  SizeFamily family_;
  std::map<std::vector<int64_t>, size_t> symbols_;
  std::set<std::vector<int64_t>> known_;
  size_t position_ = 0;
};

} // namespace

FamilyBounds &familyBounds() {
  static FamilyBounds bounds;
  return bounds;
}

std::vector<SizeFamily> findSizeFamilies(ArrayRef<graph::KernelOp> kernels,
                                         const FamilyBounds &bounds) {
  std::vector<SizeFamily> families;
  if (kernels.size() < bounds.members)
    return families;
  std::map<std::string, std::vector<Member>> byStructure;
  for (graph::KernelOp kernel : kernels) {
    if (!canBeMember(kernel))
      continue;
    Shape shape(kernel);
    if (shape.isExcluded || !isSmall(kernel, bounds.flops))
      continue;
    byStructure[shape.structure].push_back(
        {kernel, std::move(shape.sizes), std::move(shape.isFixed)});
  }
  for (auto &[_, members] : byStructure) {
    std::set<std::vector<int64_t>> distinct;
    for (const Member &member : members)
      distinct.insert(member.sizes);
    if (distinct.size() >= bounds.members)
      families.push_back(Opening(members).run());
  }
  return families;
}

} // namespace tensmith::kernel
