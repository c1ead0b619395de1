// Loops backward: a second loop runs the iterations from the last to the first.
//
// before: a loop carries c, reads w             after: it also scans out what its body computed and
//                                               the way back uses; a second loop carries the
//                                               cotangent of c, and adds up that of w
//
// Two things are not added up in the loop, since that would cost the whole each time: rows of a
// tensor that the body reads at its own iteration, whose cotangents are scanned out, and matrices
// that the body multiplies by, whose cotangent is made of products over many iterations, behind the
// loop (IterationSums.h).
//
// What has another size in each iteration, as a state that grows, can't be scanned out: the forward
// loop carries a sequence of it, which the way back reads from its end.
#include "compiler/autodiff/ReverseLoop.h"

#include "compiler/autodiff/IterationSums.h"
#include "compiler/autodiff/LoopBuilder.h"
#include "compiler/autodiff/LoopParts.h"
#include "compiler/autodiff/Procedures.h"
#include "compiler/graph/Structure.h"

using namespace mlir;

namespace tensmith::autodiff {
namespace {

class LoopReversal {
public:
  LoopReversal(const graph::GradientCode &code, Activity &activity, LoopPart part,
               LoopCotangents &cotangents, Procedures *procedures)
      : code_(code), activity_(activity), loop_(part.loop), part_(part), cotangents_(cotangents),
        inner_(code, activity, procedures, /*keepsRows=*/false, /*keepsLoops=*/true),
        around_(part.loop), backward_(code, activity, part.loop.getLoc()),
        isShort_(isShortLoop(part.loop)) {}

  LogicalResult run(ArrayRef<Value> given) {
    if (Value goesOn = body().getTerminator()->getOperand(0); activity_.isUnknown(goesOn))
      return reportUnknown(activity_, goesOn, loop_);
    if (failed(beginBackward(given)) || failed(reverseBody()) || failed(endBackward()) ||
        failed(recordForward()))
      return failure();
    return handOver();
  }

private:
  /// What the body reads row by row, or multiplies by; `cotangent` is a row's, or a product's.
  struct Deferred {
    Value from;
    Value left; // of a product: what was multiplied, in the body
    Value cotangent;
    int64_t together = 1; // iterations
  };

  Block &body() { return loop_.getBody().front(); }
  size_t carriedCount() { return loop_.getCarried().size(); }
  bool isOutside(Value value) { return !loop_.getBody().isAncestor(value.getParentRegion()); }

  /// The iterations that the loop ran, as a scalar of i64: what it was given, or where its
  /// condition may have ended it the rows of what it scans out.
  Value tripCount() {
    if (graph::neverStops(loop_) && !graph::GraphCode::isAbsent(loop_.getTripCount()))
      return code_.reshape(code_.cast(loop_.getTripCount(), code_.builder.getI64Type()), {});
    if (loop_.getNumResults() == carriedCount()) {
      auto extended = extendLoop(code_, activity_, loop_, {{}, {}, {body().getArgument(0)}});
      if (failed(extended))
        return {};
      loop_ = *extended;
    }
    return code_.sizeOf(loop_.getResults().back(), 0);
  }

  /// The backward loop's block takes iteration, condition and the cotangents of carried values.
  LogicalResult beginBackward(ArrayRef<Value> results) {
    trips_ = tripCount();
    Value last = code_.add(trips_, -1);
    if (!last)
      return failure();
    for (size_t i = 0; i < carriedCount(); ++i) {
      Value argument = body().getArgument(unsigned(2 + i));
      if (!activity_.isActive(argument))
        continue;
      Value start = results[i] ? results[i] : code_.zerosLike(loop_.getResult(unsigned(i)));
      bool isVaried = around_.varies(argument);
      if (!isVaried)
        start = withType(code_, start, argument.getType());
      if (!start)
        return failure();
      numbers_.push_back(unsigned(i));
      carried_.push_back(backward_.carry(
          start, isVaried ? around_.typeOfState(code_.graph.shapes, argument) : start.getType()));
    }
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPointToEnd(&backward_.block());
    place_ = iteration_ = code_.sub(last, backward_.iteration());
    if (part_.offset)
      place_ = code_.add(iteration_, part_.offset);
    return seedBody(results);
  }

