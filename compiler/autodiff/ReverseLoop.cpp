// Loops backward: a second loop runs the iterations from the last to the first.
//
// before: a loop carries c, reads w             after: it also scans out what its body computed and
//                                               the way back uses; a second loop carries the
//                                               cotangent of c, and adds up that of w
//
// Two things are not added up in the loop, since that would cost the whole each time: rows of a
// tensor that the body reads at its own iteration, whose cotangents are scanned out, and matrices
// that the body multiplies by, whose cotangent is one product over all iterations, behind the loop.
//
// What has another size in each iteration, as a state that grows, can't be scanned out: the forward
// loop carries a sequence of it, which the way back reads from its end.
#include "compiler/autodiff/Reverse.h"
#include "compiler/graph/Structure.h"

using namespace mlir;

namespace tensmith::autodiff {
namespace {

class LoopReversal {
public:
  LoopReversal(const graph::GradientCode &code, Activity &activity, graph::LoopOp loop,
               Reverse &outer, Procedures *procedures)
      : code_(code), activity_(activity), loop_(loop), outer_(outer),
        inner_(code, activity, procedures) {}

  LogicalResult run(ArrayRef<Value> given) {
    takeNamesAround();
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
    auto scalar = [](Type element) { return RankedTensorType::get({}, element); };
    makeScaffold();
    Value step = block_->addArgument(scalar(code_.builder.getI64Type()), loop_.getLoc());
    block_->addArgument(scalar(code_.builder.getI1Type()), loop_.getLoc());
    for (size_t i = 0; i < carriedCount(); ++i) {
      Value argument = body().getArgument(unsigned(2 + i));
      if (!activity_.isActive(argument))
        continue;
      Value start = results[i] ? results[i] : code_.zerosLike(loop_.getResult(unsigned(i)));
      bool isVaried = varies(argument);
      if (!isVaried)
        start = withType(code_, start, argument.getType());
      if (!start)
        return failure();
      carried_.push_back(unsigned(i));
      initial_.push_back(start);
      block_->addArgument(isVaried ? typeOfState(argument) : start.getType(), loop_.getLoc());
    }
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPointToEnd(block_);
    iteration_ = code_.sub(last, step);
    return seedBody(results);
  }

  /// A loop of nothing, for its region to have a place while it is not known what it carries.
  void makeScaffold() {
    Value none = code_.graph.none();
    OperationState place(loop_.getLoc(), graph::LoopOp::getOperationName());
    place.addOperands({none, none});
    place.addRegion();
    scaffold_ = cast<graph::LoopOp>(code_.builder.create(place));
    block_ = new Block();
    scaffold_.getBody().push_back(block_);
  }

  /// What the loop's results have got, to what its body yields.
  LogicalResult seedBody(ArrayRef<Value> results) {
    Operation *yield = body().getTerminator();
    code_.builder.setInsertionPoint(yield);
    marker_ = code_.builder.create<graph::NoneOp>(loop_.getLoc(), code_.builder.getNoneType());
    auto values = cast<graph::YieldOp>(yield).getValues();
    for (auto [position, number] : llvm::enumerate(carried_))
      if (failed(inner_.add(values[1 + number], block_->getArgument(unsigned(2 + position)))))
        return failure();
    for (size_t i = carriedCount(); i < results.size(); ++i)
      if (results[i] && failed(inner_.add(values[1 + i], row(results[i]))))
        return failure();
    return success(iteration_ != nullptr);
  }

