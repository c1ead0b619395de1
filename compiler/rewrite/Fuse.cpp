// Cuts a graph into kernels: regions around a contraction, a row operator, a reduction or a chain
// of element-wise operators.
//
// From the last operator to the first: each one that is in no kernel yet is the end of a new one,
// which takes in the operators before it as long as all their uses are inside, so that no value is
// computed twice or stored in vain. A kernel has at most one heavy operator (its root); those
// behind the root are element-wise at the root's own shape, so that they can be applied to what a
// register tile or a row holds; attention has three, whose scores never leave the cache. The right
// operand of a contraction is packed before the kernel (weights now, others by a kernel of their
// own). Reshapes of what lies in memory stay outside: they cost nothing there.
#include "compiler/graph/Bounds.h"
#include "compiler/graph/Graph.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/Template.h"
#include "compiler/rewrite/KernelRegion.h"
#include "compiler/rewrite/Rewrites.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Columns of a contraction up to which its rows are computed where they are multiplied.
constexpr int64_t kFewColumns = 128;

/// What an operator is to a kernel. Roots of the template of loops are reductions or windows.
enum class Part { Outside, Elementwise, Movement, Reduction, Window, VectorRoot };

struct Role {
  Part part = Part::Outside;
  const kernel::Template *root = nullptr; // null: none but that of loops

  Role(Part part) : part(part) {}
  Role(const kernel::Template *root) : part(Part::VectorRoot), root(root) {}
  bool isHeavy() const {
    return part == Part::Reduction || part == Part::Window || part == Part::VectorRoot;
  }
  bool contracts() const { return root && root->contracts; }
  /// Whose right operand is laid out before the kernel.
  bool isProduct() const { return root && root->layOutRight; }
  /// Of templates that apply what follows the root in vectors, for which moved elements would have
  /// to be gathered.
  bool isVectorRoot() const { return part == Part::VectorRoot; }
};

Role roleOf(Operation *op, const kernel::Machine &machine) {
  if (op->getNumResults() == 0 || op->getNumRegions() ||
      isa<graph::ConstantOp, graph::NoneOp>(op) || !kernel::canEmit(op, machine) ||
      !hasKnownSizes(op))
    return Part::Outside;
  if (const kernel::Template *root = kernel::templateBefore(op, machine))
    return root;
  if (isa<graph::Elementwise>(op))
    return Part::Elementwise;
  if (isa<graph::Indexed>(op) && cast<graph::Indexed>(op).isMovement())
    return Part::Movement;
  return isa<graph::ReduceSumOp, graph::ReduceMaxOp, graph::ReduceMinOp, graph::ReduceProdOp>(op)
             ? Part::Reduction
             : Part::Window;
}

/// A kernel in the making.
class Group {
public:
  Group(Operation *end, const Options &options) : options_(options), end_(end) {
    Role role = roleOf(end);
    add(end, role, /*aligned=*/true);
    moves_ = role.part == Part::Movement;
  }

  void grow() {
    if (!options_.fuse || takeWhole())
      return;
    growFrom(end_);
  }

private:
  Role roleOf(Operation *op) const { return rewrite::roleOf(op, options_.machine); }

  /// Takes in operators from behind, so that all users of one are known when it is its turn: which
  /// is, at the latest, when the last of them has come in. One operand's are taken before the next
  /// one's, and a root first: what follows another is that one's.
  void growFrom(Operation *op) {
    if (!grown_.insert(op).second)
      return;
    for (bool heavy : {true, false})
      for (Value operand : op->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (!producer || roleOf(producer).isHeavy() != heavy)
          continue;
        if (!ops_.contains(producer))
          refusals_[producer] = ops_.size() < kernel::kMostOfKernel
                                    ? tryAdd(producer)
                                    : "the kernel has as many operators as one may have";
        if (ops_.contains(producer))
          growFrom(producer);
      }
  }

