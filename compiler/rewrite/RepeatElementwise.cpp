// Element-wise values are computed again by who reads them, where that costs less than to keep
// them.
//
// before: h = f(x); y = g(h)   ...   dx = k(x, h)      after: y = g(f(x))   ...   dx = k(x, f(x))
//
// Three cases. Across the turn, from the way to the first output to that of its derivatives: what
// lies between is kept in memory meanwhile, and so is the better for being few; a value is computed
// again where all that it is made of is kept anyway. And of what is made of much less than it is
// itself (a comparison of labels and class numbers), each reader makes its own; so it does of
// what takes an operation or two of no more than it is itself, all of it the function's arguments
// (a gradient that is scaled before the optimiser's averages read it) or in memory for others, too
// (an image whose mean is taken from it): they read as much, and nothing is written. The copies are
// part of the readers' kernels, so that the values are never in memory. The spectra of an image's
// tiles are more than the image, and are made again across the turn likewise, though by a kernel of
// their own. Chen et al., "Training Deep
// Nets with Sublinear Memory Cost", 2016, section 4, is where keeping the dear and repeating the
// cheap was proposed.
#include "compiler/graph/Graph.h"
#include "compiler/graph/OpenSize.h"
#include "compiler/graph/Outputs.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/States.h"
#include "compiler/rewrite/PassCost.h"
#include "compiler/rewrite/Rewrites.h"

#include "base/DataType.h"
#include "compiler/graph/Constants.h"
#include "compiler/kernel/Kernel.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

constexpr int64_t kSmallestBytes = 1 << 14; // below, nothing is worth it
/// Operations for each element, by costOf: less than a read and a write of memory take.
constexpr double kMostWork = 48, kMostOwnWork = 24, kMostPassing = 4;
constexpr size_t kLongestChain = 16;
/// Parts of a value's bytes up to which what it is made of counts as nothing, or as much less.
constexpr int64_t kNothing = 64, kMuchLess = 4;

/// An estimate, where sizes are open; none (-1) where a size is of no known form.
int64_t elementsOf(RankedTensorType type) {
  double elements = 1;
  for (unsigned dim = 0; dim < type.getRank(); ++dim) {
    AffineExpr size = graph::dimExpression(type, dim);
    if (!size)
      return -1;
    auto context = type.getContext();
    SmallVector<AffineExpr> hints(graph::symbolNames(type).size(),
                                  getAffineConstantExpr(graph::kOpenSize, context));
    auto known =
        graph::constantOf(graph::ShapeContext(context).simplify(size.replaceSymbols(hints)));
    if (!known || *known < 0)
      return -1;
    elements *= double(*known);
  }
  return elements < 1e15 ? int64_t(elements) : -1;
}

int64_t bytesOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  int64_t elements = type ? elementsOf(type) : -1;
  return elements < 0 ? -1 : elements * byteSize(graph::dataType(type.getElementType()));
}

bool isElementwise(Operation *op) {
  return op && isa<graph::Elementwise>(op) && op->getNumResults() == 1 && isPure(op) &&
         op->getNumRegions() == 0 && bytesOf(op->getResult(0)) > 0 && kernel::canEmitElements(op);
}

/// What a kernel makes or repeats as it goes, without an operator of its own in memory.
bool isMadeInPassing(Operation *op) {
  return op && isa<graph::IotaOp, graph::BroadcastOp>(op) && bytesOf(op->getResult(0)) > 0 &&
         kernel::canEmitElements(op);
}

double costOf(Operation *op) {
  if (isMadeInPassing(op))
    return 1;
  return double(cast<graph::Elementwise>(op).additions());
}

class Repetition {
public:
  explicit Repetition(func::FuncOp function)
      : function_(function), block_(function.getBody().front()) {
    for (Operation &op : block_)
      places_[&op] = places_.size();
    Operation *exit = block_.getTerminator();
    if (!function->hasAttr(graph::kDifferentiated) || exit->getNumOperands() == 0)
      return;
    Value first = exit->getOperand(0);
    while (auto view = first.getDefiningOp<graph::ReshapeOp>())
      first = view.getX();
    turn_ = first.getDefiningOp() ? places_.lookup(first.getDefiningOp()) : 0;
  }

  void run() {
    repeatSpectra(); // first: with them their images cross
    SmallVector<Operation *> ops;
    for (Operation &op : block_.without_terminator())
      if (isElementwise(&op) && bytesOf(op.getResult(0)) >= kSmallestBytes)
        ops.push_back(&op);
    for (Operation *op : ops)
      if (!crosses(op->getResult(0)) || !repeatBehindTurn(op))
        repeatForReaders(op);
  }

private:
  struct Chain {
    llvm::SetVector<Operation *> ops;
    llvm::SetVector<Value> from;
    double cost = 0; // for each element of the result
  };

  /// The operators that compute the value, from what `isThere` says.
  template <typename IsThere> std::optional<Chain> chainTo(Value value, IsThere isThere) {
    Chain chain;
    auto elements = double(elementsOf(cast<RankedTensorType>(value.getType())));
    chain.ops.insert(value.getDefiningOp());
    for (size_t next = 0; next < chain.ops.size(); ++next) {
      if (chain.ops.size() > kLongestChain)
        return std::nullopt;
      Operation *op = chain.ops[next];
      auto type = cast<RankedTensorType>(op->getResult(0).getType());
      chain.cost += costOf(op) * double(elementsOf(type)) / elements;
      for (Value operand : op->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (!isThere(operand) && (isElementwise(producer) || isMadeInPassing(producer)))
          chain.ops.insert(producer);
        else
          chain.from.insert(operand);
      }
    }
    return chain;
  }

