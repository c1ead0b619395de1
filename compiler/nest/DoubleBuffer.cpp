// `double_buffer`: a copy is filled for the next iteration while this one reads it.
//
// Problem: an iteration begins with the copy of what it reads, and all its operations wait for
// that. Method: the statements that write the tensor run one iteration of its loop ahead, the first
// time before the loop. The tensor has two halves, of which instances take turns
// (`Tensor::layout`). Invariant: instances that share a half don't mingle (Instances.h); what else
// the earlier place would break is told by dependences, as of any other order.
#include "compiler/nest/Instances.h"
#include "compiler/nest/Layout.h"
#include "compiler/nest/ScheduleState.h"

#include <algorithm>

namespace tensmith::nest {
namespace {

using Part = LayoutDimension::Part;

void addHalves(Tensor &tensor) {
  tensor.layout = layoutOf(tensor);
  tensor.layout.insert(tensor.layout.begin(), {tensor.instances - 1, Part::Remainder, 2});
}

std::string runAhead(Nest &nest, Node &tree, const ScheduleState &state, const std::string &name) {
  const Tensor *tensor = nest.tensor(name);
  if (!tensor)
    return "there is no tensor '" + name + "'";
  if (tensor->hasTwoHalves())
    return "'" + name + "' has two halves already";
  std::string loopName = innermostInstanceLoop(*tensor, tree, *state.relations);
  if (loopName.empty())
    return "'" + name + "' is no copy that each iteration of a loop fills";
  Node &loop = *loopsTo(tree, loopName).back();
  if (loop.execution != Execution::Serial)
    return "the iterations of loop '" + loopName + "', of which each fills '" + name +
           "', do not run one after the other";
  for (auto &[statement, value] : loop.values)
    if (nest.statement(statement)->tensor == name)
      value = value.add_constant(-1);
  addHalves(*std::find_if(nest.tensors.begin(), nest.tensors.end(),
                          [&](const Tensor &each) { return each.name == name; }));
  return memoryProblem(nest, state.memories);
}

} // namespace

Status Schedule::doubleBuffer(const std::string &tensor) {
  std::string primitive = "double_buffer " + tensor;
  return guarded(*state_, primitive, [&]() -> Status {
    Nest nest = state_->nest;
    Node tree = state_->tree;
    std::string problem = runAhead(nest, tree, *state_, tensor);
    if (problem.empty())
      problem = illegality(*state_, nest, tree);
    if (!problem.empty())
      return invalidArgument(primitive + ": " + problem);
    state_->nest = std::move(nest);
    state_->tree = std::move(tree);
    return {};
  });
}

} // namespace tensmith::nest
