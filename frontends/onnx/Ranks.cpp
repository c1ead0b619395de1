// Versions of a node are built in regions of their own, since what one that fails has built may be
// remembered; see Ranks.h.
#include "frontends/onnx/Ranks.h"

#include "frontends/onnx/Loops.h"

#include "mlir/IR/Diagnostics.h"

using mlir::Block;
using mlir::OperationState;
using mlir::Region;

namespace tensmith::onnx_import {
namespace {

/// Beyond it a tensor is refused: each rank is one more version.
constexpr int64_t kHighestRank = 6;
/// Operands of one node that are of unknown rank.
constexpr size_t kMostOperands = 2;

struct Messages {
  SmallVector<std::pair<mlir::Location, std::string>> all;

  LogicalResult repeat() const {
    for (const auto &[location, text] : all)
      mlir::emitError(location) << text;
    return failure();
  }
};

/// The import, whose errors are kept.
LogicalResult quietly(NodeImport &node, Import import, Messages &messages) {
  mlir::ScopedDiagnosticHandler handler(node.builder.getContext(), [&](mlir::Diagnostic &said) {
    if (said.getSeverity() == mlir::DiagnosticSeverity::Error)
      messages.all.emplace_back(said.getLocation(), said.str());
    return success();
  });
  return import(node);
}

/// The operators behind `last` (null: all), as a region.
std::unique_ptr<Region> takeBehind(Block &block, mlir::Operation *last) {
  auto region = std::make_unique<Region>();
  auto begin = last ? std::next(Block::iterator(last)) : block.begin();
  region->emplaceBlock().getOperations().splice(region->front().end(), block.getOperations(), begin,
                                                block.end());
  return region;
}

bool isUnranked(Value x) { return x && mlir::isa<mlir::UnrankedTensorType>(x.getType()); }

/// The operand whose rank the rule has asked for, or else the first of those without one.
std::optional<size_t> unrankedOperand(const NodeImport &node) {
  auto asked = llvm::find(node.inputs, node.lackingRank());
  auto found = node.lackingRank() && asked != node.inputs.end()
                   ? asked
                   : llvm::find_if(node.inputs, isUnranked);
  return found == node.inputs.end() ? std::nullopt : std::optional(found - node.inputs.begin());
}

Value rankOf(NodeImport &n, Value x) { return n.unary("graph.size", n("graph.shape", {x})); }

/// x of that rank, or the run fails: no tensor has sizes of -2.
Value asRank(NodeImport &n, Value x, int64_t rank) {
  Ints dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  Value shape = n("graph.shape", {x}),
        isRank = n("graph.equal", {rankOf(n, x), n.integerScalar(rank)});
  // Sizes that are there, whatever the rank.
  Value more = n.concat({shape, n.vector(Ints(size_t(kHighestRank), 1))}, 0);
  Value sizes = n("graph.gather", {more, n.vector(dims)}, n.integer("axis", 0));
  sizes = n.where(isRank, sizes, n.integerScalar(-2));
  return n("graph.dynamic_reshape", {x, sizes}, n.boolean("allowzero", true));
}

struct Version {
  int64_t rank;
  std::unique_ptr<Region> region;
  SmallVector<Value> results;
};

std::optional<Version> versionFor(NodeImport &node, size_t operand, int64_t rank, Import import) {
  Version version{rank, std::make_unique<Region>(), {}};
  mlir::OpBuilder::InsertionGuard guard(node.builder);
  node.builder.setInsertionPointToEnd(&version.region->emplaceBlock());
  NodeImport own = node.with(operand, asRank(node, node.inputs[operand], rank));
  Messages messages;
  auto made = quietly(own, [&](NodeImport &own) { return importForRanks(own, import); }, messages);
  if (failed(made) || llvm::is_contained(own.results, Value())) {
    node.importer.retire(std::move(version.region));
    return std::nullopt;
  }
  version.results = own.results;
  return version;
}

/// The first version's results where the operand has its rank, else those of the next ones.
FailureOr<SmallVector<Value>> chosen(NodeImport &n, Value rank, llvm::MutableArrayRef<Version> of) {
  Version &first = of.front();
  if (of.size() == 1) {
    Block *block = n.builder.getInsertionBlock();
    block->getOperations().splice(block->end(), first.region->front().getOperations());
    n.builder.setInsertionPointToEnd(block);
    return first.results;
  }
  OperationState state(n.graph.location, graph::IfOp::getOperationName());
  state.addOperands(n("graph.equal", {rank, n.integerScalar(first.rank)}));
  state.addTypes(SmallVector<Type>(first.results.size(), n.builder.getNoneType()));
  {
    mlir::OpBuilder::InsertionGuard guard(n.builder);
    n.builder.setInsertionPointToEnd(&first.region->front());
    n.builder.create<graph::YieldOp>(n.graph.location, first.results);
    state.addRegion()->takeBody(*first.region);
    n.builder.setInsertionPointToEnd(&state.addRegion()->emplaceBlock());
    auto others = chosen(n, rank, of.drop_front());
    if (failed(others) || others->size() != first.results.size())
      return failure();
    n.builder.create<graph::YieldOp>(n.graph.location, *others);
  }
  mlir::Operation *op = finishRegions(n, state);
  if (!op)
    return failure();
  return SmallVector<Value>(op->getResults());
}

} // namespace

LogicalResult importForRanks(NodeImport &node, Import import) {
  auto unranked = size_t(llvm::count_if(node.inputs, isUnranked));
  if (!unranked)
    return import(node);
  Block &block = *node.builder.getInsertionBlock();
  mlir::Operation *last = block.empty() ? nullptr : &block.back();
  Messages messages;
  SmallVector<Value> given(node.inputs);
  if (succeeded(quietly(node, import, messages)))
    return success();
  node.inputs = given; // rules may change them
  node.importer.retire(takeBehind(block, last));
  node.builder.setInsertionPointToEnd(&block);
  auto operand = unrankedOperand(node);
  if (!node.lackingRank() || !operand || unranked > kMostOperands)
    return messages.repeat();
  SmallVector<Version> versions;
  for (int64_t rank = 0; rank <= kHighestRank; ++rank)
    if (auto version = versionFor(node, *operand, rank, import))
      versions.push_back(std::move(*version));
  if (versions.empty())
    return messages.repeat();
  auto results = chosen(node, rankOf(node, node.inputs[*operand]), versions);
  if (failed(results))
    return messages.repeat();
  node.results = *results;
  return success();
}

} // namespace tensmith::onnx_import
