// One row for each template; see Templates.h.
#include "compiler/targets/cpu/templates/Templates.h"

#include "compiler/kernel/LoopKernel.h"
#include "compiler/nest/NestTemplate.h"
#include "compiler/targets/cpu/templates/AttentionGradient.h"
#include "compiler/targets/cpu/templates/BitSerialKernel.h"
#include "compiler/targets/cpu/templates/BlockProductKernel.h"
#include "compiler/targets/cpu/templates/CachedAttentionKernel.h"
#include "compiler/targets/cpu/templates/ChainKernel.h"
#include "compiler/targets/cpu/templates/ConcatKernel.h"
#include "compiler/targets/cpu/templates/ContractionKernel.h"
#include "compiler/targets/cpu/templates/DepthwiseKernel.h"
#include "compiler/targets/cpu/templates/FourierKernel.h"
#include "compiler/targets/cpu/templates/PackKernel.h"
#include "compiler/targets/cpu/templates/PatchKernel.h"
#include "compiler/targets/cpu/templates/RecurrenceKernel.h"
#include "compiler/targets/cpu/templates/RowKernel.h"
#include "compiler/targets/cpu/templates/ScatterKernel.h"
#include "compiler/targets/cpu/templates/TransposeKernel.h"
#include "compiler/targets/cpu/templates/TreeKernel.h"
#include "compiler/targets/cpu/templates/WinogradKernel.h"

using namespace tensmith::kernel;

namespace tensmith::targets::cpu {

/// That of nests first: it takes what is a nest because a schedule asks for it.
Table<Template> &templates() {
  static Table<Template> all("template", {&nest::kNests,  &kAttentionGradient,
                                          &kChain,        &kContraction,
                                          &kBlockProduct, &kCachedAttention,
                                          &kBitSerial,    &kBitPlanes,
                                          &kDepthwise,    &kRows,
                                          &kConcat,       &kWinograd,
                                          &kRecurrence,   &kTrees,
                                          &kScatter,      &kFourier,
                                          &kPack,         &kTransposition,
                                          &kPatches,      &kLoops},
                             kLoops.name);
  return all;
}

} // namespace tensmith::targets::cpu
