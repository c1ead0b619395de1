// The function around a derivative: its names, arguments and results; see Differentiate.h.
#include "compiler/autodiff/Differentiate.h"

#include "compiler/autodiff/Forward.h"
#include "compiler/autodiff/Procedures.h"
#include "compiler/graph/DeadCode.h"
#include "compiler/graph/States.h"
#include "compiler/program/Defunctionalization.h"
#include "compiler/program/PartialEvaluation.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tensmith::autodiff {
namespace {

constexpr llvm::StringLiteral kName = "graph.name";

/// What is differentiated: the body of the function, or of the procedure that it enters, whose
/// tuple of results is taken apart meanwhile.
class Subject {
public:
  explicit Subject(func::FuncOp function) : function_(function), body_(function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      argumentNames.push_back(nameOf(function.getArgAttrOfType<StringAttr>(i, kName), "input", i));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      resultNames.push_back(
          nameOf(function.getResultAttrOfType<StringAttr>(i, kName), "output", i));
  }

  void open() {
    if (!enter())
      return;
    auto module = function_->getParentOfType<ModuleOp>();
    program::evaluatePartially(module);
    program::defunctionalize(module);
    auto procedure = module.lookupSymbol<func::FuncOp>(enter().getProcedure());
    body_ = cast<func::FuncOp>(procedure->clone());
    body_.setName((procedure.getName() + ".derivative").str());
    SymbolTable(module).insert(body_);
    if (resultNames.size() > 1)
      takeResultsApart();
  }

  Block &block() { return body_.getBody().front(); }
  OperandRange results() { return block().getTerminator()->getOperands(); }

  /// The body's own, which may have them in another order.
  Value argument(unsigned number) {
    Value outer = function_.getBody().front().getArgument(number);
    if (body_ == function_)
      return outer;
    auto inputs = enter().getInputs();
    return block().getArgument(unsigned(llvm::find(inputs, outer) - inputs.begin()));
  }
  /// One that an earlier derivative has added is taken for this one too: the same direction, the
  /// same weights.
  Value addArgument(const std::string &name, Type type) {
    auto known = llvm::find(argumentNames, name);
    if (known != argumentNames.end()) {
      Value given = argument(unsigned(known - argumentNames.begin()));
      return given.getType() == type ? given : Value();
    }
    argumentNames.push_back(name);
    if (body_ != function_)
      enter().getInputsMutable().append(
          function_.getBody().front().addArgument(type, function_.getLoc()));
    return block().addArgument(type, function_.getLoc());
  }
  void addResult(const std::string &name, Value value) {
    resultNames.push_back(name);
    Operation *exit = block().getTerminator();
    exit->insertOperands(exit->getNumOperands(), value);
  }

  /// The signatures become what arguments and results now are.
  void close() {
    if (body_ != function_)
      closeProcedure();
    Builder builder(function_.getContext());
    SmallVector<DictionaryAttr> arguments, results;
    function_.getAllArgAttrs(arguments);
    function_.getAllResultAttrs(results);
    Block &own = function_.getBody().front();
    function_.setFunctionType(
        builder.getFunctionType(own.getArgumentTypes(), own.getTerminator()->getOperandTypes()));
    auto named = [&](SmallVector<DictionaryAttr> &attributes, ArrayRef<std::string> names) {
      for (size_t i = attributes.size(); i < names.size(); ++i)
        attributes.push_back(builder.getDictionaryAttr(
            builder.getNamedAttr(kName, builder.getStringAttr(names[i]))));
    };
    named(arguments, argumentNames);
    named(results, resultNames);
    function_.setAllArgAttrs(arguments);
    function_.setAllResultAttrs(results);
  }

  std::vector<std::string> argumentNames, resultNames;

private:
  static std::string nameOf(StringAttr name, const char *stem, unsigned number) {
    return name && !name.empty() ? name.str() : stem + std::to_string(number);
  }
  program::EnterOp enter() {
    auto entered = function_.getBody().getOps<program::EnterOp>();
    return entered.empty() ? program::EnterOp() : *entered.begin();
  }

  /// Several results are the fields of a tuple.
  void takeResultsApart() {
    Operation *exit = block().getTerminator();
    Value tuple = exit->getOperand(0);
    OpBuilder builder(exit);
    SmallVector<Value> fields;
    for (auto [index, type] : llvm::enumerate(function_.getResultTypes()))
      fields.push_back(builder.createOrFold<program::FieldOp>(exit->getLoc(), type, tuple, index));
    exit->setOperands(fields);
    if (Operation *built = tuple.getDefiningOp(); built && isOpTriviallyDead(built))
      built->erase();
  }

