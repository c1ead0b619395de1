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
//
// So do kernels that differ by where their slices begin, if there are many, as of a layer that a
// converter has unrolled over the steps of a sequence:
//
//   kernel(x) { x[:, 3] @ w }  ->  kernel(x, 3) { gather(x, s) @ w }
#include "compiler/rewrite/ShareKernels.h"

#include "compiler/graph/Bounds.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/CanonicalKernel.h"
#include "compiler/kernel/Template.h"

#include <array>
#include <cmath>
#include <map>

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

/// Kernels that differ by their slices, below which each stays as it is: a slice that is known is
/// read by vectors.
constexpr size_t kManySlices = 8;

/// Whether another part of that dimension could be sliced.
bool isPart(graph::SliceOp slice, size_t dim) {
  auto x = cast<RankedTensorType>(slice.getX().getType()),
       y = cast<RankedTensorType>(slice.getType());
  return !x.isDynamicDim(dim) && !y.isDynamicDim(dim) && y.getDimSize(dim) < x.getDimSize(dim);
}

SmallVector<graph::SliceOp> openSlices(graph::KernelOp kernel) {
  SmallVector<graph::SliceOp> slices;
  for (auto slice : kernel.getBody().front().getOps<graph::SliceOp>())
    if (llvm::any_of(llvm::seq<size_t>(0, slice.getStarts().size()),
                     [&](size_t dim) { return isPart(slice, dim); }))
      slices.push_back(slice);
  return slices;
}

void setStarts(graph::SliceOp slice, llvm::function_ref<int64_t(size_t dim)> start) {
  SmallVector<int64_t> starts;
  for (size_t dim = 0; dim < slice.getStarts().size(); ++dim)
    starts.push_back(start(dim));
  slice.setStarts(starts);
}

/// A kernel, and what it is but for its numbers and for where its slices begin.
struct Member {
  graph::KernelOp kernel;
  SmallVector<graph::ConstantOp> constants; // in the order in which they stand
  SmallVector<graph::SliceOp> slices;
  std::unique_ptr<CanonicalKernel> structure;

  explicit Member(graph::KernelOp op)
      : kernel(op), constants(openConstants(op)), slices(openSlices(op)) {
    if (constants.empty() && slices.empty())
      return;
    structure = std::make_unique<CanonicalKernel>(op);
    noteBounds(structure->op());
    for (graph::ConstantOp constant : openConstants(structure->op()))
      constant.setValueAttr(cast<ElementsAttr>(Builder(op).getZeroAttr(constant.getType())));
    for (graph::SliceOp slice : openSlices(structure->op()))
      setStarts(slice, [&](size_t dim) { return isPart(slice, dim) ? 0 : slice.getStarts()[dim]; });
  }

  /// Where its slices begin, one after the other.
  std::vector<int64_t> starts() const {
    std::vector<int64_t> starts;
    for (graph::SliceOp slice : slices)
      llvm::append_range(starts, slice.getStarts());
    return starts;
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
  Sharing(func::FuncOp function, const kernel::Machine &machine) : machine_(machine) {
    function.walk([&](graph::KernelOp op) {
      if (libraries::libraryOf(op).empty() && op.getKind() != kernel::algorithm::attentionGradient)
        add(Member(op));
      return WalkResult::skip();
    });
  }

  void run() {
    for (auto &[_, groups] : groups_)
      for (std::vector<Member> &group : groups)
        if (group.size() >= kManySlices)
          share(group);
        else
          shareApart(group);
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

  /// Those alone whose slices are the same.
  void shareApart(std::vector<Member> &group) {
    std::map<std::vector<int64_t>, std::vector<Member>> equal;
    for (Member &member : group)
      equal[member.starts()].push_back(std::move(member));
    for (auto &[_, members] : equal)
      share(members);
  }

  void share(std::vector<Member> &group) {
    shareNumbers(group);
    for (size_t number = 0; number < group.front().slices.size(); ++number)
      shareSlices(group, number);
    for (Member &member : group)
      kernel::matchTemplate(member.kernel, machine_);
  }

  /// The dimensions of which the members slice other parts are gathered from.
  void shareSlices(std::vector<Member> &group, size_t number) {
    ArrayRef<int64_t> first = group.front().slices[number].getStarts();
    SmallVector<size_t> differing;
    for (size_t dim = 0; dim < first.size(); ++dim)
      if (llvm::any_of(group, [&](Member &member) {
            return member.slices[number].getStarts()[dim] != first[dim];
          }))
        differing.push_back(dim);
    if (!differing.empty())
      for (Member &member : group)
        gather(member.kernel, member.slices[number], differing);
  }

  void gather(graph::KernelOp kernel, graph::SliceOp slice, ArrayRef<size_t> dims) {
    OpBuilder builder(slice);
    graph::ShapeContext shapes(builder.getContext());
    graph::GraphBuilder graph(builder, shapes, slice.getLoc());
    auto y = cast<RankedTensorType>(slice.getType());
    auto sizes = shapes.dims(slice.getX().getType());
    SmallVector<int64_t> starts(slice.getStarts()), steps(slice.getSteps());
    bool isWhole = true;
    for (size_t dim = 0; dim < sizes.size(); ++dim)
      if (llvm::is_contained(dims, dim)) {
        starts[dim] = 0;
        steps[dim] = 1;
      } else {
        sizes[dim] = shapes.dims(y)[dim];
        isWhole &= !isPart(slice, dim) && starts[dim] == 0 && steps[dim] == 1;
      }
    Value x = isWhole ? slice.getX() : graph.slice(slice.getX(), starts, steps, sizes);
    for (size_t dim : dims) {
      auto first = graph.constant(
          HostTensor::of<int64_t>(DataType::I64, {1}, std::array{slice.getStarts()[dim]}));
      Value places = placesBehind(graph, first, y.getDimSize(dim), slice.getSteps()[dim]);
      auto gathered = graph.create<graph::GatherOp>(
          {x, places}, graph.named("axis", builder.getI64IntegerAttr(int64_t(dim))));
      gathered->setAttr(graph::kInRange, builder.getUnitAttr());
      x = gathered.getY();
      makeArgument(kernel, first.getDefiningOp<graph::ConstantOp>());
    }
    x.setType(y);
    slice.replaceAllUsesWith(x);
    slice.erase();
  }

  static Value placesBehind(graph::GraphBuilder &graph, Value first, int64_t count, int64_t step) {
    if (count == 1)
      return first;
    Type type = RankedTensorType::get({count}, graph.builder.getI64Type());
    Value places = graph::GraphBuilder::first(graph.createTyped(
        "iota", type, {}, graph.named("axis", graph.builder.getI64IntegerAttr(0))));
    if (step != 1)
      places = graph.binary("mul", places, graph.scalar(graph.builder.getI64Type(), double(step)));
    return graph.binary("add", places, first);
  }

  void shareNumbers(std::vector<Member> &group) {
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

  const kernel::Machine &machine_;
  llvm::MapVector<llvm::hash_code, std::vector<std::vector<Member>>> groups_;
  llvm::DenseMap<std::pair<Block *, mlir::Attribute>, graph::ConstantOp> outside_;
};

} // namespace

LogicalResult shareKernels(func::FuncOp function, const Options &options) {
  Sharing(function, options.machine).run();
  return success();
}

} // namespace tensmith::rewrite
