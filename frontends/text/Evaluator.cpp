// Frames and what each kind of expression does with them; see Evaluator.h.
#include "frontends/text/Evaluator.h"

#include "frontends/text/EvaluatedOperators.h"
#include "frontends/text/NamedSizes.h"

namespace tensmith::text {

/// A function with the types that it is used with.
struct Instance {
  const FunctionDecl *function = nullptr;
  Term *type = nullptr;
  Typing typing;
  bool typed = false;
  std::unordered_map<const Expr *, Instance *> uses; // of functions, by their names' places
};

namespace {

struct Frame {
  const Expr *expr;
  Instance *instance;
  ValueRef scope;
  std::vector<ValueRef> values; // of the expressions that it needs, as far as they are computed
};

class Machine {
public:
  Machine(Program &program, const EvaluationOptions &options)
      : program_(program), options_(options), operators_(program, options) {}
  /// Cells may refer to one another.
  ~Machine() {
    for (ValueRef &cell : cells_)
      cell->fields.clear();
  }

  Result<ValueRef> run(std::vector<ValueRef> inputs) {
    const FunctionDecl &main = *program_.main();
    Instance *instance = instanceOf(main, program_.inference.declared(main));
    if (inputs.size() != main.params.size())
      return invalidArgument("main takes " + std::to_string(main.params.size()) + " inputs, not " +
                             std::to_string(inputs.size()));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (Status status = operators_.bindInput(inputs[i], instance->type->parts[i]); !status.ok())
        return status.within("input '" + main.params[i].name + "'");
    return finish(enter(*instance, inputs, 0));
  }

  Result<ValueRef> runConstant(const FunctionDecl &constant, Term *type) {
    return finish(enter(*instanceOf(constant, program_.types.function({type})), {}, 0));
  }

private:
  Result<ValueRef> finish(Status status) {
    for (int64_t left = options_.steps; status.ok() && !frames_.empty(); --left)
      status = left > 0 ? step() : exhausted("it ran for the limit of", options_.steps, "steps");
    if (status.ok())
      return std::move(returned_);
    return program_.messages.empty() ? status : program_.status();
  }

  static Status exhausted(const char *what, int64_t limit, const char *unit) {
    return {StatusCode::ResourceExhausted,
            std::string(what) + ' ' + std::to_string(limit) + ' ' + unit};
  }

  Instance *instanceOf(const FunctionDecl &function, Term *type) {
    auto &found = instances_[function.name + ' ' + program_.types.print(type)];
    if (!found) {
      found = std::make_unique<Instance>();
      found->function = &function;
      found->type = type;
    }
    return found.get();
  }

  Instance *instanceAt(const Frame &frame, const FunctionDecl &function) {
    Instance *&found = frame.instance->uses[frame.expr];
    if (!found) {
      Term *type = typeOf(frame, *frame.expr);
      found = instanceOf(function, function.constant ? program_.types.function({type}) : type);
    }
    return found;
  }

  static Term *typeOf(const Frame &frame, const Expr &expr) {
    return Types::find(frame.instance->typing.exprs.at(&expr));
  }

  /// The expression's value will be the top frame's next.
  Status push(const Expr &expr, Instance *instance, ValueRef scope) {
    if (int64_t(frames_.size()) >= options_.depth)
      return exhausted("expressions are nested deeper than the limit of", options_.depth, "levels")
          .within(program_.at(expr.place));
    frames_.push_back({&expr, instance, std::move(scope), {}});
    return {};
  }
  /// The expression's value will be that of the top frame, which it takes the place of.
  Status become(const Expr &expr, Instance *instance, ValueRef scope) {
    frames_.pop_back();
    return push(expr, instance, std::move(scope));
  }
  Status give(ValueRef value) {
    frames_.pop_back();
    (frames_.empty() ? returned_ : frames_.back().values.emplace_back()) = std::move(value);
    return {};
  }

  /// That parameters agree where callers don't know their sizes.
  Status checkSizes(const FunctionDecl &function, const std::vector<ValueRef> &arguments,
                    size_t from) {
    for (const auto &[name, first, other] : agreeingSizes(function)) {
      const ValueRef &a = arguments[from + first.parameter], &b = arguments[from + other.parameter];
      if (!a || !b || a->kind != Value::Kind::Tensor || b->kind != Value::Kind::Tensor ||
          a->tensor.rank() <= first.dimension || b->tensor.rank() <= other.dimension)
        continue;
      int64_t wanted = a->tensor.shape()[size_t(first.dimension)],
              size = b->tensor.shape()[size_t(other.dimension)];
      if (wanted != size)
        return invalidArgument(program_.at(function.body->place) + ": the size '" + name + "' of " +
                               function.name + " is " + std::to_string(wanted) + " in '" +
                               function.params[first.parameter].name + "' and " +
                               std::to_string(size) + " in '" +
                               function.params[other.parameter].name + "'");
    }
    return {};
  }