  void closeProcedure() {
    OpBuilder builder(function_.getContext());
    Operation *exit = block().getTerminator();
    SmallVector<Type> types(results().getTypes());
    if (types.size() > 1) {
      builder.setInsertionPoint(exit);
      auto type = program::ObjectType::get(builder.getContext(), body_.getName().str());
      auto module = function_->getParentOfType<ModuleOp>();
      program::Structures structures(module);
      structures.add(type, {types});
      structures.store(module);
      Value tuple = builder.create<program::ConstructOp>(exit->getLoc(), type, results(), 0);
      exit->setOperands(tuple);
    }
    body_.setFunctionType(
        builder.getFunctionType(block().getArgumentTypes(), exit->getOperandTypes()));
    program::EnterOp old = enter();
    builder.setInsertionPoint(old);
    auto entered =
        builder.create<program::EnterOp>(old.getLoc(), types, old.getInputs(), body_.getName());
    function_.getBody().front().getTerminator()->setOperands(entered.getResults());
    old.erase();
  }

  func::FuncOp function_, body_;
};

class Differentiation {
public:
  Differentiation(func::FuncOp function, const Derivative &derivative)
      : function_(function), subject_(function), derivative_(derivative),
        builder_(function.getContext()), shapes_(function.getContext()),
        graph_(builder_, shapes_, function.getLoc()), code_(graph_) {
    code_.keepsBits = derivative.keepsBits;
    builder_.setListener(&forgetting_); // operators go and others, copied, come in their places
  }

  Status run() {
    std::string problem;
    ScopedDiagnosticHandler handler(function_.getContext(), [&](Diagnostic &diagnostic) {
      if (problem.empty())
        problem = diagnostic.str();
      return success();
    });
    subject_.open();
    Status status = derive();
    if (status.ok())
      subject_.close();
    if (!status.ok() && status.message().empty())
      return {StatusCode::Unsupported,
              problem.empty() ? "the derivative can't be built" : std::move(problem)};
    return status;
  }

private:
  static Status reported() { return {StatusCode::Unsupported, ""}; }
  Block &block() { return subject_.block(); }

  Result<unsigned> find(const std::string &name, bool isResult) {
    const auto &names = isResult ? subject_.resultNames : subject_.argumentNames;
    std::string known;
    for (auto [i, own] : llvm::enumerate(names)) {
      if (own == name)
        return unsigned(i);
      known += (i ? ", '" : "'") + own + "'";
    }
    return invalidArgument("there is no " + std::string(isResult ? "output" : "input") + " '" +
                           name + "' to differentiate" + (isResult ? "" : " by") + "; there " +
                           (names.size() == 1 ? "is " : "are ") + (known.empty() ? "none" : known));
  }

  Status checkDifferentiable(Type type, const std::string &name) {
    Changes changes(function_->getParentOfType<ModuleOp>(), code_);
    if (changes.hasFunctions(type))
      return invalidArgument("'" + name + "' has functions inside, which have no derivative that " +
                             "could be given");
    if (changes.isPossible(type))
      return {};
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return invalidArgument("'" + name + "' is of type " + text +
                           "; only tensors of floats, and data with such inside, have derivatives");
  }

