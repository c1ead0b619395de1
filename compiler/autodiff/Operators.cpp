// Expanding operators and extending loops; see Operators.h.
#include "compiler/autodiff/Operators.h"

#include "compiler/graph/Evaluate.h"
#include "compiler/program/Structures.h"

using namespace mlir;

namespace tensmith::autodiff {
namespace {

/// What the operator is made of, built before it; false where it is to be left as it is.
bool expansionOf(const graph::GradientCode &outer, Operation *op, SmallVectorImpl<Value> &results) {
  OpBuilder builder(op);
  graph::GraphBuilder graph(builder, outer.graph.shapes, op->getLoc());
  graph::GradientCode code(graph);
  const graph::GradientRule *rule = graph::findGradientRule(op->getName());
  ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
  if (rule && rule->expand)
    return !hasUnknownRank(op) && succeeded(rule->expand(code, op, results));
  auto whole = dyn_cast<graph::Decomposable>(op);
  return !rule && whole && succeeded(whole.decompose(graph, results));
}

bool needsExpansion(Operation *op) {
  const graph::GradientRule *rule = graph::findGradientRule(op->getName());
  return rule ? rule->expand != nullptr : isa<graph::Decomposable>(op);
}

LogicalResult expand(const graph::GradientCode &code, Operation *op, Activity &activity) {
  Operation *before = op->getPrevNode();
  Block &block = *op->getBlock();
  SmallVector<Value> values;
  if (!expansionOf(code, op, values))
    return failure();
  OpBuilder::InsertionGuard guard(code.builder);
  code.builder.setInsertionPoint(op);
  for (auto [result, value] : llvm::zip(op->getResults(), values)) {
    if (result.use_empty())
      continue;
    // A size that the result alone tells has another name now.
    bool isOwn = program::withoutLocalSizes(result.getType()) != result.getType();
    Value typed = isOwn ? value : withType(code, value, result.getType());
    if (!typed)
      return failure();
    result.replaceAllUsesWith(typed);
  }
  // What follows depends on the same values as before.
  Operation *after = op->getNextNode();
  activity.retire(op);
  activity.follow(block, before ? before->getNextNode() : &block.front(), after);
  return success();
}

void expandFrom(const graph::GradientCode &code, Operation *op, Activity &activity) {
  while (op) {
    for (Region &region : op->getRegions())
      if (!region.empty())
        expandFrom(code, &region.front().front(), activity);
    Operation *before = op->getPrevNode();
    Block *block = op->getBlock();
    if (needsExpansion(op) && activity.isActive(op) && succeeded(expand(code, op, activity)))
      op = before ? before->getNextNode() : &block->front(); // its parts may be whole, too
    else
      op = op->getNextNode();
  }
}

} // namespace

bool hasUnknownRank(Operation *op) {
  auto isUnranked = [](Type type) { return isa<UnrankedTensorType>(type); };
  return llvm::any_of(op->getOperandTypes(), isUnranked) ||
         llvm::any_of(op->getResultTypes(), isUnranked);
}

LogicalResult reportNoGradient(Operation *op, StringRef why) {
  auto error = emitError(op->getLoc())
               << graph::describe(op->getLoc()) << ": '" << op->getName().stripDialect()
               << "' has no derivative" << (why.empty() ? "" : " ") << why
               << ", and one is asked for that goes through it";
  return failure();
}

FailureOr<ActiveCall> activeCall(ModuleOp module, program::CallOp call, const Activity &activity) {
  auto callee = module.lookupSymbol<func::FuncOp>(call.getProcedure());
  if (!callee)
    return reportNoGradient(call, "where nothing is known of the function");
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

void expandOperators(const graph::GradientCode &code, Block &block, Activity &activity,
                     Operation *first) {
  expandFrom(code, first ? first : &block.front(), activity);
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
