// Expressions to operators; see Lowering.h. Matches are in MatchLowering.cpp.
#include "frontends/text/Lowering.h"
#include "frontends/text/NamedSizes.h"

#include "compiler/graph/Graph.h"
#include "compiler/program/Effects.h"
#include "compiler/program/Lifting.h"
#include "compiler/program/Program.h"

using namespace mlir;

namespace tensmith::text {

Lowering::Lowering(ModuleOp module, const Names &names, Types &types, Relations &relations,
                   Inference &inference, Loader loader, const Files &files)
    : module_(module), names_(names), types_(types), relations_(relations), inference_(inference),
      loader_(std::move(loader)), files_(files), builder_(module.getContext()),
      structures_(module) {}

Status Lowering::run(const FunctionDecl &main, const std::set<std::string> &inputs) {
  Term *type = inference_.declared(main);
  std::string symbol = instanceOf(main, type);
  while (!waiting_.empty() && error_.empty()) {
    Instance instance = std::move(waiting_.back());
    waiting_.pop_back();
    lowerInstance(instance);
  }
  if (!error_.empty())
    return {StatusCode::InvalidModel, error_};
  lowerMain(main, type, symbol);
  structures_.store(module_);
  program::markEffects(module_);
  std::set<std::string> lifted = inputs;
  for (const Parameter &own : main.params)
    lifted.erase(own.name);
  return lift(lifted);
}

/// Names that are none of a constant's are left to who wants them.
Status Lowering::lift(const std::set<std::string> &inputs) {
  for (const std::string &name : inputs) {
    auto found = names_.functions.find(name);
    if (found == names_.functions.end() || !found->second->constant)
      continue;
    std::vector<std::string> instances;
    for (auto &[key, symbol] : symbols_)
      if (key.substr(0, key.find(' ')) == name)
        instances.push_back(symbol);
    if (instances.empty())
      return {StatusCode::InvalidArgument,
              at(found->second->place) + ": '" + name + "' is not used by main, so it is no input"};
    if (instances.size() > 1)
      return {StatusCode::InvalidArgument, at(found->second->place) + ": '" + name +
                                               "' is used with several types, so it is no input; "
                                               "give it one: let " +
                                               name + " = (... : f32[])"};
    program::liftConstant(module_, instances[0], name);
  }
  return {};
}

std::string Lowering::instanceOf(const FunctionDecl &function, Term *type) {
  std::string key = function.name + ' ' + types_.print(type);
  auto [found, isNew] = symbols_.try_emplace(key);
  if (isNew) {
    bool isEntry = function.name == "main" && symbols_.size() == 1;
    found->second = isEntry ? "main.program" : function.name + "." + std::to_string(number_++);
    waiting_.push_back({&function, type, found->second});
    if (function.constant)
      constants_.push_back(waiting_.back());
  }
  return found->second;
}

func::FuncOp Lowering::beginProcedure(const std::string &symbol, ArrayRef<Type> params,
                                      Location location) {
  builder_.setInsertionPointToEnd(module_.getBody());
  auto type = builder_.getFunctionType(params, builder_.getNoneType());
  auto procedure = builder_.create<func::FuncOp>(location, symbol, type);
  procedure->setAttr(program::kProcedure, builder_.getUnitAttr());
  builder_.setInsertionPointToStart(procedure.addEntryBlock());
  return procedure;
}

void Lowering::finish(func::FuncOp procedure, Value result) {
  builder_.create<func::ReturnOp>(procedure.getLoc(), result);
  procedure.setType(builder_.getFunctionType(procedure.getArgumentTypes(), result.getType()));
}

void Lowering::lowerInstance(const Instance &instance) {
  const FunctionDecl &function = *instance.function;
  typing_ = inference_.instance(function, instance.type);
  types_.settle(instance.type);
  function_ = instance.symbol;
  SmallVector<Type> params;
  for (size_t i = 0; i < function.params.size(); ++i)
    params.push_back(lowerType(instance.type->parts[i]));
  func::FuncOp procedure =
      beginProcedure(instance.symbol, params, locate(*function.body, function.name));
  locals_.clear();
  for (size_t i = 0; i < function.params.size(); ++i)
    bind(function.params[i].name, procedure.getArgument(unsigned(i)));
  checkSizes(function, locate(*function.body, function.name));
  if (Value result = lower(*function.body))
    finish(procedure, result);
}

/// A reshape to the size that another parameter has, of one dimension after the other: it refuses
/// what has more or fewer elements, and says in the type what is known from there on.
void Lowering::checkSizes(const FunctionDecl &function, Location location) {
  graph::GraphBuilder graph(builder_, types_.shapes, location);
  auto shape = [&](Value of, std::optional<int64_t> start, std::optional<int64_t> end) {
    SmallVector<NamedAttribute> attributes;
    if (start)
      attributes.push_back(graph.named("start", builder_.getI64IntegerAttr(*start)));
    if (end)
      attributes.push_back(graph.named("end", builder_.getI64IntegerAttr(*end)));
    return graph::GraphBuilder::first(graph.create("graph.shape", {of}, attributes));
  };
  for (const AgreeingSizes &sizes : agreeingSizes(function)) {
    auto &[name, first, other] = sizes;
    Value &value = locals_[other.parameter].second, whole = locals_[first.parameter].second;
    auto type = dyn_cast<RankedTensorType>(value.getType()),
         known = dyn_cast<RankedTensorType>(whole.getType());
    if (!type || !known || other.dimension >= type.getRank() || first.dimension >= known.getRank())
      continue;
    AffineExpr own = graph::dimExpression(type, unsigned(other.dimension)),
               wanted = graph::dimExpression(known, unsigned(first.dimension));
    if (own && wanted &&
        types_.shapes.equal(types_.shapes.dims(type)[other.dimension],
                            types_.shapes.dims(known)[first.dimension]))
      continue;
    SmallVector<Value> parts;
    if (other.dimension > 0)
      parts.push_back(shape(value, std::nullopt, other.dimension));
    parts.push_back(shape(whole, first.dimension, first.dimension + 1));
    if (other.dimension + 1 < type.getRank())
      parts.push_back(shape(value, other.dimension + 1, std::nullopt));
    Value target = parts.size() == 1 ? parts[0] : graph.concat(parts, 0);
    Value reshaped =
        graph::GraphBuilder::first(graph.create("graph.dynamic_reshape", {value, target}));
    if (reshaped)
      value = reshaped;
  }
}

void Lowering::lowerMain(const FunctionDecl &main, Term *type, const std::string &procedure) {
  SmallVector<Type> params, results;
  for (size_t i = 0; i < main.params.size(); ++i)
    params.push_back(lowerType(type->parts[i]));
  Term *result = Types::find(type->parts.back());
  bool several = result->kind == Term::Kind::Tuple && result->parts.size() > 1;
  for (Term *part : several ? result->parts : std::vector<Term *>{result})
    results.push_back(lowerType(part, /*named=*/false));
  builder_.setInsertionPointToEnd(module_.getBody());
  Location location = locate(*main.body, "main");
  auto function =
      builder_.create<func::FuncOp>(location, "main", builder_.getFunctionType(params, results));
  for (size_t i = 0; i < params.size(); ++i)
    function.setArgAttr(unsigned(i), "graph.name", builder_.getStringAttr(main.params[i].name));
  for (size_t i = 0; i < results.size(); ++i)
    function.setResultAttr(
        unsigned(i), "graph.name",
        builder_.getStringAttr(several ? "result" + std::to_string(i) : std::string("result")));
  builder_.setInsertionPointToStart(function.addEntryBlock());
  auto enter =
      builder_.create<program::EnterOp>(location, results, function.getArguments(), procedure);
  builder_.create<func::ReturnOp>(location, enter.getResults());
}

Term *Lowering::typeOf(const Expr &expr) { return Types::find(typing_.exprs.at(&expr)); }

Type Lowering::lowerType(Term *type, bool named) {
  type = Types::find(type);
  if (type->kind == Term::Kind::Tensor)
    return relations_.lower(type, named);
  if (Types::isStaticSize(type)) // nothing of it is left to compute with
    type = types_.tuple({});
  noteStructure(type);
  return program::ObjectType::get(module_.getContext(), types_.print(type));
}

/// What values of the type are made of, and of those inside. Functions and references have no
/// structure, and of a type that goes on for ever there is the beginning.
void Lowering::noteStructure(Term *type) {
  auto object = program::ObjectType::get(module_.getContext(), types_.print(type));
  auto decl = type->kind == Term::Kind::Data ? names_.types.find(type->name) : names_.types.end();
  bool isData = decl != names_.types.end(), isTuple = type->kind == Term::Kind::Tuple;
  if ((!isData && !isTuple) || structures_.find(object))
    return;
  std::vector<std::vector<Term *>> constructors;
  for (uint32_t tag = 0; isData && tag < decl->second->constructors.size(); ++tag)
    constructors.push_back(inference_.fields({decl->second, tag}, type));
  if (isTuple)
    constructors.push_back(type->parts);
  if (isTooLarge(type, constructors))
    return;
  structures_.add(object, {}); // which it may have in itself
  around_.push_back(type);
  program::Constructors lowered;
  for (const std::vector<Term *> &fields : constructors) {
    auto &types = lowered.emplace_back();
    for (Term *field : fields)
      types.push_back(lowerType(field, /*named=*/false));
  }
  around_.pop_back();
  structures_.add(object, std::move(lowered));
}

/// `type Nest[a] = Done | More(a, Nest[(a, a)])` has ever larger ones of itself inside, and as text
/// each is twice the last.
bool Lowering::isTooLarge(Term *type, ArrayRef<std::vector<Term *>> constructors) {
  constexpr int64_t kMostSmaller = 8;
  auto isSmaller = [&](Term *outer) {
    return type->kind == Term::Kind::Data && outer->name == type->name &&
           sizeOf(outer) < sizeOf(type);
  };
  if (llvm::count_if(around_, isSmaller) >= kMostSmaller)
    return true;
  for (const std::vector<Term *> &fields : constructors)
    for (Term *field : fields) {
      size_t size = sizeOf(field);
      structureBudget_ -= int64_t(size);
      if (size >= kLargestType)
        return true;
    }
  return structureBudget_ < 0;
}

std::string Lowering::at(Place place) const {
  return (place.file ? files_[place.file].name + ":" : "") + std::to_string(place.line) + ":" +
         std::to_string(place.column);
}

Location Lowering::locate(const Expr &expr, StringRef what) {
  return NameLoc::get(builder_.getStringAttr(at(expr.place) + " " + what.str()));
}

Value Lowering::find(const std::string &name) {
  for (size_t i = locals_.size(); i-- > 0;)
    if (locals_[i].first == name)
      return locals_[i].second;
  return {};
}

Value Lowering::construct(uint32_t tag, ValueRange fields, Type type, Location location) {
  return builder_.create<program::ConstructOp>(location, type, fields, tag);
}

Value Lowering::lower(const Expr &expr) {
  if (--budget_ < 0 && error_.empty())
    error_ = "the program is too large once its cases and instances are told apart";
  if (!error_.empty())
    return {};
  if (Types::isStaticSize(typeOf(expr)))
    return construct(0, {}, lowerType(typeOf(expr)), locate(expr, "size"));
  switch (expr.kind) {
  case Expr::Kind::Integer:
  case Expr::Kind::Real:
  case Expr::Kind::Boolean: {
    DataType type = Types::find(typeOf(expr)->parts[0])->element;
    graph::GraphBuilder graph(builder_, types_.shapes, locate(expr, expr.text));
    return graph.constant(relations_.number(expr, type));
  }
  case Expr::Kind::Name:
    return lowerName(expr);
  case Expr::Kind::Call:
    return lowerCall(expr);
  case Expr::Kind::Operator: {
    std::vector<const Expr *> operands;
    for (const ExprPointer &part : expr.parts)
      operands.push_back(part.get());
    return lowerOperator(expr, operands);
  }
  case Expr::Kind::Function:
    return lowerFunction(expr);
  case Expr::Kind::Let:
    return lowerLet(expr);
  case Expr::Kind::If:
    return lowerIf(expr);
  case Expr::Kind::Match:
    return lowerMatch(expr);
  case Expr::Kind::Tuple: {
    SmallVector<Value> fields;
    for (const ExprPointer &part : expr.parts)
      fields.push_back(lower(*part));
    return error_.empty() ? construct(0, fields, lowerType(typeOf(expr)), locate(expr, "tuple"))
                          : Value();
  }
  case Expr::Kind::List:
    return lowerList(expr);
  case Expr::Kind::Ascribe:
    return lower(*expr.parts[0]);
  case Expr::Kind::Load: {
    const HostTensor *tensor = loader_(expr.text, error_);
    graph::GraphBuilder graph(builder_, types_.shapes, locate(expr, expr.text));
    return tensor ? graph.constant(*tensor) : Value();
  }
  case Expr::Kind::Ref:
  case Expr::Kind::Read:
  case Expr::Kind::Assign:
    return lowerReference(expr);
  case Expr::Kind::String:
    break;
  }
  return {};
}

Value Lowering::lowerReference(const Expr &expr) {
  SmallVector<Value> values;
  for (const ExprPointer &part : expr.parts)
    values.push_back(lower(*part));
  if (!error_.empty())
    return {};
  Type type = lowerType(typeOf(expr));
  if (expr.kind == Expr::Kind::Ref)
    return builder_.create<program::ReferenceOp>(locate(expr, "ref"), type, values[0]);
  if (expr.kind == Expr::Kind::Read)
    return builder_.create<program::ReadOp>(locate(expr, "*"), type, values[0]);
  builder_.create<program::WriteOp>(locate(expr, ":="), values[0], values[1]);
  return construct(0, {}, type, locate(expr, ":="));
}

Value Lowering::lowerList(const Expr &expr) {
  Type type = lowerType(typeOf(expr));
  SmallVector<Value> elements;
  for (const ExprPointer &part : expr.parts)
    elements.push_back(lower(*part));
  if (!error_.empty())
    return {};
  Location location = locate(expr, "list");
  Value list = construct(0, {}, type, location);
  for (Value element : llvm::reverse(elements))
    list = construct(1, {element, list}, type, location);
  return list;
}

Value Lowering::lowerName(const Expr &expr) {
  if (Value local = find(expr.text))
    return local;
  Location location = locate(expr, expr.text);
  if (auto found = names_.functions.find(expr.text); found != names_.functions.end()) {
    const FunctionDecl &function = *found->second;
    if (function.constant) {
      std::string symbol = instanceOf(function, types_.function({typeOf(expr)}));
      return builder_.create<program::CallOp>(location, lowerType(typeOf(expr)), ValueRange(),
                                              symbol);
    }
    return builder_.create<program::ClosureOp>(location, lowerType(typeOf(expr)), ValueRange(),
                                               instanceOf(function, typeOf(expr)));
  }
  const ConstructorInfo &constructor = names_.constructors.at(expr.text);
  if (constructor.type->constructors[constructor.tag].fields.empty())
    return construct(constructor.tag, {}, lowerType(typeOf(expr)), location);
  return constructorFunction(constructor, typeOf(expr), location);
}

/// A constructor as a value: a procedure that builds.
Value Lowering::constructorFunction(const ConstructorInfo &constructor, Term *type,
                                    Location location) {
  OpBuilder::InsertionGuard guard(builder_);
  std::string symbol =
      constructor.type->constructors[constructor.tag].name + "." + std::to_string(number_++);
  SmallVector<Type> params;
  for (size_t i = 0; i + 1 < type->parts.size(); ++i)
    params.push_back(lowerType(type->parts[i]));
  auto saved = builder_.saveInsertionPoint();
  func::FuncOp procedure = beginProcedure(symbol, params, location);
  finish(procedure, construct(constructor.tag, procedure.getArguments(),
                              lowerType(type->parts.back()), location));
  builder_.restoreInsertionPoint(saved);
  return builder_.create<program::ClosureOp>(location, lowerType(type), ValueRange(), symbol);
}

Value Lowering::lowerCall(const Expr &expr) {
  const Expr &callee = *expr.parts[0];
  bool local = callee.kind != Expr::Kind::Name || find(callee.text);
  if (!local && typing_.relations.contains(&expr)) {
    std::vector<const Expr *> operands;
    for (size_t i = 1; i < expr.parts.size(); ++i)
      operands.push_back(expr.parts[i].get());
    return lowerOperator(expr, operands);
  }
  Value closure = local ? lower(callee) : Value(); // before its arguments
  SmallVector<Value> arguments;
  for (size_t i = 1; i < expr.parts.size(); ++i)
    arguments.push_back(lower(*expr.parts[i]));
  if (!error_.empty())
    return {};
  Type type = lowerType(typeOf(expr));
  Location location = locate(expr, "call");
  auto function = names_.functions.find(callee.text);
  if (!local && function != names_.functions.end() && !function->second->constant)
    return builder_.create<program::CallOp>(locate(expr, callee.text), type, arguments,
                                            instanceOf(*function->second, typeOf(callee)));
  auto constructor = names_.constructors.find(callee.text);
  if (!local && constructor != names_.constructors.end())
    return construct(constructor->second.tag, arguments, type, location);
  if (!closure)
    closure = lower(callee);
  return closure ? builder_.create<program::ApplyOp>(location, type, closure, arguments).getResult()
                 : Value();
}

Value Lowering::lowerOperator(const Expr &expr, const std::vector<const Expr *> &given) {
  const Relation &relation = typing_.relations.at(&expr);
  const OperatorInfo &info = *relation.info;
  std::vector<const Expr *> operands = given;
  operands.resize(relation.operands.size());
  for (const Argument &argument : expr.arguments)
    for (size_t i = 0; i < info.operands.size() && i < operands.size(); ++i)
      if (info.operands[i].name == argument.name && !operands[i])
        operands[i] = argument.value.get();
  SmallVector<Value> values;
  Location location = locate(expr, info.name);
  for (const Expr *operand : operands)
    values.push_back(operand
                         ? lower(*operand)
                         : Value(builder_.create<graph::NoneOp>(location, builder_.getNoneType())));
  if (!error_.empty())
    return {};
  Type typed = isTyped(info) ? lowerType(relation.result) : Type();
  std::string text;
  Operation *op = relations_.build(builder_, location, relation, values, typed, text);
  if (!op) {
    error_ = at(expr.place) + ": " + text;
    return {};
  }
  return op->getNumResults() == 1
             ? op->getResult(0)
             : construct(0, op->getResults(), lowerType(relation.result), location);
}

/// Names in the expression that stand for values around it.
static void collectUsed(const Expr &expr, std::vector<std::string> &names) {
  if (expr.kind == Expr::Kind::Name && llvm::find(names, expr.text) == names.end())
    names.push_back(expr.text);
  for (const ExprPointer &part : expr.parts)
    collectUsed(*part, names);
  for (const Argument &argument : expr.arguments)
    collectUsed(*argument.value, names);
  for (const Case &one : expr.cases)
    collectUsed(*one.body, names);
}

/// A procedure of its own, with what it uses from around it as first parameters.
Value Lowering::lowerFunction(const Expr &expr) {
  std::vector<std::string> used;
  collectUsed(*expr.parts[0], used);
  SmallVector<Value> captured;
  std::vector<std::pair<std::string, Value>> inside;
  std::vector<std::pair<std::string, Operation *>> constants;
  for (const std::string &name : used) {
    bool parameter =
        llvm::any_of(expr.params, [&](const Parameter &param) { return param.name == name; });
    Value value = parameter ? Value() : find(name);
    if (!value)
      continue;
    if (Operation *constant = value.getDefiningOp<graph::ConstantOp>()) {
      constants.push_back({name, constant}); // as good inside, and may be folded there
      continue;
    }
    captured.push_back(value);
    inside.push_back({name, Value()});
  }
  Term *type = typeOf(expr);
  SmallVector<Type> params(ValueRange(captured).getTypes());
  for (size_t i = 0; i < expr.params.size(); ++i)
    params.push_back(lowerType(type->parts[i]));
  auto around = std::move(locals_);
  auto saved = builder_.saveInsertionPoint();
  std::string symbol = function_ + ".fn" + std::to_string(number_++);
  Location location = locate(expr, "fn");
  func::FuncOp procedure = beginProcedure(symbol, params, location);
  locals_.clear();
  for (auto [index, name] : llvm::enumerate(inside))
    bind(name.first, procedure.getArgument(unsigned(index)));
  for (auto &[name, constant] : constants)
    bind(name, builder_.clone(*constant)->getResult(0));
  for (size_t i = 0; i < expr.params.size(); ++i)
    bind(expr.params[i].name, procedure.getArgument(unsigned(captured.size() + i)));
  Value result = lower(*expr.parts[0]);
  if (result)
    finish(procedure, result);
  locals_ = std::move(around);
  builder_.restoreInsertionPoint(saved);
  return result ? builder_.create<program::ClosureOp>(location, lowerType(type), captured, symbol)
                      .getResult()
                : Value();
}

Value Lowering::lowerIf(const Expr &expr) {
  Value condition = lower(*expr.parts[0]);
  if (!condition)
    return {};
  auto op = builder_.create<program::IfOp>(locate(expr, "if"), lowerType(typeOf(expr)), condition);
  OpBuilder::InsertionGuard guard(builder_);
  for (unsigned i = 0; i < 2; ++i) {
    builder_.createBlock(&op->getRegion(i));
    Value value = lower(*expr.parts[1 + i]);
    if (!value)
      return {};
    builder_.create<program::YieldOp>(op.getLoc(), value);
  }
  return op.getResult();
}

} // namespace tensmith::text
