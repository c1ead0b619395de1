// A walk over the loop program: how often each place runs, what it computes, and how the addresses
// of its accesses go with the loops around it; see LoopFeatures.h.
//
// An address is taken apart into multiples of the loops' counters as far as it is affine. What is
// not (a remainder, a loaded index) counts as unknown. A loop whose length only the run tells
// counts once; the length of the items' loop is found again from the kernel's work.
#include "compiler/pipeline/LoopFeatures.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "compiler/kernel/Kernel.h"

#include <algorithm>
#include <array>
#include <cmath>

using namespace mlir;

namespace tensmith::pipeline {
namespace {

/// How often, of what a place does.
enum Amount {
  Fma,
  Add,
  Multiply,
  Divide,
  Compare,
  Special,
  Convert,
  Index,
  Shuffle,
  VectorOps,
  ScalarOps,
  LoadBytes,
  StoreBytes,
  Prefetches,
  Branches,
  Calls,
  // Accesses, by how far the address moves in an iteration of the innermost loop.
  Invariant,
  Contiguous,
  InLine,
  InPage,
  Far,
  Unknown,
  // Bytes that all accesses of a place touch in the innermost loop, and in the two around it.
  Touched1,
  Touched2,
  Touched3,
  // Bytes that are touched again, for which an access does not move with a loop around it.
  Reused,
  kAmounts
};

constexpr std::pair<const char *, const char *> kAmountNames[kAmounts] = {
    {"fma", "multiply-adds of vectors or numbers"},
    {"add", "sums and differences of floats"},
    {"multiply", "products of floats"},
    {"divide", "quotients of floats"},
    {"compare", "comparisons, selections, extremes"},
    {"special", "elementary functions"},
    {"convert", "conversions"},
    {"index", "integer arithmetic"},
    {"shuffle", "broadcasts, shuffles, insertions, extractions"},
    {"vector_ops", "operations on vectors"},
    {"scalar_ops", "operations on single floats"},
    {"load_bytes", "bytes loaded"},
    {"store_bytes", "bytes stored"},
    {"prefetches", "prefetches"},
    {"branches", "branches"},
    {"calls", "calls"},
    {"invariant", "accesses whose address stays in the innermost loop"},
    {"contiguous", "accesses whose address moves by what they read"},
    {"in_line", "accesses whose address moves by at most 64 bytes"},
    {"in_page", "accesses whose address moves by at most 4096 bytes"},
    {"far", "accesses whose address moves further"},
    {"unknown", "accesses whose address is not affine"},
    {"touched_1", "bytes touched in the innermost loop"},
    {"touched_2", "bytes touched in the two innermost loops"},
    {"touched_3", "bytes touched in the three innermost loops"},
    {"reused", "bytes touched again by loops that an access does not move with"}};

using Amounts = std::array<double, kAmounts>;

/// A place: what stands in a loop and in no loop within it, or outside of any.
struct Place {
  double length = 1, around = 1, carried = 0, statements = 0, depth = 0;
  Amounts each{};                  // of all its runs
  int64_t number = 0, parent = -1; // in the order of the text; the parent's, -1: it has none
  double heat() const {
    return each[Fma] + each[Add] + each[Multiply] + each[Special] + each[LoadBytes] / 64;
  }
};

constexpr std::pair<const char *, const char *> kPlaceNames[] = {
    {"length", "iterations of the loop"},
    {"around", "runs of the loop"},
    {"carried", "values that the loop carries: accumulators"},
    {"statements", "operations in the loop's body"},
    {"depth", "loops around it"}};

constexpr std::pair<const char *, const char *> kWholeNames[] = {
    {"loops", "loops of the program"},
    {"deepest", "loops around the innermost place"},
    {"statements", "operations of the program: the code's size"},
    {"items", "work items"},
    {"item_fma", "multiply-adds of an item"},
    {"grain", "work items that are worth a thread"},
    {"flops", "operations of the kernel's meaning"},
    {"bytes", "bytes of the kernel's operands and results"}};

constexpr size_t kHottest = 3; // places that are told apart

/// A linear form of the loops' counters.
struct Linear {
  llvm::SmallVector<std::pair<Value, double>, 4> terms;
  double constant = 0;
  bool isKnown = true;