  void repeatSpectra() {
    SmallVector<graph::FourierInputOp> spectra(block_.getOps<graph::FourierInputOp>());
    for (graph::FourierInputOp op : spectra) {
      Value planes = op.getResult();
      int64_t own = bytesOf(planes), image = bytesOf(op.getX());
      if (!crosses(planes) || own < kMostKeptSpectra || image < 0 || image >= own)
        continue;
      Operation *first = nullptr;
      for (Operation *user : planes.getUsers())
        if (Operation *here = block_.findAncestorOpInBlock(*user);
            placeOf(user) > turn_ && (!first || here->isBeforeInBlock(first)))
          first = here;
      Operation *again = OpBuilder(first).clone(*op);
      places_[again] = places_.lookup(first);
      planes.replaceUsesWithIf(again->getResult(0),
                               [&](OpOperand &use) { return placeOf(use.getOwner()) > turn_; });
    }
  }

  size_t placeOf(Operation *user) const {
    Operation *here = block_.findAncestorOpInBlock(*user);
    return here ? places_.lookup(here) : 0;
  }

  bool crosses(Value value) {
    Operation *op = value.getDefiningOp();
    return turn_ && op && places_.lookup(op) <= turn_ &&
           llvm::any_of(value.getUsers(), [&](Operation *user) { return placeOf(user) > turn_; });
  }

  /// Whether the way back has the value at no cost.
  bool isKept(Value value, int64_t nothing) {
    Operation *op = value.getDefiningOp();
    if (!op || isa<graph::ConstantOp, graph::NoneOp>(op) || kept_.contains(value))
      return true;
    int64_t bytes = bytesOf(value);
    if (isElementwise(op) || isMadeInPassing(op))
      return false;
    return (bytes >= 0 && bytes <= nothing) || crosses(value);
  }

  bool repeatBehindTurn(Operation *op) {
    Value value = op->getResult(0);
    int64_t nothing = bytesOf(value) / kNothing;
    auto chain = chainTo(value, [&](Value from) { return isKept(from, nothing); });
    SmallVector<Operation *> readers;
    for (Operation *user : value.getUsers())
      if (placeOf(user) > turn_ && !llvm::is_contained(readers, user))
        readers.push_back(user);
    bool good = chain && chain->cost <= kMostWork &&
                llvm::all_of(chain->from, [&](Value from) { return isKept(from, nothing); }) &&
                llvm::all_of(readers, [&](Operation *user) {
                  return user->getBlock() == &block_ && !user->hasTrait<OpTrait::IsTerminator>();
                });
    if (!good) {
      kept_.insert(value);
      return false;
    }
    for (Operation *reader : readers)
      repeatFor(reader, value, *chain);
    return true;
  }

  static bool isReadByOthers(Value value, const Chain &chain) {
    return llvm::any_of(value.getUsers(),
                        [&](Operation *user) { return !chain.ops.contains(user); });
  }

  /// Much less than so many bytes; or no more where all is in memory anyway, but for next to
  /// nothing.
  static bool isMadeOfLittle(const Chain &chain, int64_t valueBytes) {
    int64_t bytes = 0, much = 0;
    bool isGiven = true;
    for (Value from : chain.from) {
      int64_t own = std::max<int64_t>(bytesOf(from), 0);
      bytes += own;
      if (own <= valueBytes / kNothing)
        continue;
      much += own;
      isGiven &= isa<BlockArgument>(from) || isReadByOthers(from, chain);
    }
    return bytes <= valueBytes / kMuchLess ||
           (isGiven && much <= valueBytes && chain.cost <= kMostPassing);
  }

  void repeatForReaders(Operation *op) {
    Value value = op->getResult(0);
    if (value.hasOneUse() || value.use_empty())
      return;
    auto isGood = [&](const std::optional<Chain> &chain) {
      return chain && chain->cost <= kMostOwnWork && isMadeOfLittle(*chain, bytesOf(value));
    };
    auto chain = chainTo(value, [](Value) { return false; });
    if (!isGood(chain)) // of what several read, which is there when all but it was looked at
      chain = chainTo(value, [](Value from) { return !from.hasOneUse(); });
    if (!isGood(chain))
      return;
    SmallVector<Operation *> readers;
    for (Operation *user : value.getUsers())
      if (!llvm::is_contained(readers, user))
        readers.push_back(user);
    auto joins = [&](Operation *user) {
      return user->getBlock() == &block_ &&
             (isElementwise(user) || isa<graph::ReduceSumOp, graph::ReduceMaxOp>(user));
    };
    if (!llvm::all_of(readers, joins))
      return;
    for (Operation *reader : readers)
      repeatFor(reader, value, *chain);
  }

  void repeatFor(Operation *reader, Value value, const Chain &chain) {
    SmallVector<Operation *> ops(chain.ops.begin(), chain.ops.end());
    llvm::sort(ops,
               [&](Operation *a, Operation *b) { return places_.lookup(a) < places_.lookup(b); });
    OpBuilder builder(reader);
    IRMapping mapping;
    for (Operation *op : ops)
      places_[builder.clone(*op, mapping)] = places_.lookup(reader);
    reader->replaceUsesOfWith(value, mapping.lookup(value));
  }

  func::FuncOp function_;
  Block &block_;
  llvm::DenseMap<Operation *, size_t> places_; // in the block; of a copy, its reader's
  size_t turn_ = 0;                            // of what gives the first output; 0: no way back
  llvm::DenseSet<Value> kept_;                 // of element-wise values, those that cross the turn
};

} // namespace

LogicalResult repeatElementwise(func::FuncOp function, const Options &options) {
  if (options.fuse)
    Repetition(function).run();
  return success();
}

} // namespace tensmith::rewrite
