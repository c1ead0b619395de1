// Kernels of nests: of a comprehension's statement that accumulates, and of what has a schedule.
//
// A point is an order: the one by estimate, with a register tile of its own if it says so, that of
// isl's scheduler, or the textual one. Every point is right, since a schedule can't be otherwise.
// A text may give a statement its schedule, or a definition one for all of its statements, which
// stays whole then (ComprehensionNest.h): there is no choice, and what is refused of it is an error
// of the compilation.
// A statement that doesn't accumulate is elements of its own, which the kernels around it compute
// where they read them (compiler/graph/ComprehensionCode.cpp); so is one that no nest can say
// (ComprehensionNest.h), or of which isl's limit was reached, if its own code can.
#include "compiler/nest/NestTemplate.h"

#include "compiler/nest/ComprehensionNest.h"
#include "compiler/nest/NestKernel.h"
#include "compiler/nest/TileIntrinsic.h"

using namespace mlir;

namespace tensmith::nest {
namespace choice {
/// By estimate, by isl's scheduler with all in common loops or each in its own, as written.
enum Order : int64_t { Estimated, Maximal, Minimal, Textual };
static constexpr kernel::Choice order{"order", Estimated, Textual};
/// Of a sum's register tile.
static constexpr kernel::Choice rows{"nest_rows", 1, 16};
static constexpr kernel::Choice vectors{"nest_vectors", 1, 8};
} // namespace choice

namespace {

using kernel::Machine;
using kernel::Point;
using kernel::SizedPoint;

constexpr const kernel::Choice *kChoices[] = {&choice::order, &choice::rows, &choice::vectors};

bool accumulates(mlir::Operation *op) {
  auto comprehension = dyn_cast<graph::ComprehensionOp>(op);
  if (!comprehension)
    return false;
  graph::ComprehensionView view = graph::viewOf(comprehension);
  return view && view.single() && view.single()->assignment != comprehension::Assignment::Set &&
         view.single()->isReduction();
}

bool isScheduled(mlir::Operation *op) {
  auto comprehension = dyn_cast<graph::ComprehensionOp>(op);
  return comprehension && !scheduleOf(comprehension).text.empty();
}

bool isNest(mlir::Operation *op) { return accumulates(op) || isScheduled(op); }

bool takesRegion(graph::KernelOp kernel, mlir::Operation *main, const Machine &) {
  Block &block = kernel.getBody().front();
  if (!isNest(main) || kernel->getNumResults() != 1 || &block.front() != main ||
      block.getTerminator()->getOperand(0) != main->getResult(0) ||
      llvm::range_size(block.without_terminator()) != 1)
    return false;
  return isScheduled(main) || nestOf(cast<graph::ComprehensionOp>(main)).ok();
}

int64_t lanesOf(const Nest &nest, const Machine &machine) {
  int64_t bytes = 1;
  for (const Statement &each : nest.statements)
    bytes = std::max(bytes, byteSize(nest.tensor(each.tensor)->type));
  return std::clamp<int64_t>(machine.vectorBytes / bytes, 1, 64);
}

/// Completes the point by what is chosen, and gives the schedule that order, in words. Where isl
/// takes too long over its own it is the estimate.
std::string applyOrder(Schedule &schedule, const Machine &machine, Point &point) {
  if (!point[choice::order])
    point.set(choice::order, choice::Estimated);
  int64_t order = *point[choice::order];
  if (order == choice::Textual)
    return "as written";
  std::string words = "by estimate";
  if (order != choice::Estimated) {
    bool isMaximal = order == choice::Maximal;
    Status status = schedule.affine(isMaximal ? Fusion::Maximal : Fusion::Minimal);
    words = status.ok() ? std::string("affine ") + (isMaximal ? "maximal" : "minimal")
                        : words + ", since " + status.message();
  }
  RegisterTile tile =
      RegisterTile{point[choice::rows].value_or(0), point[choice::vectors].value_or(0)}.completed(
          machine.vectorRegisters);
  if (order == choice::Estimated) {
    point.set(choice::rows, tile.rows);
    point.set(choice::vectors, tile.vectors);
  }
  int64_t lanes = lanesOf(schedule.nest(), machine);
  if (lanes > 1) // without vectors the textual order is as good
    (void)schedule.byEstimate(lanes, machine.vectorRegisters, tile);
  return words;
}

KernelSizes sizesOf(const SizedNest &made, graph::KernelOp kernel, const Machine &machine,
                    const Point &asked) {
  KernelSizes sizes;
  for (StringAttr symbol : kernel::kernelSymbols(kernel))
    sizes.names.push_back(symbol.str());
  sizes.parameter = [&made](kernel::IndexMath &math, const kernel::SizeValues &values,
                            size_t number) {
    return kernel::sizeValue(math, values, made.symbols, made.parameters[number]);
  };
  sizes.grain = asked[kernel::choice::grain];
  sizes.checksBounds = machine.checksBounds;
  return sizes;
}

Status applyText(Schedule &schedule, const std::string &text, const Machine &machine) {
  schedule.setTarget(targetUnits(machine, text));
  return schedule.apply(text);
}

/// Of several points for several sizes the one of the largest counts: a nest has one order.
Result<kernel::EmittedKernel> emit(graph::KernelOp kernel, mlir::Operation *main,
                                   const Machine &machine, ArrayRef<SizedPoint> asked) {
  Point point = asked.empty() ? Point() : asked.back().point;
  OwnSchedule own = scheduleOf(cast<graph::ComprehensionOp>(main));
  // With a schedule that nothing would follow there is no kernel.
  auto refused = [&](const Status &status, StatusCode code) {
    return Status(own.text.empty() ? code : StatusCode::InvalidArgument, status.message());
  };
  Result<SizedNest> made = nestOf(cast<graph::ComprehensionOp>(main), own.isWhole);
  if (!made)
    return refused(made.status(), made.status().code());
  Result<Schedule> schedule = Schedule::of(made->nest);
  if (!schedule)
    return refused(schedule.status(), StatusCode::Unsupported);
  std::string words = "by its text";
  if (own.text.empty())
    words = applyOrder(*schedule, machine, point);
  else if (Status status = applyText(*schedule, own.text, machine); !status.ok())
    return invalidArgument("schedule, " + status.message());
  KernelSizes sizes = sizesOf(*made, kernel, machine, point);
  auto emitted = emitNest(*schedule, *kernel.getContext(), {}, &sizes);
  if (!emitted.ok())
    return refused(emitted.status(), emitted.status().code());
  emitted->summary = "nest, " + words;
  emitted->points = {{point, asked.empty() ? SmallVector<int64_t, 2>() : asked.back().sizes}};
  return emitted;
}

void addChoices(graph::KernelOp, mlir::Operation *main, const Machine &machine,
                kernel::Space &space) {
  if (isScheduled(main))
    return;
  space.addAll(choice::order, choice::Textual);
  int64_t most = machine.vectorRegisters >= 32 ? 12 : 6;
  for (const kernel::Choice *each : {&choice::rows, &choice::vectors})
    if (auto *dimension = space.addAll(*each, each == &choice::rows ? most : 4)) {
      dimension->guard = &choice::order;
      dimension->guardValues = {choice::Estimated};
    }
}

} // namespace

const kernel::Template kNests = {
    .name = "nest",
    .mayBeRoot = isNest,
    .isRoot = isNest,
    .takes = takesRegion,
    .emit = emit,
    .choices = kChoices,
    .space = addChoices,
    .completesAtEnd = true,
};

} // namespace tensmith::nest
