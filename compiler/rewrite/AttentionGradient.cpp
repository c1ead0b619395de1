// Attention's gradient becomes one kernel that makes the scores again, where that takes less time
// than to keep them in memory.
//
// before: p = softmax(f(q k^T)); y = p v; ... g = dy v^T; d = p (g - sum(g p)); dq = d k;
//         dk^T = q^T d; dv = p^T dy
// after:  p = softmax(f(q k^T)); y = p v; ... dq, dk, dv = kernel(q, k, v, dy) { all of these }
//
// Whatever is made of the softmax's rows element by element, or is a sum over one, is inside; the
// matrices of that shape come from it, from products of that shape that are used for nothing else,
// or from memory (a dropout's mask). Products that the gradient depends on are the way there: they
// have scores of their own, which their kernel doesn't store either
// (targets/cpu/templates/AttentionRows.h).
//
// What else is made of those rows is a gradient of what was added to scores (a bias that is
// learned). A sum over queries or keys becomes a product with ones, and one over matrices alone, as
// of a bias for each pair of positions, is added up by the kernel: over the dimensions that such
// sums have in common, but one where nothing would be left for other threads. Sums that have none
// in common with those, or leave nothing, have kernels of their own, which make the rows again and
// whose threads share out the queries. Rows that something else reads are results as they are, such
// as the gradient of a bias that each matrix has for itself.
//
// before: db = sum of d over queries, and more     after: db = sum of (d^T ones), over the rest
//         db = sum of d over samples, and heads           db = sum of (kernel's sum), over heads
//         db = d                                          db = kernel's d

#include "compiler/rewrite/AttentionGradient.h"

#include "compiler/graph/DeadCode.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/Precision.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/CostModel.h"
#include "compiler/kernel/RowShape.h"
#include "compiler/rewrite/KernelRegion.h"

#include "compiler/kernel/Kernel.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

constexpr size_t kMostOperators = 64;
/// Sweeps over matrices of scores that are kept in memory: on the way there one is stored by its
/// product, read and stored by the softmax and read by a product; on the way back one is stored
/// for each other product that rows are made of, and, with the first, goes through the rows'
/// operators.
constexpr int64_t kSweepsThere = 4;
constexpr int64_t kSweepsOfRows = 5;
/// Of scores whose number only a run tells: so much faster products in 16 bits are not given up for
/// their memory. Pairs of bf16 are twice as fast as f32, tiles of a matrix unit eight times or
/// more.
constexpr double kMostRateOfOpen = 2;

/// The block's operators that are among these, or computed from them.
llvm::SmallPtrSet<Operation *, 16> dependents(Block &block, ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 16> found;
  SmallVector<Operation *> next;
  auto add = [&](Operation *op) {
    if (Operation *own = block.findAncestorOpInBlock(*op); own && found.insert(own).second)
      next.push_back(own);
  };
  llvm::for_each(ops, add);
  while (!next.empty())
    llvm::for_each(next.pop_back_val()->getUsers(), add);
  return found;
}

bool isTransposition(Operation *op) {
  auto transpose = dyn_cast_or_null<graph::TransposeOp>(op);
  return transpose && kernel::swapsLast(transpose);
}

/// A sum over dimensions of rows that stand beside one another in matrices.
struct RowsSum {
  Value rows;
  graph::ReduceSumOp sum; // of them, or of a view of them
  Operation *reader;      // of the rows: it, or the view
  SmallVector<int64_t> axes;
  Value replacement = {};      // and what of it is the kernel's: a product with ones, or a sum of
  Operation *result = nullptr; // matrices
};

/// What one kernel computes.
struct Group {
  SmallVector<RowsSum> sums;
  SmallVector<int64_t> addedUp; // dimensions of the stack
  llvm::SetVector<Operation *> results;
};

