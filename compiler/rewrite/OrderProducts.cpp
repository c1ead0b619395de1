// Chains of products are multiplied in the order that takes the fewest operations.
//
// before: matmul(matmul(a, b), v)                  after: matmul(a, matmul(b, v))
// before: matmul(add(matmul(x, a), c), b)          after: add(matmul(x, matmul(a, b)), matmul(c,
// b))
//
// The last product of each chain is looked at in the order of the program. What was computed for
// chains before it is given, and takes nothing; where several chains read a product and nobody
// else does, it is computed once, or each chain has its factors, whichever takes less. A factor
// that is a sum is multiplied term by term where that takes less. Where sizes are open and decide,
// the orders stand in branches, and the run takes the one that its sizes say.
//
// Another order rounds differently, so that under `exact` only integers are reordered, whose sums
// wrap and are the same in each. A product of constants is evaluated by folding, if it is no
// larger than what it is made of and the limit of constants.
#include "compiler/graph/DeadCode.h"
#include "compiler/rewrite/ProductChain.h"
#include "compiler/rewrite/Rewrites.h"

#include <cmath>
#include <span>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Orders between which a run may choose.
constexpr unsigned kMostBranches = 4;
/// Multiplications that are evaluated at compile time, by the reference: about a second.
constexpr double kMostFolded = double(1 << 27);

struct Chosen {
  std::vector<ProductOrder> orders; // several: the run decides; none: as it stands
  std::vector<double> before, after;
};

class Ordering {
public:
  Ordering(Block &block, const Options &options)
      : options_(options), shapes_(block.getParentOp()->getContext()),
        graph_(block, shapes_, options.precision == Precision::Exact) {}

  void run() {
    if (graph_.products().size() < 2)
      return;
    for (graph::MatMulOp product : graph_.products())
      decideWhetherShared(product);
    for (graph::MatMulOp product : graph_.products())
      if (!graph_.isInner(product))
        order(product);
  }

private:
  bool isFolded(const ProductChain &chain, unsigned first, unsigned last) const {
    if (!chain.isConstant(first, last))
      return false;
    double bytes = 0, work = 1;
    for (unsigned number = first; number <= last; ++number) {
      auto type = cast<RankedTensorType>(chain.factors[number].value.getType());
      bytes += double(type.getNumElements()) * type.getElementTypeBitWidth() / 8;
    }
    auto result = OperationCount::ofProduct({chain.sizes[first].rows, chain.sizes[last].columns});
    for (const FactorSizes &sizes : ArrayRef(chain.sizes).slice(first, last - first + 1)) {
      if (!sizes.stack.empty())
        return false;
      work =
          std::max(work, OperationCount::ofProduct({sizes.rows, sizes.columns}).at(SizeValues()));
    }
    Type element = getElementTypeOrSelf(chain.factors[first].value.getType());
    double ofResult = result.at(SizeValues());
    return isa<FloatType>(element) &&
           ofResult * element.getIntOrFloatBitWidth() / 8 <= bytes + double(options_.foldedBytes) &&
           work * std::sqrt(ofResult) <= kMostFolded;
  }

  std::vector<ProductOrder> ordersOf(const ProductChain &chain, const KnownProducts &known) {
    return bestOrders(chain.sizes, shapes_, [&](unsigned first, unsigned last) {
      return (!chain.hasStacks() && known.has(chain, first, last)) || isFolded(chain, first, last);
    });
  }

  /// What the best order takes at each sample; its parts are known from then on.
  std::vector<double> least(const ProductChain &chain, KnownProducts &known,
                            const SizeSamples &samples) {
    std::vector<double> best;
    auto orders = ordersOf(chain, known);
    for (const ProductOrder &order : orders) {
      auto counts = samples.of(order.count);
      for (size_t i = 0; i < counts.size() && !best.empty(); ++i)
        best[i] = std::min(best[i], counts[i]);
      if (best.empty())
        best = counts;
    }
    note(*orders[0].tree, chain, known);
    return best;
  }

  static void note(const ProductTree &tree, const ProductChain &chain, KnownProducts &known) {
    if (!tree.isProduct())
      return;
    known.add(chain, {tree.first, tree.last, {}, false});
    note(*tree.left, chain, known);
    note(*tree.right, chain, known);
  }

  std::vector<double> leastOfAll(std::span<const ProductChain> chains, const SizeSamples &samples) {
    KnownProducts known;
    std::vector<double> sum;
    for (const ProductChain &chain : chains) {
      auto counts = least(chain, known, samples);
      sum.resize(counts.size());
      for (auto [all, count] : llvm::zip_equal(sum, counts))
        all += count;
    }
    return sum;
  }

  /// A product that several chains read and nobody else is taken apart where they take less then.
  void decideWhetherShared(graph::MatMulOp product) {
    auto ends = graph_.chainsThatShare(product);
    if (ends.empty())
      return;
    auto chainsOfEnds = [&] {
      std::vector<ProductChain> chains;
      for (Operation *end : ends)
        chains.push_back(graph_.chainOf(cast<graph::MatMulOp>(end)));
      return chains;
    };
    std::vector<ProductChain> kept{graph_.chainOf(product)}, apart;
    for (ProductChain &chain : chainsOfEnds())
      kept.push_back(std::move(chain));
    graph_.expand(product);
    apart = chainsOfEnds();
    SmallVector<FactorSizes> sizes;
    for (const ProductChain &chain : kept)
      sizes.append(chain.sizes);
    SizeSamples samples(sizes);
    auto before = leastOfAll(kept, samples), after = leastOfAll(apart, samples);
    if (isNearly(before, after) || !isNearly(after, before))
      graph_.keep(product);
  }

