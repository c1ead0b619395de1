// Greedy reduction: every change that keeps the failure is kept; see Reducer.h.
#include "tests/random/Reducer.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphBuilder.h"
#include "tests/random/SharedMemory.h"
#include "tests/random/TimeLimit.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"

#include <chrono>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

constexpr std::chrono::seconds kBudget(90); // for one graph
using Module = OwningOpRef<ModuleOp>;

func::FuncOp mainOf(ModuleOp module) { return module.lookupSymbol<func::FuncOp>("main"); }

/// Erases what nobody uses, inputs too, and gives the function the type that its body has.
void tidy(func::FuncOp function) {
  Block &block = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (!isa<func::ReturnOp>(op) && op.use_empty())
      op.erase();
  llvm::BitVector unused(block.getNumArguments());
  SmallVector<DictionaryAttr> attributes;
  for (BlockArgument argument : block.getArguments())
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
    else
      attributes.push_back(function.getArgAttrDict(argument.getArgNumber()));
  block.eraseArguments(unused);
  function->removeAttr(function.getArgAttrsAttrName());
  function.setFunctionType(FunctionType::get(function.getContext(), block.getArgumentTypes(),
                                             block.getTerminator()->getOperandTypes()));
  function.setAllArgAttrs(attributes);
}

Module withOutputs(ModuleOp module, llvm::function_ref<bool(size_t)> keep) {
  Module result(cast<ModuleOp>(module->clone()));
  Operation *end = mainOf(*result).getBody().front().getTerminator();
  SmallVector<Value> kept;
  for (auto [i, value] : llvm::enumerate(end->getOperands()))
    if (keep(i))
      kept.push_back(value);
  if (kept.empty() || kept.size() == end->getNumOperands())
    return {};
  end->setOperands(kept);
  tidy(mainOf(*result));
  return result;
}

Operation *operatorAt(ModuleOp module, size_t position) {
  for (Operation &op : mainOf(module).getBody().front().without_terminator())
    if (position-- == 0)
      return &op;
  return nullptr;
}

/// Whether every run says how large a value of the type is. At sizes that an operator refuses, one
/// of its result may be negative, as that of what it slices.
bool hasGivenSizes(func::FuncOp function, Type type) {
  return llvm::all_of(runsOf(function), [&](const Sizes &sizes) {
    auto shape = shapeOf(type, sizes);
    return shape && llvm::all_of(*shape, [](int64_t size) { return size >= 0; });
  });
}

/// The operator's results become inputs of small values.
Module withInputsFor(ModuleOp module, size_t position, StringRef kind) {
  Module result(cast<ModuleOp>(module->clone()));
  func::FuncOp function = mainOf(*result);
  Operation *op = operatorAt(*result, position);
  if (isa<graph::NoneOp, graph::ConstantOp>(op))
    return {};
  Builder builder(function.getContext());
  for (Value value : op->getResults()) {
    if (value.use_empty())
      continue;
    if (!isa<RankedTensorType>(value.getType()) || !hasGivenSizes(function, value.getType()))
      return {};
    auto attributes = builder.getDictionaryAttr(
        {builder.getNamedAttr(kSeedAttribute, builder.getI64IntegerAttr(int64_t(position))),
         builder.getNamedAttr(kKindAttribute, builder.getStringAttr(kind))});
    unsigned number = function.getNumArguments();
    function.insertArgument(number, value.getType(), attributes, op->getLoc());
    value.replaceAllUsesWith(function.getArgument(number));
  }
  tidy(function);
  return result;
}

/// The operator's users take an operand of the same type instead.
Module without(ModuleOp module, size_t position) {
  Module result(cast<ModuleOp>(module->clone()));
  Operation *op = operatorAt(*result, position);
  for (Value operand : op->getOperands())
    if (op->getNumResults() == 1 && operand.getType() == op->getResult(0).getType()) {
      op->getResult(0).replaceAllUsesWith(operand);
      tidy(mainOf(*result));
      return result;
    }
  return {};
}

/// The graph built again with dimensions of one size made another, wherever its operators' shape
/// functions accept that.
class Resizing {
public:
  Resizing(ModuleOp module, int64_t from, int64_t to)
      : result_(cast<ModuleOp>(module->clone())), shapes_(module.getContext()),
        builder_(module.getContext()), graph_(builder_, shapes_, module.getLoc()), from_(from),
        to_(to) {}

  Module run() {
    ScopedDiagnosticHandler quiet(builder_.getContext(), [](Diagnostic &) { return success(); });
    func::FuncOp function = mainOf(*result_);
    Block &block = function.getBody().front();
    for (BlockArgument argument : block.getArguments())
      argument.setType(resized(argument.getType()));
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
      builder_.setInsertionPoint(&op);
      graph_.location = op.getLoc();
      Operation *again = rebuilt(&op);
      if (!again)
        return {};
      op.replaceAllUsesWith(again); // and stays until `tidy`: contents are known by address
    }
    tidy(function);
    return std::move(result_);
  }

