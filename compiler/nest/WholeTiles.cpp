// Whole tiles apart from those that are cut off.
//
// Problem: the conditions and masks of a tile that may be cut off cost time in its innermost loops,
// and nearly all tiles are whole.
// Method: around the outermost loop that none of the conditions within depends on (or the innermost
// one there is, for those that don't), a branch asks for all of them at once. Where they hold the
// code is without them. isl could tell whole tiles apart too, but writes places of the others in
// ways by which they can't be told to be the same.
#include "compiler/nest/LoopProgram.h"

#include <algorithm>
#include <set>

namespace tensmith::nest {
namespace {

/// Of values that must not be negative: by their terms the least constant.
using Values = std::map<std::map<std::string, int64_t>, int64_t>;

/// Values that must not be negative for all lanes to be done.
Affine distance(const Lanes &lanes, const Affine &bound, bool isUpper) {
  int64_t last = lanes.least + lanes.count - 1;
  return isUpper ? bound - last : lanes.least - bound;
}

/// Whether the loop is a vector's or of an instruction's tile, which must be whole.
bool isOfLanes(const Step &step) {
  return step.kind == Step::Kind::For &&
         (step.execution == Execution::Vector || step.execution == Execution::Tensorized);
}

struct Collector {
  const LoopProgram &program;
  std::set<std::string> variables; // of the loop and those within
  Values values = {};
  std::vector<Affine> changing = {}; // that must not be negative either, and change in the loop
  bool hasChanging = false, hasLoop = false, hasTile = false;