  /// All of a kernel that a template makes as a whole, if nothing else reads of it.
  bool takeWhole() {
    for (const kernel::Template *one : options_.machine.templates->rows()) {
      if (!one->whole)
        continue;
      auto ops = one->whole(end_, options_.machine);
      auto isInside = [&](Operation *op) { return ops.contains(op); };
      bool isAlone = llvm::all_of(ops, [&](Operation *op) {
        return op == end_ ||
               (op->getBlock() == end_->getBlock() && llvm::all_of(op->getUsers(), isInside));
      });
      if (!ops.empty() && isAlone) {
        ops_.insert(ops.begin(), ops.end());
        return true;
      }
    }
    return false;
  }

  void add(Operation *op, Role role, bool aligned) {
    ops_.insert(op);
    if (aligned)
      aligned_.insert(op);
    if (isBeforeRoot(op))
      beforeRoot_.insert(op);
    if (role.isHeavy() && !root_) {
      root_ = op;
      rootRole_ = role;
      findCompanions();
      if (Operation *left = op->getNumOperands() ? op->getOperand(0).getDefiningOp() : nullptr;
          left && isWidenedLeft(left))
        add(left, roleOf(left), /*aligned=*/false);
    }
  }

  void findCompanions() {
    if (!options_.fuse || !rootRole_.root || !rootRole_.root->companions)
      return;
    auto templateOf = [&](Operation *op) { return roleOf(op).root; };
    auto isHeavy = [&](Operation *op) { return roleOf(op).isHeavy(); };
    auto mayBeIn = [&](Operation *op) { return mayComeIn(op); };
    companions_ = rootRole_.root->companions(
        root_, {options_.machine, options_.schedules, templateOf, isHeavy, mayBeIn});
  }

  /// Of what the root's template computes in its own way, also what that reads as it is stored.
  bool isCompanion(Operation *op) const {
    return companions_.ops.contains(op) ||
           llvm::any_of(companions_.products,
                        [&](Operation *product) { return isWidenedLeft(op, product); });
  }

  bool mayComeIn(Operation *op) const {
    return roleOf(op).part != Part::Outside && !staysApart(op);
  }

  /// Whether a schedule keeps the operator out of the kernel that reads it.
  bool staysApart(Operation *op) const {
    kernel::Point asked = options_.asked(op).of(&kernel::choice::fused);
    if (asked[kernel::choice::fused] != 0)
      return false;
    options_.made(op, asked, 0);
    return true;
  }

  /// Takes the operator in, or says why not.
  kernel::Refusal tryAdd(Operation *op) {
    Role role = roleOf(op);
    if (kernel::Refusal refusal = refusalOf(op, role))
      return refusal;
    if (staysApart(op))
      return "a schedule keeps it in a kernel of its own";
    kernel::Refusal refusal = takeIn(op, role);
    if (!refusal)
      options_.offer(op, kernel::choice::fused, {0, 1});
    return refusal;
  }

  kernel::Refusal takeIn(Operation *op, Role role) {
    bool aligned = isAligned(op);
    if (isCompanion(op)) {
      add(op, role, false);
      return nullptr;
    }
    if (isRepeatedForLines(op) && !isMask(op))
      return "it would be computed again for each of many lines; from memory it comes in vectors";
    if (companions_.others && isBeforeRoot(op)) {
      auto isTaken = [&](Operation *other) {
        return beforeRoot_.contains(other) && !companions_.ops.contains(other);
      };
      if (kernel::Refusal refusal = companions_.others(op, isTaken))
        return refusal;
    }
    if (role.root && role.root->completesAtEnd)
      return "no element of it is done before the last index was seen";
    if (role.isHeavy()) {
      // Behind a heavy operator all is aligned with it, and nothing has been moved.
      if (root_)
        return "a kernel has one heavy operator, and this one has another";
      if (!aligned)
        return "what is made of its result has another shape, and can't be applied to its tiles";
      if (role.isVectorRoot() && moves_)
        return "its result is moved, and can't be stored in vectors";
      add(op, role, true);
      return nullptr;
    }
    if (role.part == Part::Movement)
      return addMovement(op, role);
    // What is moved afterwards can still be applied to the heavy operator before it; of a sum of
    // many products each is added by its own kernel, so that they need not all be kept.
    if (isBeforeRoot(op)) {
      if (!rootTakesElementwise(op))
        return followsHeavy(op)
                   ? "it is applied to the results of the operator before it, while they are in "
                     "registers"
                   : "the heavy operator would compute it again for each time that it reads it";
    } else if ((moves_ || root_) && followsHeavy(op)) {
      return "it is applied to the results of the operator before it, while they are in registers";
    }
    add(op, role, aligned);
    return nullptr;
  }

