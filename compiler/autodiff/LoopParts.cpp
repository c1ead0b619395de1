// The loop over parts, and the loop over leaves that goes back; see LoopParts.h.
#include "compiler/autodiff/LoopParts.h"

#include "compiler/autodiff/IterationSums.h"
#include "compiler/autodiff/LoopBuilder.h"
#include "compiler/autodiff/Operators.h"
#include "compiler/autodiff/Reverse.h"
#include "compiler/graph/Structure.h"
#include "compiler/program/Effects.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tensmith::autodiff {
namespace {

constexpr int64_t kLeaf = 64;               // iterations that the recursive plan keeps a tape of
constexpr int64_t kUnit = 16;               // iterations of the first part of `segments`
constexpr int64_t kOfLoops = 4;             // of both, where an iteration has a loop inside
constexpr int64_t kBranch = 4;              // of its levels
constexpr int64_t kLongestPart = 1ll << 40; // iterations; products of lengths stay within i64
// A part of `segments` is a unit longer after so many parts: with units of 16 it has about as many
// iterations as there are parts before it.
constexpr int64_t kPartsOfALength = 16;

/// Iterations that are always in one part: groups of them are multiplied at a time.
int64_t unitOf(graph::LoopOp loop, int64_t least) {
  if (!loop.getBody().getOps<graph::LoopOp>().empty())
    least = kOfLoops;
  return std::max(least, iterationsTogether(loop));
}

/// What is the same in all parts of a loop, and code that puts it together.
class Parts {
public:
  Parts(const graph::GradientCode &code, Activity &activity, graph::LoopOp loop)
      : code_(code), activity_(activity), loop_(loop), sizes_(loop),
        isBounded_(!graph::GraphCode::isAbsent(loop.getTripCount())),
        stops_(!graph::neverStops(loop)) {}

protected:
  Block &body() { return loop_.getBody().front(); }
  size_t carriedCount() { return loop_.getCarried().size(); }
  Value argument(size_t number) { return body().getArgument(unsigned(2 + number)); }

  Value number(int64_t value) {
    return code_.graph.scalar(code_.builder.getI64Type(), double(value));
  }
  Value scalarOf(Value value, Type element) {
    return code_.reshape(code_.cast(value, element), {});
  }

  Value emptyStack(Type type) {
    Type element = type;
    if (auto ranked = dyn_cast<RankedTensorType>(type))
      element = RankedTensorType::get(ranked.getShape(), ranked.getElementType());
    return code_.op("graph.sequence_construct", {},
                    {code_.builder.getNamedAttr("element", TypeAttr::get(element))});
  }
  Value push(Value stack, Value value) {
    return code_.op("graph.sequence_insert", {stack, value, code_.graph.none()});
  }
  Value pop(Value stack) { return code_.op("graph.sequence_erase", {stack, code_.graph.none()}); }
  Value top(Value stack, Type type) {
    Value value = code_.op("graph.sequence_at", {stack, number(-1)});
    if (value)
      value.setType(type); // which tells its sizes
    return value;
  }
  /// Of a state between parts.
  Type typeBetween(size_t state) {
    Value own = argument(state);
    return sizes_.varies(own) ? sizes_.typeOfState(code_.graph.shapes, own) : own.getType();
  }
  Value between(Value value, size_t state) {
    return sizes_.varies(argument(state)) ? value
                                          : withType(code_, value, argument(state).getType());
  }

  /// So many iterations from `start`; `asks` whether its condition holds, and then counts how many
  /// there were: both are carried behind the states.
  FailureOr<LoopPart> copyOf(Value trips, ArrayRef<Value> states, Value start, bool asks) {
    LoopBuilder copy(code_, activity_, loop_.getLoc());
    IRMapping map;
    for (auto [i, state] : llvm::enumerate(states))
      map.map(argument(i), copy.carry(state, argument(i).getType()));
    Value count = asks ? copy.carry(number(0)) : Value();
    if (asks)
      copy.carry(code_.graph.scalar(code_.builder.getI1Type(), 1));
    Value position;
    SmallVector<Value> yielded;
    {
      OpBuilder::InsertionGuard guard(code_.builder);
      code_.builder.setInsertionPointToEnd(&copy.block());
      position = code_.add(copy.iteration(), start);
      map.map(body().getArgument(0), position);
      map.map(body().getArgument(1), copy.condition());
      for (Operation &op : body().without_terminator())
        code_.builder.clone(op, map);
      auto values = cast<graph::YieldOp>(body().getTerminator()).getValues();
      Value goesOn = copy.condition();
      if (asks)
        goesOn = scalarOf(map.lookupOrDefault(values[0]), code_.builder.getI1Type());
      yielded.push_back(goesOn);
      for (auto [i, value] : llvm::enumerate(values.drop_front())) {
        if (i == carriedCount() && asks)
          yielded.append({code_.add(count, number(1)), goesOn});
        yielded.push_back(map.lookupOrDefault(value));
      }
      if (asks && values.size() == 1 + carriedCount())
        yielded.append({code_.add(count, number(1)), goesOn});
    }
    auto loop = copy.close(trips, {}, yielded);
    if (failed(loop))
      return failure();
    return LoopPart{*loop, position, start};
  }

