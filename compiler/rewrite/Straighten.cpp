// Control flow that is known, or that costs more than what it saves, becomes straight code, which
// is then folded and fused like any.
//
// before: if (constant) { a } else { b }                        after: a, or b
// before: if (c) { a } else { b }, both small and unable to fail    after: a; b; where(c, a, b)
// before: a loop that hands a value on as it is                 after: it is read from outside
// before: a loop of few trips that nothing ends early           after: its body, as often
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/Structure.h"
#include "compiler/rewrite/Rewrites.h"

#include "compiler/kernel/Kernel.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Operators that an unrolled loop may become.
constexpr int64_t kMostUnrolled = 192;
/// Of both branches together, and elements of each of their values: more than a branch costs is not
/// computed in vain.
constexpr size_t kMostSelected = 16;
constexpr int64_t kMostElements = 256;

graph::YieldOp yieldOf(Region &region) {
  return cast<graph::YieldOp>(region.front().getTerminator());
}

/// Whether a region's values can take the place of the results: a type that says more would leave a
/// size without the value that it is known by.
bool sameTypes(Operation *op, ValueRange values) {
  return llvm::equal(op->getResultTypes(), values.getTypes());
}

/// Moves what the region computes before the operator that has it; gives what it yields.
SmallVector<Value> unpack(Operation *op, Region &region) {
  graph::YieldOp yield = yieldOf(region);
  SmallVector<Value> values(yield.getValues());
  op->getBlock()->getOperations().splice(op->getIterator(), region.front().getOperations(),
                                         region.front().begin(), yield->getIterator());
  return values;
}

bool takeKnownBranch(graph::IfOp op) {
  auto condition = graph::constantInteger(op.getCondition());
  if (!condition)
    return false;
  Region &taken = *condition ? op.getThenRegion() : op.getElseRegion();
  if (!sameTypes(op, yieldOf(taken).getValues()))
    return false;
  op->replaceAllUsesWith(unpack(op, taken));
  op.erase();
  return true;
}

bool isSmall(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  return ranked && ranked.hasStaticShape() && ranked.getNumElements() <= kMostElements &&
         graph::kernelElementType(ranked.getElementType());
}

/// Whether both branches may be computed: they are small, and nothing in them can fail.
bool canSelect(graph::IfOp op) {
  size_t count = 0;
  for (Region *region : {&op.getThenRegion(), &op.getElseRegion()}) {
    if (!sameTypes(op, yieldOf(*region).getValues()))
      return false;
    for (Operation &inner : region->front().without_terminator()) {
      bool harmless = isa<graph::ConstantOp>(inner) ||
                      (isa<graph::Elementwise>(inner) && kernel::canEmitElements(&inner));
      if (!harmless || !llvm::all_of(inner.getResultTypes(), isSmall))
        return false;
      count += !isa<graph::ConstantOp>(inner);
    }
  }
  auto condition = dyn_cast<RankedTensorType>(op.getCondition().getType());
  return condition && condition.getRank() == 0 && condition.getElementType().isInteger(1) &&
         count <= kMostSelected && llvm::all_of(op->getResultTypes(), isSmall);
}

bool selectBranch(graph::IfOp op) {
  if (!canSelect(op))
    return false;
  SmallVector<Value> yes = unpack(op, op.getThenRegion()), no = unpack(op, op.getElseRegion());
  OpBuilder builder(op);
  graph::ShapeContext shapes(op->getContext());
  graph::GraphBuilder graph(builder, shapes, op.getLoc());
  for (auto [result, a, b] : llvm::zip_equal(op->getResults(), yes, no)) {
    auto where = graph.create<graph::WhereOp>({op.getCondition(), a, b});
    result.replaceAllUsesWith(where->getResult(0));
  }
  op.erase();
  return true;
}

/// Whether equal copies of the body have equal types: none has a size that a value in it tells,
/// what is carried keeps its type, and rows of results are of known rank.
bool repeats(graph::LoopOp loop) {
  OpBuilder builder(loop);
  auto isRow = [](Value value) { return isa<RankedTensorType>(value.getType()); };
  auto scanned = yieldOf(loop.getBody()).getValues().drop_front(1 + loop.getCarried().size());
  if (!graph::keepsTypes(loop) || !llvm::all_of(scanned, isRow))
    return false;
  Block &body = loop.getBody().front();
  if (body.getArgument(0).getType() != RankedTensorType::get({}, builder.getI64Type()) ||
      body.getArgument(1).getType() != RankedTensorType::get({}, builder.getI1Type()))
    return false;
  bool known = true;
  loop.getBody().walk([&](Operation *op) { known &= hasKnownSizes(op); });
  return known;
}

std::optional<int64_t> fewTrips(graph::LoopOp loop) {
  auto trips = graph::constantInteger(loop.getTripCount());
  int64_t size = 0;
  loop.getBody().walk([&](Operation *op) { size += !isa<graph::ConstantOp>(op); });
  bool scans = loop.getNumResults() > loop.getCarried().size();
  if (!trips || !graph::neverStops(loop) || *trips > kMostUnrolled)
    return std::nullopt;
  // There is nothing to stack where there are no trips.
  if (*trips < 1)
    return scans ? std::nullopt : std::optional<int64_t>(0);
  return *trips * size > kMostUnrolled ? std::nullopt : trips;
}