/// Of the dimensions of a view's operand those that a dimension of the view stands for; nothing
/// where there are no such.
std::optional<SmallVector<int64_t>> dimensionsBehind(graph::ReshapeOp view, int64_t dimension) {
  auto from = cast<RankedTensorType>(view.getX().getType());
  auto to = cast<RankedTensorType>(view.getType());
  if (llvm::is_contained(from.getShape(), 0))
    return std::nullopt;
  graph::ShapeContext shapes(view.getContext());
  auto own = shapes.dims(from), seen = shapes.dims(to);
  auto first = shapes.product(ArrayRef(seen).take_front(size_t(dimension)));
  auto behind = shapes.product(ArrayRef(seen).drop_front(size_t(dimension) + 1));
  for (int64_t begin = 0; begin <= from.getRank(); ++begin)
    for (int64_t end = begin; end <= from.getRank(); ++end)
      if (shapes.equal(shapes.product(ArrayRef(own).take_front(size_t(begin))), first) &&
          shapes.equal(shapes.product(ArrayRef(own).drop_front(size_t(end))), behind))
        return llvm::to_vector(llvm::seq(begin, end));
  return std::nullopt;
}

class Gradient {
public:
  Gradient(kernel::AttentionScores scores, const kernel::Machine &machine)
      : scores_(std::move(scores)), machine_(machine),
        type_(cast<RankedTensorType>(scores_.softmax.getType())) {}

  bool match() {
    if (!canMake(scores_.product))
      return false;
    made_.insert(scores_.product);
    inside_ = scores_.elementwise;
    inside_.insert(scores_.product);
    if (!followRows() || !takeProducts() || !leaveWayThere() || !leaveReaders())
      return false;
    takeMasks();
    divideSums();
    return isOpen();
  }

  /// Makes products of sums over rows, and kernels of those that have some of their own. False
  /// where they can't be, and nothing is changed.
  bool prepare() {
    for (Group &group : groups_)
      for (RowsSum &each : group.sums) {
        auto [value, result] = sumInKernel(each, group.addedUp);
        each.replacement = value;
        each.result = result;
        bool fits = value && value.getType() == each.sum.getType() &&
                    (!isa<graph::MatMulOp>(result) || canMake(result));
        if (fits)
          continue;
        for (Group &other : groups_)
          for (RowsSum &made : other.sums)
            if (made.replacement)
              graph::eraseUnused(made.replacement.getDefiningOp());
        return false;
      }
    for (Group &group : groups_)
      for (RowsSum &each : group.sums) {
        each.sum.getResult().replaceAllUsesWith(each.replacement);
        each.sum.erase();
        group.results.insert(each.result);
        products_.insert(each.result);
        inside_.insert(each.result->getOperand(0).getDefiningOp());
      }
    sums_.clear();
    return true;
  }

  /// By the bytes that memory is spared, and the products that are made again; where the products
  /// could be made so many times as fast, in 16 bits, by what that would spare, too.
  bool isWorth(double rate = 1) const {
    constexpr int64_t kFloat = 4;
    graph::MatMulOp scores = scores_.product;
    int64_t depth = cast<RankedTensorType>(scores.getA().getType()).getShape().back();
    if (!type_.hasStaticShape() || ShapedType::isDynamic(depth))
      return rate <= kMostRateOfOpen;
    // What is kept from the way there to the way back comes from memory: all else passes in
    // between. Rows that are results are stored in any case.
    auto made = int64_t(made_.size()), results = int64_t(products_.size());
    int64_t spared = kSweepsThere + kSweepsOfRows * (made - 1) + results - int64_t(stored_.size());
    bool isNear = type_.getNumElements() * kFloat <= machine_.l2Bytes;
    using From = kernel::Traffic::From;
    kernel::Traffic sweeps{double(spared * kFloat), isNear ? From::SecondCache : From::Memory};
    double product = double(depth) / kernel::multiplyAddsPerCycle(machine_);
    double slower = double(products().size()) * product * (1 - 1 / rate);
    double again = product * double(1 + (int64_t(groups_.size()) - 1) * made);
    return kernel::cyclesOf(sweeps, machine_) > again + slower;
  }

  /// Of the rows, there and back.
  llvm::SetVector<Operation *> products() const {
    llvm::SetVector<Operation *> all(made_);
    all.insert(products_.begin(), products_.end());
    all.insert(there_.begin(), there_.end());
    return all;
  }

