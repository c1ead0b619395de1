// Expanding operators and extending loops; see Operators.h.
#include "compiler/autodiff/Operators.h"

#include "compiler/autodiff/Sequences.h"
#include "compiler/graph/Decomposition.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/RecurrentGroups.h"
#include "compiler/program/Effects.h"
#include "compiler/program/Structures.h"

using namespace mlir;

namespace tensmith::autodiff {
namespace {

/// What the operator is made of, built behind it; false where it is to be left as it is.
bool expansionOf(const graph::GradientCode &outer, Operation *op, const Activity &activity,
                 SmallVectorImpl<Value> &results) {
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  graph::GraphBuilder graph(builder, outer.graph.shapes, op->getLoc());
  graph::GradientCode code(graph);
  const graph::GradientRule *rule = graph::findGradientRule(op);
  ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
  if (rule && rule->expand)
    return !hasUnknownRank(op) && succeeded(rule->expand(code, op, results));
  if (graph::isRecurrentLayer(op))
    return succeeded(graph::decomposeInGroups(
        op,
        activity.isActive(op->getOperand(0)) ? graph::Steps::InGroups : graph::Steps::ReadInGroups,
        graph, results));
  auto whole = dyn_cast<graph::Decomposable>(op);
  return !rule && whole && succeeded(whole.decompose(graph, results));
}

/// Whether changes go through the operator by what it is made of.
bool needsExpansion(Operation *op, const Activity &activity) {
  if (!activity.isActive(op))
    return false;
  const graph::GradientRule *rule = graph::findGradientRule(op);
  if (!rule)
    return isa<graph::Decomposable>(op);
  return rule->expand && llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
           return activity.isActive(operand.get()) && rule->reaches(operand.getOperandNumber());
         });
}

Value standIn(const graph::GradientCode &code, Value value, Value by) {
  return code.builder
      .create<UnrealizedConversionCastOp>(value.getLoc(), value.getType(), ValueRange{value, by})
      .getResult(0);
}

/// Sizes by the names that they had, and what they are called now: in the types of all values.
class NewNames {
public:
  explicit NewNames(graph::ShapeContext &shapes) : shapes_(shapes) {}

  void add(Type before, Type now) {
    auto old = dyn_cast<RankedTensorType>(before), made = dyn_cast<RankedTensorType>(now);
    if (!old || !made || old.getRank() != made.getRank())
      return;
    for (auto [name, size] : llvm::zip_equal(shapes_.dims(old), shapes_.dims(made)))
      if (isa<AffineSymbolExpr>(name) && name != size)
        names_[name] = size;
  }

  void give(Operation *scope) {
    if (names_.empty())
      return;
    scope->walk([&](Operation *op) {
      for (Value result : op->getResults())
        result.setType(now(result.getType()));
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            argument.setType(now(argument.getType()));
    });
    shapes_.forgetContents();
  }

private:
  Type now(Type type) {
    return shapes_.withSizes(type, [&](AffineExpr size) { return size.replace(names_); });
  }

  graph::ShapeContext &shapes_;
  llvm::DenseMap<AffineExpr, AffineExpr> names_;
};