  const graph::GradientCode &code_;
  Activity &activity_;
  graph::LoopOp loop_;
  SizesAround sizes_;
  bool isBounded_, stops_;
};

/// What the loop over parts leaves to the way back.
struct KeptStates {
  SmallVector<Value> results; // of the loop; null where nobody reads them
  Value total;                // iterations that there were
  Value starts;
  SmallVector<Value> stacks; // of a carried value each
};

/// The way forward.
class PartedLoop : Parts {
public:
  PartedLoop(const graph::GradientCode &code, Activity &activity, graph::LoopOp loop,
             Checkpointing plan)
      : Parts(code, activity, loop), plan_(plan), unit_(unitOf(loop, isSegments() ? kUnit : kLeaf)),
        parts_(code, activity, loop.getLoc()) {}

  FailureOr<KeptStates> run() {
    if (isBounded_)
      limit_ = scalarOf(loop_.getTripCount(), code_.builder.getI64Type());
    begin();
    SmallVector<Value> yielded;
    {
      OpBuilder::InsertionGuard guard(code_.builder);
      code_.builder.setInsertionPointToEnd(&parts_.block());
      if (failed(fill(yielded)))
        return failure();
    }
    auto whole = parts_.close({}, firstCondition(), yielded);
    if (failed(whole))
      return failure();
    return replace(*whole);
  }

private:
  void begin() {
    for (auto [i, value] : llvm::enumerate(loop_.getCarried()))
      states_.push_back(parts_.carry(between(value, i), typeBetween(i)));
    start_ = parts_.carry(number(0));
    length_ = parts_.carry(number(unit_));
    Value none = emptyStack(start_.getType());
    starts_ = parts_.carry(none);
    for (Value state : states_)
      stacks_.push_back(parts_.carry(emptyStack(state.getType())));
    for (auto [row, result] : llvm::zip_equal(scanned(), scannedResults()))
      rows_.push_back(result.use_empty() ? Value() : parts_.carry(noRows(row)));
  }
  ResultRange scannedResults() { return loop_.getResults().drop_front(carriedCount()); }
  bool isSegments() const { return plan_ == Checkpointing::Segments; }
  ValueRange scanned() {
    return cast<graph::YieldOp>(body().getTerminator()).getValues().drop_front(1 + carriedCount());
  }
  /// A sequence that begins with no row, for a loop that never runs.
  Value noRows(Value row) {
    auto dims = code_.dims(row);
    dims.insert(dims.begin(), code_.size(0));
    Value rows = code_.broadcast(code_.scalar(row, 0), dims);
    return rows ? push(emptyStack(openRows(rows.getType())), rows) : rows;
  }
  static Type openRows(Type type) {
    auto ranked = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(ranked.getShape());
    shape[0] = ShapedType::kDynamic;
    return RankedTensorType::get(shape, ranked.getElementType());
  }

  Value firstCondition() {
    Value condition;
    if (stops_ && !graph::GraphCode::isAbsent(loop_.getCondition()))
      condition = scalarOf(loop_.getCondition(), code_.builder.getI1Type());
    if (!isBounded_)
      return condition;
    Value any = code_.op("graph.less", {number(0), limit_});
    return condition ? code_.op("graph.and", {condition, any}) : any;
  }

  LogicalResult fill(SmallVector<Value> &yielded) {
    Value steps = length_;
    if (isBounded_)
      steps = code_.op("graph.min", {length_, code_.sub(limit_, start_)});
    auto part = copyOf(steps, states_, start_, stops_);
    if (failed(part))
      return failure();
    ResultRange results = part->loop.getResults();
    size_t count = carriedCount();
    Value next = code_.add(start_, stops_ ? Value(results[count]) : steps);
    Value goesOn = isBounded_ ? code_.op("graph.less", {next, limit_}) : parts_.condition();
    if (stops_)
      goesOn = code_.op("graph.and", {goesOn, results[count + 1]});
    yielded.push_back(goesOn);
    for (size_t i = 0; i < count; ++i)
      yielded.push_back(between(results[i], i));
    yielded.append({next, nextLength(), push(starts_, start_)});
    for (auto [stack, state] : llvm::zip_equal(stacks_, states_))
      yielded.push_back(push(stack, state));
    for (auto [rows, more] : llvm::zip_equal(rows_, results.take_back(rows_.size())))
      if (rows)
        yielded.push_back(push(rows, more));
    return success();
  }

