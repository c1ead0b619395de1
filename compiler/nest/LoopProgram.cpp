// From isl's syntax trees to loops, and substitution in them; see LoopProgram.h.
#include "compiler/nest/LoopProgram.h"

#include "compiler/nest/Tensorize.h"

#include <isl/ast.h>
#include <isl/ast_build.h>
#include <isl/schedule.h>
#include <isl/union_map.h>

#include <algorithm>
#include <sstream>

namespace tensmith::nest {
namespace {

/// isl's expressions and nodes, read once. `problem` is of what has no form here.
class AstReader {
public:
  AstReader(LoopProgram &program, std::map<std::string, Extent> vectors)
      : program_(program), vectors_(std::move(vectors)) {}

  std::string problem;

  Step step(const isl::ast_node &node, std::string loop, Execution execution) {
    switch (isl_ast_node_get_type(node.get())) {
    case isl_ast_node_for:
      return forStep(node, loop, execution);
    case isl_ast_node_if: {
      Step result{Step::Kind::If};
      result.condition = condition(isl::manage(isl_ast_node_if_get_cond(node.get())));
      result.body.push_back(
          step(isl::manage(isl_ast_node_if_get_then_node(node.get())), loop, execution));
      if (isl_ast_node_if_has_else_node(node.get()))
        result.otherwise.push_back(
            step(isl::manage(isl_ast_node_if_get_else_node(node.get())), loop, execution));
      return result;
    }
    case isl_ast_node_block: {
      Step result;
      isl::ast_node_list children = isl::manage(isl_ast_node_block_get_children(node.get()));
      for (int at = 0; at < isl_ast_node_list_n_ast_node(children.get()); ++at)
        result.body.push_back(
            step(isl::manage(isl_ast_node_list_get_ast_node(children.get(), at)), loop, execution));
      return result;
    }
    case isl_ast_node_mark: {
      isl::id id = isl::manage(isl_ast_node_mark_get_id(node.get()));
      std::istringstream words(isl_id_get_name(id.get()));
      std::string name, word;
      words >> name >> word;
      Execution own = executionOf(word);
      isl::ast_node marked = isl::manage(isl_ast_node_mark_get_node(node.get()));
      bool isGone = own == Execution::Parallel && !beginsWithLoop(marked);
      return isGone ? singleIteration(marked, name) : step(marked, name, own);
    }
    case isl_ast_node_user:
      return point(isl::manage(isl_ast_node_user_get_expr(node.get())));
    default:
      problem = "isl gave a node without a form";
      return {};
    }
  }

private:
  /// Whether there is a loop of the mark's own: isl leaves out one whose value is affine, and says
  /// of another single value that it is no loop.
  static bool beginsWithLoop(const isl::ast_node &node) {
    switch (isl_ast_node_get_type(node.get())) {
    case isl_ast_node_for:
      return !isl_ast_node_for_is_degenerate(node.get());
    case isl_ast_node_if:
      return beginsWithLoop(isl::manage(isl_ast_node_if_get_then_node(node.get())));
    case isl_ast_node_block: {
      isl::ast_node_list children = isl::manage(isl_ast_node_block_get_children(node.get()));
      return beginsWithLoop(isl::manage(isl_ast_node_list_get_ast_node(children.get(), 0)));
    }
    default:
      return false;
    }
  }

  /// A parallel loop has memory of its own, and so it stays for a single iteration.
  Step singleIteration(const isl::ast_node &body, const std::string &loop) {
    Step result{Step::Kind::For};
    result.loop = loop;
    result.execution = Execution::Parallel;
    result.variable = program_.fresh();
    result.lower = result.upper = {Affine()};
    result.step = 1;
    result.body.push_back(step(body, "", Execution::Serial));
    return result;
  }

  static isl::ast_expr operand(const isl::ast_expr &e, int number) {
    return isl::manage(isl_ast_expr_get_op_arg(e.get(), number));
  }
  static std::string identifier(const isl::ast_expr &e) {
    isl::id id = isl::manage(isl_ast_expr_get_id(e.get()));
    return isl_id_get_name(id.get());
  }
  static isl_ast_expr_op_type operation(const isl::ast_expr &e) {
    return isl_ast_expr_get_type(e.get()) == isl_ast_expr_op ? isl_ast_expr_op_get_type(e.get())
                                                             : isl_ast_expr_op_error;
  }
  static int operandCount(const isl::ast_expr &e) {
    return int(isl_ast_expr_op_get_n_arg(e.get()));
  }