private:
  Type resized(Type type) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked)
      return type;
    SmallVector<int64_t> shape(ranked.getShape());
    std::replace(shape.begin(), shape.end(), from_, to_);
    auto dims = shapes_.dims(ranked);
    for (auto [dim, size] : llvm::enumerate(shape))
      if (!ShapedType::isDynamic(size))
        dims[dim] = shapes_.constant(size);
    return shapes_.tensorType(ranked.getElementType(), dims);
  }

  Operation *rebuilt(Operation *op) {
    SmallVector<NamedAttribute> attributes(op->getAttrs());
    if (auto constant = dyn_cast<graph::ConstantOp>(op))
      return resizedConstant(constant);
    if (isa<graph::NoneOp>(op))
      return builder_.clone(*op);
    if (isa<graph::ReshapeOp, graph::BroadcastOp, graph::SliceOp, graph::IotaOp,
            graph::RandomUniformOp, graph::RandomNormalOp>(op))
      return graph_.createTyped(op->getName().getStringRef(), resized(op->getResult(0).getType()),
                                op->getOperands(), attributes);
    return graph_.create(op->getName().getStringRef(), op->getOperands(), attributes);
  }

  Operation *resizedConstant(graph::ConstantOp op) {
    auto type = cast<RankedTensorType>(op.getType());
    if (resized(type) == type)
      return builder_.clone(*op);
    DataType data = graph::dataType(type.getElementType());
    Shape shape(cast<RankedTensorType>(resized(type)).getShape());
    return graph_.constant(drawTensor(data, shape, "small", 1)).getDefiningOp();
  }

  Module result_;
  graph::ShapeContext shapes_;
  OpBuilder builder_;
  graph::GraphBuilder graph_;
  int64_t from_, to_;
};

class Reduction {
public:
  Reduction(ModuleOp module, Verdict verdict, const CheckOptions &options, int seconds)
      : module_(cast<ModuleOp>(module->clone())), verdict_(verdict), options_(options),
        seconds_(seconds), seen_(shareMemory<Verdict>(1)),
        end_(std::chrono::steady_clock::now() + kBudget) {}

  Module run() {
    while (seen_ && (fewerOutputs() || fewerOperators() || smallerSizes()))
      ;
    return std::move(module_);
  }

private:
  bool attempt(Module candidate) {
    if (!candidate || std::chrono::steady_clock::now() > end_ || failed(verify(*candidate)) ||
        !stillFails(*candidate))
      return false;
    module_ = std::move(candidate);
    return true;
  }

  bool stillFails(ModuleOp candidate) {
    *seen_ = Verdict::Crashed;
    pid_t child = fork();
    if (child == 0) {
      limitTime(seconds_);
      *seen_ = check(candidate, options_).verdict;
      std::_Exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
      return false;
    if (WIFSIGNALED(status) && endsByTimeLimit(WTERMSIG(status)))
      return verdict_ == Verdict::Hung;
    return *seen_ == verdict_;
  }

  bool fewerOutputs() {
    size_t count = mainOf(*module_).getNumResults();
    for (size_t only = 0; only < count && count > 1; ++only)
      if (attempt(withOutputs(*module_, [&](size_t i) { return i == only; })))
        return true;
    for (size_t dropped = 0; dropped < count; ++dropped)
      if (attempt(withOutputs(*module_, [&](size_t i) { return i != dropped; })))
        return true;
    return false;
  }

  bool fewerOperators() {
    size_t count = mainOf(*module_).getBody().front().getOperations().size() - 1;
    for (size_t position = count; position-- > 0;)
      if (attempt(withInputsFor(*module_, position, "small")) ||
          attempt(withInputsFor(*module_, position, "positive")) ||
          attempt(without(*module_, position)))
        return true;
    return false;
  }

  bool smallerSizes() {
    std::set<int64_t, std::greater<>> sizes;
    mainOf(*module_).walk([&](Operation *op) {
      for (Type type : op->getOperandTypes())
        if (auto ranked = dyn_cast<RankedTensorType>(type))
          sizes.insert(ranked.getShape().begin(), ranked.getShape().end());
    });
    for (int64_t size : sizes)
      for (int64_t smaller : {int64_t(1), int64_t(2), size / 2, size - 1})
        if (size > 1 && smaller >= 1 && smaller < size &&
            attempt(Resizing(*module_, size, smaller).run()))
          return true;
    return false;
  }

  Module module_;
  Verdict verdict_;
  CheckOptions options_;
  int seconds_;
  Verdict *seen_;
  std::chrono::steady_clock::time_point end_;
};

} // namespace

Module reduceGraph(ModuleOp module, Verdict verdict, const CheckOptions &options, int seconds) {
  // A graph that hangs takes its time at every attempt: then it is given less.
  return Reduction(module, verdict, options, verdict == Verdict::Hung ? 5 : seconds).run();
}

} // namespace tensmith::random_graphs