  /// What rules the operator out of any kernel that reads it.
  kernel::Refusal refusalOf(Operation *op, const Role &role) const {
    // Layer normalisation has three results, of which a row kernel takes the first alone.
    bool oneResult = op->getNumResults() == 1 || (role.root && role.root->takesFirstResult);
    if (isa<graph::KernelOp>(op)) // made before: the reader says what it is
      return "";
    if (role.part == Part::Outside)
      return op->getNumRegions()          ? "it is control flow"
             : !hasKnownSizes(op)         ? "its result's sizes are known only once it has run"
             : isa<graph::ConstantOp>(op) ? "it is a constant"
                                          : "there is no kernel's code for it";
    if (op->getBlock() != end_->getBlock())
      return "it stands outside of the loop or branch";
    if (!oneResult)
      return "it has several results";
    if (!llvm::all_of(op->getUsers(), [&](Operation *user) { return ops_.contains(user); }))
      return "others read its result, too";
    if (isRightOperand(op))
      return "it is laid out in panels before the kernel";
    if (llvm::any_of(ops_, turnsRows) && readsGatheredRows(op))
      return "rows that are gathered are moved in vectors, and turned by a kernel of their own";
    if (isRepeatedByGather(op))
      return "a gather reads elements of it several times, and would compute them as often";
    if (isReadForEach(op))
      return "each element of the padding would compute it";
    if (readsWhatIsWrittenOver(op))
      return "rows that are written back are taken out first, so that the others can stay";
    return nullptr;
  }

  kernel::Refusal addMovement(Operation *op, Role role) {
    // A reshape of a tensor in memory is free outside, and is only worth taking in between two
    // operators.
    if (isa<graph::ReshapeOp>(op) && !canFollow(op->getOperand(0)))
      return "a reshape of what lies in memory costs nothing";
    bool beforeRoot = isBeforeRoot(op);
    if (root_ && (!beforeRoot || !rootTakesMovement(op)))
      return beforeRoot ? "the heavy operator reads each element several times, in vectors"
                        : "the kernel's results are stored in vectors, which can't be moved";
    if (turnsRows(op) && llvm::any_of(ops_, gathersRows))
      return "rows that are gathered are moved in vectors, and turned by a kernel of their own";
    moves_ |= !beforeRoot;
    add(op, role, false);
    return nullptr;
  }

  // Rows that are gathered are moved in vectors. What turns them, so that their elements don't lie
  // side by side any more, is a kernel of its own, which does it in squares.
  static bool gathersRows(Operation *op) {
    constexpr int64_t kShortRow = 8;
    auto gather = dyn_cast<graph::GatherOp>(op);
    auto type = gather ? dyn_cast<RankedTensorType>(gather.getType()) : RankedTensorType();
    bool isLong = type && type.getRank() > 0 &&
                  (type.isDynamicDim(type.getRank() - 1) || type.getShape().back() >= kShortRow);
    return isLong && int64_t(gather.getAxis()) < type.getRank() - 1;
  }
  static bool turnsRows(Operation *op) {
    auto transpose = dyn_cast<graph::TransposeOp>(op);
    return transpose && !transpose.getPermutation().empty() &&
           transpose.getPermutation().back() + 1 != int64_t(transpose.getPermutation().size());
  }
  static bool readsGatheredRows(Operation *op) {
    llvm::SetVector<Operation *> before;
    before.insert(op);
    for (size_t next = 0; next < before.size() && next < kernel::kMostOfKernel; ++next) {
      if (gathersRows(before[next]))
        return true;
      if (isa<graph::Elementwise>(before[next]))
        for (Value operand : before[next]->getOperands())
          if (Operation *producer = operand.getDefiningOp(); producer && operand.hasOneUse())
            before.insert(producer);
    }
    return false;
  }