  Affine define(Definition definition) {
    std::string name = program_.fresh();
    program_.definitions[name] = std::move(definition);
    return Affine(name);
  }

  std::optional<int64_t> constant(const isl::ast_expr &e) {
    if (isl_ast_expr_get_type(e.get()) != isl_ast_expr_int)
      return std::nullopt;
    isl::val value = isl::manage(isl_ast_expr_get_val(e.get()));
    return isl_val_get_num_si(value.get());
  }

  Affine affine(const isl::ast_expr &e) {
    if (auto known = constant(e))
      return *known;
    if (isl_ast_expr_get_type(e.get()) == isl_ast_expr_id) {
      std::string name = identifier(e);
      auto found = loops_.find(name);
      return found == loops_.end() ? Affine(name) : found->second;
    }
    using Kind = Definition::Kind;
    switch (operation(e)) {
    case isl_ast_expr_op_add:
      return affine(operand(e, 0)) + affine(operand(e, 1));
    case isl_ast_expr_op_sub:
      return affine(operand(e, 0)) - affine(operand(e, 1));
    case isl_ast_expr_op_minus:
      return (-1) * affine(operand(e, 0));
    case isl_ast_expr_op_mul: {
      Affine a = affine(operand(e, 0)), b = affine(operand(e, 1));
      if (a.isConstant())
        return a.constant * b;
      if (b.isConstant())
        return b.constant * a;
      problem = "isl gave a product of variables";
      return {};
    }
    case isl_ast_expr_op_div: // exact
    case isl_ast_expr_op_pdiv_q:
    case isl_ast_expr_op_fdiv_q:
      return quotient(e, Kind::FloorQuotient);
    case isl_ast_expr_op_pdiv_r:
    case isl_ast_expr_op_zdiv_r:
      return quotient(e, Kind::Remainder);
    case isl_ast_expr_op_min:
      return define({Kind::Minimum, affines(e, isl_ast_expr_op_min)});
    case isl_ast_expr_op_max:
      return define({Kind::Maximum, affines(e, isl_ast_expr_op_max)});
    case isl_ast_expr_op_cond:
    case isl_ast_expr_op_select:
      return define({Kind::Select,
                     {affine(operand(e, 1)), affine(operand(e, 2))},
                     1,
                     std::make_shared<Condition>(condition(operand(e, 0)))});
    default:
      problem = "isl gave an expression without a form";
      return {};
    }
  }

  Affine quotient(const isl::ast_expr &e, Definition::Kind kind) {
    auto divisor = constant(operand(e, 1));
    if (!divisor || *divisor < 1) {
      problem = "isl gave a division by a variable";
      return {};
    }
    return define({kind, {affine(operand(e, 0))}, *divisor});
  }

  /// Operands of nested minima or maxima.
  std::vector<Affine> affines(const isl::ast_expr &e, isl_ast_expr_op_type kind) {
    if (operation(e) != kind)
      return {affine(e)};
    std::vector<Affine> result;
    for (int number = 0; number < operandCount(e); ++number)
      for (Affine &each : affines(operand(e, number), kind))
        result.push_back(std::move(each));
    return result;
  }

  Condition comparison(Affine a, const Affine &b, int64_t minus) {
    return {Condition::Kind::NotNegative, std::move(a) - b - minus};
  }

  Condition condition(const isl::ast_expr &e) {
    auto side = [&](int number) { return affine(operand(e, number)); };
    using Kind = Condition::Kind;
    switch (operation(e)) {
    case isl_ast_expr_op_and:
    case isl_ast_expr_op_and_then:
    case isl_ast_expr_op_or:
    case isl_ast_expr_op_or_else: {
      bool isAnd = operation(e) == isl_ast_expr_op_and || operation(e) == isl_ast_expr_op_and_then;
      Condition result{isAnd ? Kind::And : Kind::Or};
      for (int number = 0; number < operandCount(e); ++number)
        result.parts.push_back(condition(operand(e, number)));
      return result;
    }
    case isl_ast_expr_op_eq:
      return {Kind::Zero, side(0) - side(1)};
    case isl_ast_expr_op_ge:
      return comparison(side(0), side(1), 0);
    case isl_ast_expr_op_gt:
      return comparison(side(0), side(1), 1);
    case isl_ast_expr_op_le:
      return comparison(side(1), side(0), 0);
    case isl_ast_expr_op_lt:
      return comparison(side(1), side(0), 1);
    default:
      if (auto known = constant(e)) // no parts: always, or never
        return {*known ? Kind::And : Kind::Or};
      problem = "isl gave a condition without a form";
      return {Kind::And};
    }
  }