  /// What the loop's results have got, to what its body yields.
  LogicalResult seedBody(ArrayRef<Value> results) {
    Operation *yield = body().getTerminator();
    code_.builder.setInsertionPoint(yield);
    marker_ = code_.builder.create<graph::NoneOp>(loop_.getLoc(), code_.builder.getNoneType());
    auto values = cast<graph::YieldOp>(yield).getValues();
    for (auto [number, cotangent] : llvm::zip_equal(numbers_, carried_))
      if (failed(inner_.add(values[1 + number], cotangent)))
        return failure();
    for (size_t i = carriedCount(); i < results.size(); ++i)
      if (results[i] && failed(inner_.add(values[1 + i], row(results[i], place_))))
        return failure();
    return success(place_ != nullptr);
  }

  Value row(Value stack, Value at) {
    return code_.op("graph.gather", {stack, at}, {code_.integer("axis", 0)});
  }

  /// The number of an iteration, in the body.
  Value position() { return part_.position ? part_.position : body().getArgument(0); }

  bool readsRow(Operation *op) {
    auto gather = dyn_cast<graph::GatherOp>(op);
    return gather && gather.getIndices() == position() && gather.getAxis() == 0 &&
           activity_.isActive(gather.getX()) && isOutside(gather.getX()) &&
           graph::GraphCode::isRanked(gather.getX());
  }
  bool isSummedBehind(Operation *op) {
    return multipliesByOuter(loop_, op) && activity_.isActive(op->getOperand(1)) &&
           !around_.varies(op->getOperand(0));
  }

  /// The way back is built behind the body's own operators, whose values it uses, and moved.
  LogicalResult reverseBody() {
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPoint(body().getTerminator());
    SmallVector<Operation *> forward;
    for (Operation *op = &body().front(); op != marker_; op = op->getNextNode())
      forward.push_back(op);
    for (Operation *op : llvm::reverse(forward))
      if (failed(reverseOperator(op)))
        return failure();
    auto first = std::next(marker_->getIterator());
    Block &block = backward_.block();
    block.getOperations().splice(block.end(), body().getOperations(), first,
                                 body().getTerminator()->getIterator());
    marker_->erase();
    return success();
  }

  LogicalResult reverseOperator(Operation *op) {
    bool isRow = readsRow(op), isProduct = isSummedBehind(op);
    if (!isRow && !isProduct)
      return inner_.run(op, op);
    Value cotangent = inner_.take(op->getResult(0));
    if (!cotangent)
      return success();
    code_.graph.location = op->getLoc();
    if (isRow) {
      deferred_.push_back({op->getOperand(0), {}, cotangent});
      return success();
    }
    Value left = op->getOperand(0);
    deferred_.push_back({op->getOperand(1), left, cotangent, iterationsTogether(left)});
    if (!activity_.isActive(left))
      return success();
    const graph::GradientRule *rule = graph::findGradientRule(op);
    return inner_.add(left, rule->pull({code_, op, cotangent}, 0));
  }