  double of(Value counter) const {
    for (auto [value, factor] : terms)
      if (value == counter)
        return factor;
    return 0;
  }
  void add(const Linear &other, double factor) {
    isKnown &= other.isKnown;
    constant += factor * other.constant;
    for (auto [value, each] : other.terms) {
      auto *same = llvm::find_if(terms, [&](auto &term) { return term.first == value; });
      if (same == terms.end())
        terms.push_back({value, factor * each});
      else
        same->second += factor * each;
    }
  }
  bool isConstant() const {
    return isKnown && llvm::all_of(terms, [](auto &term) { return term.second == 0; });
  }
};

class Walk {
public:
  Walk(ModuleOp module) {
    module.walk([&](FunctionOpInterface function) {
      if (!function.isExternal())
        walk(function.getFunctionBody(), outside_);
    });
    finish(outside_);
  }

  std::vector<Place> places;
  double loops = 0, statements = 0;
  double products = 0; // multiply-adds of single numbers

private:
  struct Loop {
    Value counter;
    double length;
  };

  Linear linear(Value value, int depth = 0) {
    constexpr int kDeepest = 64;
    Linear result;
    if (depth > kDeepest) {
      result.isKnown = false;
      return result;
    }
    auto rest = [&](Value other) { return linear(other, depth + 1); };
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (isa<scf::ForOp>(argument.getOwner()->getParentOp()) && argument.getArgNumber() == 0)
        result.terms.push_back({value, 1});
      return result; // a base
    }
    Operation *op = value.getDefiningOp();
    APInt number;
    if (matchPattern(value, m_ConstantInt(&number))) {
      result.constant = double(number.getSExtValue());
    } else if (isa<arith::AddIOp, arith::SubIOp>(op)) {
      result = rest(op->getOperand(0));
      result.add(rest(op->getOperand(1)), isa<arith::AddIOp>(op) ? 1 : -1);
    } else if (isa<arith::MulIOp>(op)) {
      Linear a = rest(op->getOperand(0)), b = rest(op->getOperand(1));
      if (a.isConstant())
        std::swap(a, b);
      result.isKnown = b.isConstant();
      result.add(a, b.isConstant() ? b.constant : 0);
    } else if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtUIOp, arith::ExtSIOp,
                   arith::TruncIOp>(op)) {
      result = rest(op->getOperand(0));
    } else if (isa<arith::MinUIOp, arith::MinSIOp, arith::MaxUIOp, arith::MaxSIOp>(op)) {
      result = rest(op->getOperand(0));
    } else if (auto select = dyn_cast<arith::SelectOp>(op)) {
      result = rest(select.getFalseValue());
    } else if (auto gep = dyn_cast<LLVM::GEPOp>(op)) {
      result = rest(gep.getBase());
      double bytes = bytesOf(gep.getElemType());
      for (auto index : gep.getIndices()) {
        if (auto dynamic = dyn_cast<Value>(index))
          result.add(rest(dynamic), bytes);
        else
          result.constant += bytes * double(cast<IntegerAttr>(index).getInt());
        break; // of arrays and structures the first index is what moves
      }
    } else if (!isa<LLVM::LoadOp, func::CallOp>(op)) {
      result.isKnown = false;
    }
    return result;
  }

  static double bytesOf(Type type) {
    if (auto vector = dyn_cast<VectorType>(type))
      return double(vector.getNumElements()) * bytesOf(vector.getElementType());
    return type.isIntOrFloat() ? std::max(1.0, type.getIntOrFloatBitWidth() / 8.0) : 8;
  }

