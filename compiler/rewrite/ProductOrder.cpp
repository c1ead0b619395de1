// Dynamic programming over the parts of a chain; see ProductOrder.h.
#include "compiler/rewrite/ProductOrder.h"

#include "llvm/ADT/SetVector.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

void appendAtoms(AffineExpr size, graph::Monomial &atoms, double &coefficient) {
  auto binary = dyn_cast<AffineBinaryOpExpr>(size);
  if (auto constant = dyn_cast<AffineConstantExpr>(size)) {
    coefficient *= double(constant.getValue());
  } else if (binary && binary.getKind() == AffineExprKind::Mul) {
    appendAtoms(binary.getLHS(), atoms, coefficient);
    appendAtoms(binary.getRHS(), atoms, coefficient);
  } else {
    atoms.push_back(size);
  }
}

double valueOf(AffineExpr size, const SizeValues &values) {
  if (auto constant = dyn_cast<AffineConstantExpr>(size))
    return double(constant.getValue());
  auto binary = dyn_cast<AffineBinaryOpExpr>(size);
  if (!binary)
    return values.lookup(size);
  double a = valueOf(binary.getLHS(), values), b = valueOf(binary.getRHS(), values);
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return a + b;
  case AffineExprKind::Mul:
    return a * b;
  case AffineExprKind::FloorDiv:
    return b == 0 ? 0 : std::floor(a / b);
  case AffineExprKind::CeilDiv:
    return b == 0 ? 0 : std::ceil(a / b);
  default:
    return b == 0 ? 0 : a - b * std::floor(a / b);
  }
}

/// Whether the product has all atoms of the other, as often.
bool isMultiple(const graph::Monomial &product, const graph::Monomial &of) {
  return std::includes(product.begin(), product.end(), of.begin(), of.end(), graph::atomLess);
}

/// Orders of a part that are kept: of more, those that are the best at some sample.
constexpr size_t kMostOrders = 16;

class Programming {
public:
  Programming(ArrayRef<FactorSizes> chain, graph::ShapeContext &shapes)
      : chain_(chain), shapes_(shapes), samples_(chain), parts_(chain.size() * chain.size()) {}

  std::vector<ProductOrder> run(llvm::function_ref<bool(unsigned, unsigned)> isGiven) {
    unsigned size = unsigned(chain_.size());
    for (unsigned first = 0; first < size; ++first)
      part(first, first) = {whole(first, first)};
    for (unsigned length = 2; length <= size; ++length)
      for (unsigned first = 0; first + length <= size; ++first) {
        unsigned last = first + length - 1;
        if (isGiven(first, last))
          part(first, last) = {whole(first, last)};
        else
          findOrders(first, last);
      }
    return part(0, size - 1);
  }

private:
  std::vector<ProductOrder> &part(unsigned first, unsigned last) {
    return parts_[first * chain_.size() + last];
  }
  static ProductOrder whole(unsigned first, unsigned last) {
    return {{}, std::make_shared<ProductTree>(ProductTree{first, last, {}, {}})};
  }

  void findOrders(unsigned first, unsigned last) {
    std::vector<ProductOrder> &found = part(first, last);
    for (unsigned split = first; split < last; ++split) {
      OperationCount own = countOfProduct(chain_, first, split, last, shapes_);
      for (const ProductOrder &left : part(first, split))
        for (const ProductOrder &right : part(split + 1, last))
          add(found, own, left, right);
    }
    if (found.size() > kMostOrders)
      keepBest(found);
  }

  static void add(std::vector<ProductOrder> &found, const OperationCount &own,
                  const ProductOrder &left, const ProductOrder &right) {
    OperationCount count = own;
    count += left.count;
    count += right.count;
    for (const ProductOrder &other : found)
      if (other.count.isAtMost(count))
        return;
    llvm::erase_if(found, [&](const ProductOrder &other) { return count.isAtMost(other.count); });
    auto tree = std::make_shared<ProductTree>(
        ProductTree{left.tree->first, right.tree->last, left.tree, right.tree});
    found.push_back({std::move(count), std::move(tree)});
  }

  void keepBest(std::vector<ProductOrder> &orders) const {
    std::vector<std::vector<double>> counts;
    for (const ProductOrder &order : orders)
      counts.push_back(samples_.of(order.count));
    std::vector<ProductOrder> kept;
    for (unsigned number : covering(counts, kMostOrders))
      kept.push_back(orders[number]);
    orders = std::move(kept);
  }

  ArrayRef<FactorSizes> chain_;
  graph::ShapeContext &shapes_;
  SizeSamples samples_;
  std::vector<std::vector<ProductOrder>> parts_; // by first and last factor
};

} // namespace

OperationCount OperationCount::ofProduct(ArrayRef<AffineExpr> sizes) {
  graph::Monomial atoms;
  double coefficient = 1;
  for (AffineExpr size : sizes)
    appendAtoms(size, atoms, coefficient);
  llvm::sort(atoms, graph::atomLess);
  OperationCount count;
  if (coefficient != 0)
    count.terms_[atoms] = coefficient;
  return count;
}

OperationCount &OperationCount::operator+=(const OperationCount &other) {
  for (const auto &[atoms, coefficient] : other.terms_)
    terms_[atoms] += coefficient;
  return *this;
}

