// A rule for each operator that treats the rows of its operands alike: those by element, products
// with weights, and movement within a row. An operator without one leaves its segment as it is.
#include "compiler/program/Batching.h"

#include "compiler/graph/Graph.h"
#include "compiler/program/Program.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tensmith::program {
namespace {

constexpr int64_t kLeastWeights = 4096; // elements: below, reading them is not what a call costs

RankedTensorType typeOf(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

class Batcher {
public:
  explicit Batcher(func::FuncOp segment) : segment_(segment), shapes_(segment.getContext()) {}

  /// The batched version, in front of the segment; null where there is none.
  func::FuncOp run() {
    Block &body = segment_.getBody().front();
    if (!multipliesByWeights(body) || !chooseMode(body))
      return {};
    OpBuilder builder(segment_);
    auto batched = builder.create<func::FuncOp>(
        segment_.getLoc(), segment_.getName().str() + ".batched", segment_.getFunctionType());
    batched->setAttr(kSegment, builder.getUnitAttr());
    Block *block = batched.addEntryBlock();
    builder.setInsertionPointToStart(block);
    for (auto [from, to] : llvm::zip_equal(body.getArguments(), block->getArguments())) {
      map_.map(from, to);
      if (isWeight(from))
        continue;
      to.setType(batchedType(typeOf(from)));
      batched_.insert(from);
    }
    if (!fill(builder, body)) {
      batched.erase();
      return {};
    }
    return finish(builder, batched, body.getTerminator());
  }

private:
  static bool isLarge(Value value) {
    RankedTensorType type = typeOf(value);
    return type && type.hasStaticShape() && type.getNumElements() >= kLeastWeights;
  }
  /// Whether the value is only multiplied by, as it is or transposed.
  static bool isRightOperand(Value value) {
    return llvm::all_of(value.getUses(), [](OpOperand &use) {
      if (auto transpose = dyn_cast<graph::TransposeOp>(use.getOwner()))
        return isRightOperand(transpose.getY());
      return isa<graph::MatMulOp>(use.getOwner()) && use.getOperandNumber() == 1;
    });
  }
  /// An argument that the calls share, or else are not done together, which the run finds out.
  static bool isWeight(Value argument) {
    return isLarge(argument) && typeOf(argument).getRank() == 2 &&
           typeOf(argument).getDimSize(0) != 1 && isRightOperand(argument);
  }
  static bool multipliesByWeights(Block &body) {
    return llvm::any_of(body.getOps<graph::MatMulOp>(), [](graph::MatMulOp op) {
      Value weights = op.getB();
      if (auto transpose = weights.getDefiningOp<graph::TransposeOp>())
        weights = transpose.getX();
      return isLarge(weights) && (weights.getDefiningOp<graph::ConstantOp>() ||
                                  (isa<BlockArgument>(weights) && isWeight(weights)));
    });
  }

  /// Rows in the place of first dimensions of 1 where everything has those, else in front.
  bool chooseMode(Block &body) {
    auto tensors = [](Value value) { return typeOf(value) != nullptr; };
    auto rows = [](Value value) {
      return typeOf(value).getRank() >= 2 && typeOf(value).getDimSize(0) == 1;
    };
    ValueRange results = body.getTerminator()->getOperands();
    if (!llvm::all_of(body.getArguments(), tensors) || !llvm::all_of(results, tensors))
      return false;
    auto own = llvm::make_filter_range(body.getArguments(),
                                       [](Value argument) { return !isWeight(argument); });
    inFront_ = !llvm::all_of(own, rows) || !llvm::all_of(results, rows);
    return !own.empty();
  }

  RankedTensorType batchedType(RankedTensorType type) {
    SmallVector<AffineExpr> dims = shapes_.dims(type);
    AffineExpr calls = shapes_.symbol(StringAttr::get(segment_.getContext(), "program.calls"));
    if (inFront_)
      dims.insert(dims.begin(), calls);
    else
      dims[0] = calls;
    return shapes_.tensorType(type.getElementType(), dims);
  }

  bool isBatched(Value value) const { return batched_.contains(value); }

  bool fill(OpBuilder &builder, Block &body) {
    for (Operation &op : body.without_terminator()) {
      bool any = llvm::any_of(op.getOperands(), [&](Value value) { return isBatched(value); });
      if (any && (op.getNumResults() != 1 || !typeOf(op.getResult(0)) || !treatsRowsAlike(&op)))
        return false;
      Operation *clone = builder.clone(op, map_);
      if (!any)
        continue;
      if (inFront_)
        shiftAxes(clone);
      clone->getResult(0).setType(batchedType(typeOf(op.getResult(0))));
      batched_.insert(op.getResult(0));
    }
    return llvm::all_of(body.getTerminator()->getOperands(),
                        [&](Value value) { return isBatched(value); });
  }

  func::FuncOp finish(OpBuilder &builder, func::FuncOp batched, Operation *end) {
    SmallVector<Value> results;
    for (Value value : end->getOperands())
      results.push_back(map_.lookup(value));
    builder.create<func::ReturnOp>(batched.getLoc(), results);
    Block &block = batched.getBody().front();
    batched.setType(
        builder.getFunctionType(block.getArgumentTypes(), ValueRange(results).getTypes()));
    return batched;
  }

  bool hasRow(Value value) const { return typeOf(value) && typeOf(value).getRank() >= 1; }
  bool isRow(Value value) const { return hasRow(value) && typeOf(value).getDimSize(0) == 1; }

  bool treatsRowsAlike(Operation *op) const {
    if (isa<graph::Elementwise>(op))
      return isByElement(op);
    if (auto product = dyn_cast<graph::MatMulOp>(op))
      return isBatched(product.getA()) && !isBatched(product.getB()) &&
             typeOf(product.getA()).getRank() == (inFront_ ? 1 : 2) && typeOf(product.getB()) &&
             typeOf(product.getB()).getRank() == 2 && (inFront_ || isRow(product.getA()));
    if (auto slice = dyn_cast<graph::SliceOp>(op))
      return inFront_ ? hasRow(slice.getX())
                      : isRow(slice.getX()) && isRow(op->getResult(0)) &&
                            slice.getStarts()[0] == 0 && slice.getSteps()[0] == 1;
    if (auto concat = dyn_cast<graph::ConcatOp>(op))
      return concat.getAxis() >= (inFront_ ? 0 : 1) &&
             llvm::all_of(op->getOperands(), [&](Value value) {
               return isBatched(value) && (inFront_ || isRow(value));
             });
    return false;
  }

  /// The rows of all batched operands must meet, and no other operand may be spread over them.
  bool isByElement(Operation *op) const {
    int64_t rank = typeOf(op->getResult(0)).getRank();
    if (!inFront_ && !isRow(op->getResult(0)))
      return false;
    return llvm::all_of(op->getOperands(), [&](Value value) {
      RankedTensorType type = typeOf(value);
      if (!type)
        return false;
      if (isBatched(value))
        return type.getRank() == rank;
      return inFront_ || type.getRank() < rank || type.getDimSize(0) == 1;
    });
  }

  static void shiftAxes(Operation *op) {
    OpBuilder builder(op->getContext());
    if (auto concat = dyn_cast<graph::ConcatOp>(op))
      concat.setAxis(concat.getAxis() + 1);
    auto slice = dyn_cast<graph::SliceOp>(op);
    if (!slice)
      return;
    SmallVector<int64_t> starts(slice.getStarts()), steps(slice.getSteps());
    starts.insert(starts.begin(), 0);
    steps.insert(steps.begin(), 1);
    slice.setStarts(starts);
    slice.setSteps(steps);
  }

  func::FuncOp segment_;
  graph::ShapeContext shapes_;
  IRMapping map_;
  llvm::DenseSet<Value> batched_; // values of the segment that have rows in the version
  bool inFront_ = false;
};

/// Whether the call leads back to where it stands.
bool recurs(CallOp call, ModuleOp module) {
  auto procedure = call->getParentOfType<func::FuncOp>();
  SmallVector<StringRef> waiting = {call.getProcedure()};
  llvm::StringSet<> seen;
  while (!waiting.empty()) {
    StringRef name = waiting.pop_back_val();
    if (name == procedure.getName())
      return true;
    auto callee = module.lookupSymbol<func::FuncOp>(name);
    if (!callee || !seen.insert(name).second)
      continue;
    callee.walk([&](CallOp inner) { waiting.push_back(inner.getProcedure()); });
  }
  return false;
}

/// An invocation beside a recursive call that neither waits for the other: of a list's elements,
/// say, where the function that is mapped has been inlined.
struct Aside {
  InvokeOp invoke;
  CallOp call;
};

std::vector<Aside> findAsides(ModuleOp module) {
  std::vector<Aside> found;
  llvm::DenseSet<Operation *> taken;
  module.walk([&](CallOp call) {
    bool tail = call.getResult().hasOneUse() && isa<func::ReturnOp>(*call.getResult().user_begin());
    if (tail || !isMemoryEffectFree(call))
      return;
    auto isAside = [&](InvokeOp invoke) {
      return !taken.contains(invoke) && invoke->isBeforeInBlock(call) &&
             llvm::none_of(invoke->getUsers(), [&](Operation *user) {
               Operation *here = call->getBlock()->findAncestorOpInBlock(*user);
               return !here || here == call || here->isBeforeInBlock(call);
             });
    };
    auto invokes =
        llvm::to_vector(llvm::make_filter_range(call->getBlock()->getOps<InvokeOp>(), isAside));
    if (invokes.empty() || !recurs(call, module))
      return;
    for (InvokeOp invoke : invokes) {
      found.push_back({invoke, call});
      taken.insert(invoke);
    }
  });
  return found;
}

/// A procedure that does no more than invoke the segment.
func::FuncOp procedureOf(InvokeOp invoke, ModuleOp module) {
  auto segment = module.lookupSymbol<func::FuncOp>(invoke.getSegment());
  std::string name = segment.getName().str() + ".call";
  if (auto made = module.lookupSymbol<func::FuncOp>(name))
    return made;
  OpBuilder builder(segment);
  Location location = invoke.getLoc();
  auto made = builder.create<func::FuncOp>(location, name,
                                           builder.getFunctionType(invoke.getOperandTypes(), {}));
  made->setAttr(kProcedure, builder.getUnitAttr());
  builder.setInsertionPointToStart(made.addEntryBlock());
  auto inside = builder.create<InvokeOp>(location, invoke.getResultTypes(), made.getArguments(),
                                         invoke.getSegment());
  Value result = inside->getNumResults() == 1 ? inside->getResult(0) : Value();
  if (!result)
    result = builder.create<ConstructOp>(location, ObjectType::get(module.getContext(), "()"),
                                         inside.getResults(), 0);
  builder.create<func::ReturnOp>(location, result);
  made.setType(builder.getFunctionType(invoke.getOperandTypes(), result.getType()));
  return made;
}

/// Only calls are forked, and so done in turns. Its results are taken apart behind the calls that
/// stand side by side, so that those stay so, up to the first that uses one.
void makeCall(const Aside &aside, ModuleOp module) {
  func::FuncOp procedure = procedureOf(aside.invoke, module);
  InvokeOp invoke = aside.invoke;
  OpBuilder builder(aside.call);
  Value result = builder.create<CallOp>(invoke.getLoc(), procedure.getResultTypes()[0],
                                        invoke.getInputs(), procedure.getName());
  auto uses = [&](Operation &op) { return llvm::is_contained(invoke->getUsers(), &op); };
  Operation *next = CallOp(aside.call)->getNextNode();
  while (isa<CallOp, ApplyOp>(next) && !uses(*next))
    next = next->getNextNode();
  builder.setInsertionPoint(next);
  for (auto [index, given] : llvm::enumerate(invoke.getResults())) {
    bool whole = invoke->getNumResults() == 1;
    given.replaceAllUsesWith(
        whole ? result
              : builder.create<FieldOp>(invoke.getLoc(), given.getType(), result, uint64_t(index)));
  }
  invoke.erase();
}

/// Whether a block has two calls of which neither needs the other's result.
bool hasIndependentCalls(ModuleOp module) {
  bool found = false;
  module.walk([&](Operation *op) {
    Operation *next = op->getNextNode();
    found |= isa<CallOp, ApplyOp>(op) && next && isa<CallOp, ApplyOp>(next) &&
             !llvm::is_contained(next->getOperands(), op->getResult(0));
  });
  return found;
}

} // namespace

void batchSegments(ModuleOp module) {
  std::vector<Aside> asides = findAsides(module);
  if (asides.empty() && !hasIndependentCalls(module))
    return;
  SmallVector<func::FuncOp> segments;
  for (auto function : module.getOps<func::FuncOp>())
    if (isSegment(function))
      segments.push_back(function);
  for (func::FuncOp segment : segments)
    if (func::FuncOp batched = Batcher(segment).run())
      segment->setAttr(kBatched, FlatSymbolRefAttr::get(batched.getNameAttr()));
  for (const Aside &aside : asides) {
    InvokeOp invoke = aside.invoke;
    if (module.lookupSymbol(invoke.getSegment())->hasAttr(kBatched))
      makeCall(aside, module);
  }
}

} // namespace tensmith::program