  /// The block yields its condition, carried cotangents, sums, and what is scanned out.
  LogicalResult endBackward() {
    yielded_.push_back(backward_.condition());
    {
      OpBuilder::InsertionGuard guard(code_.builder);
      code_.builder.setInsertionPointToEnd(&backward_.block());
      for (auto [number, own] : llvm::zip_equal(numbers_, carried_)) {
        Value state = body().getArgument(2 + number), given = inner_.take(state);
        if (around_.varies(state))
          yielded_.push_back(given ? given : code_.zerosLike(state));
        else
          yielded_.push_back(withType(code_, given ? given : code_.zerosLike(own), own.getType()));
      }
    }
    for (Value value : inner_.reached()) {
      if (!isOutside(value))
        continue; // a value of the body that was computed from nothing wanted
      sums_.push_back(value);
      Value sum = backward_.carry(cotangents_.beginSum(value), value.getType());
      OpBuilder::InsertionGuard guard(code_.builder);
      code_.builder.setInsertionPointToEnd(&backward_.block());
      yielded_.push_back(
          withType(code_, code_.addChanges(sum, inner_.take(value)), value.getType()));
    }
    for (const Deferred &part : deferred_)
      yielded_.push_back(part.cotangent);
    return success(!llvm::is_contained(yielded_, Value()));
  }

  /// Values of the body that the way back uses are scanned out by the forward loop and read from
  /// there. The iteration is known, and constants are had again for nothing.
  LogicalResult recordForward() {
    llvm::SetVector<Value> used;
    auto isBodys = [&](Value value) { return value.getParentRegion() == &loop_.getBody(); };
    backward_.block().walk([&](Operation *op) {
      for (Value operand : op->getOperands())
        if (isBodys(operand))
          used.insert(operand);
    });
    for (Value operand : yielded_)
      if (isBodys(operand))
        used.insert(operand);
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPointAfter(place_.getDefiningOp());
    SmallVector<Value> recorded;
    for (Value value : used) {
      Operation *op = value.getDefiningOp();
      if (value == body().getArgument(0))
        replaceInBackward(value, iteration_);
      else if (value == part_.position)
        replaceInBackward(value, place_);
      else if (isa_and_nonnull<graph::ConstantOp, graph::NoneOp, graph::IotaOp>(op))
        replaceInBackward(value, code_.builder.clone(*op)->getResult(0));
      else if (isa<RankedTensorType>(value.getType()))
        recorded.push_back(value);
      else
        return reportNoGradient(loop_, "where its body's values are no tensors of known rank");
    }
    return record(recorded);
  }

  LogicalResult record(ArrayRef<Value> recorded) {
    LoopExtension extension;
    SmallVector<Value> inSequences;
    for (Value value : recorded)
      (around_.varies(value) ? inSequences : extension.scanned).push_back(value);
    SmallVector<Value> inStacks(extension.scanned);
    for (const Deferred &part : deferred_)
      if (part.left)
        extension.scanned.push_back(part.left);
    for (Value value : inSequences)
      if (failed(carrySequence(value, extension)))
        return failure();
    auto named = nameUntold(inSequences);
    size_t sequence = carriedCount();
    auto extended = extendLoop(code_, activity_, loop_, extension);
    if (failed(extended))
      return failure();
    loop_ = *extended;
    for (Value value : inSequences) {
      Value again =
          code_.op("graph.sequence_at", {loop_.getResult(unsigned(sequence++)), iteration_});
      if (!again)
        return failure();
      again.setType(renamed(value.getType(), named)); // which tells its sizes
      replaceInBackward(value, again);
    }
    ResultRange added = loop_.getResults().take_back(extension.scanned.size());
    stacks_.assign(added.begin(), added.end());
    for (auto [value, stack] : llvm::zip(inStacks, stacks_)) {
      Value again = withType(code_, row(stack, iteration_), value.getType());
      if (!again)
        return failure();
      replaceInBackward(value, again);
    }
    stacks_.erase(stacks_.begin(), stacks_.begin() + inStacks.size());
    return success();
  }

