// The least set of procedures that need an input of main's for its size, with their callers; then
// a parameter in front for each. And sums of sizes in a segment's inputs as equations, which are
// solved one after the other for what nothing tells; see Sizes.h.
#include "compiler/program/Sizes.h"

#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/Shape.h"
#include "compiler/program/Knowledge.h"
#include "compiler/program/Program.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::program {
namespace {

class Passing {
public:
  explicit Passing(ModuleOp module) : module_(module) {}

  void run() {
    for (auto function : module_.getOps<func::FuncOp>())
      if (isProcedure(function))
        procedures_[function.getName()] = function;
    module_.walk([&](EnterOp enter) { first_ = procedures_.lookup(enter.getProcedure()); });
    if (!first_)
      return;
    for (auto &[name, procedure] : procedures_)
      findNeeds(procedure);
    while (!waiting_.empty())
      passOn(waiting_.pop_back_val());
    for (auto &[procedure, inputs] : needed_)
      addParameters(procedure, inputs.getArrayRef());
    addOperands();
  }

private:
  /// Which of the first procedure's inputs tells the size; none: -1.
  int64_t inputThatTells(StringAttr size) {
    for (auto [index, type] : llvm::enumerate(first_.getArgumentTypes()))
      if (tells(type, size))
        return int64_t(index);
    return -1;
  }

  void need(func::FuncOp procedure, unsigned input) {
    if (procedure != first_ && needed_[procedure].insert(input))
      waiting_.push_back({procedure, input});
  }

  void findNeeds(func::FuncOp procedure) {
    procedure.walk([&](Operation *op) {
      if (!graph::isOperator(op))
        return;
      for (Type type : op->getResultTypes())
        if (auto ranked = dyn_cast<RankedTensorType>(type))
          for (StringAttr size : graph::symbolNames(ranked)) {
            bool told = isLocalSize(size) || llvm::any_of(op->getOperandTypes(), [&](Type operand) {
                          auto known = dyn_cast<RankedTensorType>(operand);
                          return known && llvm::is_contained(graph::symbolNames(known), size);
                        });
            int64_t input = told || findTelling(op, size) ? -1 : inputThatTells(size);
            if (input >= 0)
              need(procedure, unsigned(input));
          }
    });
  }

  void passOn(std::pair<func::FuncOp, unsigned> need) {
    module_.walk([&](Operation *op) {
      if (calleeOf(op) == need.first)
        this->need(op->getParentOfType<func::FuncOp>(), need.second);
    });
  }

  func::FuncOp calleeOf(Operation *op) {
    if (auto call = dyn_cast<CallOp>(op))
      return procedures_.lookup(call.getProcedure());
    if (auto closure = dyn_cast<ClosureOp>(op))
      return procedures_.lookup(closure.getProcedure());
    return {};
  }

  void addParameters(func::FuncOp procedure, ArrayRef<unsigned> inputs) {
    SmallVector<Type> types;
    for (auto [index, input] : llvm::enumerate(inputs)) {
      types.push_back(first_.getArgumentTypes()[input]);
      procedure.getBody().front().insertArgument(unsigned(index), types.back(), procedure.getLoc());
    }
    llvm::append_range(types, procedure.getArgumentTypes());
    procedure.setType(FunctionType::get(procedure.getContext(), types, procedure.getResultTypes()));
  }

  /// What a procedure has of the input: its own parameter, or the first one's.
  Value inputIn(func::FuncOp procedure, unsigned input) {
    if (procedure == first_)
      return first_.getArgument(input);
    auto own = needed_[procedure].getArrayRef();
    return procedure.getArgument(unsigned(llvm::find(own, input) - own.begin()));
  }

  void addOperands() {
    module_.walk([&](Operation *op) {
      func::FuncOp callee = calleeOf(op);
      auto found = callee ? needed_.find(callee) : needed_.end();
      if (found == needed_.end())
        return;
      SmallVector<Value> operands;
      for (unsigned input : found->second)
        operands.push_back(inputIn(op->getParentOfType<func::FuncOp>(), input));
      llvm::append_range(operands, op->getOperands());
      op->setOperands(operands);
    });
  }

  ModuleOp module_;
  func::FuncOp first_;
  llvm::MapVector<StringRef, func::FuncOp> procedures_;
  llvm::MapVector<func::FuncOp, llvm::SetVector<unsigned>> needed_;
  SmallVector<std::pair<func::FuncOp, unsigned>> waiting_;
};

class Naming {
public:
  explicit Naming(func::FuncOp segment) : segment_(segment), shapes_(segment.getContext()) {}

  void run() {
    findUntold();
    for (Value input : segment_.getArguments())
      if (auto type = dyn_cast<RankedTensorType>(input.getType()))
        for (unsigned dim = 0; dim < type.getRank() && !untold_.empty(); ++dim)
          if (AffineExpr expression = graph::dimExpression(type, dim))
            solve(expression.replaceSymbols(symbolsOf(type)));
    if (solved_.empty())
      return;
    for (Value value : values_)
      retype(value);
    segment_.setType(
        FunctionType::get(segment_.getContext(), segment_.getBody().getArgumentTypes(),
                          segment_.getBody().front().getTerminator()->getOperandTypes()));
  }

private:
  /// dimension = name, where the symbol stands in the dimension with the factor.
  struct Equation {
    AffineExpr symbol, dimension, name;
    int64_t factor;
  };