  void build(const Options &options) {
    for (Group &group : llvm::reverse(groups_))
      build(group, options);
  }

private:
  bool isWhole(Value value) const {
    return kernel::rowShapeOf(dyn_cast<RankedTensorType>(value.getType()), type_) ==
           kernel::RowShape::Whole;
  }
  bool isInside(Operation *op) const { return op && inside_.contains(op); }
  Block &block() const { return *scores_.softmax->getBlock(); }

  void build(Group &group, const Options &options) {
    llvm::SetVector<Operation *> results;
    for (Operation *result : group.results)
      results.insert(isa<graph::MatMulOp>(result) ? withRowsOnTheLeft(result) : result);
    SmallVector<Operation *> sorted = needed(results.getArrayRef()).takeVector();
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    Operation *last = sorted.back();
    OpBuilder builder(last);
    SmallVector<Value> values;
    for (Operation *op : sorted)
      if (results.contains(op))
        values.push_back(op->getResult(0));
    KernelRegion region(last->getContext());
    kernel::Point asked = region.begin(sorted, values, scores_.product, options);
    for (Operation *op : sorted) {
      if (isa<graph::MatMulOp>(op))
        region.addRight(op, laidOutRight(op, builder, last->getLoc(), options, asked));
      region.add(op);
    }
    graph::KernelOp kernel =
        region.finish(builder, values, scores_.product, sorted, options.machine);
    SmallVector<Operation *> readers;
    for (auto [value, result] : llvm::zip_equal(values, kernel.getResults())) {
      auto outside = outsideReaders(value.getDefiningOp());
      readers.append(outside);
      value.replaceUsesWithIf(result, [&, outside = outside](OpOperand &use) {
        return llvm::is_contained(outside, use.getOwner());
      });
    }
    moveBehind(readers, kernel);
    for (Operation *op : llvm::reverse(sorted))
      if (op->use_empty())
        erase(op);
  }
  void erase(Operation *op) {
    for (auto *known : {&inside_, &rows_, &products_, &stored_})
      known->remove(op);
    op->erase();
  }

  /// Whether the product can be in the kernel: of stacks of f32, as many as there are of scores.
  bool canMake(Operation *product) const {
    auto type = dyn_cast<RankedTensorType>(product->getResult(0).getType());
    auto isStack = [&](Value value) {
      auto own = dyn_cast<RankedTensorType>(value.getType());
      return own && own.getElementType().isF32() && own.getRank() == type_.getRank();
    };
    const kernel::Template *made = kernel::templateBefore(product, machine_);
    if (!made || !made->layOutRight || !isStack(product->getResult(0)) ||
        !llvm::all_of(product->getOperands(), isStack) || !kernel::isContraction(product) ||
        !hasKnownSizes(product) || kernel::storedLeft(product) != product->getOperand(0) ||
        kernel::storedRight(product) != product->getOperand(1))
      return false;
    graph::ShapeContext shapes(type_.getContext());
    auto own = shapes.dims(type), all = shapes.dims(type_);
    return llvm::all_of(
        llvm::zip(ArrayRef(own).drop_back(2), ArrayRef(all).drop_back(2)),
        [&](auto pair) { return shapes.equal(std::get<0>(pair), std::get<1>(pair)); });
  }

  /// What is made of the softmax's rows, and the products that read those.
  bool followRows() {
    rows_.insert(scores_.softmax);
    for (size_t next = 0; next < rows_.size(); ++next)
      for (Operation *user : rows_[next]->getUsers())
        if (!isInside(user) && !takeReader(user))
          return false;
    inside_.insert(rows_.begin(), rows_.end());
    return inside_.size() < kMostOperators;
  }

  /// What isn't taken reads rows from memory. False where a product does.
  bool takeReader(Operation *user) {
    if (inside_.size() + rows_.size() >= kMostOperators)
      return false;
    if (user->getBlock() != scores_.softmax->getBlock() || takeSum(user))
      return true;
    if (isa<graph::MatMulOp>(user)) {
      products_.insert(user);
      return canMake(user);
    }
    if (isTransposition(user) ? isWhole(user->getOperand(0)) &&
                                    llvm::all_of(user->getUsers(), llvm::IsaPred<graph::MatMulOp>)
                              : canBeMade(user) && staysInRows(user))
      rows_.insert(user);
    return true;
  }