  /// Sizes of what is read from sequences over a name that nothing of it has as a whole dimension,
  /// as of what a state and a slice broadcast to: by names of their own, which the reading tells.
  /// All types of the way back have them then.
  DenseMap<AffineExpr, AffineExpr> nameUntold(ArrayRef<Value> read) {
    auto &shapes = code_.graph.shapes;
    DenseSet<AffineExpr> told;
    DenseMap<AffineExpr, AffineExpr> named;
    for (Value value : read)
      for (AffineExpr size : shapes.dims(value.getType()))
        if (isa<AffineSymbolExpr>(size))
          told.insert(size);
    for (Value value : read)
      for (AffineExpr size : shapes.dims(value.getType())) {
        bool isTold = true;
        size.walk([&](AffineExpr part) {
          if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
            isTold &= told.contains(part) || around_.has(shapes.symbols()[symbol.getPosition()]);
        });
        if (!isTold && !named.contains(size))
          named[size] = shapes.freshSymbol("carried");
      }
    if (named.empty())
      return named;
    backward_.region().walk([&](Operation *op) {
      for (Value result : op->getResults())
        result.setType(renamed(result.getType(), named));
      for (Region &region : op->getRegions())
        for (BlockArgument argument : region.getArguments())
          argument.setType(renamed(argument.getType(), named));
    });
    shapes.forgetContents();
    return named;
  }
  Type renamed(Type type, const DenseMap<AffineExpr, AffineExpr> &named) {
    return code_.graph.shapes.withSizes(type, [&](AffineExpr size) {
      auto name = named.find(size);
      return name == named.end() ? size : name->second;
    });
  }

  /// The body puts the value to the end of a sequence that the loop begins with empty.
  LogicalResult carrySequence(Value value, LoopExtension &extension) {
    auto type = cast<RankedTensorType>(value.getType());
    Type element = RankedTensorType::get(type.getShape(), type.getElementType());
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPoint(loop_);
    Value empty = code_.op("graph.sequence_construct", {},
                           {code_.builder.getNamedAttr("element", TypeAttr::get(element))});
    if (!empty)
      return failure();
    Value before = body().addArgument(empty.getType(), loop_.getLoc());
    code_.builder.setInsertionPoint(body().getTerminator());
    Value after = code_.op("graph.sequence_insert", {before, value, code_.graph.none()});
    extension.initial.push_back(empty);
    extension.carried.push_back(after);
    return success(after != nullptr);
  }

  void replaceInBackward(Value value, Value by) {
    value.replaceUsesWithIf(by, [&](OpOperand &use) {
      return backward_.region().isAncestor(use.getOwner()->getParentRegion());
    });
    std::replace(yielded_.begin(), yielded_.end(), value, by);
  }

  LogicalResult handOver() {
    auto backward = backward_.close(trips_, {}, yielded_);
    if (failed(backward))
      return failure();
    auto results = backward->getResults();
    for (auto [position, number] : llvm::enumerate(numbers_))
      if (failed(cotangents_.giveCarried(number, results[position])))
        return failure();
    for (auto [position, value] : llvm::enumerate(sums_))
      if (failed(cotangents_.giveSum(value, results[carried_.size() + position])))
        return failure();
    return handOverDeferred(results.take_back(deferred_.size()));
  }

  LogicalResult handOverDeferred(ResultRange scanned) {
    size_t nextStack = 0;
    for (auto [part, stack] : llvm::zip_equal(deferred_, scanned)) {
      if (!part.left) {
        Value inOrder = code_.op("graph.reverse", {stack}, {code_.integers("axes", {0})});
        if (!inOrder || failed(cotangents_.giveRows(part.from, inOrder)))
          return failure();
        continue;
      }
      Value left = stacks_[nextStack++];
      Value whole = isShort_ ? productOfAll(code_, left, stack)
                             : sumOfProducts(code_, activity_, cotangents_.beginSum(part.from),
                                             left, stack, trips_, part.together);
      if (!whole || failed(cotangents_.giveSum(part.from, whole)))
        return failure();
    }
    return success();
  }

