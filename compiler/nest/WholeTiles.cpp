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

struct Collector {
  const LoopProgram &program;
  std::set<std::string> variables; // of the loop and those within
  Values values = {};
  bool hasChanging = false, hasLoop = false;

  void require(const Affine &value) {
    bool changes = std::any_of(variables.begin(), variables.end(), [&](const std::string &each) {
      return involves(program, value, each);
    });
    hasChanging |= changes;
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
    if (step.kind == Step::Kind::For && step.execution == Execution::Vector)
      lanes(step);
    else if (step.kind == Step::Kind::For)
      hasLoop |= variables.insert(step.variable).second;
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
  if (step.kind == Step::Kind::For && step.execution == Execution::Vector) {
    const Lanes lanes = step.lanes;
    for (bool isUpper : {false, true}) {
      auto isKnown = [&](const Affine &bound) {
        return holds(values, distance(lanes, bound, isUpper));
      };
      std::erase_if(isUpper ? step.lanes.upper : step.lanes.lower, isKnown);
      std::erase_if(isUpper ? step.upper : step.lower, isKnown);
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

void tell(const LoopProgram &program, Step &step) {
  bool isCandidate = step.kind == Step::Kind::For && step.execution != Execution::Parallel;
  Collector inside{program, {step.variable}};
  if (isCandidate) {
    if (step.execution == Execution::Vector)
      inside.lanes(step);
    for (const Step &each : step.body)
      inside.collect(each);
  }
  bool isPlace = isCandidate && !inside.values.empty() && !(inside.hasChanging && inside.hasLoop);
  if (!isPlace) {
    for (std::vector<Step> *list : {&step.body, &step.otherwise})
      for (Step &each : *list)
        tell(program, each);
    return;
  }
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
  step = std::move(branch);
}

} // namespace

void tellWholeTiles(LoopProgram &program) { tell(program, program.root); }

} // namespace tensmith::nest