  /// A sum over rows of several matrices, of queries or of keys, that something outside reads; or a
  /// view of rows that has such readers alone.
  bool takeSum(Operation *user) {
    if (!isa<graph::ReshapeOp, graph::ReduceSumOp>(user))
      return false;
    auto view = dyn_cast<graph::ReshapeOp>(user);
    Value rows = user->getOperand(0);
    if (!isWhole(rows) || !getElementTypeOrSelf(rows.getType()).isF32() ||
        !hasKnownSizes(rows.getDefiningOp()))
      return false;
    if (!view) {
      auto sum = dyn_cast<graph::ReduceSumOp>(user);
      return sum && !staysInRows(sum) && addSum(rows, sum, nullptr);
    }
    size_t before = sums_.size();
    bool areSums = llvm::all_of(view->getUsers(), [&](Operation *reader) {
      auto sum = dyn_cast<graph::ReduceSumOp>(reader);
      return sum && addSum(rows, sum, view);
    });
    if (!areSums)
      sums_.truncate(before);
    return areSums;
  }

  bool addSum(Value rows, graph::ReduceSumOp sum, graph::ReshapeOp view) {
    Operation *reader = view ? view.getOperation() : sum.getOperation();
    RowsSum added{rows, sum, reader, SmallVector<int64_t>(sum.getAxes())};
    if (view) {
      added.axes.clear();
      for (int64_t axis : sum.getAxes()) {
        auto behind = dimensionsBehind(view, axis);
        if (!behind)
          return false;
        added.axes.append(*behind);
      }
    }
    llvm::sort(added.axes);
    if (isOverMatrices(added) && common(manyOfStack(), added).empty())
      return false;
    sums_.push_back(std::move(added));
    return true;
  }

  bool isOverMatrices(const RowsSum &each) const {
    return llvm::all_of(each.axes, [&](int64_t axis) { return axis < type_.getRank() - 2; });
  }

  /// The dimensions of the stack along which there may be several matrices.
  SmallVector<int64_t> manyOfStack() const {
    auto isMany = [&](int64_t axis) { return type_.getDimSize(axis) != 1; };
    return llvm::to_vector(
        llvm::make_filter_range(llvm::seq(int64_t(0), type_.getRank() - 2), isMany));
  }
  static SmallVector<int64_t> common(ArrayRef<int64_t> dimensions, const RowsSum &each) {
    auto isSummed = [&](int64_t axis) { return llvm::is_contained(each.axes, axis); };
    return llvm::to_vector(llvm::make_filter_range(dimensions, isSummed));
  }

  /// Finds over which dimensions of the stack kernels add up matrices. A work item goes over
  /// them, one matrix after the other: they are the same for all sums of a kernel. Where products
  /// are sums over queries, so that an item has all of them, matrices are left for other items.
  void divideSums() {
    SmallVector<int64_t> many = manyOfStack();
    groups_.push_back({{}, many, products_});
    groups_.front().results.insert(stored_.begin(), stored_.end());
    for (RowsSum &each : sums_)
      if (!isOverMatrices(each))
        groups_.front().sums.push_back(each);
    bool hasOthers = !groups_.front().sums.empty() || !groups_.front().results.empty();
    for (RowsSum &each : sums_)
      if (isOverMatrices(each)) {
        Group *found = llvm::find_if(groups_, [&](const Group &group) {
          auto left = common(group.addedUp, each);
          return !left.empty() && (&group != groups_.begin() || !hasOthers || many.size() > 1);
        });
        if (found == groups_.end())
          found = &groups_.emplace_back(Group{{}, many, {}});
        found->addedUp = common(found->addedUp, each);
        found->sums.push_back(each);
      }
    Group &first = groups_.front();
    if (hasOthers && !many.empty() && first.addedUp == many)
      first.addedUp.pop_back();
    if (first.sums.empty() && first.results.empty())
      groups_.erase(groups_.begin());
  }