  const graph::GradientCode &code_;
  Activity &activity_;
  graph::LoopOp loop_;
  LoopPart part_;
  LoopCotangents &cotangents_;
  Reverse inner_; // of the body
  SizesAround around_;
  LoopBuilder backward_;
  bool isShort_;
  Operation *marker_ = nullptr; // between the way forward and the way back, while both are in one
  Value trips_, iteration_, place_; // the last in the whole loop, where this is a part
  SmallVector<unsigned> numbers_;   // of carried values whose cotangents are carried
  SmallVector<Value> carried_;      // those cotangents, in the block
  SmallVector<Value> sums_, yielded_;
  SmallVector<Deferred> deferred_;
  SmallVector<Value> stacks_; // of the deferred products' left operands
};

/// Hands all to the way back around the loop.
class WholeLoop : public LoopCotangents {
public:
  WholeLoop(const graph::GradientCode &code, graph::LoopOp loop, Reverse &outer)
      : code_(code), initial_(loop.getCarried()), outer_(outer) {}

  LogicalResult giveCarried(unsigned number, Value cotangent) override {
    return outer_.add(initial_[number], cotangent);
  }
  Value beginSum(Value of) override { return code_.zerosLike(of); }
  LogicalResult giveSum(Value of, Value sum) override { return outer_.add(of, sum); }
  LogicalResult giveRows(Value of, Value rows) override { return addRows(code_, outer_, of, rows); }

private:
  const graph::GradientCode &code_;
  SmallVector<Value> initial_;
  Reverse &outer_;
};

} // namespace

SizesAround::SizesAround(graph::LoopOp loop) {
  auto take = [&](TypeRange types) {
    for (Type type : types)
      if (auto ranked = dyn_cast<RankedTensorType>(type))
        names_.insert(graph::symbolNames(ranked).begin(), graph::symbolNames(ranked).end());
  };
  for (Operation *scope = loop; !isa<func::FuncOp>(scope); scope = scope->getParentOp()) {
    take(scope->getBlock()->getArgumentTypes());
    for (Operation &op : *scope->getBlock())
      take(op.getResultTypes());
  }
}

bool SizesAround::varies(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && llvm::any_of(graph::symbolNames(type),
                              [&](StringAttr name) { return !names_.contains(name); });
}

Type SizesAround::typeOfState(graph::ShapeContext &shapes, Value value) const {
  return shapes.withSizes(value.getType(), [&](AffineExpr size) {
    bool isFixed = true;
    size.walk([&](AffineExpr part) {
      if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
        isFixed &= names_.contains(shapes.symbols()[symbol.getPosition()]);
    });
    return isFixed ? size : shapes.freshSymbol("carried");
  });
}

bool isShortLoop(graph::LoopOp loop) {
  auto trips = graph::constantInteger(loop.getTripCount());
  bool hasLoops = !loop.getBody().getOps<graph::LoopOp>().empty();
  return trips && *trips <= (hasLoops ? kShortLoopOfLoops : kShortLoop) && graph::neverStops(loop);
}

LogicalResult addRows(const graph::GradientCode &code, Reverse &reverse, Value of, Value rows) {
  if (!rows)
    return failure();
  SmallVector<int64_t> starts(size_t(graph::GraphCode::rank(rows)), 0), steps(starts.size(), 1);
  return reverse.add(of, code.placeLike(rows, of, starts, steps));
}

LogicalResult reversePart(const graph::GradientCode &code, Activity &activity, LoopPart part,
                          ArrayRef<Value> given, LoopCotangents &cotangents,
                          Procedures *procedures) {
  return LoopReversal(code, activity, part, cotangents, procedures).run(given);
}

LogicalResult reverseLoop(const graph::GradientCode &code, Activity &activity, graph::LoopOp loop,
                          ArrayRef<Value> given, Reverse &outer, Procedures *procedures,
                          Checkpointing plan) {
  if (plan != Checkpointing::None && canBeCut(loop))
    return reverseInParts(code, activity, loop, given, outer, procedures, plan);
  WholeLoop whole(code, loop, outer);
  return reversePart(code, activity, {loop, {}, {}}, given, whole, procedures);
}

} // namespace tensmith::autodiff