  /// The names of sizes that are the same in each iteration: those that values around the loop
  /// have.
  void takeNamesAround() {
    auto take = [&](TypeRange types) {
      for (Type type : types)
        if (auto ranked = dyn_cast<RankedTensorType>(type))
          around_.insert(graph::symbolNames(ranked).begin(), graph::symbolNames(ranked).end());
    };
    for (Operation *scope = loop_; !isa<func::FuncOp>(scope); scope = scope->getParentOp()) {
      take(scope->getBlock()->getArgumentTypes());
      for (Operation &op : *scope->getBlock())
        take(op.getResultTypes());
    }
  }
  bool varies(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && llvm::any_of(graph::symbolNames(type),
                                [&](StringAttr name) { return !around_.contains(name); });
  }
  /// The value's type with names of its own for sizes that vary.
  Type typeOfState(Value value) {
    auto &shapes = code_.graph.shapes;
    return shapes.withSizes(value.getType(), [&](AffineExpr size) {
      bool isFixed = true;
      size.walk([&](AffineExpr part) {
        if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
          isFixed &= around_.contains(shapes.symbols()[symbol.getPosition()]);
      });
      return isFixed ? size : shapes.freshSymbol("carried");
    });
  }

  Value row(Value stack) {
    return code_.op("graph.gather", {stack, iteration_}, {code_.integer("axis", 0)});
  }

  bool readsRow(Operation *op) {
    auto gather = dyn_cast<graph::GatherOp>(op);
    return gather && gather.getIndices() == body().getArgument(0) && gather.getAxis() == 0 &&
           activity_.isActive(gather.getX()) && isOutside(gather.getX()) &&
           graph::GraphCode::isRanked(gather.getX());
  }
  bool multipliesByOuter(Operation *op) {
    auto matmul = dyn_cast<graph::MatMulOp>(op);
    auto rank = [](Value x) {
      auto type = dyn_cast<RankedTensorType>(x.getType());
      return type ? type.getRank() : 0;
    };
    return matmul && activity_.isActive(matmul.getB()) && isOutside(matmul.getB()) &&
           rank(matmul.getB()) == 2 && rank(matmul.getA()) >= 2 && !varies(matmul.getA());
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
    block_->getOperations().splice(block_->end(), body().getOperations(), first,
                                   body().getTerminator()->getIterator());
    marker_->erase();
    return success();
  }

  LogicalResult reverseOperator(Operation *op) {
    bool isRow = readsRow(op), isProduct = multipliesByOuter(op);
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
    deferred_.push_back({op->getOperand(1), left, cotangent});
    if (!activity_.isActive(left))
      return success();
    const graph::GradientRule *rule = graph::findGradientRule(op);
    return inner_.add(left, rule->pull({code_, op, cotangent}, 0));
  }

  /// The block yields its condition, carried cotangents, sums, and what is scanned out.
  LogicalResult endBackward() {
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPointToEnd(block_);
    SmallVector<Value> yielded{block_->getArgument(1)};
    for (auto [position, number] : llvm::enumerate(carried_)) {
      Value own = block_->getArgument(unsigned(2 + position)),
            state = body().getArgument(2 + number);
      Value given = inner_.take(state);
      if (varies(state))
        yielded.push_back(given ? given : code_.zerosLike(state));
      else
        yielded.push_back(withType(code_, given ? given : code_.zerosLike(own), own.getType()));
    }
    for (Value value : inner_.reached()) {
      if (!isOutside(value))
        continue; // a value of the body that was computed from nothing wanted
      sums_.push_back(value);
      Value sum = block_->addArgument(value.getType(), loop_.getLoc());
      yielded.push_back(
          withType(code_, code_.addChanges(sum, inner_.take(value)), value.getType()));
    }
    for (const Deferred &part : deferred_)
      yielded.push_back(part.cotangent);
    if (llvm::is_contained(yielded, Value()))
      return failure();
    code_.builder.create<graph::YieldOp>(loop_.getLoc(), yielded);
    return success();
  }

  /// Values of the body that the way back uses are scanned out by the forward loop and read from
  /// there. The iteration is known, and constants are had again for nothing.
  LogicalResult recordForward() {
    llvm::SetVector<Value> used;
    auto isBodys = [&](Value value) { return value.getParentRegion() == &loop_.getBody(); };
    block_->walk([&](Operation *op) {
      for (Value operand : op->getOperands())
        if (isBodys(operand))
          used.insert(operand);
    });
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPointAfter(iteration_.getDefiningOp());
    SmallVector<Value> recorded;
    for (Value value : used) {
      Operation *op = value.getDefiningOp();
      if (value == body().getArgument(0))
        replaceInBackward(value, iteration_);
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
      (varies(value) ? inSequences : extension.scanned).push_back(value);
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
      Value again = withType(code_, row(stack), value.getType());
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
            isTold &=
                told.contains(part) || around_.contains(shapes.symbols()[symbol.getPosition()]);
        });
        if (!isTold && !named.contains(size))
          named[size] = shapes.freshSymbol("carried");
      }
    if (named.empty())
      return named;
    block_->walk([&](Operation *op) {
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
      return scaffold_.getBody().isAncestor(use.getOwner()->getParentRegion());
    });
  }