  /// Sizes that have a name anywhere keep it for themselves.
  void takeSymbols() {
    auto take = [&](Type type) {
      if (auto ranked = dyn_cast<RankedTensorType>(type))
        for (StringAttr name : graph::symbolNames(ranked))
          shapes_.symbol(name);
    };
    Operation *scope = function_->getParentOfType<ModuleOp>();
    (scope ? scope : function_.getOperation())->walk([&](Block *inner) {
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
      if (llvm::is_contained(wanted, subject_.argument(*number)))
        return invalidArgument("'" + name + "' is named twice among what to differentiate by");
      wanted.push_back(subject_.argument(*number));
      if (Status status = checkDifferentiable(wanted.back().getType(), name); !status.ok())
        return status;
    }
    if (wanted.empty())
      return invalidArgument("there is no input to differentiate by");
    Activity activity(wanted);
    followAndExpand(code_, block(), activity);
    // A loop in parts would keep its rows for results of a layer that nobody reads.
    removeUnused(activity, &block().front(), block().getTerminator()->getPrevNode());
    builder_.setInsertionPoint(block().getTerminator());
    Status status =
        derivative_.mode == Mode::Reverse ? reverse(wanted, activity) : forward(wanted, activity);
    if (!status.ok())
      return status;
    Operation *scope = function_->getParentOfType<ModuleOp>();
    removeStandIns(scope ? scope : function_.getOperation());
    graph::eraseDead(function_);
    return {};
  }

  static Status taken(const std::string &argument) {
    return invalidArgument(
        "there is an input '" + argument +
        "' of another type already, and the derivative would have that name too");
  }

  /// Names tell the outputs apart, also for a derivative of this one. `otherwise` is the name where
  /// the other is taken, as by the gradient of another output, or of one by the same input.
  Status addResult(std::string name, const std::string &otherwise, Value value) {
    if (llvm::is_contained(subject_.resultNames, name))
      name = otherwise;
    if (llvm::is_contained(subject_.resultNames, name))
      return invalidArgument("there is an output '" + name +
                             "' already, and the derivative would have that name too");
    subject_.addResult(name, value);
    return {};
  }

  Status reverse(ArrayRef<Value> wanted, Activity &activity) {
    if (derivative_.of.size() != 1)
      return invalidArgument("a gradient is of one output, not of " +
                             std::to_string(derivative_.of.size()));
    const std::string &name = derivative_.of[0];
    auto number = find(name, true);
    if (!number.ok())
      return number.status();
    Value result = subject_.results()[*number];
    if (Status status = checkDifferentiable(result.getType(), name); !status.ok())
      return status;
    auto type = dyn_cast<RankedTensorType>(result.getType());
    bool isSingle = type && type.hasStaticShape() && type.getNumElements() == 1;
    Value seed = isSingle && !derivative_.takesCotangent
                     ? code_.filledLike(result, 1)
                     : subject_.addArgument("cotangent." + name, result.getType());
    if (!seed)
      return taken("cotangent." + name);
    auto module = function_->getParentOfType<ModuleOp>();
    Procedures procedures(module, code_, derivative_.checkpointing);
    Changes &changes = procedures.changes();
    Reverse reverse(code_, activity, &procedures);
    if (isa<program::ObjectType>(result.getType()))
      seed = changes.fromDense(seed);

    Operation *last = block().getTerminator()->getPrevNode();
    if (failed(reverse.add(result, seed)) || (last && failed(reverse.run(&block().front(), last))))
      return reported();
    graph_.location = function_.getLoc();
    for (auto [value, own] : llvm::zip_equal(wanted, derivative_.withRespectTo)) {
      Value gradient = reverse.takeOrZeros(value);
      if (gradient && !isa<TensorType>(value.getType()))
        gradient = changes.dense(gradient, value);
      if (!gradient)
        return reported();
      if (Status status = addResult("gradient." + own, "gradient." + name + "." + own, gradient);
          !status.ok())
        return status;
    }
    if (module) {
      changes.structures().store(module);
      // What this derivative is by does not change it; what the next one is by may.
      module.walk([](program::FieldOp field) { field->removeAttr(kUnchanging); });
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
    auto module = function_->getParentOfType<ModuleOp>();
    Pushed pushed(module, code_);
    Changes &changes = pushed.changes;
    for (unsigned i = 0; derivative_.of.empty() && i < subject_.resultNames.size(); ++i)
      if (Type type = subject_.results()[i].getType();
          changes.isPossible(type) && !changes.hasFunctions(type))
        numbers.push_back(i);
    Forward forward(code_, activity, &pushed);
    builder_.setInsertionPointToStart(&block());
    for (auto [value, name] : llvm::zip_equal(wanted, derivative_.withRespectTo)) {
      Value change = subject_.addArgument("tangent." + name, value.getType());
      if (!change)
        return taken("tangent." + name);
      bool isData = isa<program::ObjectType>(value.getType());
      forward.give(value, isData ? changes.fromDense(change) : change);
    }
    SmallVector<Value> results;
    for (unsigned number : numbers)
      results.push_back(subject_.results()[number]);
    auto needed = operatorsBehind(block(), results); // of others nothing is asked
    if (failed(forward.run(block(), &needed)))
      return reported();
    builder_.setInsertionPoint(block().getTerminator());
    graph_.location = function_.getLoc();
    for (unsigned number : numbers) {
      std::string name = subject_.resultNames[number];
      Value result = subject_.results()[number];
      if (Status status = checkDifferentiable(result.getType(), name); !status.ok())
        return status;
      Value tangent = forward.tangentOrZeros(result);
      if (isa<program::ObjectType>(result.getType()))
        tangent = changes.dense(tangent, result);
      if (!tangent)
        return reported();
      std::string along = llvm::join(derivative_.withRespectTo, ".");
      if (Status status = addResult("tangent." + name, "tangent." + name + "." + along, tangent);
          !status.ok())
        return status;
    }
    if (module)
      changes.structures().store(module);
    return {};
  }

  func::FuncOp function_;
  Subject subject_;
  const Derivative &derivative_;
  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::ForgettingListener forgetting_{shapes_};
  graph::GraphBuilder graph_;
  graph::GradientCode code_;
};

} // namespace

Status differentiate(func::FuncOp function, const Derivative &derivative) {
  Status status = Differentiation(function, derivative).run();
  if (status.ok())
    function->setAttr(graph::kDifferentiated, UnitAttr::get(function.getContext()));
  return status;
}

} // namespace tensmith::autodiff
