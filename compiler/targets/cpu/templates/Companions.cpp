// Whether they pay, and are used by nothing else; see Companions.h.
#include "compiler/targets/cpu/templates/Companions.h"

#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/Schedule.h"
#include "compiler/targets/cpu/templates/ConvChain.h"
#include "compiler/targets/cpu/templates/RowPrologue.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

/// Convolutions before another one in its kernel, unless more are asked for.
constexpr int64_t kLongestChain = 2;

/// Moved queries are read where they lie as long as their rows stay in one piece; nothing else is
/// computed for each query anew.
bool movesQueries(Operation *op, Operation *scores, Companions::IsTaken isTaken) {
  constexpr int64_t kShortRow = 8;
  bool isQuery = llvm::all_of(op->getUses(), [&](OpOperand &use) {
    return (use.getOwner() == scores || isTaken(use.getOwner())) && use.getOperandNumber() == 0;
  });
  auto from = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!isQuery || !from || !to || from.getRank() == 0)
    return false;
  int64_t row = to.getShape().back(), whole = from.getShape().back();
  if (auto transpose = dyn_cast<graph::TransposeOp>(op))
    return row >= kShortRow && transpose.getPermutation().back() == to.getRank() - 1;
  return isa<graph::ReshapeOp>(op) && row >= kShortRow && whole % row == 0;
}

class Finder {
public:
  Finder(Operation *root, const Surroundings &around)
      : root_(root), around_(around), template_(around.templateOf(root)) {}

  Companions find() {
    if (auto conv = dyn_cast<graph::ConvOp>(root_)) {
      takeChain(conv);
      if (found_.ops.empty())
        takePrologue(conv);
    } else if (auto scores = matchScores(root_); scores && holds(*scores)) {
      takeScores(*scores);
    }
    return std::move(found_);
  }

private:
  bool contracts() const { return template_ && template_->contracts; }

  bool laysOut(Operation *op) const {
    const Template *one = around_.templateOf(op);
    return one && one->layOutRight;
  }

  bool mayComeIn(Operation *op) const {
    return op->getBlock() == root_->getBlock() && around_.mayComeIn(op);
  }

  /// Whether what attention computes its weights from is used by nothing else.
  bool holds(const AttentionScores &scores) const {
    Operation *queries = graph::MatMulOp(scores.product).getA().getDefiningOp();
    auto isInside = [&](Operation *op) {
      return op == root_ || op == scores.softmax || scores.elementwise.contains(op);
    };
    auto isUsedInside = [&](Operation *op) {
      return mayComeIn(op) && llvm::all_of(op->getUsers(), isInside);
    };
    return contracts() && isContraction(scores.product) && isUsedInside(scores.product) &&
           isUsedInside(scores.softmax) && llvm::all_of(scores.elementwise, isUsedInside) &&
           scores.elementwise.size() < kMostOfKernel / 2 &&
           (!queries || root_->getOperand(1).getDefiningOp() != queries);
  }

  void takeScores(const AttentionScores &scores) {
    found_.ops = scores.elementwise;
    found_.ops.insert(scores.softmax);
    found_.ops.insert(scores.product);
    found_.products.push_back(scores.product);
    Operation *product = found_.products.back();
    found_.others = [product](Operation *op, Companions::IsTaken isTaken) -> Refusal {
      return movesQueries(op, product, isTaken)
                 ? nullptr
                 : "attention would compute it anew for each block of queries";
    };
  }

  /// Whether what `next` computes its image from is used by nothing else.
  bool holds(const ChainLink &link, graph::ConvOp next) const {
    auto isUsedInside = [&](Operation *op) {
      return mayComeIn(op) && llvm::all_of(op->getUsers(), [&](Operation *user) {
               return user == next || link.elementwise.contains(user);
             });
    };
    return isUsedInside(link.conv) && llvm::all_of(link.elementwise, isUsedInside) &&
           link.elementwise.size() < kMostOfKernel / 4;
  }

  /// What its products are filled up to; nothing where it gets no tile.
  std::optional<int64_t> multipleOf(graph::ConvOp conv, bool isAsked) const {
    if (!laysOut(conv))
      return std::nullopt;
    int64_t step = stepOf(around_.machine, conv);
    if (!suitsMatrixUnit(around_.machine, conv))
      return step;
    // A chain's tiles are those of registers, which are much slower.
    return isAsked ? std::optional(productsOfTile(step)) : std::nullopt;
  }

  /// The convolutions before the root that its kernel computes as well: as many as are estimated to
  /// be worth it, or asked for.
  void takeChain(graph::ConvOp last) {
    std::vector<ChainLink> links;
    SmallVector<graph::ConvOp> chain{last};
    size_t best = 0;
    double most = 0;
    std::optional<int64_t> asked;
    if (around_.schedules)
      asked = around_.schedules->of(root_)[choice::chain];
    auto multiple = [&](graph::ConvOp conv) { return multipleOf(conv, asked.has_value()); };
    while (links.size() < size_t(asked.value_or(kLongestChain))) {
      auto link = linkBefore(chain.front(), multiple);
      if (!link || !holds(*link, chain.front()))
        break;
      chain.insert(chain.begin(), link->conv);
      links.push_back(std::move(*link));
      double saved = cyclesSavedByChain(chain, around_.machine);
      if (asked || saved > most) {
        best = links.size();
        most = saved;
      }
    }
    if (around_.schedules && (asked || !links.empty()))
      tell(links.size(), best);
    links.resize(best);
    take(links);
  }

  void tell(size_t possible, size_t chosen) const {
    around_.schedules->offer(root_, choice::chain,
                             llvm::to_vector(llvm::seq<int64_t>(0, int64_t(possible) + 1)));
    Point point;
    point.set(choice::chain, int64_t(chosen));
    around_.schedules->made(root_, point);
  }

  void take(ArrayRef<ChainLink> links) {
    for (const ChainLink &link : links) {
      found_.ops.insert(link.conv);
      found_.ops.insert(link.elementwise.begin(), link.elementwise.end());
      found_.products.push_back(link.conv);
    }
    if (!links.empty())
      found_.others = [](Operation *, Companions::IsTaken) -> Refusal {
        return "the kernel computes a chain of convolutions, a few lines at a time";
      };
  }

  /// What a convolution's image is computed by, into the rows that it multiplies.
  void takePrologue(graph::ConvOp conv) {
    if (!contracts() || !savesTimeInRows(conv, around_.machine))
      return;
    auto prologue = prologueBefore(conv, around_.isHeavy);
    if (prologue && prologue->ops.size() < kMostOfKernel / 2 &&
        llvm::all_of(prologue->ops, around_.mayComeIn))
      found_.ops = std::move(prologue->ops);
  }

  Operation *root_;
  const Surroundings &around_;
  const Template *template_;
  Companions found_;
};

} // namespace

Companions companionsOf(Operation *root, const Surroundings &around) {
  return Finder(root, around).find();
}

} // namespace tensmith::kernel