  void require(const Affine &value) {
    bool changes = std::any_of(variables.begin(), variables.end(), [&](const std::string &each) {
      return involves(program, value, each);
    });
    hasChanging |= changes;
    if (changes)
      changing.push_back(value);
    if (changes || value.isConstant())
      return;
    auto [place, isNew] = values.try_emplace(value.terms, value.constant);
    if (!isNew)
      place->second = std::min(place->second, value.constant);
  }
  void require(const Condition &condition) {
    if (condition.kind == Condition::Kind::NotNegative)
      require(condition.value);
    if (condition.kind == Condition::Kind::And)
      for (const Condition &part : condition.parts)
        require(part);
  }
  void lanes(const Step &loop) {
    for (const Affine &each : loop.lanes.lower)
      require(distance(loop.lanes, each, false));
    for (const Affine &each : loop.lanes.upper)
      require(distance(loop.lanes, each, true));
  }
  void collect(const Step &step) {
    hasTile |= step.kind == Step::Kind::For && step.execution == Execution::Tensorized;
    if (isOfLanes(step))
      lanes(step);
    else if (step.kind == Step::Kind::For)
      hasLoop = true;
    if (step.kind == Step::Kind::For && step.execution != Execution::Vector)
      variables.insert(step.variable);
    if (step.kind == Step::Kind::If && step.otherwise.empty())
      require(step.condition);
    for (const std::vector<Step> *list : {&step.body, &step.otherwise})
      for (const Step &each : *list)
        collect(each);
  }
};

bool holds(const Values &values, const Affine &value) {
  auto found = values.find(value.terms);
  return found != values.end() && found->second <= value.constant;
}

/// The step where all the values are known not to be negative.
void simplify(Step &step, const Values &values) {
  for (std::vector<Step> *list : {&step.body, &step.otherwise})
    for (Step &each : *list)
      simplify(each, values);
  if (isOfLanes(step)) {
    const Lanes lanes = step.lanes;
    for (bool isUpper : {false, true}) {
      auto isKnown = [&](const Affine &bound) {
        return holds(values, distance(lanes, bound, isUpper));
      };
      std::erase_if(isUpper ? step.lanes.upper : step.lanes.lower, isKnown);
      std::vector<Affine> &bounds = isUpper ? step.upper : step.lower;
      std::erase_if(bounds, isKnown);
      if (bounds.empty()) // a loop has bounds: of one whole tile its own
        bounds.push_back(Affine(isUpper ? lanes.least + lanes.count - 1 : lanes.least));
    }
  }
  bool isAnd = step.kind == Step::Kind::If && step.otherwise.empty() &&
               step.condition.kind == Condition::Kind::And;
  if (!isAnd)
    return;
  std::erase_if(step.condition.parts, [&](const Condition &part) {
    return part.kind == Condition::Kind::NotNegative && holds(values, part.value);
  });
  if (step.condition.parts.empty())
    step.kind = Step::Kind::Block;
}

/// Of conditions that hold up to some iteration the last such, over what doesn't change in the
/// loop.
std::optional<std::vector<Affine>> lastWhole(LoopProgram &program, const Step &loop,
                                             const Collector &inside) {
  std::vector<Affine> result;
  for (const Affine &value : inside.changing) {
    Affine rest = value;
    int64_t factor = -rest.coefficient(loop.variable);
    rest.terms.erase(loop.variable);
    bool changes = std::any_of(inside.variables.begin(), inside.variables.end(),
                               [&](const auto &each) { return involves(program, rest, each); });
    if (factor < 1 || changes)
      return std::nullopt;
    std::string last = program.fresh();
    program.definitions[last] = {Definition::Kind::FloorQuotient, {rest}, factor};
    result.push_back(Affine(last));
  }
  return result;
}

/// The loop up to its last whole tile, and the rest of it: sums of whole tiles stay in registers.
/// False where conditions don't say which is the last.
bool splitOffRest(LoopProgram &program, Step &loop, const Collector &inside) {
  auto last = loop.step == 1 ? lastWhole(program, loop, inside) : std::nullopt;
  if (!last)
    return false;
  Affine end = (*last)[0]; // of all
  if (last->size() > 1) {
    end = Affine(program.fresh());
    program.definitions[end.terms.begin()->first] = {Definition::Kind::Minimum, *last};
  }
  Values values;
  for (const Affine &each : inside.changing)
    values[each.terms] =
        std::min(each.constant, values.try_emplace(each.terms, each.constant).first->second);
  Step both, rest = loop;
  renameLoops(program, rest);
  rest.lower.push_back(end + 1);
  loop.upper.push_back(end);
  for (Step &each : loop.body)
    simplify(each, values);
  both.body = {std::move(loop), std::move(rest)};
  loop = std::move(both);
  return true;
}

void tell(LoopProgram &program, Step &step);

void tellWithin(LoopProgram &program, Step &step) {
  for (std::vector<Step> *list : {&step.body, &step.otherwise})
    for (Step &each : *list)
      tell(program, each);
}

void tell(LoopProgram &program, Step &step) {
  bool isCandidate = step.kind == Step::Kind::For && step.execution != Execution::Parallel;
  Collector inside{program, {step.variable}};
  if (isCandidate) {
    if (isOfLanes(step))
      inside.lanes(step);
    for (const Step &each : step.body)
      inside.collect(each);
  }
  // An instruction's tile has to be whole along each of its loops.
  bool splits =
      isCandidate && inside.hasTile && inside.hasChanging && !inside.hasLoop && !isOfLanes(step);
  if (splits && inside.values.empty() && splitOffRest(program, step, inside))
    return;
  bool isPlace = isCandidate && !inside.values.empty() && !(inside.hasChanging && inside.hasLoop);
  if (!isPlace)
    return tellWithin(program, step);
  Step branch{Step::Kind::If};
  branch.condition = {Condition::Kind::And};
  for (const auto &[terms, constant] : inside.values) {
    Affine value(constant);
    value.terms = terms;
    branch.condition.parts.push_back({Condition::Kind::NotNegative, value});
  }
  branch.body.push_back(step);
  simplify(branch.body[0], inside.values);
  branch.otherwise.push_back(std::move(step));
  if (splits && !splitOffRest(program, branch.body[0], inside))
    tellWithin(program, branch.body[0]);
  step = std::move(branch);
}

} // namespace

void tellWholeTiles(LoopProgram &program) { tell(program, program.root); }

} // namespace tensmith::nest