  /// The sum's value, and what of it is the kernel's: a product with ones, or a sum of matrices.
  std::pair<Value, Operation *> sumInKernel(const RowsSum &each, ArrayRef<int64_t> addedUp) {
    int64_t rank = type_.getRank(), queries = rank - 2, keys = rank - 1;
    graph::ReduceSumOp sum = each.sum;
    OpBuilder builder(sum);
    graph::ShapeContext shapes(sum->getContext());
    graph::GraphBuilder graph(builder, shapes, sum->getLoc());
    SmallVector<int64_t> rest(each.axes);
    bool overQueries = llvm::is_contained(rest, queries);
    Value made, value;
    if (!isOverMatrices(each)) {
      SmallVector<AffineExpr> dims = shapes.dims(type_), ones(size_t(rank), shapes.constant(1));
      ones[size_t(queries)] = dims[size_t(overQueries ? queries : keys)];
      Value column = graph.broadcast(graph.scalar(type_.getElementType(), 1), ones);
      Value rows = overQueries ? graph.transpose(each.rows, kernel::swapLast(rank)) : each.rows;
      made = graph::GraphBuilder::first(graph.create("matmul", {rows, column}));
      llvm::erase(rest, overQueries ? queries : keys);
      dims[size_t(overQueries ? queries : keys)] = shapes.constant(1);
      value = graph.reshape(made, dims);
    } else {
      made = value = graph.reduce("graph.reduce_sum", each.rows, addedUp, /*keepdims=*/true);
      llvm::erase_if(rest, [&](int64_t axis) { return llvm::is_contained(addedUp, axis); });
    }
    if (!rest.empty())
      value = graph.reduce("graph.reduce_sum", value, rest, /*keepdims=*/true);
    return {graph.reshape(value, shapes.dims(sum.getType())), made.getDefiningOp()};
  }

  bool canBeMade(Operation *op) const { return kernel::canEmit(op, machine_) && hasKnownSizes(op); }

  /// Element by element, or a sum over a row.
  bool staysInRows(Operation *op) const {
    auto shape = kernel::rowShapeOf(dyn_cast<RankedTensorType>(op->getResult(0).getType()), type_);
    if (isa<graph::Elementwise>(op))
      return shape == kernel::RowShape::Whole || shape == kernel::RowShape::Kept;
    auto sum = dyn_cast<graph::ReduceSumOp>(op);
    return sum && shape == kernel::RowShape::Kept && isWhole(sum.getX()) &&
           sum.getAxes() == ArrayRef<int64_t>(type_.getRank() - 1);
  }

  /// The products that rows are made of beside the scores, with what is between; the others of
  /// their shape are read from memory.
  bool takeProducts() {
    for (size_t next = 0; next < inside_.size(); ++next)
      for (Value operand : inside_[next]->getOperands()) {
        if (isInside(operand.getDefiningOp()) || !isWhole(operand) || made_.contains(inside_[next]))
          continue;
        llvm::SetVector<Operation *> between;
        Operation *product = kernel::onlyBehind(operand, llvm::IsaPred<graph::MatMulOp>, between);
        if (!product || product->getBlock() != scores_.softmax->getBlock() || !canMake(product))
          continue;
        between = kernel::dependentOn(product, between);
        if (product == scores_.product) { // as the derivative of what was done to the scores
          if (llvm::all_of(between, [&](Operation *op) { return canBeMade(op); }))
            inside_.insert(between.begin(), between.end());
          continue;
        }
        auto isRead = [&](Operation *user) { return isInside(user) || between.contains(user); };
        auto isHeld = [&](Operation *op) { return llvm::all_of(op->getUsers(), isRead); };
        if (!isHeld(product) || !llvm::all_of(between, isHeld))
          continue;
        made_.insert(product);
        inside_.insert(product);
        inside_.insert(between.begin(), between.end());
      }
    return true;
  }

  /// Matrices that are made of vectors: with the rows that they are added to.
  void takeMasks() {
    for (size_t next = 0; next < inside_.size(); ++next)
      if (!made_.contains(inside_[next]))
        for (Value operand : inside_[next]->getOperands())
          if (!isInside(operand.getDefiningOp())) {
            auto made = madeOfVectors(operand, machine_);
            inside_.insert(made.begin(), made.end());
          }
  }