  /// Whether a gather of the kernel reads the result several times, so that it would be computed as
  /// often. Of sizes that only the run knows, it may where they are not the same.
  static bool isRepeatedByGather(Operation *op) {
    auto elementsOf = [](Value value) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      return type && type.hasStaticShape() ? type.getNumElements() : -1;
    };
    return llvm::any_of(op->getUsers(), [&](Operation *user) {
      auto gather = dyn_cast<graph::GatherOp>(user);
      if (!gather || gather.getX().getDefiningOp() != op)
        return false;
      int64_t read = elementsOf(gather.getX()), made = elementsOf(gather.getY());
      if (read < 0 || made < 0)
        return gather->hasAttr(graph::kInRange) &&
               gather.getX().getType() != gather.getY().getType();
      return made > read;
    });
  }

  /// Of attention, what is made of the numbers of queries and keys takes less than to read it.
  bool isMask(Operation *op) const {
    return isa_and_nonnull<graph::MatMulOp>(root_) && !companions_.ops.empty() &&
           !madeOfVectors(op->getResult(0), options_.machine).empty();
  }

  /// Whether all elements of a padding read the result: how many elements there are beside them.
  static bool isReadForEach(Operation *op) {
    return llvm::any_of(op->getUsers(), [&](Operation *user) {
      auto pad = dyn_cast<graph::DynamicPadOp>(user);
      return pad && pad.getPads().getDefiningOp() == op;
    });
  }

  /// Whether the kernel scatters into what the operator gathers from: it could not write over that.
  bool readsWhatIsWrittenOver(Operation *op) const {
    return isa<graph::GatherOp>(op) && isa_and_nonnull<graph::ScatterNDOp>(root_) &&
           op->getOperand(0) == root_->getOperand(0);
  }

  /// Whether the result is the same for many lines of what reads it, and differs along them, so
  /// that it would be computed for each element again; from memory it comes in vectors.
  static bool isRepeatedForLines(Operation *op) {
    constexpr int64_t kManyLines = 16, kFewElements = 1 << 14;
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type || !type.hasStaticShape() || type.getRank() == 0 || type.getShape().back() == 1)
      return false;
    return llvm::any_of(op->getUsers(), [&](Operation *user) {
      auto read = dyn_cast<RankedTensorType>(user->getResult(0).getType());
      return isa<graph::Elementwise>(user) && read && read.hasStaticShape() &&
             read.getShape().back() == type.getShape().back() &&
             read.getNumElements() >= kFewElements &&
             read.getNumElements() >= kManyLines * type.getNumElements();
    });
  }

  /// Which is laid out before the kernel, by a kernel of its own where it is no constant.
  bool isRightOperand(Operation *op) const {
    auto isRightOf = [&](Operation *product) {
      return product->getOperand(1).getDefiningOp() == op;
    };
    return llvm::any_of(companions_.products, isRightOf) ||
           (rootRole_.isProduct() && isRightOf(root_));
  }

  /// Of a left operand that is bf16 in memory, as the right one is or of a convolution of few
  /// channels in a group,
  /// the way to f32: the template reads it as it is, so it always comes along with the root, whose
  /// own it is (`widenForEach`).
  bool isWidenedLeft(Operation *op) const {
    return rootRole_.isProduct() && isWidenedLeft(op, root_);
  }
  bool isWidenedLeft(Operation *op, Operation *root) const {
    return root->getOperand(0).getDefiningOp() == op &&
           kernel::storedLeft(root) != root->getOperand(0) &&
           (!roleOf(root).contracts() || kernel::storedRight(root) != root->getOperand(1));
  }

  /// Element-wise at the end's own shape, as are all its users: then the root may stand before it.
  bool isAligned(Operation *op) const {
    for (Operation *user : op->getUsers())
      if (!aligned_.contains(user) || !isa<graph::Elementwise>(user))
        return false;
    auto own = dyn_cast<RankedTensorType>(op->getResult(0).getType()),
         end = dyn_cast<RankedTensorType>(end_->getResult(0).getType());
    return own && end && own.clone(end.getElementType()) == end;
  }

  /// Whether the root's operands are computed from the operator, all users of which are inside.
  bool isBeforeRoot(Operation *op) const {
    return llvm::any_of(op->getUsers(), [&](Operation *user) {
      return user == root_ || beforeRoot_.contains(user);
    });
  }

  /// Whether the value is computed by an operator that could join in turn.
  bool canFollow(Value value) const {
    Operation *op = value.getDefiningOp();
    if (!op || !value.hasOneUse() || op->getBlock() != end_->getBlock())
      return false;
    Role role = roleOf(op);
    return role.part == Part::Elementwise ||
           (role.part == Part::Movement && !isa<graph::ReshapeOp>(op));
  }

  /// Whether the operator can rather be applied to the result of a heavy one before it, while that
  /// is in registers.
  bool followsHeavy(Operation *op) const {
    llvm::SetVector<Operation *> followers;
    followers.insert(op);
    for (size_t next = 0; next < followers.size() && next < kernel::kMostOfKernel; ++next) {
      Value value = followers[next]->getResult(0);
      if (kernel::storedOperand(value) != value)
        continue; // what is widened was stored
      auto result = dyn_cast<RankedTensorType>(value.getType());
      for (Value operand : followers[next]->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        auto own = dyn_cast<RankedTensorType>(operand.getType());
        // One with several uses (x * sigmoid(x)) is looked at again from the last of them.
        bool usedByFollowers = llvm::all_of(
            operand.getUsers(), [&](Operation *user) { return followers.contains(user); });
        if (!producer || !usedByFollowers || !own || !result ||
            own.clone(result.getElementType()) != result)
          continue;
        Role role = roleOf(producer);
        if (role.isHeavy())
          return true;
        if (role.part == Part::Elementwise)
          followers.insert(producer);
      }
    }
    return false;
  }

  /// Each element of the operand is read once for each element of the result, or the root keeps a
  /// copy. Convolutions and pools read elements several times, as vectors of channels if they can:
  /// what is turned for them is turned before, in squares.
  bool rootTakesMovement(Operation *op) const {
    if (isa<graph::TransposeOp>(op) &&
        isa<graph::ConvOp, graph::MaxPoolOp, graph::AveragePoolOp, graph::LpPoolOp>(root_))
      return false;
    return rootRole_.part == Part::Reduction || rootRole_.part == Part::Window ||
           (rootRole_.root && rootRole_.root->movesOperands) ||
           (rootRole_.contracts() && isa<graph::MatMulOp>(root_));
  }
  bool rootTakesElementwise(Operation *op) const {
    if (followsHeavy(op))
      return false;
    return rootRole_.part == Part::Reduction ||
           (rootRole_.root && rootRole_.root->computesOperands) ||
           (rootRole_.contracts() && isa<graph::MatMulOp>(root_) && hasFewColumns() &&
            !isHalf(op->getResult(0)));
  }
  /// What is rounded to 16 bits is read as it then lies in memory, and not copied.
  static bool isHalf(Value value) {
    Type element = getElementTypeOrSelf(value.getType());
    return element.isBF16() || element.isF16();
  }

  /// Rows of a contraction are computed by each of its items; those of many columns are several.
  bool hasFewColumns() const {
    int64_t columns = cast<RankedTensorType>(root_->getResult(0).getType()).getShape().back();
    return ShapedType::isDynamic(columns) || columns <= kFewColumns;
  }

  const Options &options_;
  Operation *end_, *root_ = nullptr;
  Role rootRole_ = Part::Outside;
  kernel::Companions companions_; // of the root
  bool moves_ = false;
  llvm::SetVector<Operation *> ops_;
  llvm::SmallPtrSet<Operation *, 8> aligned_, beforeRoot_, grown_;
  llvm::SmallDenseMap<Operation *, kernel::Refusal> refusals_; // the last of each

  friend class KernelBuilder;
};

