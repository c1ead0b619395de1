// A block's code by stages: stage 0 is what needs no call's result, and a call or a branch that
// needs something of stage s gives its result to stage s + 1. All tensor code of one stage is one
// segment, since nothing of it has to wait for what another part of it leads to. But for what only
// gives one value another form, as a transposition: that goes to the stage that wants it, since of
// a recursion each call would hold a copy while those within it run.
//
// Building, taking apart and scalars are the machine's own instructions, before the segment of
// their stage where they can be, and behind it where they need its results. A scalar operator stays
// in the segment if nobody but the segment wants it, or if the segment would have to be cut in two
// around it. Calls of a stage stand side by side, since none of them uses another's result.
#include "compiler/program/Segments.h"

#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/Shape.h"
#include "compiler/program/Program.h"
#include "compiler/program/Scalars.h"
#include "compiler/program/Sizes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::program {
namespace {

bool isGraphCode(Operation *op) { return graph::isOperator(op); }
/// What each segment has for itself, and none is given.
bool isLiteral(Operation *op) { return isa_and_nonnull<graph::ConstantOp, graph::NoneOp>(op); }

/// Whether it takes one value, and gives one that takes no less memory.
bool isAnotherForm(Operation *op) {
  if (!isa<graph::TransposeOp, graph::ReshapeOp, graph::BroadcastOp, graph::Elementwise>(op) ||
      op->getNumResults() != 1)
    return false;
  auto width = [](Value value) {
    Type type = getElementTypeOrSelf(value.getType());
    return type.isIntOrFloat() ? type.getIntOrFloatBitWidth() : 0;
  };
  llvm::SetVector<Value> taken;
  for (Value operand : op->getOperands())
    if (!isLiteral(operand.getDefiningOp()))
      taken.insert(operand);
  return taken.size() == 1 && width(taken[0]) && width(taken[0]) <= width(op->getResult(0));
}

/// The order of one block's operators.
class Schedule {
public:
  explicit Schedule(Block &block) : block_(block) {
    chooseScalars();
    do
      place();
    while (takeSegmentsOfScalars());
  }

  struct Stage {
    SmallVector<Operation *> before, segment, after, calls, branches;
  };
  std::vector<Stage> stages;

private:
  /// When a value is there: at 2s before the segment of stage s, at 2s + 1 behind it.
  struct Place {
    int time = 0;
    bool inSegment = false;
  };

  bool isTensorCode(Operation *op) const {
    return isGraphCode(op) && !isLiteral(op) && !scalars_.contains(op);
  }
  bool isHere(Operation *op) const { return op->getBlock() == &block_; }

