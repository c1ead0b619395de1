// Kernels that differ by numbers alone become one kernel with arguments.
//
//   kernel(x) { x * 0.5 }, kernel(y) { y * 0.25 }
//     ->  kernel(x, 0.5) { x * s }, kernel(y, 0.25) { y * s }
//
// Two hundred layers with scales of their own are compiled once. Only numbers that differ among
// kernels of one structure become arguments, so that code which is compiled anyway is what it was.
// Numbers that code depends on stay: divisors that are powers of two (which are multiplied by
// instead), divisors of integers, exponents, and whatever else an operator looks at when it is
// emitted. That a number which becomes a code is in its range is noted before its bounds are
// arguments.
#include "compiler/rewrite/ShareKernels.h"

#include "compiler/graph/Bounds.h"
#include "compiler/graph/Constants.h"
#include "compiler/kernel/AttentionGradient.h"
#include "compiler/kernel/CanonicalKernel.h"

#include <cmath>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

using kernel::CanonicalKernel;

bool isPowerOfTwo(graph::ConstantOp constant) {
  auto tensor = graph::hostTensor(constant.getValue());
  int exponent;
  return !tensor.ok() || std::abs(std::frexp(tensor->getDouble(0), &exponent)) == 0.5;
}

/// Whether the operator's code is the same for every number that this operand may be.
bool takesAnyNumber(OpOperand &use, graph::ConstantOp constant) {
  Operation *op = use.getOwner();
  if (op->getBlock() != constant->getBlock())
    return false;
  if (isa<graph::DivOp>(op))
    return isa<FloatType>(getElementTypeOrSelf(constant.getType())) &&
           (use.getOperandNumber() == 0 || !isPowerOfTwo(constant));
  if (isa<graph::GatherOp>(op))
    return use.getOperandNumber() == 1;
  return isa<graph::AddOp, graph::SubOp, graph::MulOp, graph::MinOp, graph::MaxOp, graph::WhereOp,
             graph::EqualOp, graph::LessOp, graph::LessOrEqualOp, graph::GreaterOp,
             graph::GreaterOrEqualOp>(op);
}

bool canBeArgument(graph::ConstantOp constant) {
  auto type = dyn_cast<RankedTensorType>(constant.getType());
  return type && type.getNumElements() == 1 && graph::kernelElementType(type.getElementType()) &&
         llvm::all_of(constant->getUses(),
                      [&](OpOperand &use) { return takesAnyNumber(use, constant); });
}

SmallVector<graph::ConstantOp> openConstants(graph::KernelOp kernel) {
  SmallVector<graph::ConstantOp> constants;
  for (auto constant : kernel.getBody().front().getOps<graph::ConstantOp>())
    if (canBeArgument(constant))
      constants.push_back(constant);
  return constants;
}

/// A kernel, and what it is but for its numbers.
struct Member {
  graph::KernelOp kernel;
  SmallVector<graph::ConstantOp> constants; // in the order in which they stand
  std::unique_ptr<CanonicalKernel> structure;

  explicit Member(graph::KernelOp op) : kernel(op), constants(openConstants(op)) {
    if (constants.empty())
      return;
    structure = std::make_unique<CanonicalKernel>(op);
    noteBounds(structure->op());
    for (graph::ConstantOp constant : openConstants(structure->op()))
      constant.setValueAttr(cast<ElementsAttr>(Builder(op).getZeroAttr(constant.getType())));
  }

  static void noteBounds(graph::KernelOp op) {
    op.getBody().walk([](graph::CastOp cast) {
      if (graph::staysWithin(cast))
        cast->setAttr(graph::kBounded, UnitAttr::get(cast.getContext()));
    });
  }
};

class Sharing {
public:
  explicit Sharing(func::FuncOp function) {
    function.walk([&](graph::KernelOp op) {
      if (kernel::dialectOf(op).empty() && !kernel::matchAttentionGradient(op))
        add(Member(op));
      return WalkResult::skip();
    });
  }

  void run() {
    for (auto &[_, groups] : groups_)
      for (std::vector<Member> &group : groups)
        if (group.size() > 1)
          share(group);
  }

private:
  void add(Member member) {
    if (!member.structure)
      return;
    auto &groups = groups_[member.structure->hash()];
    for (std::vector<Member> &group : groups)
      if (group.front().structure->equals(*member.structure))
        return group.push_back(std::move(member));
    groups.emplace_back().push_back(std::move(member));
  }

  void share(std::vector<Member> &group) {
    SmallVector<size_t> differing;
    for (size_t number = 0; number < group.front().constants.size(); ++number)
      if (llvm::any_of(group, [&](Member &member) {
            return member.constants[number].getValue() !=
                   group.front().constants[number].getValue();
          }))
        differing.push_back(number);
    if (differing.empty())
      return;
    for (Member &member : group) {
      Member::noteBounds(member.kernel);
      for (size_t number : differing)
        makeArgument(member.kernel, member.constants[number]);
    }
  }

  void makeArgument(graph::KernelOp kernel, graph::ConstantOp constant) {
    OpBuilder builder(kernel);
    // One for all kernels of a block; it stands before the first.
    auto [it, isNew] = outside_.try_emplace({kernel->getBlock(), constant.getValue()});
    if (isNew)
      it->second = cast<graph::ConstantOp>(builder.clone(*constant));
    else if (kernel->isBeforeInBlock(it->second))
      it->second->moveBefore(kernel);
    kernel.getInputsMutable().append(it->second.getY());
    Value argument = kernel.getBody().front().addArgument(constant.getType(), constant.getLoc());
    constant.replaceAllUsesWith(argument);
    constant.erase();
  }

  llvm::MapVector<llvm::hash_code, std::vector<std::vector<Member>>> groups_;
  llvm::DenseMap<std::pair<Block *, mlir::Attribute>, graph::ConstantOp> outside_;
};

} // namespace

LogicalResult shareKernels(func::FuncOp function, const Options &) {
  Sharing(function).run();
  return success();
}

} // namespace tensmith::rewrite