/// Where operators stand in their block. The block's own numbers would be made anew for every few
/// operators that are put in between.
class Places {
public:
  explicit Places(Block &block) {
    for (Operation &op : block)
      numbers_[&op] = numbers_.size();
  }

  void sort(SmallVectorImpl<Operation *> &ops) {
    SmallVector<std::pair<std::pair<size_t, int64_t>, Operation *>> placed;
    for (Operation *op : ops)
      placed.push_back({placeOf(op), op});
    llvm::sort(placed, llvm::less_first());
    for (auto [op, place] : llvm::zip_equal(ops, placed))
      op = place.second;
  }

  /// The kernel stands where the end of the operators stood that are in it.
  void replace(ArrayRef<Operation *> ops, Operation *end, Operation *kernel) {
    size_t number = placeOf(end).first;
    for (Operation *op : ops)
      numbers_.erase(op);
    numbers_[kernel] = number;
  }

  void forget(Operation *op) { numbers_.erase(op); }

private:
  /// By the next operator with a number, and how far before it.
  std::pair<size_t, int64_t> placeOf(Operation *op) {
    int64_t before = 0;
    for (;; op = op->getNextNode(), --before)
      if (auto it = numbers_.find(op); it != numbers_.end())
        return {it->second, before};
  }

  llvm::DenseMap<Operation *, size_t> numbers_;
};