  Step forStep(const isl::ast_node &node, const std::string &loop, Execution execution) {
    Step result{Step::Kind::For};
    result.loop = loop;
    result.execution = execution;
    result.variable = program_.fresh();
    std::string name = identifier(isl::manage(isl_ast_node_for_get_iterator(node.get())));
    isl::ast_expr init = isl::manage(isl_ast_node_for_get_init(node.get()));
    isl::ast_node body = isl::manage(isl_ast_node_for_get_body(node.get()));
    if (isl_ast_node_for_is_degenerate(node.get())) {
      loops_[name] = affine(init);
      return step(body, "", Execution::Serial);
    }
    isl::ast_expr end = isl::manage(isl_ast_node_for_get_cond(node.get()));
    bool isStrict = operation(end) == isl_ast_expr_op_lt;
    result.lower = affines(init, isl_ast_expr_op_max);
    result.upper = affines(operand(end, 1), isl_ast_expr_op_min);
    for (Affine &each : result.upper)
      each = each - (isStrict ? 1 : 0);
    result.step = constant(isl::manage(isl_ast_node_for_get_inc(node.get()))).value_or(0);
    if (result.step < 1)
      problem = "isl gave a loop without a step";
    loops_[name] = Affine(result.variable);
    if (execution == Execution::Vector || execution == Execution::Tensorized)
      setLanes(result);
    result.body.push_back(step(body, "", Execution::Serial));
    return result;
  }

  /// Bounds that no lane is beyond are left out.
  void setLanes(Step &loop) {
    auto extent = vectors_.find(loop.loop);
    constexpr int64_t kMostLanes = 64;
    bool isKnown = extent != vectors_.end() && extent->second.points().value_or(0) > 0 &&
                   *extent->second.points() <= kMostLanes;
    if (!isKnown || loop.step != 1) {
      loop.execution = Execution::Serial;
      return;
    }
    int64_t least = *extent->second.least, most = *extent->second.most;
    loop.lanes = {loop.variable, most - least + 1, least, loop.lower, loop.upper};
    std::erase_if(loop.lanes.lower,
                  [&](const Affine &each) { return each.isConstant() && each.constant <= least; });
    std::erase_if(loop.lanes.upper,
                  [&](const Affine &each) { return each.isConstant() && each.constant >= most; });
  }

  Step point(const isl::ast_expr &call) {
    Step result{Step::Kind::Point};
    result.statement = identifier(operand(call, 0));
    for (int number = 1; number < operandCount(call); ++number)
      result.arguments.push_back(affine(operand(call, number)));
    return result;
  }

