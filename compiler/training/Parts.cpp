// Sums by how many others they wait for, and everything else element by element; see Parts.h.
#include "compiler/training/Parts.h"

#include "compiler/graph/States.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tensmith::training {
namespace {

using graph::GraphCode;

/// -1 where it isn't known.
int64_t elementsOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() ? type.getNumElements() : -1;
}

class Parts {
public:
  Parts(StepFunction &function, ArrayRef<Updated> tensors, int64_t processes, Value process,
        GraphCode &code)
      : function_(function), tensors_(tensors), processes_(processes), process_(process),
        code_(code) {}

  Status run() {
    takeArguments();
    for (ArrayRef<Operation *> level : levels()) {
      for (Operation *op : level) {
        op->moveBefore(function_.exit());
        code_.builder.setInsertionPoint(op);
        if (Status status = take(op); !status.ok())
          return status;
      }
      code_.builder.setInsertionPoint(function_.exit());
      joinSums();
    }
    return takeResults();
  }

private:
  struct Sum {
    graph::ReduceSumOp op;
    const Updated *of;
  };

  Type partType(Value value, const Updated &of) const {
    return RankedTensorType::get({of.part}, GraphCode::element(value));
  }

  /// The tensor that a name ends with; the longest, as "b" and "a.b" may both be tensors.
  const Updated *named(StringRef name) const {
    const Updated *found = nullptr;
    for (const Updated &tensor : tensors_)
      if (tensor.part && (name == tensor.name || name.ends_with("." + tensor.name)) &&
          (!found || tensor.name.size() > found->name.size()))
        found = &tensor;
    return found;
  }

  void takeArguments() {
    for (auto [argument, name] :
         llvm::zip_equal(function_.block().getArguments(), function_.inputNames()))
      if (const Updated *of = named(name); of && argument.getType() == of->type) {
        argument.setType(partType(argument, *of));
        shared_[argument] = of;
      }
  }

  /// In each what waits for the sums of those before it alone, in the order that it has.
  std::vector<SmallVector<Operation *>> levels() {
    std::vector<SmallVector<Operation *>> levels;
    llvm::DenseMap<Operation *, size_t> levelOf;
    for (Operation &op : function_.block().without_terminator()) {
      size_t own = 0;
      for (Value operand : op.getOperands())
        if (Operation *before = operand.getDefiningOp())
          own = std::max(own, levelOf.lookup(before) + isa<graph::ReduceSumOp>(before));
      levelOf[&op] = own;
      levels.resize(std::max(levels.size(), own + 1));
      levels[own].push_back(&op);
    }
    return levels;
  }

  Status refused(Operation *op) const {
    return unsupported("takes more than sums over a parameter's elements to update one (" +
                       op->getName().getStringRef().str() +
                       "), and so can't update a part of it; say --zero 0");
  }

  Status take(Operation *op) {
    const Updated *of = nullptr;
    for (Value operand : op->getOperands())
      of = of ? of : shared_.lookup(operand);
    if (!of)
      return {};
    if (isa<graph::Elementwise>(op))
      return takeElements(op, *of);
    bool isReshape = isa<graph::ReshapeOp, graph::DynamicReshapeOp>(op);
    if (isReshape && elementsOf(op->getResult(0)) == of->type.getNumElements()) {
      op->getResult(0).replaceAllUsesWith(op->getOperand(0));
      op->erase();
      return {};
    }
    auto sum = dyn_cast<graph::ReduceSumOp>(op);
    if (!sum || elementsOf(sum.getY()) != 1)
      return refused(op);
    sums_.push_back({sum, of});
    return {};
  }