  template <typename Visit> void visitOperands(Operation &op, Visit visit) const {
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *source = operand.getDefiningOp(); source && isHere(source))
          visit(places_.lookup(source));
    });
  }

  /// Which scalar operators the machine does: those that something else than tensor code wants,
  /// but for those between two pieces of tensor code.
  void chooseScalars() {
    SmallVector<Operation *> candidates;
    for (Operation &op : block_)
      if (isScalarCode(&op))
        candidates.push_back(&op);
    scalars_.insert(candidates.begin(), candidates.end());
    place();
    llvm::DenseSet<Operation *> all = std::move(scalars_), feeding;
    scalars_.clear();
    for (Operation *op : llvm::reverse(candidates)) {
      bool wanted = false;
      for (Operation *user : op->getUsers()) {
        bool tensorCode = isHere(user) && isGraphCode(user);
        wanted |= !tensorCode || scalars_.contains(user);
        if (tensorCode && (!all.contains(user) || feeding.contains(user)))
          feeding.insert(op);
      }
      bool behind = places_.lookup(op).time % 2 != 0;
      if (wanted && !(behind && feeding.contains(op)))
        scalars_.insert(op);
    }
  }

  void place() {
    places_.clear();
    stages.clear();
    int effects = 0; // what has effects comes behind what had some before it
    for (Operation &op : block_.without_terminator()) {
      if (isLiteral(&op))
        continue;
      int time = 0, stage = 0;
      visitOperands(op, [&](Place operand) {
        time = std::max(time, operand.time);
        stage = std::max(stage, operand.inSegment ? operand.time / 2 : (operand.time + 1) / 2);
      });
      bool call = isa<CallOp, ApplyOp>(op), acts = !isMemoryEffectFree(&op);
      if (acts)
        time = std::max(time, effects);
      if (isTensorCode(&op)) {
        at(stage).segment.push_back(&op);
        places_[&op] = {2 * stage + 1, true};
      } else if (call || op.getNumRegions()) {
        (call ? at(time / 2).calls : at(time / 2).branches).push_back(&op);
        places_[&op] = {time / 2 * 2 + 2, false};
      } else {
        (time % 2 ? at(time / 2).after : at(time / 2).before).push_back(&op);
        places_[&op] = {time, false};
      }
      if (acts)
        effects = places_[&op].time;
    }
    putOff();
  }

  /// The segment that wants the operator first; null where something else wants it.
  Stage *firstToWant(Operation *op) {
    int first = std::numeric_limits<int>::max();
    for (Operation *user : op->getUsers()) {
      Place place = places_.lookup(block_.findAncestorOpInBlock(*user));
      if (!place.inSegment)
        return nullptr;
      first = std::min(first, place.time);
    }
    return op->use_empty() ? nullptr : &stages[size_t(first / 2)];
  }

  void putOff() {
    for (Stage &stage : llvm::reverse(stages))
      for (Operation *op : llvm::to_vector(llvm::reverse(stage.segment))) {
        Stage *other = isAnotherForm(op) ? firstToWant(op) : nullptr;
        if (!other || other == &stage)
          continue;
        llvm::erase(stage.segment, op);
        other->segment.insert(other->segment.begin(), op);
        places_[op].time = int(other - stages.data()) * 2 + 1;
      }
  }

  Stage &at(int stage) {
    if (stages.size() <= size_t(stage))
      stages.resize(size_t(stage) + 1);
    return stages[size_t(stage)];
  }

  /// A segment that only has scalar operators is no segment. Whether there was one.
  bool takeSegmentsOfScalars() {
    size_t before = scalars_.size();
    for (Stage &stage : stages)
      if (llvm::all_of(stage.segment, isScalarCode))
        scalars_.insert(stage.segment.begin(), stage.segment.end());
    return scalars_.size() != before;
  }

  Block &block_;
  llvm::DenseSet<Operation *> scalars_; // done by the machine
  llvm::DenseMap<Operation *, Place> places_;
};

class Outliner {
public:
  explicit Outliner(ModuleOp module) : module_(module) {}

  void run(func::FuncOp procedure) {
    name_ = procedure.getName().str();
    outline(procedure.getBody().front());
  }

private:
  void outline(Block &block) {
    for (Operation &op : block)
      for (Region &region : op.getRegions())
        if (isa<MatchOp, IfOp>(op))
          outline(region.front());
    Schedule schedule(block);
    Operation *end = block.getTerminator();
    SmallVector<Operation *> placed;
    auto place = [&](ArrayRef<Operation *> ops) {
      for (Operation *op : ops)
        op->moveBefore(end);
      llvm::append_range(placed, ops);
    };
    for (const Schedule::Stage &stage : schedule.stages) {
      place(stage.before);
      if (!stage.segment.empty())
        placed.push_back(cut(stage.segment, end, placed));
      place(stage.after);
      place(stage.calls);
      place(stage.branches);
    }
    // A constant that the program itself uses stands at the block's beginning; the others are gone.
    for (Operation &op : llvm::make_early_inc_range(block))
      if (isLiteral(&op))
        op.use_empty() ? op.erase() : op.moveBefore(&block, block.begin());
  }