/// Turns a group into a graph.kernel.
class KernelBuilder {
public:
  KernelBuilder(Group &group, Places &places, OpBuilder &builder, const Options &options)
      : group_(group), places_(places), builder_(builder), options_(options),
        region_(group.end_->getContext()) {}

  graph::KernelOp build() {
    SmallVector<Operation *> sorted(group_.ops_.begin(), group_.ops_.end());
    places_.sort(sorted);
    Value result = group_.end_->getResult(0);
    Operation *main = group_.root_ ? group_.root_ : sorted.back();
    builder_.setInsertionPoint(group_.end_);
    asked_ = region_.begin(sorted, result, main, options_);
    for (Operation *product : group_.companions_.products)
      layOut(product);
    if (group_.root_)
      layOut(group_.root_);
    for (Operation *op : sorted) {
      if (auto right = rights_.find(op); right != rights_.end())
        region_.addRight(op, right->second);
      region_.add(op);
    }
    builder_.setInsertionPoint(group_.end_);
    graph::KernelOp kernel = region_.finish(builder_, result, main, sorted, options_.machine);
    if (options_.explains)
      explain(kernel);
    result.replaceAllUsesWith(kernel->getResult(0));
    places_.replace(sorted, group_.end_, kernel);
    llvm::SmallSetVector<Operation *, 2> widenings;
    for (auto &[root, right] : rights_)
      if (Operation *made = root->getOperand(1).getDefiningOp())
        widenings.insert(made);
    for (Operation *op : llvm::reverse(sorted))
      op->erase();
    llvm::for_each(widenings, [&](Operation *made) { eraseWidening(made); });
    return kernel;
  }

private:
  /// Of each input why what computes it is no part of the kernel.
  void explain(graph::KernelOp kernel) {
    SmallVector<Attribute> reasons;
    for (Value input : kernel.getInputs()) {
      Operation *producer = input.getDefiningOp();
      kernel::Refusal refusal = producer ? group_.refusals_.lookup(producer) : nullptr;
      auto isLaidOut = [&](auto &right) { return right.second.value == input; };
      if (llvm::any_of(rights_, isLaidOut))
        refusal = "it is laid out in panels before the kernel";
      else if (!refusal && producer && !options_.fuse)
        refusal = "fusion is off";
      reasons.push_back(builder_.getStringAttr(refusal ? refusal : ""));
    }
    kernel->setAttr(kRefusalsAttribute, builder_.getArrayAttr(reasons));
  }