  /// The function's body in the place of nothing, or of the frame that calls it.
  Status enter(Instance &instance, const std::vector<ValueRef> &arguments, size_t first) {
    if (!instance.typed) {
      instance.typing = program_.inference.instance(*instance.function, instance.type);
      program_.types.settle(instance.type);
      instance.typed = true;
      if (!program_.messages.empty())
        return program_.status();
    }
    if (Status status = checkSizes(*instance.function, arguments, first); !status.ok())
      return status;
    ValueRef scope;
    for (size_t i = 0; i < instance.function->params.size(); ++i)
      scope = Value::binding(instance.function->params[i].name, arguments[first + i], scope);
    return push(*instance.function->body, &instance, std::move(scope));
  }

  /// What the frame's expression needs next, or null.
  const Expr *needed(const Frame &frame) {
    size_t index = frame.values.size();
    auto within = [&](size_t count) {
      return index < std::min(count, frame.expr->parts.size()) ? frame.expr->parts[index].get()
                                                               : nullptr;
    };
    switch (frame.expr->kind) {
    case Expr::Kind::Call:
    case Expr::Kind::Operator:
      if (frame.instance->typing.relations.contains(frame.expr))
        return nullptr; // see operand
      [[fallthrough]];
    case Expr::Kind::Tuple:
    case Expr::Kind::List:
      return within(frame.expr->parts.size());
    case Expr::Kind::Assign:
      return within(2);
    case Expr::Kind::If:
    case Expr::Kind::Match:
    case Expr::Kind::Ascribe:
    case Expr::Kind::Ref:
    case Expr::Kind::Read:
      return within(1);
    case Expr::Kind::Let:
      return index ? nullptr : frame.expr->cases[0].body.get();
    default:
      return nullptr;
    }
  }

  Status step() {
    Frame &frame = frames_.back();
    if (Types::isStaticSize(typeOf(frame, *frame.expr)))
      return give(Value::data(0, {})); // it is in the types
    if (const Expr *next = needed(frame))
      return push(*next, frame.instance, frame.scope);
    const Expr &expr = *frame.expr;
    switch (expr.kind) {
    case Expr::Kind::Integer:
    case Expr::Kind::Real:
    case Expr::Kind::Boolean: {
      DataType type = Types::find(typeOf(frame, expr)->parts[0])->element;
      return give(Value::of(program_.relations.number(expr, type)));
    }
    case Expr::Kind::Load: {
      std::string error;
      const HostTensor *tensor = program_.loader(expr.text, error);
      return tensor ? give(Value::of(*tensor))
                    : Status(StatusCode::IoError, error).within(program_.at(expr.place));
    }
    case Expr::Kind::Name:
      return name(frame);
    case Expr::Kind::Call:
    case Expr::Kind::Operator:
      return frame.instance->typing.relations.contains(&expr) ? operation(frame) : call(frame);
    case Expr::Kind::Function: {
      auto value = std::make_shared<Value>();
      value->kind = Value::Kind::Function;
      value->expr = &expr;
      value->instance = frame.instance;
      value->fields = {frame.scope};
      return give(std::move(value));
    }
    case Expr::Kind::Let: {
      ValueRef scope = frame.scope;
      if (!matches(expr.cases[0].pattern, frame.values[0], scope))
        return unmatched(expr.cases[0].pattern.place);
      return become(*expr.parts[0], frame.instance, std::move(scope));
    }
    case Expr::Kind::If: {
      bool holds = frame.values[0]->tensor.getInt(0) != 0;
      return become(*expr.parts[holds ? 1 : 2], frame.instance, frame.scope);
    }
    case Expr::Kind::Match:
      for (const Case &one : expr.cases)
        if (ValueRef scope = frame.scope; matches(one.pattern, frame.values[0], scope))
          return become(*one.body, frame.instance, std::move(scope));
      return unmatched(expr.place);
    case Expr::Kind::Tuple:
      return give(Value::data(0, std::move(frame.values)));
    case Expr::Kind::List: {
      ValueRef list = Value::data(0, {});
      for (size_t i = frame.values.size(); i-- > 0;)
        list = Value::data(1, {frame.values[i], list});
      return give(std::move(list));
    }
    case Expr::Kind::Ascribe:
      return give(std::move(frame.values[0]));
    case Expr::Kind::Ref: {
      ValueRef cell = Value::data(0, std::move(frame.values));
      cell->kind = Value::Kind::Reference;
      cells_.push_back(cell);
      return give(std::move(cell));
    }
    case Expr::Kind::Read:
      return give(frame.values[0]->fields[0]);
    case Expr::Kind::Assign:
      frame.values[0]->fields[0] = std::move(frame.values[1]);
      return give(Value::data(0, {}));
    case Expr::Kind::String:
      break;
    }
    return invalidArgument("a text is no value").within(program_.at(expr.place));
  }

