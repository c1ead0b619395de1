// Attributes of arguments to the plan's table, and first values to the weights; see States.h.
#include "compiler/vm/States.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Failing.h"
#include "compiler/graph/States.h"
#include "compiler/vm/InPlace.h"

using namespace mlir;

namespace tensmith::vm {

/// Whether a check comes behind what computes the result, which no state is written over before.
static bool isCheckedAfter(const plan::FunctionT &main, uint32_t result) {
  bool isComputed = false;
  for (const auto &instruction : main.instructions) {
    isComputed |= llvm::is_contained(instruction->results, main.results[result]);
    if (isComputed && instruction->opcode == plan::Opcode::Check)
      return true;
  }
  return false;
}

/// Whether the run may end where the result is computed, or behind it.
static bool mayFailFrom(Value result) {
  for (Operation *op = result.getDefiningOp(); op; op = op->getNextNode())
    if (graph::mayFail(op))
      return true;
  return false;
}

Status addStates(func::FuncOp main, ModuleTables &tables) {
  for (BlockArgument argument : main.getArguments()) {
    unsigned number = argument.getArgNumber();
    Value next = graph::nextValue(main, argument);
    auto kind = main.getArgAttrOfType<IntegerAttr>(number, graph::kStateKind);
    if (!next && !kind)
      continue;
    auto state = std::make_unique<plan::StateT>();
    auto name = main.getArgAttrOfType<StringAttr>(number, "graph.name");
    state->name = name ? name.str() : "state" + std::to_string(number);
    state->kind = plan::StateKind(kind ? kind.getInt() : 0);
    state->input = number;
    constexpr uint32_t kReadAlone = UINT32_MAX;
    state->output =
        next ? uint32_t(main.getArgAttrOfType<IntegerAttr>(number, graph::kState).getInt())
             : kReadAlone;
    if (auto initial = main.getArgAttrOfType<ElementsAttr>(number, graph::kInitial)) {
      auto tensor = graph::hostTensor(initial);
      if (!tensor.ok())
        return tensor.status();
      state->initial = uint64_t(tables.addConstant(*tensor));
    }
    state->in_place = next && isUpdateInPlace(argument, next) &&
                      !isCheckedAfter(*tables.module.functions[0], state->output) &&
                      !(main.getArgAttr(number, graph::kOnSuccess) && mayFailFrom(next));
    tables.module.states.push_back(std::move(state));
  }
  return {};
}

} // namespace tensmith::vm