/// What comes behind stays what it was: `after` is the first of it.
LogicalResult expand(const graph::GradientCode &code, Operation *op, Activity &activity) {
  Operation *after = op->getNextNode();
  Block &block = *op->getBlock();
  const graph::GradientRule *rule = graph::findGradientRule(op);
  bool keepsValue = rule ? !rule->givesValue : code.keepsBits;
  SmallVector<Value> values;
  if (!expansionOf(code, op, activity, values)) {
    graph::eraseBetween(op, after);
    return failure();
  }
  llvm::SmallPtrSet<Operation *, 16> own; // which may ask the operator's results for their sizes
  for (Operation *made = op->getNextNode(); made != after; made = made->getNextNode())
    own.insert(made);
  auto isOutside = [&](OpOperand &use) {
    return !own.contains(block.findAncestorOpInBlock(*use.getOwner()));
  };
  keepsValue |= llvm::any_of(op->getUses(), [&](OpOperand &use) { return !isOutside(use); });
  OpBuilder::InsertionGuard guard(code.builder);
  code.builder.setInsertionPoint(after);
  NewNames names(code.graph.shapes);
  for (auto [result, value] : llvm::zip(op->getResults(), values)) {
    if (result.use_empty())
      continue;
    // A size that the result alone tells has another name now.
    bool isOwn = program::withoutLocalSizes(result.getType()) != result.getType();
    if (isOwn)
      names.add(result.getType(), value.getType());
    Value typed = isOwn ? value : withType(code, value, result.getType());
    if (!typed)
      return failure();
    Value by = keepsValue ? standIn(code, result, typed) : typed;
    result.replaceUsesWithIf(by, [&](OpOperand &use) {
      return isOutside(use) && !(keepsValue && use.getOwner() == by.getDefiningOp());
    });
  }
  names.give(op->getParentOfType<func::FuncOp>());
  Operation *first = op->getNextNode();
  if (keepsValue)
    activity.keepForValue(op);
  else
    activity.retire(op);
  activity.follow(block, first, after);
  return success();
}

bool expandFrom(const graph::GradientCode &code, Operation *op, Activity &activity) {
  bool any = false;
  while (op) {
    for (Region &region : op->getRegions())
      if (!region.empty())
        any |= expandFrom(code, &region.front().front(), activity);
    Operation *before = op->getPrevNode();
    Block *block = op->getBlock();
    if (needsExpansion(op, activity) && succeeded(expand(code, op, activity))) {
      op = before ? before->getNextNode() : &block->front(); // its parts may be whole, too
      any = true;
    } else {
      op = op->getNextNode();
    }
  }
  return any;
}

} // namespace

bool hasUnknownRank(Operation *op) {
  auto isUnranked = [](Type type) { return isa<UnrankedTensorType>(type); };
  return llvm::any_of(op->getOperandTypes(), isUnranked) ||
         llvm::any_of(op->getResultTypes(), isUnranked);
}

LogicalResult reportNoGradient(Operation *op, StringRef why) {
  auto error = emitError(op->getLoc())
               << graph::describe(op->getLoc()) << ": '" << graph::operatorName(op)
               << "' has no derivative" << (why.empty() ? "" : " ") << why
               << ", and one is asked for that goes through it";
  return failure();
}

LogicalResult reportUnknown(const Activity &activity, Value value, Operation *user) {
  while (Operation *op = value.getDefiningOp()) {
    user = op;
    auto from = llvm::find_if(op->getOperands(), [&](Value x) { return activity.isUnknown(x); });
    if (from == op->getOperands().end())
      break;
    value = *from;
  }
  Operation *hidden = isa_and_nonnull<program::ProgramDialect>(user->getDialect())
                          ? activity.hiddenIntegers(user)
                          : nullptr;
  return reportNoGradient(hidden ? hidden : user);
}

LogicalResult checkOperandsKnown(const Activity &activity, Operation *op) {
  for (Value value : op->getOperands())
    if (activity.isUnknown(value))
      return reportUnknown(activity, value, op);
  return success();
}

FailureOr<ActiveCall> activeCall(ModuleOp module, program::CallOp call, const Activity &activity) {
  auto callee = module.lookupSymbol<func::FuncOp>(call.getProcedure());
  if (!callee)
    return reportNoGradient(call, "where nothing is known of the function");
  if (failed(checkOperandsKnown(activity, call)))
    return failure();
  ActiveCall result{callee, {}, callee.getName().str() + "/"};
  for (Value input : call.getInputs()) {
    result.active.push_back(activity.isActive(input));
    result.key += result.active.back() ? '1' : '0';
  }
  return result;
}

SmallVector<Value> ActiveCall::wanted(Block &body) const {
  SmallVector<Value> wanted;
  for (auto [argument, isActive] : llvm::zip_equal(body.getArguments(), active))
    if (isActive)
      wanted.push_back(argument);
  return wanted;
}

bool expandOperators(const graph::GradientCode &code, Block &block, Activity &activity,
                     Operation *first) {
  return expandFrom(code, first ? first : &block.front(), activity);
}