  double lengthOf(scf::ForOp loop) {
    Linear step = linear(loop.getStep());
    double by = step.isConstant() && step.constant > 0 ? step.constant : 1;
    std::optional<double> least;
    SmallVector<Value> ends{loop.getUpperBound()};
    while (!ends.empty()) {
      Value end = ends.pop_back_val();
      Operation *op = end.getDefiningOp();
      if (isa_and_nonnull<arith::MinUIOp, arith::MinSIOp>(op)) {
        llvm::append_range(ends, op->getOperands());
        continue;
      }
      Linear length = linear(end);
      length.add(linear(loop.getLowerBound()), -1);
      if (length.isConstant() && length.constant > 0)
        least = std::min(least.value_or(length.constant), length.constant);
    }
    return std::max(1.0, std::ceil(least.value_or(1) / by));
  }

  void walk(Region &region, Place &place) {
    for (Block &block : region)
      for (Operation &op : block)
        visit(&op, place);
  }

  void visit(Operation *op, Place &place) {
    ++statements;
    ++place.statements;
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      ++loops;
      double length = lengthOf(loop);
      Place inner;
      inner.length = length;
      inner.around = times_;
      inner.carried = double(loop.getNumRegionIterArgs());
      inner.depth = double(around_.size());
      inner.number = int64_t(loops);
      inner.parent = place.number;
      double before = times_;
      times_ *= length;
      around_.push_back({loop.getInductionVar(), length});
      walk(loop.getRegion(), inner);
      around_.pop_back();
      times_ = before;
      finish(inner);
      return;
    }
    count(op, place);
    for (Region &region : op->getRegions())
      walk(region, place);
  }

  void finish(const Place &place) {
    if (place.statements > 0)
      places.push_back(place);
  }

  void count(Operation *op, Place &place) {
    auto add = [&](Amount amount, double value = 1) { place.each[amount] += times_ * value; };
    bool isVector = op->getNumResults() > 0 && isa<VectorType>(op->getResult(0).getType());
    bool isFloat =
        op->getNumResults() > 0 && isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()));
    if (isa<math::FmaOp, vector::FMAOp>(op)) {
      auto vector = dyn_cast<VectorType>(op->getResult(0).getType());
      products += times_ * (vector ? double(vector.getNumElements()) : 1);
      add(Fma);
    } else if (isa<arith::AddFOp, arith::SubFOp>(op))
      add(Add);
    else if (isa<arith::MulFOp>(op))
      add(Multiply);
    else if (isa<arith::DivFOp>(op))
      add(Divide);
    else if (isa<arith::CmpFOp, arith::CmpIOp, arith::SelectOp, arith::MaximumFOp,
                 arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp>(op))
      add(Compare);
    else if (op->getDialect() && op->getDialect()->getNamespace() == "math")
      add(Special);
    else if (isa<CastOpInterface>(op))
      add(Convert);
    else if (isa<LLVM::Prefetch>(op))
      add(Prefetches);
    else if (op->getDialect() && op->getDialect()->getNamespace() == "vector")
      add(Shuffle);
    else if (isa<scf::IfOp, scf::WhileOp>(op))
      add(Branches);
    else if (isa<CallOpInterface>(op))
      add(Calls);
    else if (op->getDialect() && op->getDialect()->getNamespace() == "arith" && !isFloat)
      add(Index);
    if (isVector)
      add(VectorOps);
    else if (isFloat)
      add(ScalarOps);
    if (auto load = dyn_cast<LLVM::LoadOp>(op))
      access(load.getAddr(), bytesOf(load.getType()), LoadBytes, place);
    else if (auto store = dyn_cast<LLVM::StoreOp>(op))
      access(store.getAddr(), bytesOf(store.getValue().getType()), StoreBytes, place);
  }

  void access(Value address, double bytes, Amount kind, Place &place) {
    place.each[kind] += times_ * bytes;
    Linear form = linear(address);
    double moves = around_.empty() ? 0 : std::abs(form.of(around_.back().counter));
    Amount how = !form.isKnown    ? Unknown
                 : moves == 0     ? Invariant
                 : moves <= bytes ? Contiguous
                 : moves <= 64    ? InLine
                 : moves <= 4096  ? InPage
                                  : Far;
    place.each[how] += times_;
    double touched = bytes, reused = 1;
    size_t level = 0;
    for (const Loop &loop : llvm::reverse(around_)) {
      (form.of(loop.counter) != 0 ? touched : reused) *= loop.length;
      if (level < 3)
        place.each[Touched1 + level] += touched;
      ++level;
    }
    for (; level < 3; ++level)
      place.each[Touched1 + level] += touched;
    place.each[Reused] += times_ * bytes * (1 - 1 / reused);
  }

  Place outside_;
  double times_ = 1;
  SmallVector<Loop> around_;
};

