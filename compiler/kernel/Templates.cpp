// Templates of machines with vectors, in order of preference, and what is asked of a table; see
// Template.h.
#include "compiler/kernel/AttentionGradient.h"
#include "compiler/kernel/ChainKernel.h"
#include "compiler/kernel/ConcatKernel.h"
#include "compiler/kernel/ContractionKernel.h"
#include "compiler/kernel/DepthwiseKernel.h"
#include "compiler/kernel/FourierKernel.h"
#include "compiler/kernel/Kernel.h"
#include "compiler/kernel/LoopKernel.h"
#include "compiler/kernel/PackKernel.h"
#include "compiler/kernel/PatchKernel.h"
#include "compiler/kernel/RecurrenceKernel.h"
#include "compiler/kernel/RowKernel.h"
#include "compiler/kernel/ScatterKernel.h"
#include "compiler/kernel/Template.h"
#include "compiler/kernel/TransposeKernel.h"
#include "compiler/kernel/TreeKernel.h"
#include "compiler/kernel/WinogradKernel.h"

using namespace mlir;

namespace tensmith::kernel {

Table<Template> &vectorTemplates() {
  static Table<Template> all("template",
                             {&kAttentionGradient, &kChain, &kContraction, &kDepthwise, &kRows,
                              &kConcat, &kWinograd, &kRecurrence, &kTrees, &kScatter, &kFourier,
                              &kPack, &kTransposition, &kPatches, &kLoops},
                             kLoops.name);
  return all;
}

const Template *templateBefore(Operation *op, const Machine &machine) {
  for (const Template *one : machine.templates->rows())
    if (one->mayBeRoot && one->mayBeRoot(op))
      return one;
  return nullptr;
}

const Template *templateOf(Operation *op, const Machine &machine) {
  for (const Template *one : machine.templates->rows())
    if (one->isRoot && one->isRoot(op))
      return one;
  return nullptr;
}

static bool takes(const Template &one, graph::KernelOp kernel, const Machine &machine) {
  Operation *main = scheduledOperator(kernel, machine);
  return one.takes ? one.takes(kernel, main, machine) : one.isRoot(main);
}

void matchTemplate(graph::KernelOp kernel, const Machine &machine) {
  const Template &one = **llvm::find_if(machine.templates->rows(), [&](const Template *each) {
    return takes(*each, kernel, machine);
  });
  kernel.setKind(one.name);
  graph::setStoring(kernel, one.storing);
}

const Template *matchedTemplate(graph::KernelOp kernel, const Machine &machine) {
  const Template *noted = machine.templates->find(kernel.getKind());
  return noted && takes(*noted, kernel, machine) ? noted : nullptr;
}

} // namespace tensmith::kernel