  Operation *cut(ArrayRef<Operation *> code, Operation *before, ArrayRef<Operation *> placed) {
    llvm::SetVector<Operation *> inside(code.begin(), code.end());
    llvm::SetVector<Value> inputs, outputs, constants;
    for (Operation *op : code) {
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands()) {
          Operation *source = operand.getDefiningOp();
          if (source && (inside.contains(source) || op->isProperAncestor(source)))
            continue;
          (isLiteral(source) ? constants : inputs).insert(operand);
        }
      });
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(),
                         [&](Operation *user) { return !inside.contains(user); }))
          outputs.insert(result);
    }
    tellSizes(code, placed, inputs);
    func::FuncOp segment = makeSegment(inputs.getArrayRef(), outputs.getArrayRef(), code);
    OpBuilder builder(before);
    auto invoke = builder.create<InvokeOp>(segment.getLoc(), segment.getResultTypes(),
                                           inputs.getArrayRef(), segment.getName());
    fill(segment, inputs.getArrayRef(), outputs.getArrayRef(), constants.getArrayRef(), code);
    nameSums(segment);
    for (auto [output, result] : llvm::zip_equal(outputs.getArrayRef(), invoke.getResults())) {
      Value given = output;
      given.replaceUsesWithIf(result,
                              [&](OpOperand &use) { return !inside.contains(use.getOwner()); });
    }
    for (Operation *op : llvm::reverse(code))
      op->erase();
    return invoke;
  }

  /// Operators whose result has a given type, as `(iota(axis = 0) : i64[n])`, may name sizes that
  /// none of the segment's inputs has, or only in a sum; then it is given one more.
  static void tellSizes(ArrayRef<Operation *> code, ArrayRef<Operation *> placed,
                        llvm::SetVector<Value> &inputs) {
    llvm::DenseSet<StringAttr> known;
    for (Operation *op : code) {
      for (Type type : op->getResultTypes()) {
        auto ranked = dyn_cast<RankedTensorType>(type);
        for (StringAttr symbol : ranked ? graph::symbolNames(ranked) : ArrayRef<StringAttr>()) {
          if (known.contains(symbol) ||
              llvm::any_of(inputs, [&](Value input) { return tells(input.getType(), symbol); }))
            continue;
          Value value = program::findTelling(op, symbol);
          if (value || (value = findTelling(placed, symbol)))
            inputs.insert(value);
        }
        noteSymbols(type, known);
      }
    }
  }

  /// What tells it beside the segment.
  static Value findTelling(ArrayRef<Operation *> placed, StringAttr symbol) {
    for (Operation *op : placed)
      for (Value result : op->getResults())
        if (tells(result.getType(), symbol))
          return result;
    return {};
  }

  static void noteSymbols(Type type, llvm::DenseSet<StringAttr> &known) {
    if (auto ranked = dyn_cast<RankedTensorType>(type))
      known.insert(graph::symbolNames(ranked).begin(), graph::symbolNames(ranked).end());
  }

  func::FuncOp makeSegment(ArrayRef<Value> inputs, ArrayRef<Value> outputs,
                           ArrayRef<Operation *> code) {
    SmallVector<Location> locations;
    for (Operation *op : code)
      locations.push_back(op->getLoc());
    OpBuilder builder(module_.getBodyRegion());
    builder.setInsertionPointToEnd(module_.getBody());
    auto type =
        builder.getFunctionType(ValueRange(inputs).getTypes(), ValueRange(outputs).getTypes());
    auto segment = builder.create<func::FuncOp>(locations.front(),
                                                name_ + "." + std::to_string(++number_), type);
    segment->setAttr(kSegment, builder.getUnitAttr());
    return segment;
  }

  static void fill(func::FuncOp segment, ArrayRef<Value> inputs, ArrayRef<Value> outputs,
                   ArrayRef<Value> constants, ArrayRef<Operation *> code) {
    Block *body = segment.addEntryBlock();
    OpBuilder builder = OpBuilder::atBlockEnd(body);
    IRMapping mapping;
    mapping.map(inputs, body->getArguments());
    for (Value constant : constants)
      builder.clone(*constant.getDefiningOp(), mapping);
    for (Operation *op : code)
      builder.clone(*op, mapping);
    SmallVector<Value> results;
    for (Value output : outputs)
      results.push_back(mapping.lookup(output));
    builder.create<func::ReturnOp>(segment.getLoc(), results);
  }

  ModuleOp module_;
  std::string name_;
  int number_ = 0;
};

} // namespace

void outlineSegments(ModuleOp module) {
  passSizes(module);
  SmallVector<func::FuncOp> procedures;
  for (auto function : module.getOps<func::FuncOp>())
    if (isProcedure(function))
      procedures.push_back(function);
  for (func::FuncOp procedure : procedures)
    Outliner(module).run(procedure);
}

} // namespace tensmith::program