  /// Products that those depend on, or others behind them, are not the gradient's. False where
  /// there is only the way there.
  bool leaveWayThere() {
    auto all = llvm::to_vector(products_.getArrayRef());
    for (Operation *product : all) {
      auto behind = dependents(block(), product);
      auto isBehind = [&](Operation *other) { return other != product && behind.contains(other); };
      if (llvm::any_of(made_, isBehind) || llvm::any_of(all, isBehind)) {
        products_.remove(product);
        there_.insert(product);
      }
    }
    return made_.size() > 1 || llvm::any_of(products_, [&](Operation *product) {
             bool turned = isTransposition(rowsOf(product).getDefiningOp());
             return turned != isOnTheRight(product);
           });
  }

  /// What reads the operator's result, and is in no kernel.
  SmallVector<Operation *> outsideReaders(Operation *op) const {
    auto isSum = [&](Operation *user) {
      return llvm::any_of(sums_, [&](const RowsSum &each) { return user == each.reader; });
    };
    SmallVector<Operation *> readers;
    for (Operation *user : op->getUsers())
      if (!isInside(user) && !products_.contains(user) && !there_.contains(user) && !isSum(user))
        readers.push_back(user);
    return readers;
  }

  /// Rows that something else reads become results. What depends on a result, or can't be one, is
  /// left out of the kernel; false where something in it needs that.
  bool leaveReaders() {
    for (bool isSettled = false; !isSettled;) {
      isSettled = true;
      stored_.clear();
      auto core = neededByProducts();
      auto leave = [&](Operation *op) {
        isSettled = false;
        inside_.remove(op);
        return rows_.remove(op) && !core.contains(op);
      };
      for (Operation *op : llvm::to_vector(rows_.getArrayRef())) {
        if (outsideReaders(op).empty())
          continue;
        auto sum = dyn_cast<graph::ReduceSumOp>(op);
        bool isSumAlone =
            sum && llvm::none_of(op->getUsers(), [&](Operation *user) { return isInside(user); });
        if (!sum && isWhole(op->getResult(0)) && hasKnownSizes(op) &&
            getElementTypeOrSelf(op->getResult(0).getType()).isF32())
          stored_.insert(op);
        else if (!leave(op))
          return false;
        else if (isSumAlone && !addSum(sum.getX(), sum, nullptr))
          return false;
      }
      auto behind = dependents(block(), readersOfResults());
      for (Operation *op : llvm::to_vector(rows_.getArrayRef()))
        if (!core.contains(op) && llvm::any_of(op->getOperands(), [&](Value value) {
              return behind.contains(value.getDefiningOp());
            }))
          leave(op);
    }
    return !products_.empty() || !sums_.empty() || !stored_.empty();
  }

  /// Products, sums, and what else reads a result.
  SmallVector<Operation *> readersOfResults() const {
    SmallVector<Operation *> readers(products_.begin(), products_.end());
    for (const RowsSum &each : sums_)
      readers.push_back(each.sum);
    for (Operation *op : stored_)
      readers.append(outsideReaders(op));
    return readers;
  }

  bool isOnTheRight(Operation *product) const {
    return !isInside(product->getOperand(0).getDefiningOp());
  }
  /// The operand that is of rows; they are the other one's, too, in no product of the gradient.
  Value rowsOf(Operation *product) const { return product->getOperand(isOnTheRight(product)); }

  /// Whether nothing that is read depends on a result, products of rows have them on one side, and
  /// those that rows are made of on none.
  bool isOpen() const {
    auto behind = dependents(block(), readersOfResults());
    auto all = neededByProducts();
    auto stored = needed(stored_.getArrayRef());
    all.insert(stored.begin(), stored.end());
    return llvm::all_of(all, [&](Operation *op) {
      auto rowsRead = llvm::count_if(op->getOperands(),
                                     [&](Value value) { return isInside(value.getDefiningOp()); });
      int64_t most = made_.contains(op) ? 0 : products_.contains(op) ? 1 : rowsRead;
      return rowsRead <= most && llvm::all_of(op->getOperands(), [&](Value value) {
               Operation *read = value.getDefiningOp();
               return !read || !behind.contains(read);
             });
    });
  }

