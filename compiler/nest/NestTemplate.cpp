// Kernels of nests: of a comprehension's statement that accumulates, of what has a schedule, and of
// any region for which a schedule file asks (RegionNest.h).
//
// A point is an order: the one by estimate, with tiles, lanes, blocks and copies of its own if it
// says so (RegisterTile), by factors of the loops' lengths, that of isl's scheduler, or the textual
// one. Every point is right, since a schedule can't be otherwise. A text may give a statement its
// schedule, or a definition one for all of its statements, which stays whole then
// (ComprehensionNest.h): there is no choice, and what is refused of it is an error of the
// compilation. A statement that doesn't accumulate is elements of its own, which the kernels around
// it compute where they read them (compiler/graph/ComprehensionCode.cpp); so is one that no nest
// can say (ComprehensionNest.h), or of which isl's limit was reached, if its own code can.
#include "compiler/nest/NestTemplate.h"

#include "compiler/kernel/FactorChoices.h"
#include "compiler/kernel/Schedule.h"
#include "compiler/nest/ComprehensionNest.h"
#include "compiler/nest/NestKernel.h"
#include "compiler/nest/RegionNest.h"
#include "compiler/nest/TileIntrinsic.h"

#include <array>
#include <cstdlib>
#include <set>

using namespace mlir;

