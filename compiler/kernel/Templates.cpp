// The table of templates, in order of preference; see Template.h.
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

Table<Template> &allTemplates() {
  static Table<Template> all("template",
                             {&kAttentionGradient, &kChain, &kContraction, &kDepthwise, &kRows,
                              &kConcat, &kWinograd, &kRecurrence, &kTrees, &kScatter, &kFourier,
                              &kPack, &kTransposition, &kPatches, &kLoops},
                             kLoops.name);
  return all;
}

const Template *templateBefore(Operation *op) {
  for (const Template *one : templates())
    if (one->mayBeRoot && one->mayBeRoot(op))
      return one;
  return nullptr;
}

const Template *templateOf(Operation *op) {
  for (const Template *one : templates())
    if (one->isRoot && one->isRoot(op))
      return one;
  return nullptr;
}

const Template &templateFor(graph::KernelOp kernel, const Machine &machine) {
  Operation *main = scheduledOperator(kernel);
  auto takes = [&](const Template *one) {
    return one->takes ? one->takes(kernel, main, machine) : one->isRoot(main);
  };
  return **llvm::find_if(templates(), takes);
}

const Template *templateNamed(llvm::StringRef name) { return allTemplates().find(name); }

llvm::StringRef loopsName() { return kLoops.name; }

} // namespace tensmith::kernel