  Chosen choose(const ProductChain &chain) {
    Chosen chosen;
    SizeSamples samples(chain.sizes);
    auto orders = ordersOf(chain, known_);
    std::vector<std::vector<double>> counts;
    for (const ProductOrder &order : orders)
      counts.push_back(samples.of(order.count));
    chosen.before = chosen.after = samples.of(chain.count);
    std::vector<double> best = counts[0];
    for (const auto &of : counts)
      for (auto [less, count] : llvm::zip_equal(best, of))
        less = std::min(less, count);
    if (isNearly(chosen.before, best))
      return chosen;
    chosen.after = best;
    for (unsigned number : covering(counts, kMostBranches))
      chosen.orders.push_back(orders[number]);
    return chosen;
  }

  void order(graph::MatMulOp last) {
    ProductChain chain = graph_.chainOf(last);
    bool isChain = chain.factors.size() > 2;
    auto asked = options_.asked(last)[kernel::choice::productOrder];
    Value value;
    if (isChain && asked != 0)
      value = reordered(last, chain);
    if (asked != 0 && !value)
      value = distributed(last, chain);
    if (isChain || value) {
      kernel::Point schedule;
      schedule.set(kernel::choice::productOrder, value ? 1 : 0);
      options_.offer(last, kernel::choice::productOrder, {0, 1});
      options_.made(last, schedule, 0);
    }
    if (value)
      last.getC().replaceAllUsesWith(value);
    else if (!chain.hasStacks())
      for (const ChainPart &part : chain.parts)
        known_.add(chain, part);
  }

  Value reordered(graph::MatMulOp last, const ProductChain &chain) {
    OpBuilder builder(last);
    graph::GraphBuilder graph(builder, shapes_, last.getLoc());
    auto type = cast<RankedTensorType>(last.getType());
    Chosen chosen = choose(chain);
    if (chosen.orders.empty())
      return {};
    if (chosen.orders.size() == 1)
      return asType(graph, ChainBuilder(graph, chain, known_, true).build(*chosen.orders[0].tree),
                    type);
    return branches(graph, chain, chosen.orders, type);
  }

  /// if (count of the first <= counts of all others) { the first } else { the same of the others }
  Value branches(graph::GraphBuilder &graph, const ProductChain &chain,
                 ArrayRef<ProductOrder> orders, RankedTensorType type) {
    ChainBuilder chains(graph, chain, known_, /*notes=*/false);
    if (orders.size() == 1)
      return asType(graph, chains.build(*orders[0].tree), type);
    Value own = chains.count(*orders[0].tree), least;
    for (const ProductOrder &order : orders.drop_front()) {
      Value count = chains.count(*order.tree);
      least = least ? graph.binary("graph.min", least, count) : count;
    }
    OperationState state(graph.location, graph::IfOp::getOperationName());
    state.addOperands(graph.binary("graph.less_or_equal", own, least));
    state.addTypes(type);
    for (auto part : {orders.take_front(), orders.drop_front()}) {
      Region *region = state.addRegion();
      OpBuilder inner(graph.builder.getContext());
      inner.setInsertionPointToEnd(&region->emplaceBlock());
      graph::GraphBuilder inBranch(inner, shapes_, graph.location);
      Value value = branches(inBranch, chain, part, type);
      if (!value)
        return {};
      inner.create<graph::YieldOp>(graph.location, ValueRange(value));
    }
    return graph.builder.create(state)->getResult(0);
  }

  /// Term by term, where a factor is a sum and that takes less; sizes must say so whatever they
  /// are.
  Value distributed(graph::MatMulOp last, const ProductChain &chain) {
    for (ProductGraph::Distribution &sum : graph_.distributions(chain)) {
      SmallVector<FactorSizes> sizes(chain.sizes);
      for (const ProductChain &own : sum.own)
        sizes.append(own.sizes);
      SizeSamples samples(sizes);
      std::vector<ProductChain> before{chain};
      before.insert(before.end(), sum.own.begin(), sum.own.end());
      auto elements = samples.of(OperationCount::ofProduct(shapes_.dims(last.getC().getType())));
      auto as = leastOfAll(before, samples), by = leastOfAll(sum.terms, samples);
      for (auto [count, more] : llvm::zip_equal(by, elements))
        count += more;
      if (isNearly(as, by) || !isNearly(by, as))
        continue;
      if (Value value = sumOfTerms(last, sum))
        return value;
    }
    return {};
  }

  Value sumOfTerms(graph::MatMulOp last, const ProductGraph::Distribution &of) {
    OpBuilder builder(last);
    graph::GraphBuilder graph(builder, shapes_, last.getLoc());
    SmallVector<Value, 2> terms;
    for (const ProductChain &chain : of.terms) {
      auto orders = ordersOf(chain, known_);
      Value term = ChainBuilder(graph, chain, known_, true).build(*orders[0].tree);
      if (!term)
        return {};
      terms.push_back(term);
    }
    Value sum = graph.binary(of.sum->getName().getStringRef(), terms[0], terms[1]);
    return asType(graph, sum, cast<RankedTensorType>(last.getType()));
  }

  const Options &options_;
  graph::ShapeContext shapes_;
  ProductGraph graph_;
  KnownProducts known_;
};

} // namespace

LogicalResult orderProducts(func::FuncOp function, const Options &options) {
  SmallVector<Block *> blocks;
  function->walk([&](Block *block) {
    if (!isa<graph::KernelOp>(block->getParentOp()))
      blocks.push_back(block);
  });
  for (Block *block : blocks)
    Ordering(*block, options).run();
  graph::eraseDead(function);
  return success();
}

} // namespace tensmith::rewrite
