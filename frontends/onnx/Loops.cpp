// Loops whose carried values may change their shape; see Loops.h.
//
// The body is built for the initial values' types. If it yields other ones, it is built again for
// types that hold both, until they are stable: each round makes a dimension unknown or a rank, so
// few are needed.
#include "frontends/onnx/Loops.h"

using namespace tensmith::graph;
using mlir::Block;
using mlir::OpBuilder;
using mlir::OperationState;
using mlir::RankedTensorType;
using mlir::Region;
using mlir::TensorType;

namespace tensmith::onnx_import {
namespace {

constexpr int kMostRounds = 8;

/// Sizes that one loop's carried values take on, a new one with each iteration. Those of a loop
/// around it are fixed within.
using OwnSizes = llvm::SmallDenseSet<mlir::AffineExpr>;

/// A type that holds both: dimensions that differ become new symbols.
Type widen(NodeImport &n, Type a, Type b, OwnSizes &own) {
  auto ta = mlir::dyn_cast<TensorType>(a), tb = mlir::dyn_cast<TensorType>(b);
  if (a == b || !ta || !tb || ta.getElementType() != tb.getElementType())
    return a;
  if (!ta.hasRank() || !tb.hasRank() || ta.getRank() != tb.getRank())
    return mlir::UnrankedTensorType::get(ta.getElementType());
  auto &shapes = n.graph.shapes;
  auto da = shapes.dims(a), db = shapes.dims(b);
  for (auto [x, y] : llvm::zip_equal(da, db))
    if (!shapes.equal(x, y))
      own.insert(x = shapes.freshSymbol("carried"));
  return shapes.tensorType(ta.getElementType(), da);
}

/// What a sequence that a loop carries is: the body may put elements of any shape into it.
Type ofAnyElements(Type type) {
  auto sequence = mlir::dyn_cast<SequenceType>(type);
  auto element = sequence ? mlir::dyn_cast<TensorType>(sequence.getElement()) : TensorType();
  return element ? Type(SequenceType::get(type.getContext(),
                                          mlir::UnrankedTensorType::get(element.getElementType())))
                 : type;
}

bool isFreshOf(NodeImport &n, Type argument, Type yielded, const OwnSizes &own) {
  // A dimension that is already a symbol of its own takes any size.
  auto a = mlir::dyn_cast<RankedTensorType>(argument),
       b = mlir::dyn_cast<RankedTensorType>(yielded);
  if (!a || !b)
    return argument == yielded || mlir::isa<mlir::UnrankedTensorType>(argument) ||
           !mlir::isa<TensorType>(argument);
  if (a.getRank() != b.getRank())
    return false;
  auto da = n.graph.shapes.dims(a), db = n.graph.shapes.dims(b);
  for (auto [x, y] : llvm::zip_equal(da, db)) {
    if (!n.graph.shapes.equal(x, y) && !own.contains(x))
      return false;
  }
  return true;
}

} // namespace

mlir::Operation *finishRegions(NodeImport &n, OperationState &state) {
  if (llvm::is_contained(state.operands, Value()))
    return nullptr; // an error before this one has been reported
  mlir::Operation *op = n.builder.create(state);
  SmallVector<Type> types;
  if (failed(mlir::cast<ShapeFunction>(op).inferResults(n.graph.shapes, types)))
    return nullptr;
  for (auto [result, type] : llvm::zip_equal(op->getResults(), types))
    result.setType(type);
  return op;
}

Value buildIf(NodeImport &n, Value condition, llvm::function_ref<Value()> then,
              llvm::function_ref<Value()> otherwise) {
  OperationState state(n.graph.location, IfOp::getOperationName());
  state.addOperands(condition);
  state.addTypes(n.builder.getNoneType());
  bool isComplete = true;
  for (auto build : {then, otherwise}) {
    OpBuilder::InsertionGuard guard(n.builder);
    n.builder.setInsertionPointToEnd(&state.addRegion()->emplaceBlock());
    Value value = build();
    isComplete &= bool(value);
    if (value)
      n.builder.create<YieldOp>(n.graph.location, value);
  }
  if (isComplete)
    return GraphBuilder::first(finishRegions(n, state));
  for (auto &region : state.regions)
    n.importer.retire(std::move(region));
  return {};
}

LogicalResult buildLoop(NodeImport &n, Value trips, Value condition, ArrayRef<Value> initial,
                        size_t scanned, LoopBody body) {
  SmallVector<Type> types{n.builder.getI64Type(), n.builder.getI1Type()};
  for (size_t i = 0; i < 2; ++i)
    types[i] = RankedTensorType::get({}, types[i]);
  for (Value value : initial) {
    if (!value)
      return failure();
    types.push_back(ofAnyElements(value.getType()));
  }
  OwnSizes own;
  for (int round = 0; round < kMostRounds; ++round) {
    auto region = std::make_unique<Region>();
    SmallVector<Value> values;
    {
      OpBuilder::InsertionGuard guard(n.builder);
      Block &block = region->emplaceBlock();
      block.addArguments(types, SmallVector<mlir::Location>(types.size(), n.graph.location));
      n.builder.setInsertionPointToEnd(&block);
      n.importer.iterations.push_back(block.getArgument(0));
      auto built = body(block.getArguments());
      n.importer.iterations.pop_back();
      if (failed(built)) {
        n.importer.retire(std::move(region));
        return failure();
      }
      values = *built;
      n.builder.create<YieldOp>(n.graph.location, values);
    }
    bool isStable = true;
    for (size_t i = 0; i < initial.size(); ++i) {
      Type yielded = values[1 + i].getType();
      if (isFreshOf(n, types[2 + i], yielded, own))
        continue;
      Type wide = widen(n, types[2 + i], yielded, own);
      isStable &= wide == types[2 + i];
      types[2 + i] = wide;
    }
    if (!isStable) {
      n.importer.retire(std::move(region));
      continue;
    }
    OperationState state(n.graph.location, LoopOp::getOperationName());
    state.addOperands({trips, condition});
    state.addOperands(initial);
    state.addTypes(SmallVector<Type>(initial.size() + scanned, n.builder.getNoneType()));
    state.addRegion(std::move(region));
    return n.give(finishRegions(n, state));
  }
  return n.error("the carried values' types change with each iteration");
}

} // namespace tensmith::onnx_import