bool OperationCount::isAtMost(const OperationCount &other) const {
  auto left = other.terms_; // what of the other is not held against a term of this one yet
  auto takeFrom = [](double &available, double &needed) {
    double taken = std::min(available, needed);
    available -= taken;
    needed -= taken;
  };
  std::vector<std::pair<const graph::Monomial *, double>> needed;
  for (const auto &[atoms, coefficient] : terms_) {
    double missing = coefficient;
    if (auto same = left.find(atoms); same != left.end())
      takeFrom(same->second, missing);
    if (missing > 0)
      needed.emplace_back(&atoms, missing);
  }
  for (auto &[atoms, missing] : needed) {
    for (auto &[multiple, available] : left)
      if (available > 0 && isMultiple(multiple, *atoms))
        takeFrom(available, missing);
    if (missing > 0)
      return false;
  }
  return true;
}

double OperationCount::at(const SizeValues &values) const {
  double sum = 0;
  for (const auto &[atoms, coefficient] : terms_) {
    double product = coefficient;
    for (AffineExpr atom : atoms)
      product *= valueOf(atom, values);
    sum += product;
  }
  return sum;
}

OperationCount countOfProduct(ArrayRef<FactorSizes> chain, unsigned first, unsigned split,
                              unsigned last, graph::ShapeContext &shapes) {
  SmallVector<AffineExpr> stack; // from its last dimension on
  for (const FactorSizes &factor : chain.slice(first, last - first + 1))
    for (auto [dim, size] : llvm::enumerate(llvm::reverse(factor.stack)))
      if (dim == stack.size())
        stack.push_back(size);
      else
        stack[dim] = shapes.broadcast(stack[dim], size).value_or(stack[dim]);
  stack.append({chain[first].rows, chain[split].columns, chain[last].columns});
  return OperationCount::ofProduct(stack);
}

std::vector<ProductOrder> bestOrders(ArrayRef<FactorSizes> chain, graph::ShapeContext &shapes,
                                     llvm::function_ref<bool(unsigned, unsigned)> isGiven) {
  return Programming(chain, shapes).run(isGiven);
}

SizeSamples::SizeSamples(ArrayRef<FactorSizes> chain) {
  llvm::SetVector<AffineExpr> symbols;
  auto note = [&](AffineExpr size) {
    size.walk([&](AffineExpr part) {
      if (isa<AffineSymbolExpr>(part))
        symbols.insert(part);
    });
  };
  for (const FactorSizes &factor : chain) {
    note(factor.rows);
    note(factor.columns);
    llvm::for_each(factor.stack, note);
  }
  constexpr double kSizes[] = {1, 8, 64, 512, 4096};
  constexpr size_t kMostOnGrid = 3, kDrawn = 192;
  size_t points = 1;
  for (size_t i = 0; i < symbols.size() && i < kMostOnGrid; ++i)
    points *= std::size(kSizes);
  bool isGrid = symbols.size() <= kMostOnGrid;
  std::mt19937 random(1);
  for (size_t point = 0; point < (isGrid ? points : kDrawn); ++point) {
    SizeValues values;
    size_t rest = point;
    for (AffineExpr symbol : symbols) {
      size_t number = isGrid ? rest % std::size(kSizes) : random() % std::size(kSizes);
      values[symbol] = kSizes[number];
      rest /= std::size(kSizes);
    }
    values_.push_back(std::move(values));
  }
}

std::vector<double> SizeSamples::of(const OperationCount &count) const {
  std::vector<double> counts;
  for (const SizeValues &values : values_)
    counts.push_back(count.at(values));
  return counts;
}

/// What is lost in between costs less than to decide it in a run.
static bool isNear(double count, double best) {
  constexpr double kFactor = 1.25, kOperations = 1 << 16;
  return count <= best * kFactor + kOperations;
}

bool isNearly(ArrayRef<double> count, ArrayRef<double> best) {
  if (count.size() == 1)
    return count[0] <= best[0];
  return llvm::all_of(llvm::zip_equal(count, best),
                      [](auto pair) { return isNear(std::get<0>(pair), std::get<1>(pair)); });
}

SmallVector<unsigned> covering(ArrayRef<std::vector<double>> counts, unsigned most) {
  std::vector<double> best = counts[0];
  for (const std::vector<double> &of : counts)
    for (auto [least, count] : llvm::zip_equal(best, of))
      least = std::min(least, count);
  SmallVector<unsigned> chosen;
  std::vector<bool> covered(best.size());
  while (chosen.size() < most) {
    unsigned taken = 0, gained = 0;
    double takenSum = 0;
    for (unsigned number = 0; number < counts.size(); ++number) {
      unsigned gain = 0;
      double sum = 0; // of the logarithms: of those that cover as much the one that takes less
      for (size_t i = 0; i < best.size(); ++i) {
        gain += !covered[i] && (best.size() == 1 ? counts[number][i] <= best[i]
                                                 : isNear(counts[number][i], best[i]));
        sum += std::log1p(counts[number][i]);
      }
      if (gain > gained || (gain == gained && gain > 0 && sum < takenSum)) {
        taken = number;
        gained = gain;
        takenSum = sum;
      }
    }
    if (gained == 0)
      break;
    chosen.push_back(taken);
    for (size_t i = 0; i < best.size(); ++i)
      covered[i] = covered[i] || isNear(counts[taken][i], best[i]);
  }
  return chosen;
}

} // namespace tensmith::rewrite