  /// What these are computed from in the kernel, and they.
  llvm::SetVector<Operation *> needed(ArrayRef<Operation *> results) const {
    llvm::SetVector<Operation *> found(results.begin(), results.end());
    for (size_t next = 0; next < found.size(); ++next)
      for (Value operand : found[next]->getOperands())
        if (isInside(operand.getDefiningOp()) && !made_.contains(found[next]))
          found.insert(operand.getDefiningOp());
    return found;
  }
  /// The same of the gradient's products and sums, which are left out where they aren't inside.
  llvm::SetVector<Operation *> neededByProducts() const {
    SmallVector<Operation *> results(products_.begin(), products_.end());
    for (const RowsSum &each : sums_)
      results.push_back(each.rows.getDefiningOp());
    return needed(results);
  }

  /// a d  ->  (d^T a^T)^T
  Operation *withRowsOnTheLeft(Operation *product) {
    if (!isOnTheRight(product))
      return product;
    OpBuilder builder(product);
    graph::ShapeContext shapes(product->getContext());
    graph::GraphBuilder graph(builder, shapes, product->getLoc());
    auto turned = [&](Value value) -> Value {
      Operation *made = value.getDefiningOp();
      if (isTransposition(made))
        return made->getOperand(0);
      return graph.transpose(value, kernel::swapLast(type_.getRank()));
    };
    Value rows = turned(product->getOperand(1));
    inside_.insert(rows.getDefiningOp());
    Value result = graph::GraphBuilder::first(
        graph.create("matmul", {rows, turned(product->getOperand(0))}, {}));
    Value back = turned(result);
    product->getResult(0).replaceAllUsesWith(back);
    erase(product);
    products_.insert(result.getDefiningOp());
    return result.getDefiningOp();
  }

  /// What reads a result, with all that depends on it, where it stands before the last of them.
  static void moveBehind(ArrayRef<Operation *> readers, graph::KernelOp kernel) {
    auto moved = dependents(*kernel->getBlock(), readers);
    SmallVector<Operation *> before;
    for (Operation &op : *kernel->getBlock()) {
      if (&op == kernel)
        break;
      if (moved.contains(&op))
        before.push_back(&op);
    }
    Operation *end = kernel;
    for (Operation *op : before) {
      op->moveAfter(end);
      end = op;
    }
  }

  kernel::AttentionScores scores_;
  const kernel::Machine &machine_;
  RankedTensorType type_;
  llvm::SetVector<Operation *> inside_, made_;
  llvm::SetVector<Operation *> rows_;     // of those inside, what is made of the softmax
  llvm::SetVector<Operation *> products_; // of the gradient's results
  llvm::SetVector<Operation *> there_;    // of the result on the way there
  llvm::SetVector<Operation *> stored_;   // rows that are results
  SmallVector<RowsSum> sums_;             // that become results
  SmallVector<Group> groups_;             // kernels; the products are in the first
};

void visitGradients(func::FuncOp function, const Options &options,
                    llvm::function_ref<void(Gradient &)> visit) {
  if (!options.fuse || !options.machine.templates->find(kernel::algorithm::attentionGradient))
    return;
  SmallVector<graph::SoftmaxOp> softmaxes;
  function.walk([&](graph::SoftmaxOp softmax) {
    if (!softmax->getParentOfType<graph::KernelOp>())
      softmaxes.push_back(softmax);
  });
  for (graph::SoftmaxOp softmax : softmaxes)
    if (auto scores = kernel::scoresBehind(softmax))
      if (Gradient gradient(std::move(*scores), options.machine); gradient.match())
        visit(gradient);
}

} // namespace

llvm::SetVector<Operation *> productsOfAttention(func::FuncOp function, const Options &options,
                                                 double rate) {
  llvm::SetVector<Operation *> products;
  visitGradients(function, options, [&](Gradient &gradient) {
    auto own = gradient.products();
    auto isAsked = [](Operation *product) { return graph::askedCastRule(product).has_value(); };
    if (gradient.isWorth(rate) && llvm::none_of(own, isAsked))
      products.insert(own.begin(), own.end());
  });
  return products;
}

LogicalResult fuseAttentionGradients(func::FuncOp function, const Options &options) {
  visitGradients(function, options, [&](Gradient &gradient) {
    if (gradient.isWorth() && gradient.prepare())
      gradient.build(options);
  });
  return success();
}

} // namespace tensmith::rewrite