  SmallVector<AffineExpr> symbolsOf(RankedTensorType type) {
    return llvm::map_to_vector(graph::symbolNames(type),
                               [&](StringAttr name) { return shapes_.symbol(name); });
  }

  /// Of the values' sizes those that no input tells; in front those that no result tells either.
  void findUntold() {
    llvm::append_range(values_, segment_.getArguments());
    segment_.walk([&](Operation *op) {
      for (Region &region : op->getRegions())
        if (op != segment_)
          llvm::append_range(values_, region.getArguments());
      llvm::append_range(values_, op->getResults());
    });
    llvm::SetVector<StringAttr> names;
    for (Value value : values_)
      if (auto type = dyn_cast<RankedTensorType>(value.getType()))
        names.insert(graph::symbolNames(type).begin(), graph::symbolNames(type).end());
    auto told = [](auto values, StringAttr name) {
      return llvm::any_of(values, [&](Value value) { return tells(value.getType(), name); });
    };
    SmallVector<AffineExpr> byResults;
    for (StringAttr name : names)
      if (AffineExpr symbol = shapes_.symbol(name); !told(segment_.getArguments(), name))
        told(ArrayRef(values_), name) ? byResults.push_back(symbol) : untold_.push_back(symbol);
    llvm::append_range(untold_, byResults);
  }

  /// Of a symbol in an expression that is linear in it; else 0.
  int64_t factorOf(AffineExpr symbol, AffineExpr expression) {
    auto at = [&](int64_t value) { return expression.replace(symbol, shapes_.constant(value)); };
    auto factor = dyn_cast<AffineConstantExpr>(shapes_.simplify(at(1) - at(0)));
    return factor && !dependsOn(expression - symbol * factor, symbol) ? factor.getValue() : 0;
  }

  bool dependsOn(AffineExpr expression, AffineExpr symbol) {
    unsigned position = cast<AffineSymbolExpr>(symbol).getPosition();
    return shapes_.simplify(expression).isFunctionOfSymbol(position);
  }

  AffineExpr inSolved(AffineExpr expression) {
    for (const Equation &known : solved_) {
      int64_t factor = factorOf(known.symbol, expression);
      AffineExpr rest = known.dimension - known.symbol * known.factor;
      if (factor % known.factor == 0)
        expression = expression + (known.name - known.dimension) * (factor / known.factor);
      if (dependsOn(expression, known.symbol))
        expression = expression.replace(
            known.symbol, known.factor < 0 ? (rest - known.name).floorDiv(-known.factor)
                                           : (known.name - rest).floorDiv(known.factor));
      expression = shapes_.simplify(expression);
    }
    return expression;
  }

  /// An input's dimension becomes a symbol, by which an untold one is said that stands in it with a
  /// factor.
  void solve(AffineExpr dimension) {
    dimension = inSolved(dimension);
    for (AffineExpr symbol : untold_)
      if (int64_t factor = factorOf(symbol, dimension)) {
        solved_.push_back({symbol, dimension, shapes_.freshSymbol("sum"), factor});
        untold_.erase(llvm::find(untold_, symbol));
        return;
      }
  }

  void retype(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    auto isSolved = [&](AffineExpr symbol) {
      return llvm::any_of(solved_, [&](const Equation &known) { return known.symbol == symbol; });
    };
    if (!type || llvm::none_of(symbolsOf(type), isSolved))
      return;
    value.setType(shapes_.withSizes(type, [&](AffineExpr size) { return inSolved(size); }));
  }

  func::FuncOp segment_;
  graph::ShapeContext shapes_;
  SmallVector<Value> values_;
  SmallVector<AffineExpr> untold_;
  SmallVector<Equation> solved_; // in a later one's dimension no symbol of an earlier one is left
};

} // namespace

bool tells(Type type, StringAttr size) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return false;
  for (unsigned dim = 0; dim < ranked.getRank(); ++dim)
    if (auto own = dyn_cast_or_null<AffineSymbolExpr>(graph::dimExpression(ranked, dim));
        own && graph::symbolNames(ranked)[own.getPosition()] == size)
      return true;
  return false;
}

Value findTelling(Operation *op, StringAttr size) {
  auto telling = [&](Value value) { return tells(value.getType(), size); };
  for (Operation *around = op; around && !isa<ModuleOp>(around); around = around->getParentOp()) {
    Block *block = around->getBlock();
    if (auto *found = llvm::find_if(block->getArguments(), telling);
        found != block->getArguments().end())
      return *found;
    for (Operation &other : *block) {
      // Those beside the operator itself are not in their places yet.
      if (around == op || &other == around)
        break;
      for (Value result : other.getResults())
        if (telling(result))
          return result;
    }
  }
  return {};
}

void nameSums(func::FuncOp segment) { Naming(segment).run(); }

void passSizes(ModuleOp module) { Passing(module).run(); }

} // namespace tensmith::program