  Status unmatched(Place place) {
    return Status(StatusCode::Internal, "no case matches the value").within(program_.at(place));
  }

  Status name(Frame &frame) {
    const std::string &text = frame.expr->text;
    for (const Value *scope = frame.scope.get(); scope; scope = scope->fields[1].get())
      if (*scope->name == text)
        return give(scope->fields[0]);
    if (auto found = program_.names.functions.find(text); found != program_.names.functions.end()) {
      Instance *instance = instanceAt(frame, *found->second);
      if (instance->function->constant) {
        frames_.pop_back();
        return enter(*instance, {}, 0);
      }
      auto value = std::make_shared<Value>();
      value->kind = Value::Kind::Function;
      value->instance = instance;
      return give(std::move(value));
    }
    const ConstructorInfo &constructor = program_.names.constructors.at(text);
    ValueRef value = Value::data(constructor.tag, {});
    if (!constructor.type->constructors[constructor.tag].fields.empty())
      value->kind = Value::Kind::Constructor;
    return give(std::move(value));
  }

  Status call(Frame &frame) {
    std::vector<ValueRef> values = std::move(frame.values);
    const Value &function = *values[0];
    if (function.kind == Value::Kind::Constructor)
      return give(Value::data(function.tag, {values.begin() + 1, values.end()}));
    frames_.pop_back();
    if (!function.expr)
      return enter(*function.instance, values, 1);
    ValueRef scope = function.fields[0];
    for (size_t i = 0; i < function.expr->params.size(); ++i)
      scope = Value::binding(function.expr->params[i].name, values[1 + i], scope);
    return push(*function.expr->parts[0], function.instance, std::move(scope));
  }

  Status operation(Frame &frame) {
    const Relation &relation = frame.instance->typing.relations.at(frame.expr);
    size_t index = frame.values.size();
    if (index < relation.operands.size()) {
      if (const Expr *next = operandOf(*frame.expr, relation, index))
        return push(*next, frame.instance, frame.scope);
      frame.values.push_back(Value::of({})); // absent
      return {};
    }
    auto results = operators_.evaluate(relation, frame.values);
    if (!results.ok())
      return results.status().within(program_.at(frame.expr->place));
    return give(results->size() == 1 ? (*results)[0] : Value::data(0, std::move(*results)));
  }

  /// Whether the value is of the pattern's shape; its parts' names are in the scope then.
  bool matches(const Pattern &pattern, const ValueRef &value, ValueRef &scope) {
    if (pattern.kind == Pattern::Kind::Wildcard)
      return true;
    if (pattern.kind == Pattern::Kind::Name) {
      scope = Value::binding(pattern.name, value, scope);
      return true;
    }
    if (pattern.kind == Pattern::Kind::Constructor &&
        program_.names.constructors.at(pattern.name).tag != value->tag)
      return false;
    for (size_t i = 0; i < pattern.parts.size(); ++i)
      if (!matches(pattern.parts[i], value->fields[i], scope))
        return false;
    return true;
  }

  Program &program_;
  const EvaluationOptions &options_;
  EvaluatedOperators operators_;
  std::map<std::string, std::unique_ptr<Instance>> instances_;
  std::vector<Frame> frames_;
  std::vector<ValueRef> cells_;
  ValueRef returned_;
};

} // namespace

Result<ValueRef> evaluate(Program &program, std::vector<ValueRef> inputs,
                          const EvaluationOptions &options) {
  if (!program.messages.empty())
    return program.status();
  if (!program.main())
    return Status(StatusCode::InvalidModel,
                  program.name + ": has no function main; write fn main(...)");
  return Machine(program, options).run(std::move(inputs));
}

Result<ValueRef> evaluateConstant(Program &program, const FunctionDecl &constant, Term *type,
                                  const EvaluationOptions &options) {
  return Machine(program, options).runConstant(constant, type);
}

std::vector<ValueRef> outputsOf(Program &program, const ValueRef &result) {
  const FunctionDecl &main = *program.main();
  Term *type = program.inference.declared(main);
  program.inference.instance(main, type);
  Term *given = Types::find(type->parts.back());
  bool several = given->kind == Term::Kind::Tuple && given->parts.size() > 1;
  return several ? result->fields : std::vector<ValueRef>{result};
}

} // namespace tensmith::text