  LogicalResult handOver() {
    for (Value value : sums_)
      initial_.push_back(code_.zerosLike(value));
    Value none = code_.graph.none();
    if (llvm::is_contained(initial_, Value()))
      return failure();
    OperationState state(loop_.getLoc(), graph::LoopOp::getOperationName());
    state.addOperands({trips_, none});
    state.addOperands(initial_);
    state.addTypes(
        SmallVector<Type>(initial_.size() + deferred_.size(), code_.builder.getNoneType()));
    state.addRegion()->takeBody(scaffold_.getBody());
    activity_.retire(scaffold_);
    auto backward = cast<graph::LoopOp>(code_.builder.create(state));
    SmallVector<Type> types;
    if (failed(backward.inferResults(code_.graph.shapes, types)))
      return failure();
    for (auto [result, type] : llvm::zip_equal(backward.getResults(), types))
      result.setType(type);
    auto results = backward.getResults();
    for (auto [position, number] : llvm::enumerate(carried_))
      if (failed(outer_.add(loop_.getCarried()[number], results[position])))
        return failure();
    for (auto [position, value] : llvm::enumerate(sums_))
      if (failed(outer_.add(value, results[carried_.size() + position])))
        return failure();
    return handOverDeferred(results.take_back(deferred_.size()));
  }

  LogicalResult handOverDeferred(ResultRange scanned) {
    size_t nextStack = 0;
    for (auto [part, stack] : llvm::zip_equal(deferred_, scanned)) {
      Value inOrder = code_.op("graph.reverse", {stack}, {code_.integers("axes", {0})});
      if (!inOrder)
        return failure();
      Value whole;
      if (part.left) {
        whole = product(stacks_[nextStack++], inOrder);
      } else {
        SmallVector<int64_t> starts(size_t(graph::GraphCode::rank(inOrder)), 0),
            steps(starts.size(), 1);
        whole = code_.placeLike(inOrder, part.from, starts, steps);
      }
      if (failed(outer_.add(part.from, whole)))
        return failure();
    }
    return success();
  }

  /// The sum over all iterations and rows of left^T * right.
  Value product(Value left, Value right) {
    auto asRows = [&](Value x) {
      auto dims = code_.dims(x);
      AffineExpr columns = dims.pop_back_val();
      return code_.reshape(x, {code_.graph.shapes.product(dims), columns});
    };
    return code_.matmul(code_.transpose(asRows(left), {1, 0}), asRows(right));
  }

  const graph::GradientCode &code_;
  Activity &activity_;
  graph::LoopOp loop_;
  Reverse &outer_;
  Reverse inner_;          // of the body
  graph::LoopOp scaffold_; // whose region becomes the backward loop's
  Block *block_ = nullptr;
  Operation *marker_ = nullptr; // between the way forward and the way back, while both are in one
  Value trips_, iteration_;
  llvm::DenseSet<StringAttr> around_;
  SmallVector<unsigned> carried_; // those whose cotangents are carried
  SmallVector<Value> initial_, sums_;
  SmallVector<Deferred> deferred_;
  SmallVector<Value> stacks_; // of the deferred products' left operands
};

} // namespace

LogicalResult reverseLoop(const graph::GradientCode &code, Activity &activity, graph::LoopOp loop,
                          ArrayRef<Value> given, Reverse &outer, Procedures *procedures) {
  return LoopReversal(code, activity, loop, outer, procedures).run(given);
}

} // namespace tensmith::autodiff