class Unrolling {
public:
  Unrolling(graph::LoopOp loop)
      : loop_(loop), builder_(loop), shapes_(loop->getContext()),
        graph_(builder_, shapes_, loop.getLoc()), state_(loop.getCarried()),
        rows_(loop.getNumResults() - loop.getCarried().size()) {}

  /// Whether all results could be built.
  bool run(int64_t trips) {
    for (int64_t trip = 0; trip < trips; ++trip)
      copyBody(trip);
    for (auto &rows : rows_) {
      auto concat =
          graph_.create<graph::ConcatOp>(rows, graph_.named("axis", builder_.getI64IntegerAttr(0)));
      if (!concat)
        return false;
      state_.push_back(concat);
    }
    if (!sameTypes(loop_, state_))
      return false;
    loop_->replaceAllUsesWith(state_);
    loop_.erase();
    return true;
  }

private:
  void copyBody(int64_t trip) {
    Block &body = loop_.getBody().front();
    IRMapping map;
    map.map(body.getArgument(0), graph_.scalar(builder_.getI64Type(), double(trip)));
    map.map(body.getArgument(1), graph_.scalar(builder_.getI1Type(), 1));
    for (auto [argument, value] : llvm::zip_equal(body.getArguments().drop_front(2), state_))
      map.map(argument, value);
    for (Operation &op : body.without_terminator())
      builder_.clone(op, map);
    auto yielded = yieldOf(loop_.getBody()).getValues();
    for (auto [value, next] : llvm::zip_equal(state_, yielded.slice(1, state_.size())))
      value = map.lookupOrDefault(next);
    for (auto [rows, value] : llvm::zip_equal(rows_, yielded.drop_front(1 + state_.size()))) {
      Value row = map.lookupOrDefault(value);
      auto dims = shapes_.dims(row.getType());
      dims.insert(dims.begin(), shapes_.constant(1));
      rows.push_back(graph_.reshape(row, dims));
    }
  }

  graph::LoopOp loop_;
  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
  SmallVector<Value> state_;
  std::vector<SmallVector<Value>> rows_;
};

/// Weights of a recurrent layer, which some exporters carry from step to step: from outside they
/// are constants that products lay out once. Gives the loop that is left.
graph::LoopOp withoutInvariants(graph::LoopOp loop) {
  Block &body = loop.getBody().front();
  graph::YieldOp yield = yieldOf(loop.getBody());
  unsigned carried = loop.getCarried().size();
  llvm::BitVector invariant(carried);
  for (unsigned i = 0; i < carried; ++i) {
    BlockArgument inside = body.getArgument(2 + i);
    Value outside = loop.getCarried()[i];
    if (yield.getValues()[1 + i] == inside && inside.getType() == outside.getType() &&
        loop.getResult(i).getType() == outside.getType())
      invariant.set(i);
  }
  if (invariant.none())
    return loop;
  OperationState state(loop.getLoc(), loop->getName());
  state.addOperands({loop.getTripCount(), loop.getCondition()});
  SmallVector<Value> yielded{yield.getValues()[0]}, results;
  llvm::BitVector dropped(body.getNumArguments());
  for (auto [i, result] : llvm::enumerate(loop.getResults())) {
    if (i < carried && invariant.test(unsigned(i))) {
      body.getArgument(2 + unsigned(i)).replaceAllUsesWith(loop.getCarried()[unsigned(i)]);
      result.replaceAllUsesWith(loop.getCarried()[unsigned(i)]);
      dropped.set(2 + unsigned(i));
      continue;
    }
    if (i < carried)
      state.addOperands(loop.getCarried()[unsigned(i)]);
    state.addTypes(result.getType());
    yielded.push_back(yield.getValues()[1 + unsigned(i)]);
    results.push_back(result);
  }
  state.addAttributes(loop->getAttrs());
  state.addRegion();
  OpBuilder builder(loop);
  auto left = cast<graph::LoopOp>(builder.create(state));
  left.getBody().takeBody(loop.getBody());
  left.getBody().front().eraseArguments(dropped);
  yieldOf(left.getBody())->setOperands(yielded);
  for (auto [before, after] : llvm::zip_equal(results, left.getResults()))
    before.replaceAllUsesWith(after);
  loop.erase();
  return left;
}

bool unroll(graph::LoopOp loop) {
  auto trips = repeats(loop) ? fewTrips(loop) : std::nullopt;
  return trips && Unrolling(loop).run(*trips);
}

} // namespace

LogicalResult straighten(func::FuncOp function, const Options &options) {
  if (!options.fuse || options.keepControl)
    return success();
  // From within: an inner loop that is straight code may let the outer one be.
  function.walk([](Operation *op) {
    if (auto branch = dyn_cast<graph::IfOp>(op))
      (void)(takeKnownBranch(branch) || selectBranch(branch));
    else if (auto loop = dyn_cast<graph::LoopOp>(op))
      (void)unroll(withoutInvariants(loop));
  });
  return success();
}

} // namespace tensmith::rewrite