double logarithm(double amount) { return std::log2(1 + std::max(amount, 0.0)); }

std::vector<FeatureName> makeNames() {
  std::vector<FeatureName> names;
  for (auto [name, meaning] : kWholeNames)
    names.push_back({name, meaning});
  for (auto [name, meaning] : kAmountNames)
    names.push_back({std::string("all.") + name, std::string(meaning) + ", of the program"});
  for (size_t i = 0; i < kHottest; ++i) {
    std::string place = "hot" + std::to_string(i + 1) + ".";
    for (auto [name, meaning] : kPlaceNames)
      names.push_back({place + name, std::string(meaning) + ", of a hot place"});
    for (auto [name, meaning] : kAmountNames)
      names.push_back({place + name, std::string(meaning) + ", of a hot place"});
  }
  return names;
}

std::vector<double> numbersOf(const Place &place) {
  std::vector<double> numbers;
  for (double each : {place.length, place.around, place.carried, place.statements, place.depth})
    numbers.push_back(logarithm(each));
  for (double each : place.each)
    numbers.push_back(logarithm(each));
  return numbers;
}

} // namespace

std::span<const FeatureName> loopFeatureNames() {
  static const std::vector<FeatureName> names = makeNames();
  return names;
}

std::vector<double> loopFeatures(const kernel::EmittedKernel &kernel) {
  Walk walk(*kernel.module);
  llvm::stable_sort(walk.places,
                    [](const Place &a, const Place &b) { return a.heat() > b.heat(); });
  Amounts all{};
  double deepest = 0;
  for (const Place &place : walk.places) {
    deepest = std::max(deepest, place.depth);
    for (size_t i = 0; i < kAmounts; ++i)
      all[i] += place.each[i];
  }
  auto constant = [](AffineExpr expression) {
    auto known = dyn_cast_or_null<AffineConstantExpr>(expression);
    return known ? double(known.getValue()) : 0.0;
  };
  double flops = constant(kernel.work.flops), counted = 2 * walk.products;
  double items = counted > 0 ? std::max(1.0, flops / counted) : 1;
  double grain = 0;
  if (!kernel.points.empty())
    grain = double(kernel.points.front().point[kernel::choice::grain].value_or(0));
  std::vector<double> features;
  for (double each : {walk.loops, deepest, walk.statements, items, all[Fma], grain, flops,
                      constant(kernel.work.bytes)})
    features.push_back(logarithm(each));
  for (double each : all)
    features.push_back(logarithm(each));
  walk.places.resize(std::max(walk.places.size(), kHottest));
  for (size_t i = 0; i < kHottest; ++i)
    llvm::append_range(features, numbersOf(walk.places[i]));
  return features;
}

std::vector<LoopNode> loopTree(const kernel::EmittedKernel &kernel) {
  Walk walk(*kernel.module);
  llvm::stable_sort(walk.places,
                    [](const Place &a, const Place &b) { return a.number < b.number; });
  std::vector<LoopNode> tree;
  for (const Place &place : walk.places)
    tree.push_back({place.parent, numbersOf(place)});
  return tree;
}

} // namespace tensmith::pipeline