  LoopProgram &program_;
  std::map<std::string, Extent> vectors_; // by the loop's name
  std::map<std::string, Affine> loops_;
};

} // namespace

std::string makeLoops(LoopProgram &into, const Node &tree, const Relations &relations) {
  isl::schedule schedule = toIsl(tree, relations);
  isl_ast_build *build = isl_ast_build_from_context(isl_set_copy(relations.parameters().get()));
  isl_ast_node *node = isl_ast_build_node_from_schedule(build, schedule.copy());
  isl_ast_build_free(build);
  isl::ast_node root = isl::manage(node);
  std::map<std::string, Extent> vectors;
  tree.visit([&](const Node &each) {
    if (each.execution == Execution::Vector || each.execution == Execution::Tensorized)
      vectors[each.name] = extentOf(each, relations);
  });
  AstReader reader(into, std::move(vectors));
  into.root = reader.step(root, "", Execution::Serial);
  return reader.problem;
}

void finishLoops(LoopProgram &program) {
  unrollLoops(program);
  uniteLanes(program);
  tellWholeTiles(program);
}

Result<LoopProgram> generateLoops(ScheduleState &state) {
  LoopProgram result;
  Status status = guarded(state, "nest '" + state.nest.name + "'", [&]() -> Status {
    std::string problem = makeLoops(result, state.tree, *state.relations);
    return problem.empty() ? Status() : Status(StatusCode::Internal, problem);
  });
  if (!status.ok())
    return status;
  finishLoops(result);
  return result;
}

//===-- Substitution -------------------------------------------------------------------------===//

static bool involves(const LoopProgram &program, const Condition &condition,
                     const std::string &variable) {
  return involves(program, condition.value, variable) ||
         std::any_of(condition.parts.begin(), condition.parts.end(),
                     [&](const Condition &part) { return involves(program, part, variable); });
}

bool involves(const LoopProgram &program, const Affine &value, const std::string &variable) {
  if (value.coefficient(variable))
    return true;
  return std::any_of(value.terms.begin(), value.terms.end(), [&](const auto &term) {
    auto found = program.definitions.find(term.first);
    if (found == program.definitions.end())
      return false;
    const Definition &definition = found->second;
    return (definition.condition && involves(program, *definition.condition, variable)) ||
           std::any_of(definition.operands.begin(), definition.operands.end(),
                       [&](const Affine &each) { return involves(program, each, variable); });
  });
}

static Condition substituted(LoopProgram &program, Condition condition, const std::string &variable,
                             const Affine &by) {
  condition.value = substituted(program, condition.value, variable, by);
  for (Condition &part : condition.parts)
    part = substituted(program, part, variable, by);
  return condition;
}

static std::optional<int64_t> known(const Definition &definition) {
  for (const Affine &each : definition.operands)
    if (!each.isConstant())
      return std::nullopt;
  if (definition.kind == Definition::Kind::Select)
    return std::nullopt;
  int64_t value = definition.operands[0].constant, by = definition.divisor;
  int64_t quotient = value >= 0 ? value / by : -((-value + by - 1) / by);
  if (definition.kind == Definition::Kind::FloorQuotient)
    return quotient;
  if (definition.kind == Definition::Kind::Remainder)
    return value - quotient * by;
  for (const Affine &each : definition.operands)
    value = definition.kind == Definition::Kind::Minimum ? std::min(value, each.constant)
                                                         : std::max(value, each.constant);
  return value;
}

Affine substituted(LoopProgram &program, const Affine &value, const std::string &variable,
                   const Affine &by) {
  Affine result = value.constant;
  for (const auto &[name, factor] : value.terms) {
    if (name == variable) {
      result = result + factor * by;
      continue;
    }
    auto found = program.definitions.find(name);
    if (found == program.definitions.end() || !involves(program, Affine(name), variable)) {
      result = result + factor * Affine(name);
      continue;
    }
    Definition definition = found->second;
    for (Affine &operand : definition.operands)
      operand = substituted(program, operand, variable, by);
    if (definition.condition)
      definition.condition =
          std::make_shared<Condition>(substituted(program, *definition.condition, variable, by));
    if (auto constant = known(definition)) {
      result = result + factor * *constant;
      continue;
    }
    std::string own = program.fresh();
    program.definitions[own] = std::move(definition);
    result = result + factor * Affine(own);
  }
  return result;
}

void substitute(LoopProgram &program, Step &step, const std::string &variable, const Affine &by) {
  for (std::vector<Affine> *list :
       {&step.lower, &step.upper, &step.arguments, &step.lanes.lower, &step.lanes.upper})
    for (Affine &each : *list)
      each = substituted(program, each, variable, by);
  step.condition = substituted(program, step.condition, variable, by);
  for (std::vector<Step> *list : {&step.body, &step.otherwise})
    for (Step &each : *list)
      substitute(program, each, variable, by);
}

//===-- Unrolling ----------------------------------------------------------------------------===//

/// Bounds that are constants; of several the tightest. Others may cut iterations off, but of the
/// first one it is known which it is.
static std::optional<std::pair<int64_t, int64_t>> knownBounds(const Step &loop) {
  std::optional<int64_t> lower, upper;
  for (const Affine &each : loop.lower)
    if (each.isConstant())
      lower = std::max(lower.value_or(each.constant), each.constant);
    else if (loop.step != 1)
      return std::nullopt;
  for (const Affine &each : loop.upper)
    if (each.isConstant())
      upper = std::min(upper.value_or(each.constant), each.constant);
  if (!lower || !upper)
    return std::nullopt;
  return std::pair(*lower, *upper);
}

void renameLoops(LoopProgram &program, Step &step) {
  if (step.kind == Step::Kind::For) {
    std::string old = step.variable;
    step.variable = program.fresh();
    if (!step.lanes.variable.empty())
      step.lanes.variable = step.variable;
    for (Step &each : step.body)
      substitute(program, each, old, Affine(step.variable));
  }
  for (std::vector<Step> *list : {&step.body, &step.otherwise})
    for (Step &each : *list)
      renameLoops(program, each);
}

static int64_t pointsIn(const Step &step) {
  int64_t result = step.kind == Step::Kind::Point;
  if (step.kind == Step::Kind::For && step.execution == Execution::Tensorized)
    return 1;
  for (const std::vector<Step> *list : {&step.body, &step.otherwise})
    for (const Step &each : *list)
      result += pointsIn(each);
  return result;
}

/// Points that unrolling may make of a loop: more are slower, in the cache of instructions and in
/// compilation.
constexpr int64_t kMostUnrolled = 256;

static void unrollLoops(LoopProgram &program, Step &step) {
  for (std::vector<Step> *list : {&step.body, &step.otherwise})
    for (Step &each : *list)
      unrollLoops(program, each);
  if (step.kind != Step::Kind::For || step.execution != Execution::Unrolled)
    return;
  auto bounds = knownBounds(step);
  if (!bounds || (bounds->second - bounds->first + 1) * pointsIn(step) > kMostUnrolled)
    return;
  Step block;
  for (int64_t value = bounds->first; value <= bounds->second; value += step.step) {
    Step one{Step::Kind::If};
    one.condition = {Condition::Kind::And};
    auto require = [&](const Affine &distance) {
      if (!distance.isConstant())
        one.condition.parts.push_back({Condition::Kind::NotNegative, distance});
    };
    for (const Affine &each : step.lower)
      if (!each.isConstant())
        require(value - each);
    for (const Affine &each : step.upper)
      if (!each.isConstant())
        require(each - value);
    if (one.condition.parts.empty())
      one.kind = Step::Kind::Block;
    one.body = step.body;
    for (Step &each : one.body) {
      renameLoops(program, each);
      substitute(program, each, step.variable, value);
    }
    block.body.push_back(std::move(one));
  }
  step = std::move(block);
}

void unrollLoops(LoopProgram &program) { unrollLoops(program, program.root); }

//===-- Lanes --------------------------------------------------------------------------------===//

/// Whether what is done depends on the lane, and not only where.
static bool parts(const LoopProgram &program, const Step &step, const std::string &variable) {
  auto any = [&](const std::vector<Affine> &all) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Affine &each) { return involves(program, each, variable); });
  };
  if (any(step.lower) || any(step.upper) || involves(program, step.condition, variable))
    return true;
  for (const std::vector<Step> *list : {&step.body, &step.otherwise})
    for (const Step &each : *list)
      if (parts(program, each, variable))
        return true;
  return false;
}