/// Expansion may show integers that are active, as of a quantisation within an operator; then more
/// is active than was.
void followAndExpand(const graph::GradientCode &code, Block &block, Activity &activity) {
  resolveSequences(code, block);
  activity.follow(block);
  for (size_t size = 0; size != activity.size();) {
    while (expandOperators(code, block, activity))
      activity.follow(block);
    size = activity.size();
    activity.endExpansion();
    activity.follow(block);
  }
}

llvm::DenseSet<Operation *> operatorsBehind(Block &block, ArrayRef<Value> values) {
  llvm::DenseSet<Operation *> needed;
  auto need = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (Operation *own = op ? block.findAncestorOpInBlock(*op) : nullptr)
      needed.insert(own);
  };
  for (Value value : values)
    need(value);
  for (Operation &op : llvm::reverse(block)) {
    if (program::hasEffects(&op))
      needed.insert(&op);
    if (needed.contains(&op))
      op.walk([&](Operation *inner) { llvm::for_each(inner->getOperands(), need); });
  }
  return needed;
}

bool isStandIn(Operation *op) {
  return isa<UnrealizedConversionCastOp>(op) && op->getNumOperands() == 2;
}

void removeStandIns(Operation *scope) {
  scope->walk([](Operation *op) {
    if (!isStandIn(op))
      return;
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
    op->erase();
  });
}

void removeUnused(Activity &activity, Operation *first, Operation *last) {
  while (last) {
    Operation *op = last;
    last = op == first ? nullptr : op->getPrevNode();
    if (isOpTriviallyDead(op))
      activity.retire(op);
  }
}

bool hasExpressions(RankedTensorType type) {
  return llvm::all_of(llvm::seq<unsigned>(0, unsigned(type.getRank())),
                      [&](unsigned dim) { return graph::dimExpression(type, dim) != nullptr; });
}

Value withType(const graph::GradientCode &code, Value value, Type type) {
  if (!value || value.getType() == type)
    return value;
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || !hasExpressions(ranked) ||
      getElementTypeOrSelf(type) != getElementTypeOrSelf(value.getType()))
    return value;
  return code.reshape(value, code.graph.shapes.dims(type));
}

Value withTypeOf(const graph::GradientCode &code, Value value, Value like) {
  auto ranked = dyn_cast<RankedTensorType>(like.getType());
  if (!value || !ranked || !hasExpressions(ranked) ||
      getElementTypeOrSelf(ranked) != getElementTypeOrSelf(value.getType()))
    return value;
  return code.reshapeLike(value, like);
}

FailureOr<graph::LoopOp> extendLoop(const graph::GradientCode &code, Activity &activity,
                                    graph::LoopOp loop, const LoopExtension &extension) {
  size_t carried = loop.getCarried().size();
  OpBuilder builder(loop);
  OperationState state(loop.getLoc(), graph::LoopOp::getOperationName());
  state.addOperands(loop->getOperands());
  state.addOperands(extension.initial);
  SmallVector<Type> types(loop->getResultTypes());
  types.insert(types.begin() + carried, extension.initial.size(), builder.getNoneType());
  types.append(extension.scanned.size(), builder.getNoneType());
  state.addTypes(types);
  Region *body = state.addRegion();
  body->takeBody(loop.getBody());
  auto yield = cast<graph::YieldOp>(body->front().getTerminator());
  yield->insertOperands(unsigned(1 + carried), extension.carried);
  yield->insertOperands(yield->getNumOperands(), extension.scanned);
  auto extended = cast<graph::LoopOp>(builder.create(state));
  SmallVector<Type> inferred;
  if (failed(extended.inferResults(code.graph.shapes, inferred)))
    return failure();
  for (auto [result, type] : llvm::zip_equal(extended.getResults(), inferred))
    if (isa<NoneType>(result.getType()))
      result.setType(type);
  for (auto [i, result] : llvm::enumerate(loop.getResults())) {
    Value same = extended.getResult(unsigned(i < carried ? i : i + extension.initial.size()));
    if (activity.isActive(result))
      activity.add(same);
    result.replaceAllUsesWith(same);
  }
  activity.retire(loop);
  return extended;
}

} // namespace tensmith::autodiff
