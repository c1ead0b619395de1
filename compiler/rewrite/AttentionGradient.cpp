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
// What else is summed over those rows is a gradient of what was added to scores (a bias that is
// learned). A sum over queries or keys becomes a product with ones, and one over matrices alone, as
// of a bias for each pair of positions, is added up by the kernel: over the dimensions that all
// such sums have in common, but one where nothing would be left for other threads.
//
// before: db = sum of d over queries, and more     after: db = sum of (d^T ones), over the rest
//         db = sum of d over samples, and heads           db = sum of (kernel's sum), over heads

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
/// Sweeps over matrices of scores that are kept in memory: four on the way there, where one is
/// stored by its product, read and stored by the softmax and read by a product; on the way back
/// three products read one, and one is stored and, with the first, goes through the rows'
/// operators.
constexpr int64_t kSweepsInMemory = 12;
/// Of scores whose number only a run tells: so much faster products in 16 bits are not given up for
/// their memory. Pairs of bf16 are twice as fast as f32, tiles of a matrix unit eight times or
/// more.
constexpr double kMostRateOfOpen = 2;

/// What is computed from the operators, in their block.
llvm::SmallPtrSet<Operation *, 16> dependents(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 16> found(ops.begin(), ops.end());
  SmallVector<Operation *> next(ops);
  while (!next.empty())
    for (Operation *user : next.pop_back_val()->getUsers())
      if (Operation *own = ops.front()->getBlock()->findAncestorOpInBlock(*user);
          own && found.insert(own).second)
        next.push_back(own);
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
  SmallVector<int64_t> axes;
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
    if (!followRows() || !takeProducts() || !leaveWayThere())
      return false;
    takeMasks();
    return isOpen() && divideSums();
  }

  /// Makes products of sums over rows. False where they can't be, and nothing is changed.
  bool prepare() {
    SmallVector<std::pair<graph::ReduceSumOp, Value>> replaced;
    SmallVector<Operation *> made;
    for (RowsSum &each : sums_) {
      auto [value, result] = sumInKernel(each);
      bool fits = value && value.getType() == each.sum.getType() &&
                  (!isa<graph::MatMulOp>(result) || canMake(result));
      if (!fits) {
        for (auto &[sum, other] : replaced)
          graph::eraseUnused(other.getDefiningOp());
        graph::eraseUnused(value ? value.getDefiningOp() : nullptr);
        return false;
      }
      replaced.emplace_back(each.sum, value);
      made.push_back(result);
    }
    for (auto &[sum, value] : replaced) {
      sum.getResult().replaceAllUsesWith(value);
      sum.erase();
    }
    for (Operation *result : made) {
      products_.insert(result);
      inside_.insert(result->getOperand(0).getDefiningOp());
    }
    sums_.clear();
    return true;
  }

  /// By the bytes that memory is spared, and the product that is made again; where the products
  /// could be made so many times as fast, in 16 bits, by what that would spare, too.
  bool isWorth(double rate = 1) const {
    constexpr int64_t kFloat = 4;
    graph::MatMulOp scores = scores_.product;
    int64_t depth = cast<RankedTensorType>(scores.getA().getType()).getShape().back();
    if (!type_.hasStaticShape() || ShapedType::isDynamic(depth))
      return rate <= kMostRateOfOpen;
    // What is kept from the way there to the way back comes from memory: all else passes in
    // between.
    bool isNear = type_.getNumElements() * kFloat <= machine_.l2Bytes;
    using From = kernel::Traffic::From;
    kernel::Traffic sweeps{double(kSweepsInMemory * kFloat),
                           isNear ? From::SecondCache : From::Memory};
    double product = double(depth) / kernel::multiplyAddsPerCycle(machine_);
    double slower = double(products().size()) * product * (1 - 1 / rate);
    return kernel::cyclesOf(sweeps, machine_) > product + slower;
  }

  /// Of the rows, there and back.
  llvm::SetVector<Operation *> products() const {
    llvm::SetVector<Operation *> all(made_);
    all.insert(products_.begin(), products_.end());
    all.insert(there_.begin(), there_.end());
    return all;
  }

  void build(const Options &options) {
    llvm::SetVector<Operation *> turned;
    for (Operation *product : products_)
      turned.insert(isa<graph::MatMulOp>(product) ? withRowsOnTheLeft(product) : product);
    products_ = std::move(turned);
    SmallVector<Operation *> sorted = needed().takeVector();
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    Operation *last = sorted.back();
    OpBuilder builder(last);
    SmallVector<Value> results;
    for (Operation *op : sorted)
      if (products_.contains(op))
        results.push_back(op->getResult(0));
    KernelRegion region(last->getContext());
    kernel::Point asked = region.begin(sorted, results, products_.front(), options);
    for (Operation *op : sorted) {
      if (isa<graph::MatMulOp>(op))
        region.addRight(op, laidOutRight(op, builder, last->getLoc(), options, asked));
      region.add(op);
    }
    graph::KernelOp kernel =
        region.finish(builder, results, products_.front(), sorted, options.machine);
    moveReadersBehind(kernel);
    for (auto [value, result] : llvm::zip_equal(results, kernel.getResults()))
      value.replaceAllUsesWith(result);
    for (Operation *op : llvm::reverse(sorted))
      if (op->use_empty())
        op->erase();
  }

