// Evaluates a constant and builds it again from procedures that each give a tensor, which are then
// lifted; see Parameters.h.
#include "frontends/text/Parameters.h"

#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/States.h"
#include "compiler/program/Lifting.h"
#include "compiler/program/Program.h"
#include "frontends/text/Evaluator.h"

#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace tensmith::text {
namespace {

class Parameters {
  using Value = mlir::Value; // and not the evaluator's

public:
  Parameters(ModuleOp module, Program &program, const std::vector<Lowering::Instance> &constants,
             const std::set<std::string> &parts, std::optional<uint64_t> seed)
      : module_(module), program_(program), parts_(parts), seed_(seed),
        builder_(module.getContext()) {
    for (const Lowering::Instance &constant : constants)
      if (isMeant(constant) && module.lookupSymbol(constant.symbol))
        meant_.push_back(&constant);
  }

  Status run() {
    std::vector<const Lowering::Instance *> own;
    llvm::copy_if(meant_, std::back_inserter(own),
                  [&](const Lowering::Instance *one) { return !isComputed(*one); });
    if (Status status = seed_ ? checkLoads() : Status(); !status.ok())
      return status;
    for (const Lowering::Instance *constant : own)
      if (Status status = take(*constant); !status.ok())
        return status;
    for (const Part &part : taken_)
      lift(part);
    return {};
  }

private:
  struct Part {
    std::string name, symbol;
    mlir::Attribute value;
  };

  bool isMeant(const Lowering::Instance &constant) {
    const std::string prefix = constant.function->name + ".";
    auto found = parts_.lower_bound(prefix);
    bool isAsked = found != parts_.end() && StringRef(*found).starts_with(prefix);
    std::set<std::string> seen;
    return (isAsked || seed_) && holdsFloats(constant.type->parts.back(), seen);
  }

  bool holdsFloats(Term *term, std::set<std::string> &seen) {
    Term *type = Types::find(term);
    if (type->kind == Term::Kind::Tensor)
      return isFloat(Types::find(type->parts[0])->element) &&
             !Types::find(type->parts[1])->parts.empty();
    auto holds = [&](Term *part) { return holdsFloats(part, seen); };
    if (type->kind == Term::Kind::Tuple)
      return llvm::any_of(type->parts, holds);
    auto decl = program_.names.types.find(type->name);
    if (type->kind != Term::Kind::Data || decl == program_.names.types.end() ||
        !seen.insert(program_.types.print(type)).second)
      return false;
    for (uint32_t tag = 0; tag < decl->second->constructors.size(); ++tag)
      if (llvm::any_of(program_.inference.fields({decl->second, tag}, type), holds))
        return true;
    return false;
  }

  /// Whether its procedure leads to another one of these.
  bool isComputed(const Lowering::Instance &constant) {
    std::set<std::string> seen{constant.symbol};
    std::vector<std::string> waiting{constant.symbol};
    while (!waiting.empty()) {
      auto procedure = module_.lookupSymbol<func::FuncOp>(waiting.back());
      waiting.pop_back();
      procedure.walk([&](Operation *op) {
        StringRef callee;
        if (auto call = dyn_cast<program::CallOp>(op))
          callee = call.getProcedure();
        if (auto closure = dyn_cast<program::ClosureOp>(op))
          callee = closure.getProcedure();
        if (!callee.empty() && seen.insert(callee.str()).second)
          waiting.push_back(callee.str());
      });
    }
    return llvm::any_of(meant_, [&](const Lowering::Instance *other) {
      return other != &constant && seen.contains(other->symbol);
    });
  }

  static bool loads(const Expr &expr) {
    auto inside = [](const ExprPointer &part) { return loads(*part); };
    return expr.kind == Expr::Kind::Load || llvm::any_of(expr.parts, inside) ||
           llvm::any_of(expr.arguments, [](const Argument &one) { return loads(*one.value); }) ||
           llvm::any_of(expr.cases, [](const Case &one) { return loads(*one.body); });
  }

  /// What is trained becomes a program in another folder, with the parameters beside it.
  Status checkLoads() {
    for (const FunctionDecl &function : program_.module.functions) {
      bool isTrained = llvm::any_of(meant_, [&](const Lowering::Instance *constant) {
        return constant->function == &function;
      });
      if (!isTrained && loads(*function.body))
        return invalidArgument(program_.at(function.place) + ": '" + function.name +
                               "' loads a tensor and is no parameter, which a program that is "
                               "trained can't; let it be an input, or a constant of floats at the "
                               "top");
    }
    return {};
  }