  Value nextLength() {
    if (!isSegments())
      return code_.op("graph.min", {code_.mul(length_, number(kBranch)), number(kLongestPart)});
    Value next = code_.add(parts_.iteration(), number(1));
    Value units = code_.add(code_.div(next, number(kPartsOfALength)), number(1));
    return code_.mul(units, number(unit_));
  }

  FailureOr<KeptStates> replace(graph::LoopOp whole) {
    size_t count = carriedCount();
    auto results = whole.getResults();
    KeptStates kept{{},
                    results[count],
                    results[count + 2],
                    llvm::to_vector_of<Value>(results.slice(count + 3, count))};
    auto rows = results.drop_front(2 * count + 3);
    for (size_t i = 0; i < loop_.getNumResults(); ++i) {
      Value old = loop_.getResult(unsigned(i)), now = results[i];
      if (i >= count && !rows_[i - count]) {
        kept.results.push_back({});
        continue;
      }
      if (i >= count) {
        now = code_.op("graph.concat_from_sequence", {rows.front()}, {code_.integer("axis", 0)});
        rows = rows.drop_front();
      }
      if (!now)
        return failure();
      now.setType(old.getType()); // whose sizes have names already
      if (activity_.isActive(old))
        activity_.add(now);
      old.replaceAllUsesWith(now);
      kept.results.push_back(now);
    }
    return kept;
  }

  Checkpointing plan_;
  int64_t unit_;
  LoopBuilder parts_;
  Value limit_, start_, length_, starts_;
  SmallVector<Value> states_, stacks_;
  SmallVector<Value> rows_; // null where nobody reads them
};

/// The way back's sums, which it carries from leaf to leaf.
class LeafCotangents : public LoopCotangents {
public:
  LeafCotangents(const graph::GradientCode &code, LoopBuilder &way, OpBuilder::InsertPoint outside)
      : code_(code), way_(way), outside_(outside) {}

  LogicalResult giveCarried(unsigned number, Value cotangent) override {
    carried[number] = cotangent;
    return success();
  }
  Value beginSum(Value of) override {
    Value zeros = around([&] { return code_.zerosLike(of); });
    Value begun = way_.carry(zeros, of.getType());
    sums.push_back({of, {}, false});
    return begun;
  }
  LogicalResult giveSum(Value of, Value sum) override {
    auto open = llvm::find_if(sums, [](const Sum &known) { return !known.given; });
    assert(open != sums.end() && open->of == of);
    open->given = withType(code_, sum, of.getType());
    return success(open->given != nullptr);
  }
  /// The first of a leaf come before those of the leaves behind it.
  LogicalResult giveRows(Value of, Value rows) override {
    Value none = around([&] {
      Value empty = code_.sliceDim(of, 0, 0, 1, code_.size(0));
      auto type = cast<RankedTensorType>(of.getType());
      SmallVector<int64_t> shape(type.getShape());
      shape[0] = ShapedType::kDynamic;
      Type element = RankedTensorType::get(shape, type.getElementType());
      return code_.op("graph.sequence_construct", {empty},
                      {code_.builder.getNamedAttr("element", TypeAttr::get(element))});
    });
    Value behind = way_.carry(none);
    Value first = code_.graph.scalar(code_.builder.getI64Type(), 0);
    sums.push_back({of, code_.op("graph.sequence_insert", {behind, rows, first}), true});
    return success(sums.back().given != nullptr);
  }

  struct Sum {
    Value of, given;
    bool isRows;
  };
  llvm::DenseMap<unsigned, Value> carried;
  SmallVector<Sum> sums; // in the order in which they are carried

private:
  Value around(llvm::function_ref<Value()> build) {
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.restoreInsertionPoint(outside_);
    return build();
  }

