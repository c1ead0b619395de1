// The operators stand wherever the front end put them, in loops' bodies too; see RunKeys.h.
#include "compiler/training/RunKeys.h"

using namespace mlir;

namespace tensmith::training {

void replaceRunKeys(StepFunction &function, Value step, Value process, graph::GraphCode &code) {
  SmallVector<graph::RunKeyOp> all;
  function.function.walk([&](graph::RunKeyOp op) { all.push_back(op); });
  if (all.empty())
    return;
  constexpr double kMostSteps = 0x1p40;
  code.builder.setInsertionPointToStart(&function.block());
  Value key = process ? code.add(code.mul(process, kMostSteps), step) : step;
  for (graph::RunKeyOp op : all) {
    op.replaceAllUsesWith(key);
    op.erase();
  }
}

} // namespace tensmith::training