private:
  bool isWhole(Value value) const {
    return kernel::rowShapeOf(dyn_cast<RankedTensorType>(value.getType()), type_) ==
           kernel::RowShape::Whole;
  }
  bool isInside(Operation *op) const { return op && inside_.contains(op); }

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
    inside_.insert(scores_.softmax);
    for (size_t next = inside_.size() - 1; next < inside_.size(); ++next)
      for (Operation *user : inside_[next]->getUsers())
        if (!isInside(user) && !takeReader(user))
          return false;
    return inside_.size() < kMostOperators;
  }

  bool takeReader(Operation *user) {
    if (user->getBlock() != scores_.softmax->getBlock() || inside_.size() >= kMostOperators)
      return false;
    if (takeSum(user))
      return true;
    if (isa<graph::MatMulOp>(user)) {
      products_.insert(user);
      return canMake(user);
    }
    bool isRows = isTransposition(user)
                      ? isWhole(user->getOperand(0)) &&
                            llvm::all_of(user->getUsers(), llvm::IsaPred<graph::MatMulOp>)
                      : canBeMade(user) && staysInRows(user);
    return isRows && inside_.insert(user);
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
    return llvm::all_of(view->getUsers(), [&](Operation *reader) {
      auto sum = dyn_cast<graph::ReduceSumOp>(reader);
      return sum && addSum(rows, sum, view);
    });
  }

  bool addSum(Value rows, graph::ReduceSumOp sum, graph::ReshapeOp view) {
    SmallVector<int64_t> axes(sum.getAxes());
    if (view) {
      axes.clear();
      for (int64_t axis : sum.getAxes()) {
        auto behind = dimensionsBehind(view, axis);
        if (!behind)
          return false;
        axes.append(*behind);
      }
    }
    llvm::sort(axes);
    sums_.push_back({rows, sum, axes});
    return true;
  }

  bool isOverMatrices(const RowsSum &each) const {
    return llvm::all_of(each.axes, [&](int64_t axis) { return axis < type_.getRank() - 2; });
  }

  /// Finds over which dimensions of the stack the kernel adds up matrices. A work item goes over
  /// them, one matrix after the other: they are the same for all sums, and items are left. False
  /// where there are no such dimensions: a sum would be as large as the scores.
  bool divideSums() {
    if (llvm::none_of(sums_, [&](const RowsSum &each) { return isOverMatrices(each); }))
      return true;
    auto stack = llvm::seq(int64_t(0), type_.getRank() - 2);
    auto isMany = [&](int64_t axis) { return type_.getDimSize(axis) != 1; };
    for (int64_t axis : stack)
      if (isMany(axis) && llvm::all_of(sums_, [&](const RowsSum &each) {
            return !isOverMatrices(each) || llvm::is_contained(each.axes, axis);
          }))
        addedUp_.push_back(axis);
    if (llvm::count_if(stack, isMany) == int64_t(addedUp_.size()) && !addedUp_.empty())
      addedUp_.pop_back();
    return !addedUp_.empty();
  }

  /// The sum's value, and what of it is the kernel's: a product with ones, or a sum of matrices.
  std::pair<Value, Operation *> sumInKernel(const RowsSum &each) {
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
      made = value = graph.reduce("graph.reduce_sum", each.rows, addedUp_, /*keepdims=*/true);
      llvm::erase_if(rest, [&](int64_t axis) { return llvm::is_contained(addedUp_, axis); });
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
    return made_.size() > 1;
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

  /// Products that those depend on are not the gradient's.
  bool leaveWayThere() {
    products_.remove_if([&](Operation *product) {
      auto behind = dependents(product);
      bool isThere = llvm::any_of(made_, [&](Operation *made) { return behind.contains(made); });
      return isThere && there_.insert(product);
    });
    return products_.size() > 1 && llvm::any_of(products_, [&](Operation *product) {
             bool turned = isTransposition(rowsOf(product).getDefiningOp());
             return turned != isOnTheRight(product);
           });
  }

  bool isOnTheRight(Operation *product) const {
    return !isInside(product->getOperand(0).getDefiningOp());
  }
  /// The operand that is of rows; they are the other one's, too, in no product of the gradient.
  Value rowsOf(Operation *product) const { return product->getOperand(isOnTheRight(product)); }

  /// Whether nothing that is read depends on a result, products of rows have them on one side, and
  /// those that rows are made of on none.
  bool isOpen() const {
    SmallVector<Operation *> results(products_.begin(), products_.end());
    for (const RowsSum &each : sums_)
      results.push_back(each.sum);
    auto behind = dependents(results);
    return llvm::all_of(needed(), [&](Operation *op) {
      auto rowsRead = llvm::count_if(op->getOperands(),
                                     [&](Value value) { return isInside(value.getDefiningOp()); });
      int64_t most = made_.contains(op) ? 0 : products_.contains(op) ? 1 : rowsRead;
      return rowsRead <= most && llvm::all_of(op->getOperands(), [&](Value value) {
               Operation *read = value.getDefiningOp();
               return !read || !behind.contains(read);
             });
    });
  }

  /// What the gradient's products are computed from, and they.
  llvm::SetVector<Operation *> needed() const {
    llvm::SetVector<Operation *> found(products_.begin(), products_.end());
    for (const RowsSum &each : sums_)
      found.insert(each.rows.getDefiningOp());
    for (size_t next = 0; next < found.size(); ++next)
      for (Value operand : found[next]->getOperands())
        if (isInside(operand.getDefiningOp()) && !made_.contains(found[next]))
          found.insert(operand.getDefiningOp());
    return found;
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
    product->erase();
    return result.getDefiningOp();
  }

  /// What reads a result, and stands before the last of them.
  void moveReadersBehind(graph::KernelOp kernel) {
    auto readers = dependents(products_.getArrayRef());
    for (Operation *product : products_)
      readers.erase(product);
    SmallVector<Operation *> before;
    for (Operation &op : *kernel->getBlock()) {
      if (&op == kernel)
        break;
      if (readers.contains(&op))
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
  llvm::SetVector<Operation *> products_; // of the gradient's results
  llvm::SetVector<Operation *> there_;    // of the result on the way there
  SmallVector<RowsSum> sums_;             // that become results
  SmallVector<int64_t> addedUp_;          // of the stack, by the kernel
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