  const graph::GradientCode &code_;
  LoopBuilder &way_;
  OpBuilder::InsertPoint outside_;
};

/// The way back.
class LeafByLeaf : Parts {
public:
  LeafByLeaf(const graph::GradientCode &code, Activity &activity, graph::LoopOp loop,
             const KeptStates &kept, Checkpointing plan, Reverse &outer, Procedures *procedures)
      : Parts(code, activity, loop), kept_(kept), isRecursive_(plan == Checkpointing::Recursive),
        leaf_(unitOf(loop, kLeaf)), outer_(outer), procedures_(procedures),
        way_(code, activity, loop.getLoc()),
        cotangents_(code, way_, code.builder.saveInsertionPoint()) {}

  LogicalResult run(ArrayRef<Value> given) {
    Value leaves = isRecursive_
                       ? code_.div(code_.add(kept_.total, number(leaf_ - 1)), number(leaf_))
                       : code_.op("graph.sequence_length", {kept_.starts});
    if (failed(begin(given)))
      return failure();
    SmallVector<Value> yielded;
    {
      OpBuilder::InsertionGuard guard(code_.builder);
      code_.builder.setInsertionPointToEnd(&way_.block());
      if (failed(fill(given, yielded)))
        return failure();
    }
    auto whole = way_.close(leaves, {}, yielded);
    return failed(whole) ? failure() : handOver(*whole);
  }

private:
  LogicalResult begin(ArrayRef<Value> given) {
    end_ = way_.carry(kept_.total);
    starts_ = way_.carry(kept_.starts);
    for (Value stack : kept_.stacks)
      stacks_.push_back(way_.carry(stack));
    for (size_t i = 0; i < carriedCount(); ++i) {
      if (!activity_.isActive(argument(i)))
        continue;
      Value zeros = given[i] ? given[i] : code_.zerosLike(kept_.results[i]);
      numbers_.push_back(unsigned(i));
      carried_.push_back(way_.carry(between(zeros, i), typeBetween(i)));
    }
    return success();
  }

  LogicalResult fill(ArrayRef<Value> given, SmallVector<Value> &yielded) {
    SmallVector<Value> states;
    Value start = top(starts_, typeOfStart());
    for (auto [i, stack] : llvm::enumerate(stacks_))
      states.push_back(top(stack, typeBetween(i)));
    if (llvm::is_contained(states, Value()) || !start)
      return failure();
    if (isRecursive_ && failed(goOn(start, states)))
      return failure();
    auto leaf = copyOf(code_.sub(end_, start), states, start, /*asks=*/false);
    if (failed(leaf))
      return failure();
    SmallVector<Value> own(leaf->loop.getNumResults());
    for (auto [number, cotangent] : llvm::zip_equal(numbers_, carried_)) {
      activity_.add(states[number]);
      own[number] = cotangent;
    }
    llvm::copy(given.drop_front(carriedCount()), own.begin() + carriedCount());
    activity_.followOperator(leaf->loop);
    if (failed(reversePart(code_, activity_, *leaf, own, cotangents_, procedures_)))
      return failure();
    yielded.append({way_.condition(), start, pop(starts_)});
    for (Value stack : stacks_)
      yielded.push_back(pop(stack));
    for (unsigned number : numbers_)
      yielded.push_back(between(cotangents_.carried.lookup(number), number));
    for (const LeafCotangents::Sum &sum : cotangents_.sums)
      yielded.push_back(sum.given);
    return success();
  }

  Type typeOfStart() { return RankedTensorType::get({}, code_.builder.getI64Type()); }

  /// From the last state that there is to the leaf's first; each on the way is pushed.
  LogicalResult goOn(Value &start, SmallVector<Value> &states) {
    Value leaf = number(leaf_);
    Value behind = code_.sub(code_.sub(end_, number(1)), start);
    Value goal = code_.add(start, code_.mul(code_.div(behind, leaf), leaf));
    LoopBuilder run(code_, activity_, loop_.getLoc());
    Value at = run.carry(start), starts = run.carry(starts_);
    SmallVector<Value> own, stacks, yielded;
    for (auto [i, state] : llvm::enumerate(states))
      own.push_back(run.carry(state, typeBetween(i)));
    for (Value stack : stacks_)
      stacks.push_back(run.carry(stack));
    {
      OpBuilder::InsertionGuard guard(code_.builder);
      code_.builder.setInsertionPointToEnd(&run.block());
      Value steps = code_.mul(largestPower(code_.div(code_.sub(goal, at), leaf)), leaf);
      auto part = copyOf(steps, own, at, /*asks=*/false);
      if (failed(part))
        return failure();
      Value next = code_.add(at, steps);
      yielded.append({code_.op("graph.less", {next, goal}), next, push(starts, next)});
      for (size_t i = 0; i < own.size(); ++i)
        yielded.push_back(between(part->loop.getResult(unsigned(i)), i));
      for (size_t i = 0; i < own.size(); ++i)
        yielded.push_back(push(stacks[i], yielded[3 + i]));
    }
    auto closed = run.close({}, code_.op("graph.less", {start, goal}), yielded);
    if (failed(closed))
      return failure();
    auto results = closed->getResults();
    start = results[0];
    starts_ = results[1];
    for (size_t i = 0; i < states.size(); ++i) {
      states[i] = between(results[2 + i], i);
      stacks_[i] = results[2 + states.size() + i];
    }
    return success();
  }