  void layOut(Operation *root) {
    if (group_.roleOf(root).isProduct() && !region_.isNest())
      rights_.insert({root, laidOutRight(root, builder_, group_.end_->getLoc(), options_, asked_)});
  }

  /// The way of a right operand to what it was multiplied as, which the packing has passed by: what
  /// it stood behind has one user fewer, and may become a part of that one's kernel.
  void eraseWidening(Operation *op) {
    if (!isa<graph::CastOp>(op) || !op->use_empty())
      return;
    places_.forget(op);
    op->erase();
  }

  Group &group_;
  Places &places_;
  OpBuilder &builder_;
  const Options &options_;
  KernelRegion region_;
  llvm::SmallMapVector<Operation *, kernel::LaidOut, 2> rights_;
  kernel::Point asked_;
};

/// y = matmul(cast(x), v); z = matmul(cast(x), w)  ->  each with a cast of its own
void widenForEach(func::FuncOp function, const kernel::Machine &machine) {
  SmallVector<Operation *> products;
  function.walk([&](Operation *op) {
    if (roleOf(op, machine).isProduct())
      products.push_back(op);
  });
  for (Operation *product : products) {
    Value left = product->getOperand(0);
    if (kernel::storedOperand(left) == left || left.hasOneUse())
      continue;
    OpBuilder builder(product);
    product->setOperand(0, builder.clone(*left.getDefiningOp())->getResult(0));
  }
}

void fuseBlock(Block &block, const Options &options) {
  OpBuilder builder(block.getParentOp()->getContext());
  Places places(block);
  Operation *next = block.empty() ? nullptr : &block.back();
  while (next) {
    Operation *op = next;
    for (Region &region : op->getRegions())
      if (!isa<graph::KernelOp>(op))
        for (Block &inner : region)
          fuseBlock(inner, options);
    bool dead = op->use_empty() && isPure(op) && !op->hasTrait<OpTrait::IsTerminator>();
    bool alone = isa<graph::ReshapeOp>(op) || roleOf(op, options.machine).part == Part::Outside;
    if (dead || alone) {
      next = op->getPrevNode();
      if (dead) {
        places.forget(op);
        op->erase();
      }
      continue;
    }
    Group group(op, options);
    group.grow();
    graph::KernelOp kernel = KernelBuilder(group, places, builder, options).build();
    next = kernel->getPrevNode();
  }
}

} // namespace

static void addSymbols(Type type, llvm::DenseSet<StringAttr> &symbols) {
  if (auto ranked = dyn_cast<RankedTensorType>(type))
    for (StringAttr name : graph::symbolNames(ranked))
      symbols.insert(name);
}

bool hasKnownSizes(Operation *op) {
  llvm::DenseSet<StringAttr> known, used;
  llvm::for_each(op->getResultTypes(), [&](Type type) { addSymbols(type, used); });
  if (used.empty())
    return true;
  llvm::for_each(op->getOperandTypes(), [&](Type type) { addSymbols(type, known); });
  if (auto function = op->getParentOfType<func::FuncOp>())
    llvm::for_each(function.getArgumentTypes(), [&](Type type) { addSymbols(type, known); });
  return llvm::all_of(used, [&](StringAttr name) { return known.contains(name); });
}

LogicalResult fuse(func::FuncOp function, const Options &options) {
  widenForEach(function, options.machine);
  fuseBlock(function.getBody().front(), options);
  return success();
}

} // namespace tensmith::rewrite
