// Constants that were read for training become states, found by the mark that the front end left;
// see Parameters.h.
#include "compiler/training/Parameters.h"

#include "compiler/graph/Gradient.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/States.h"
#include "compiler/training/FakeQuantization.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;

namespace tensmith::training {
namespace {

std::string nameOf(graph::ConstantOp constant) {
  auto name = constant->getAttrOfType<StringAttr>(graph::kInitialiser);
  return name ? name.str() : "";
}

SmallVector<graph::ConstantOp> initialisers(StepFunction &step) {
  SmallVector<graph::ConstantOp> result;
  for (auto constant : step.block().getOps<graph::ConstantOp>())
    if (!nameOf(constant).empty())
      result.push_back(constant);
  return result;
}

/// The values that a value is computed from.
llvm::DenseSet<Value> ancestorsOf(Value value) {
  llvm::DenseSet<Value> seen{value};
  SmallVector<Value> open{value};
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op)
      continue;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (seen.insert(operand).second)
          open.push_back(operand);
    });
  }
  return seen;
}

Result<BlockArgument> makeState(StepFunction &step, graph::ConstantOp constant) {
  auto state = step.addState(nameOf(constant), constant.getType(), StateKind::Parameter,
                             constant.getValue());
  if (!state.ok())
    return state;
  constant.getY().replaceAllUsesWith(*state);
  constant.erase();
  return state;
}

/// Which of the patterns mean the name; all names where there are none.
Result<std::vector<llvm::GlobPattern>> patternsOf(const std::vector<std::string> &texts) {
  std::vector<llvm::GlobPattern> patterns;
  for (const std::string &text : texts) {
    auto pattern = llvm::GlobPattern::create(text);
    if (!pattern)
      return invalidArgument("'" + text +
                             "' is no pattern of names: " + llvm::toString(pattern.takeError()));
    patterns.push_back(std::move(*pattern));
  }
  return patterns;
}

std::string namesOf(ArrayRef<graph::ConstantOp> constants) {
  constexpr size_t kMost = 20;
  std::string text;
  for (auto [i, constant] : llvm::enumerate(constants))
    if (i < kMost)
      text += (i ? ", " : "") + nameOf(constant);
  return text + (constants.size() > kMost ? ", ..." : "");
}

} // namespace

Result<std::vector<Parameter>> takeParameters(StepFunction &step, Value loss,
                                              const std::vector<std::string> &trainable) {
  auto patterns = patternsOf(trainable);
  if (!patterns.ok())
    return patterns.status();
  llvm::DenseSet<Value> used = ancestorsOf(loss);
  SmallVector<graph::ConstantOp> candidates;
  for (graph::ConstantOp constant : initialisers(step))
    if (graph::isDifferentiable(constant.getType()) && used.contains(constant.getY()))
      candidates.push_back(constant);
  std::vector<bool> meant(trainable.size());
  std::vector<Parameter> result;
  for (graph::ConstantOp constant : candidates) {
    std::string name = nameOf(constant);
    bool taken = trainable.empty() && cast<RankedTensorType>(constant.getType()).getRank() > 0 &&
                 !isScale(constant.getY());
    for (size_t i = 0; i < trainable.size(); ++i)
      if ((*patterns)[i].match(name))
        taken = meant[i] = true;
    if (!taken)
      continue;
    auto state = makeState(step, constant);
    if (!state.ok())
      return state.status();
    result.push_back({name, *state});
  }
  for (size_t i = 0; i < trainable.size(); ++i)
    if (!meant[i])
      return invalidArgument("'" + trainable[i] +
                             "' is to be trained, but is no initialiser of floats that the loss "
                             "depends on; those are " +
                             namesOf(candidates));
  if (result.empty())
    return invalidArgument("the loss depends on no initialiser that could be trained");
  return result;
}

Result<std::vector<Statistic>> takeStatistics(StepFunction &step) {
  std::vector<Statistic> result;
  llvm::StringMap<graph::ConstantOp> known;
  for (graph::ConstantOp constant : initialisers(step))
    known[nameOf(constant)] = constant;
  std::vector<StepFunction::Output> outputs = step.outputs();
  for (unsigned i = 0; i < outputs.size(); ++i) {
    auto name = step.function.getResultAttrOfType<StringAttr>(i, graph::kNextOf);
    auto found = name ? known.find(name.getValue()) : known.end();
    if (found == known.end())
      continue;
    if (found->second.getType() != outputs[i].value.getType())
      return invalidArgument("'" + name.str() + "' is no vector of one number for each channel");
    auto state = makeState(step, found->second);
    if (!state.ok())
      return state.status();
    result.push_back({name.str(), outputs[i].name, *state});
    known.erase(found);
  }
  return result;
}

} // namespace tensmith::training