  Status take(const Lowering::Instance &constant) {
    const FunctionDecl &function = *constant.function;
    for (const Lowering::Instance *other : meant_)
      if (other != &constant && other->function == &function)
        return invalidArgument(program_.at(function.place) + ": '" + function.name +
                               "' is used with several types, so it can't be trained; give it one");
    EvaluationOptions options;
    options.draws = llvm::xxh3_64bits(function.name) ^ (seed_.value_or(0) * 0x9e3779b97f4a7c15);
    auto value = evaluateConstant(program_, function, constant.type->parts.back(), options);
    if (!value.ok())
      return value.status();
    auto procedure = module_.lookupSymbol<func::FuncOp>(constant.symbol);
    procedure_ = constant.symbol;
    location_ = procedure.getLoc();
    procedure.getBody().front().clear();
    builder_.setInsertionPointToStart(&procedure.getBody().front());
    auto built = build(**value, constant.type->parts.back(), function.name);
    if (!built.ok())
      return built.status();
    builder_.create<func::ReturnOp>(location_, *built);
    procedure.setType(builder_.getFunctionType({}, (*built).getType()));
    return {};
  }

  Result<Value> build(const text::Value &value, Term *term, const std::string &name) {
    Term *type = Types::find(term);
    if (value.kind == text::Value::Kind::Tensor)
      return tensor(value.tensor, name);
    if (value.kind != text::Value::Kind::Data)
      return unsupported("'" + name +
                         "' is a function, which can't be part of what is trained; let "
                         "the constant be weights alone");
    std::vector<Term *> types = type->parts;
    if (type->kind == Term::Kind::Data)
      types = program_.inference.fields({program_.names.types.at(type->name), value.tag}, type);
    SmallVector<Value> fields;
    for (size_t i = 0; i < value.fields.size(); ++i) {
      auto field = build(*value.fields[i], types[i], name + "." + std::to_string(i));
      if (!field.ok())
        return field;
      fields.push_back(*field);
    }
    auto object = program::ObjectType::get(module_.getContext(), program_.types.print(type));
    return Value(builder_.create<program::ConstructOp>(location_, object, fields, value.tag));
  }

  /// In a procedure of its own, if it is to become an input.
  Value tensor(const HostTensor &tensor, const std::string &name) {
    bool isPart = isFloat(tensor.type()) && tensor.rank() > 0 && (seed_ || parts_.contains(name));
    if (!isPart)
      return constant(tensor);
    std::string symbol = procedure_ + "." + std::to_string(taken_.size()) + ".part";
    auto inside = builder_.saveInsertionPoint();
    builder_.setInsertionPointToEnd(module_.getBody());
    auto procedure =
        builder_.create<func::FuncOp>(location_, symbol, builder_.getFunctionType({}, {}));
    procedure->setAttr(program::kProcedure, builder_.getUnitAttr());
    builder_.setInsertionPointToStart(procedure.addEntryBlock());
    Value result = constant(tensor);
    builder_.create<func::ReturnOp>(location_, result);
    procedure.setType(builder_.getFunctionType({}, result.getType()));
    taken_.push_back({name, symbol, result.getDefiningOp<graph::ConstantOp>().getValue()});
    builder_.restoreInsertionPoint(inside);
    return builder_.create<program::CallOp>(location_, result.getType(), ValueRange(), symbol);
  }

  Value constant(const HostTensor &tensor) {
    return graph::GraphBuilder(builder_, program_.types.shapes, location_).constant(tensor);
  }

  void lift(const Part &part) {
    program::liftConstant(module_, part.symbol, part.name);
    if (!seed_)
      return;
    auto main = module_.lookupSymbol<func::FuncOp>("main");
    main.setArgAttr(main.getNumArguments() - 1, graph::kInitial, part.value);
  }

  ModuleOp module_;
  Program &program_;
  const std::set<std::string> &parts_;
  std::optional<uint64_t> seed_;
  OpBuilder builder_;
  std::vector<const Lowering::Instance *> meant_;
  std::vector<Part> taken_;
  std::string procedure_; // in work
  Location location_ = UnknownLoc::get(builder_.getContext());
};

} // namespace

Status liftParameters(ModuleOp module, Program &program,
                      const std::vector<Lowering::Instance> &constants,
                      const std::set<std::string> &parts, std::optional<uint64_t> seed) {
  return Parameters(module, program, constants, parts, seed).run();
}

} // namespace tensmith::text