/// Takes the conditions into the loop's bounds; those that are not of the variable are returned.
static std::optional<Condition> takeIntoBounds(LoopProgram &program, Step &loop,
                                               const Condition &condition) {
  using Kind = Condition::Kind;
  Condition others{Kind::And};
  if (condition.kind == Kind::And) {
    for (const Condition &part : condition.parts) {
      auto rest = takeIntoBounds(program, loop, part);
      if (!rest)
        return std::nullopt;
      others.parts.insert(others.parts.end(), rest->parts.begin(), rest->parts.end());
    }
    return others;
  }
  if (!involves(program, condition, loop.variable)) {
    others.parts.push_back(condition);
    return others;
  }
  Affine rest = condition.value;
  int64_t factor = rest.coefficient(loop.variable);
  rest.terms.erase(loop.variable);
  bool isBound = condition.kind == Kind::NotNegative && (factor == 1 || factor == -1) &&
                 !involves(program, rest, loop.variable);
  if (!isBound)
    return std::nullopt;
  Affine bound = factor == 1 ? (-1) * rest : rest;
  (factor == 1 ? loop.lower : loop.upper).push_back(bound);
  (factor == 1 ? loop.lanes.lower : loop.lanes.upper).push_back(bound);
  return others;
}

static void uniteLanes(LoopProgram &program, Step &step) {
  bool isVector = step.kind == Step::Kind::For && step.execution == Execution::Vector;
  while (isVector && step.body.size() == 1) {
    Step only = step.body[0];
    if (only.kind == Step::Kind::Block) {
      step.body = only.body;
      continue;
    }
    if (only.kind != Step::Kind::If || !only.otherwise.empty() ||
        !involves(program, only.condition, step.variable))
      break;
    Step loop = step;
    auto rest = takeIntoBounds(program, loop, only.condition);
    if (!rest)
      break;
    step = std::move(loop);
    step.body = std::move(only.body);
    if (!rest->parts.empty()) {
      Step around{Step::Kind::If};
      around.condition = *rest;
      around.body.push_back(std::move(step));
      step = std::move(around);
      return uniteLanes(program, step);
    }
  }
  if (isVector)
    for (const Step &each : step.body)
      if (parts(program, each, step.variable))
        step.execution = Execution::Serial;
  for (std::vector<Step> *list : {&step.body, &step.otherwise})
    for (Step &each : *list)
      uniteLanes(program, each);
}