  Status takeElements(Operation *op, const Updated &of) {
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = inParts(operand.get());
      const Updated *other = shared_.lookup(value);
      if (!value || (other && other != &of))
        return refused(op);
      operand.set(value);
    }
    for (Value result : op->getResults()) {
      if (elementsOf(result) != of.type.getNumElements())
        return refused(op);
      result.setType(cast<RankedTensorType>(partType(result, of)));
      shared_[result] = &of;
    }
    return {};
  }

  /// What stands for the value beside parts: itself, or the number that all of its elements are;
  /// null where it has others.
  Value inParts(Value value) {
    if (shared_.contains(value))
      return value;
    if (elementsOf(value) == 1)
      return GraphCode::rank(value) ? code_.reshape(value, {}) : value;
    if (auto wider = value.getDefiningOp();
        isa_and_nonnull<graph::BroadcastOp, graph::DynamicBroadcastOp>(wider))
      return inParts(wider->getOperand(0));
    DenseElementsAttr all;
    if (!matchPattern(value, m_Constant(&all)) || !all.isSplat())
      return {};
    auto number = RankedTensorType::get({}, GraphCode::element(value));
    return code_.builder.create<graph::ConstantOp>(
        code_.graph.location, number,
        DenseElementsAttr::get(number, all.getSplatValue<Attribute>()));
  }

  /// Of the elements of a part that are the tensor's, as [1].
  Value ownSum(Sum sum) {
    Value x = sum.op.getX();
    Type element = GraphCode::element(x);
    Type wide = element.isF64() || !isa<FloatType>(element) ? Type(code_.builder.getF64Type())
                                                            : code_.builder.getF32Type();
    x = code_.cast(x, wide);
    int64_t count = sum.of->type.getNumElements();
    if (sum.of->part * processes_ > count) {
      Value first = code_.mul(process_, double(sum.of->part));
      Value place = code_.add(code_.iota({code_.size(sum.of->part)}, 0), first);
      Value isOwn = code_.op("graph.less", {place, code_.scalar(place, double(count))});
      x = code_.where(isOwn, x, code_.scalar(x, 0));
    }
    return code_.reduce("graph.reduce_sum", x, {0}, true);
  }

  void joinSums() {
    llvm::MapVector<Type, SmallVector<Sum>> byType;
    llvm::DenseMap<Operation *, Value> own;
    for (const Sum &sum : sums_) {
      own[sum.op] = ownSum(sum);
      byType[GraphCode::element(own[sum.op])].push_back(sum);
    }
    sums_.clear();
    for (auto &[type, sums] : byType) {
      SmallVector<Value> all;
      for (const Sum &sum : sums)
        all.push_back(own[sum.op]);
      Value mean = code_.op("graph.all_reduce_mean", {code_.concat(all, 0)});
      Value whole = code_.mul(mean, double(processes_));
      for (auto [i, each] : llvm::enumerate(sums)) {
        Sum sum = each;
        Value one = code_.slice(whole, {int64_t(i)}, {code_.size(1)});
        one = code_.cast(one, GraphCode::element(sum.op.getY()));
        sum.op.getY().replaceAllUsesWith(code_.reshape(one, code_.dims(sum.op.getY())));
        sum.op->erase();
      }
    }
  }

  Status takeResults() {
    std::vector<StepFunction::Output> outputs = function_.outputs();
    for (BlockArgument argument : function_.block().getArguments()) {
      const Updated *of = shared_.lookup(argument);
      Value next = graph::nextValue(function_.function, argument);
      if (!of || !next || shared_.contains(next))
        continue;
      Value number = inParts(next);
      if (!number)
        return next.getDefiningOp() ? refused(next.getDefiningOp()) : Status();
      Value all = code_.broadcast(number, {code_.size(of->part)});
      for (StepFunction::Output &output : outputs)
        if (output.value == next)
          output.value = all;
    }
    function_.setOutputs(outputs);
    return {};
  }

  StepFunction &function_;
  ArrayRef<Updated> tensors_;
  int64_t processes_;
  Value process_;
  GraphCode &code_;
  llvm::DenseMap<Value, const Updated *> shared_; // values of which there is a part, and of what
  std::vector<Sum> sums_;                         // of this level
};

} // namespace

Status takeParts(StepFunction &function, ArrayRef<Updated> tensors, int64_t processes,
                 Value process, GraphCode &code) {
  return Parts(function, tensors, processes, process, code).run();
}

} // namespace tensmith::training
