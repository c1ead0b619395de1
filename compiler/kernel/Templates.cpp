// What is asked of a machine's table of templates; see Template.h.
#include "compiler/kernel/Template.h"

#include "compiler/kernel/Kernel.h"
#include "compiler/kernel/LoopKernel.h"

using namespace mlir;

namespace tensmith::kernel {

const Table<Template> &loopTemplates() {
  static const Table<Template> all("template", {&kLoops});
  return all;
}

const Template *templateBefore(Operation *op, const Machine &machine) {
  for (const Template *one : machine.templates->rows())
    if (one->mayBeRoot && one->mayBeRoot(op))
      return one;
  return nullptr;
}

const Template *templateOfLoop(graph::LoopOp loop, const Machine &machine) {
  for (const Template *one : machine.templates->rows())
    if (one->takesLoop && one->takesLoop(loop, machine))
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