void uniteLanes(LoopProgram &program) { uniteLanes(program, program.root); }

//===-- Text ---------------------------------------------------------------------------------===//

static std::string text(const Condition &condition) {
  using Kind = Condition::Kind;
  if (condition.kind == Kind::NotNegative || condition.kind == Kind::Zero)
    return text(condition.value) + (condition.kind == Kind::Zero ? " = 0" : " >= 0");
  std::string result;
  for (const Condition &part : condition.parts)
    result += (result.empty() ? "" : condition.kind == Kind::And ? " and " : " or ") + text(part);
  return result.empty() ? (condition.kind == Kind::And ? "true" : "false") : "(" + result + ")";
}

static std::string listed(const std::vector<Affine> &all) {
  std::string result;
  for (const Affine &each : all)
    result += (result.empty() ? "" : ", ") + text(each);
  return "(" + result + ")";
}

/// The extreme of several bounds, or the one that there is.
static std::string bound(const std::vector<Affine> &all, const std::string &extreme) {
  return all.size() == 1 ? text(all[0]) : extreme + listed(all);
}

static void textOf(const Step &step, size_t depth, std::string &into) {
  std::string indent(2 * depth, ' ');
  static const char *const kWords[] = {"", "parallel ", "vector ", "unrolled ", "tensorized "};
  size_t within = depth + (step.kind == Step::Kind::Block ? 0 : 1);
  if (step.kind == Step::Kind::For)
    into +=
        indent + kWords[size_t(step.execution)] + "for " + step.loop + " " + step.variable + " = " +
        bound(step.lower, "max") + " .. " + bound(step.upper, "min") +
        (step.step == 1 ? "" : " step " + std::to_string(step.step)) +
        (step.accumulators.empty() ? ""
                                   : " accumulators " + std::to_string(step.accumulators.size())) +
        "\n";
  if (step.kind == Step::Kind::If)
    into += indent + "if " + text(step.condition) + "\n";
  if (step.kind == Step::Kind::Point)
    into += indent + step.statement + listed(step.arguments) + "\n";
  if (step.kind == Step::Kind::Tile)
    into +=
        indent + step.tile->intrinsic->name + " " + step.statement + listed(step.arguments) + "\n";
  for (const Step &each : step.body)
    textOf(each, within, into);
  if (!step.otherwise.empty())
    into += indent + "else\n";
  for (const Step &each : step.otherwise)
    textOf(each, within, into);
}

std::string text(const LoopProgram &program) {
  std::string result;
  textOf(program.root, 0, result);
  static const char *const kWords[] = {"floor", "mod", "min", "max", "select"};
  for (const auto &[name, definition] : program.definitions)
    result += name + " = " + kWords[size_t(definition.kind)] + listed(definition.operands) +
              (definition.divisor == 1 ? "" : " by " + std::to_string(definition.divisor)) + "\n";
  return result;
}

} // namespace tensmith::nest