namespace tensmith::nest {
namespace choice {
/// By estimate, by isl's scheduler with all in common loops or each in its own, as written, by
/// factors of the loops' lengths.
enum Order : int64_t { Estimated, Maximal, Minimal, Textual, Factored };
static constexpr kernel::Choice order{"order", Estimated, Factored};
/// Of a sum's register tile.
static constexpr kernel::Choice rows{"nest_rows", 1, 16};
static constexpr kernel::Choice vectors{"nest_vectors", 1, 8};
/// Of a sum's other loops; 0: by estimate, or none.
static constexpr kernel::Choice lanesAlong{"nest_lanes_along", 0, 12};
static constexpr kernel::Choice rowsAlong{"nest_rows_along", 0, 12};
static constexpr kernel::Choice depth{"nest_depth", 0, kernel::kAny};
static constexpr kernel::Choice rowTiles{"nest_row_tiles", 0, 64};
static constexpr kernel::Choice laneTiles{"nest_lane_tiles", 0, 64};
/// Copies of the first operands that are read: 1: of each panel's part, 2: of all.
static constexpr kernel::Choice packing[] = {{"nest_pack_first", 0, 2}, {"nest_pack_second", 0, 2}};
} // namespace choice

namespace {

using kernel::Machine;
using kernel::Point;
using kernel::SizedPoint;

constexpr const kernel::Choice *kChoices[] = {&kernel::choice::asNest,
                                              &choice::order,
                                              &choice::rows,
                                              &choice::vectors,
                                              &choice::lanesAlong,
                                              &choice::rowsAlong,
                                              &choice::depth,
                                              &choice::rowTiles,
                                              &choice::laneTiles,
                                              &choice::packing[0],
                                              &choice::packing[1],
                                              &kernel::choice::rowFactors,
                                              &kernel::choice::laneFactors,
                                              &kernel::choice::depthFactors};

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
  return comprehension && !graph::scheduleOf(comprehension).text.empty();
}

bool isNest(mlir::Operation *op) { return accumulates(op) || isScheduled(op); }

Result<SizedNest> nestAround(graph::KernelOp kernel, mlir::Operation *main) {
  if (isNest(main))
    return nestOf(cast<graph::ComprehensionOp>(main),
                  graph::scheduleOf(cast<graph::ComprehensionOp>(main)).isWhole);
  return nestOf(kernel);
}

bool takesRegion(graph::KernelOp kernel, mlir::Operation *main, const Machine &) {
  Block &block = kernel.getBody().front();
  if (kernel->hasAttr(kernel::kNestAttribute)) {
    // There are loops for operators that say their elements, and for others nothing else.
    if (llvm::all_of(llvm::make_pointer_range(block.without_terminator()), kernel::saysElement))
      return true;
    Result<SizedNest> made = nestOf(kernel);
    return made.ok() && Schedule::of(made->nest).ok();
  }
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

/// The loops of a sum that factors are for, and their lengths; a length of 0 isn't known.
struct FactoredLoops {
  int64_t rows = 0, lanes = 0, depth = 0;

  struct Loop {
    const kernel::Choice &choice;
    int64_t length;
    Factors RegisterTile::*factors;
  };
  std::array<Loop, 3> all() const {
    return {{{kernel::choice::rowFactors, rows, &RegisterTile::rowFactors},
             {kernel::choice::laneFactors, lanes, &RegisterTile::laneFactors},
             {kernel::choice::depthFactors, depth, &RegisterTile::depthFactors}}};
  }
  bool areKnown() const {
    return llvm::all_of(
        all(), [](const Loop &loop) { return loop.length >= 1 && loop.length <= kMostFactor; });
  }
};

/// Of an iterator that counts from 0 to a known number; 0: it doesn't. (A known size is a number in
/// the domain, not a parameter.)
int64_t lengthOf(const Statement &statement, const std::string &iterator) {
  std::optional<int64_t> least, most;
  for (const Constraint &each : statement.domain) {
    int64_t step = each.value.coefficient(iterator), rest = each.value.constant;
    if (step == 0)
      continue;
    if (each.isEquality || std::abs(step) != 1 || each.value.terms.size() > 1)
      return 0;
    if (step == 1)
      least = std::max(least.value_or(-rest), -rest);
    else
      most = std::min(most.value_or(rest), rest);
  }
  return least == 0 && most ? *most + 1 : 0;
}

const Statement *sumOf(const Nest &nest) {
  const Statement *sum = nullptr;
  for (const Statement &each : nest.statements)
    if (each.reduction != Reduction::None)
      sum = &each;
  return sum;
}

bool goesAlong(const Expr &index, const std::string &iterator) {
  return index->operation != Operation::Index || index->affine.coefficient(iterator) != 0;
}

/// As the estimate finds them (DefaultSchedule.cpp): lanes are contiguous in the result.
FactoredLoops factoredLoops(const Statement &sum) {
  FactoredLoops loops;
  std::string lanes;
  for (const std::string &each : sum.iterators)
    if (lanes.empty() && !sum.indices.empty() &&
        sum.indices.back()->operation == Operation::Index &&
        sum.indices.back()->affine.coefficient(each) == 1)
      lanes = each;
  if (lanes.empty())
    return loops;
  loops.lanes = lengthOf(sum, lanes);
  for (const std::string &each : sum.iterators) {
    bool isOfResult =
        llvm::any_of(sum.indices, [&](auto &index) { return goesAlong(index, each); });
    if (each != lanes)
      (isOfResult ? loops.rows : loops.depth) = lengthOf(sum, each);
  }
  return loops;
}

/// As far as the point says which; of a loop that it says nothing of, the outermost has all.
Status takeFactors(RegisterTile &tile, const Point &point, const FactoredLoops &loops) {
  if (!loops.areKnown())
    return invalidArgument("the schedule asks for \"order\" 4, by factors, but lengths of the "
                           "kernel's loops aren't known; ask for another order");
  for (const FactoredLoops::Loop &loop : loops.all()) {
    Factors whole(kernel::partsOf(loop.choice), 1);
    whole[0] = loop.length;
    auto asked = point[loop.choice];
    auto factors = asked ? factorsOf(*asked, loop.length, whole.size()) : std::optional(whole);
    if (!factors)
      return invalidArgument("the schedule asks for \"" + loop.choice.name.str() + "\" " +
                             std::to_string(*asked) + ", which is no factorisation of " +
                             std::to_string(loop.length) + ", the loop's length, in " +
                             std::to_string(whole.size()) +
                             "; `tensmith inspect --spaces` shows those that there are");
    tile.*loop.factors = *factors;
  }
  tile.lanesAlong = tile.rowsAlong = 0; // which loops they are for is settled
  return {};
}

RegisterTile tileOf(const Nest &nest, const Point &point, const Machine &machine) {
  auto asked = [&](const kernel::Choice &choice) { return point[choice].value_or(0); };
  RegisterTile tile;
  tile.rows = asked(choice::rows);
  tile.vectors = asked(choice::vectors);
  tile.lanesAlong = size_t(asked(choice::lanesAlong));
  tile.rowsAlong = size_t(asked(choice::rowsAlong));
  tile.depth = asked(choice::depth);
  tile.rowTiles = asked(choice::rowTiles);
  tile.laneTiles = asked(choice::laneTiles);
  for (const kernel::Choice &each : choice::packing)
    tile.packing.push_back(RegisterTile::Packing(asked(each)));
  return tile.completed(nest, machine.vectorRegisters);
}

/// What the order has no use for is no part of what was chosen.
void dropUnused(Point &point) {
  int64_t order = *point[choice::order];
  for (const kernel::Choice *each : kChoices) {
    bool isFactor = kernel::partsOf(*each) > 0;
    bool isUsed = each == &choice::order || each == &kernel::choice::asNest ||
                  order == (isFactor ? int64_t(choice::Factored) : int64_t(choice::Estimated));
    if (!isUsed)
      point.set(*each, std::nullopt);
  }
}

/// Completes the point by what is chosen, `usual` where it asks for no order, and gives the
/// schedule that order, in words. Where isl takes too long over its own it is the estimate.
Result<std::string> applyOrder(Schedule &schedule, const Machine &machine, Point &point,
                               choice::Order usual) {
  if (!point[choice::order])
    point.set(choice::order, usual);
  dropUnused(point);
  int64_t order = *point[choice::order];
  if (order == choice::Textual)
    return std::string("as written");
  int64_t lanes = lanesOf(schedule.nest(), machine);
  // Without vectors the textual order is as good.
  std::string words = lanes == 1                  ? "as written"
                      : order == choice::Factored ? "by factors"
                                                  : "by estimate";
  if (order == choice::Maximal || order == choice::Minimal) {
    bool isMaximal = order == choice::Maximal;
    Status status = schedule.affine(isMaximal ? Fusion::Maximal : Fusion::Minimal);
    words = status.ok() ? std::string("affine ") + (isMaximal ? "maximal" : "minimal")
                        : words + ", since " + status.message();
  }
  RegisterTile tile = tileOf(schedule.nest(), point, machine);
  if (order == choice::Factored) {
    const Statement *sum = sumOf(schedule.nest());
    Status status = takeFactors(tile, point, sum ? factoredLoops(*sum) : FactoredLoops());
    if (!status.ok())
      return status;
  }
  if (order == choice::Estimated) {
    point.set(choice::rows, tile.rows);
    point.set(choice::vectors, tile.vectors);
  }
  if (lanes > 1)
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
  sizes.nearBytes = machine.l2Bytes;
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
  graph::OwnSchedule own;
  if (isNest(main))
    own = graph::scheduleOf(cast<graph::ComprehensionOp>(main));
  else
    point.set(kernel::choice::asNest, 1);
  // With a schedule that nothing would follow there is no kernel.
  auto refused = [&](const Status &status, StatusCode code) {
    return Status(own.text.empty() ? code : StatusCode::InvalidArgument, status.message());
  };
  Result<SizedNest> made = nestAround(kernel, main);
  if (!made)
    return refused(made.status(), made.status().code());
  Result<Schedule> schedule = Schedule::of(made->nest);
  if (!schedule)
    return refused(schedule.status(), StatusCode::Unsupported);
  Result<std::string> words = std::string("by its text");
  if (own.text.empty())
    words =
        applyOrder(*schedule, machine, point, isNest(main) ? choice::Estimated : choice::Minimal);
  else if (Status status = applyText(*schedule, own.text, machine); !status.ok())
    return invalidArgument("schedule, " + status.message());
  if (!words)
    return words.status();
  KernelSizes sizes = sizesOf(*made, kernel, machine, point);
  auto emitted = emitNest(*schedule, *kernel.getContext(), {}, &sizes);
  if (!emitted.ok())
    return refused(emitted.status(), emitted.status().code());
  emitted->summary = "nest, " + *words;
  emitted->points = {{point, asked.empty() ? SmallVector<int64_t, 2>() : asked.back().sizes}};
  return emitted;
}

/// What may be known of a sum's loops before it is scheduled.
struct SumLoops {
  llvm::SmallVector<int64_t> all = {0}, ofResult = {0}; // places of iterators, from 1
  int64_t operands = 0;
};

SumLoops loopsOf(const Statement &sum) {
  SumLoops loops;
  for (size_t place = 0; place < sum.iterators.size(); ++place) {
    auto isOfIt = [&](const Expr &index) { return goesAlong(index, sum.iterators[place]); };
    loops.all.push_back(int64_t(place) + 1);
    if (llvm::any_of(sum.indices, isOfIt))
      loops.ofResult.push_back(int64_t(place) + 1);
  }
  std::set<std::string> read;
  forEachLoad(sum, [&](const Expression &load, size_t) { read.insert(load.tensor); });
  loops.operands = int64_t(read.size());
  return loops;
}

void addFactors(kernel::Space &space, const FactoredLoops &loops) {
  for (const FactoredLoops::Loop &loop : loops.all()) {
    llvm::SmallVector<int64_t> values;
    for (const Factors &factors : factorisations(loop.length, kernel::partsOf(loop.choice)))
      values.push_back(numberOf(factors));
    llvm::sort(values);
    auto *dimension = space.add(loop.choice, values);
    dimension->guard = &choice::order;
    dimension->guardValues = {choice::Factored};
  }
}

void addChoices(graph::KernelOp kernel, mlir::Operation *main, const Machine &machine,
                kernel::Space &space) {
  if (isScheduled(main))
    return;
  auto ofEstimate = [](kernel::Space::Dimension *dimension) {
    if (!dimension)
      return;
    dimension->guard = &choice::order;
    dimension->guardValues = {choice::Estimated};
  };
  auto made = nestAround(kernel, main);
  const Statement *sum = made.ok() ? sumOf(made->nest) : nullptr;
  FactoredLoops factored = sum ? factoredLoops(*sum) : FactoredLoops();
  space.addAll(choice::order, factored.areKnown() ? choice::Factored : choice::Textual);
  ofEstimate(space.addAll(choice::rows, machine.vectorRegisters >= 32 ? 12 : 6));
  ofEstimate(space.addAll(choice::vectors, 4));
  if (!sum)
    return;
  SumLoops loops = loopsOf(*sum);
  ofEstimate(space.add(choice::lanesAlong, loops.all));
  ofEstimate(space.add(choice::rowsAlong, loops.ofResult));
  ofEstimate(space.add(choice::depth, {0, 32, 64, 128, 256, 512, 1024}));
  ofEstimate(space.add(choice::rowTiles, {0, 2, 4, 8, 16, 32}));
  ofEstimate(space.add(choice::laneTiles, {0, 2, 4, 8, 16}));
  for (int64_t operand = 0; operand < std::min<int64_t>(loops.operands, 2); ++operand)
    ofEstimate(space.addAll(choice::packing[operand], 2));
  if (factored.areKnown())
    addFactors(space, factored);
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