  /// The largest power of kBranch that is not above the number, which is at least 1.
  Value largestPower(Value number) {
    SmallVector<int64_t> powers;
    for (int64_t power = 1; power <= kLongestPart; power *= kBranch)
      powers.push_back(power);
    Value all = code_.vectorOf(powers);
    Value isBelow = code_.op("graph.less_or_equal", {all, number});
    return code_.reduce("graph.reduce_max", code_.where(isBelow, all, this->number(1)), {0}, false);
  }

  LogicalResult handOver(graph::LoopOp whole) {
    auto results = whole.getResults().drop_front(2 + stacks_.size());
    for (auto [number, result] : llvm::zip(numbers_, results))
      if (failed(outer_.add(loop_.getCarried()[number], result)))
        return failure();
    for (auto [sum, result] :
         llvm::zip_equal(cotangents_.sums, results.drop_front(numbers_.size()))) {
      LogicalResult added = sum.isRows ? addRows(code_, outer_, sum.of, joined(sum.of, result))
                                       : outer_.add(sum.of, result);
      if (failed(added))
        return failure();
    }
    return success();
  }
  Value joined(Value of, Value sequence) {
    Value rows = code_.op("graph.concat_from_sequence", {sequence}, {code_.integer("axis", 0)});
    auto dims = code_.dims(of);
    dims[0] = code_.graph.shapes.freshSymbol("rows");
    if (rows)
      rows.setType(code_.graph.shapes.tensorType(graph::GraphCode::element(of), dims));
    return rows;
  }

  KeptStates kept_;
  bool isRecursive_;
  int64_t leaf_; // iterations
  Reverse &outer_;
  Procedures *procedures_;
  LoopBuilder way_;
  LeafCotangents cotangents_;
  Value end_, starts_;
  SmallVector<Value> stacks_, carried_;
  SmallVector<unsigned> numbers_; // of carried values whose cotangents are carried
};

bool isOnStack(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  return ranked && isa<FloatType, IntegerType>(ranked.getElementType());
}

} // namespace

bool canBeCut(graph::LoopOp loop) {
  if (isShortLoop(loop) || program::hasEffects(loop))
    return false;
  Block &body = loop.getBody().front();
  auto yielded = cast<graph::YieldOp>(body.getTerminator()).getValues();
  SizesAround sizes(loop);
  auto canStack = [](Value value) { return isOnStack(value.getType()); };
  auto hasOneSize = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return canStack(value) && hasExpressions(type) && !sizes.varies(value);
  };
  size_t carried = loop.getCarried().size();
  return llvm::all_of(body.getArguments().drop_front(2), canStack) &&
         llvm::all_of(loop.getCarried(), canStack) &&
         llvm::all_of(yielded.slice(1, carried), canStack) &&
         llvm::all_of(yielded.drop_front(1 + carried), hasOneSize);
}

LogicalResult reverseInParts(const graph::GradientCode &code, Activity &activity,
                             graph::LoopOp loop, ArrayRef<Value> given, Reverse &outer,
                             Procedures *procedures, Checkpointing plan) {
  if (Value goesOn = loop.getBody().front().getTerminator()->getOperand(0);
      activity.isUnknown(goesOn))
    return reportUnknown(activity, goesOn, loop);
  FailureOr<KeptStates> kept;
  {
    OpBuilder::InsertionGuard guard(code.builder);
    code.builder.setInsertionPoint(loop);
    code.graph.location = loop.getLoc();
    kept = PartedLoop(code, activity, loop, plan).run();
  }
  if (failed(kept))
    return failure();
  loop->getParentOfType<ModuleOp>()->setAttr(kCheckpointed, code.builder.getUnitAttr());
  LeafByLeaf back(code, activity, loop, *kept, plan, outer, procedures);
  if (failed(back.run(given)))
    return failure();
  activity.retire(loop);
  return success();
}

} // namespace tensmith::autodiff
