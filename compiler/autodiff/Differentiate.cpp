// The function around a derivative: its names, arguments and results; see Differentiate.h.
#include "compiler/autodiff/Differentiate.h"

#include "compiler/autodiff/Forward.h"
#include "compiler/autodiff/Reverse.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace tensmith::autodiff {
namespace {

constexpr llvm::StringLiteral kName = "graph.name";

class Differentiation {
public:
  Differentiation(func::FuncOp function, const Derivative &derivative)
      : function_(function), derivative_(derivative), builder_(function.getContext()),
        shapes_(function.getContext()), graph_(builder_, shapes_, function.getLoc()),
        code_(graph_) {}

  Status run() {
    std::string problem;
    ScopedDiagnosticHandler handler(function_.getContext(), [&](Diagnostic &diagnostic) {
      if (problem.empty())
        problem = diagnostic.str();
      return success();
    });
    Status status = derive();
    if (!status.ok() && status.message().empty())
      return {StatusCode::Unsupported,
              problem.empty() ? "the derivative can't be built" : std::move(problem)};
    return status;
  }

private:
  static Status reported() { return {StatusCode::Unsupported, ""}; }
  Block &block() { return function_.getBody().front(); }

  std::string argumentName(unsigned number) {
    auto name = function_.getArgAttrOfType<StringAttr>(number, kName);
    return name && !name.empty() ? name.str() : "input" + std::to_string(number);
  }
  std::string resultName(unsigned number) {
    auto name = function_.getResultAttrOfType<StringAttr>(number, kName);
    return name && !name.empty() ? name.str() : "output" + std::to_string(number);
  }

  Result<unsigned> find(const std::string &name, bool isResult) {
    unsigned count = isResult ? function_.getNumResults() : function_.getNumArguments();
    std::string known;
    for (unsigned i = 0; i < count; ++i) {
      std::string own = isResult ? resultName(i) : argumentName(i);
      if (own == name)
        return i;
      known += (i ? ", '" : "'") + own + "'";
    }
    return invalidArgument("there is no " + std::string(isResult ? "output" : "input") + " '" +
                           name + "' to differentiate" + (isResult ? "" : " by") + "; there " +
                           (count == 1 ? "is " : "are ") + (count ? known : "none"));
  }

  Status checkDifferentiable(Type type, const std::string &name) {
    if (graph::isDifferentiable(type))
      return {};
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return invalidArgument("'" + name + "' is of type " + text +
                           "; only tensors of floats have derivatives");
  }

  Value addArgument(const std::string &name, Type type) {
    unsigned number = function_.getNumArguments();
    DictionaryAttr attributes =
        builder_.getDictionaryAttr(builder_.getNamedAttr(kName, builder_.getStringAttr(name)));
    function_.insertArgument(number, type, attributes, function_.getLoc());
    return function_.getArgument(number);
  }

  void addResult(const std::string &name, Value value) {
    Operation *exit = block().getTerminator();
    exit->insertOperands(exit->getNumOperands(), value);
    unsigned number = function_.getNumResults();
    function_.insertResult(
        number, value.getType(),
        builder_.getDictionaryAttr(builder_.getNamedAttr(kName, builder_.getStringAttr(name))));
  }

  /// Sizes that have a name anywhere keep it for themselves.
  void takeSymbols() {
    auto take = [&](Type type) {
      if (auto ranked = dyn_cast<RankedTensorType>(type))
        for (StringAttr name : graph::symbolNames(ranked))
          shapes_.symbol(name);
    };
    function_.walk([&](Block *inner) {
      for (BlockArgument argument : inner->getArguments())
        take(argument.getType());
      for (Operation &op : *inner)
        for (Value result : op.getResults())
          take(result.getType());
    });
  }

  Status derive() {
    takeSymbols();
    SmallVector<Value> wanted;
    for (const std::string &name : derivative_.withRespectTo) {
      auto number = find(name, false);
      if (!number.ok())
        return number.status();
      wanted.push_back(function_.getArgument(*number));
      if (Status status = checkDifferentiable(wanted.back().getType(), name); !status.ok())
        return status;
    }
    if (wanted.empty())
      return invalidArgument("there is no input to differentiate by");
    Activity activity(wanted);
    activity.follow(block());
    expandOperators(code_, block(), activity);
    builder_.setInsertionPoint(block().getTerminator());
    Status status =
        derivative_.mode == Mode::Reverse ? reverse(wanted, activity) : forward(wanted, activity);
    if (!status.ok())
      return status;
    removeDead(block());
    // Sizes may be told in other words than before.
    Operation *exit = block().getTerminator();
    function_.setFunctionType(
        builder_.getFunctionType(block().getArgumentTypes(), exit->getOperandTypes()));
    return {};
  }

  static void removeDead(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (isOpTriviallyDead(&op)) {
        op.erase();
        continue;
      }
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          removeDead(inner);
    }
  }

  Status reverse(ArrayRef<Value> wanted, Activity &activity) {
    if (derivative_.of.size() != 1)
      return invalidArgument("a gradient is of one output, not of " +
                             std::to_string(derivative_.of.size()));
    const std::string &name = derivative_.of[0];
    auto number = find(name, true);
    if (!number.ok())
      return number.status();
    Value result = block().getTerminator()->getOperand(*number);
    if (Status status = checkDifferentiable(result.getType(), name); !status.ok())
      return status;
    auto type = dyn_cast<RankedTensorType>(result.getType());
    bool isSingle = type && type.hasStaticShape() && type.getNumElements() == 1;
    Value seed = isSingle && !derivative_.takesCotangent
                     ? code_.filledLike(result, 1)
                     : addArgument("cotangent." + name, result.getType());
    Reverse reverse(code_, activity);

    Operation *last = block().getTerminator()->getPrevNode();
    if (failed(reverse.add(result, seed)) || (last && failed(reverse.run(&block().front(), last))))
      return reported();
    graph_.location = function_.getLoc();
    for (auto [value, own] : llvm::zip_equal(wanted, derivative_.withRespectTo)) {
      Value gradient = reverse.takeOrZeros(value);
      if (!gradient)
        return reported();
      addResult("gradient." + own, gradient);
    }
    return {};
  }

  Status forward(ArrayRef<Value> wanted, Activity &activity) {
    SmallVector<unsigned> numbers;
    for (const std::string &name : derivative_.of) {
      auto number = find(name, true);
      if (!number.ok())
        return number.status();
      numbers.push_back(*number);
    }
    for (unsigned i = 0; derivative_.of.empty() && i < function_.getNumResults(); ++i)
      if (graph::isDifferentiable(function_.getResultTypes()[i]))
        numbers.push_back(i);
    Forward forward(code_, activity);
    for (auto [value, name] : llvm::zip_equal(wanted, derivative_.withRespectTo))
      forward.give(value, addArgument("tangent." + name, value.getType()));
    if (failed(forward.run(block())))
      return reported();
    builder_.setInsertionPoint(block().getTerminator());
    graph_.location = function_.getLoc();
    for (unsigned number : numbers) {
      std::string name = resultName(number);
      Value result = block().getTerminator()->getOperand(number);
      if (Status status = checkDifferentiable(result.getType(), name); !status.ok())
        return status;
      Value tangent = forward.tangentOrZeros(result);
      if (!tangent)
        return reported();
      addResult("tangent." + name, tangent);
    }
    return {};
  }

  func::FuncOp function_;
  const Derivative &derivative_;
  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
  graph::GradientCode code_;
};

} // namespace

Status differentiate(func::FuncOp function, const Derivative &derivative) {
  return Differentiation(function, derivative).run();
}

} // namespace tensmith::autodiff
