// Marked loops to tiles, and the primitive `tensorize`; see Tensorize.h.
#include "compiler/nest/Tensorize.h"

#include "compiler/nest/TileMatcher.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace tensmith::nest {

int64_t Tile::points() const {
  return std::accumulate(intrinsic->sizes.begin(), intrinsic->sizes.end(), int64_t(1),
                         std::multiplies<>());
}

namespace {

/// Goes through a program's marked loops.
class Former {
public:
  Former(LoopProgram &program, const Nest &nest, const TileIntrinsics &intrinsics,
         std::map<std::string, std::string> marks)
      : program_(program), nest_(nest), intrinsics_(intrinsics), marks_(std::move(marks)) {}

  std::map<std::string, TileRefusal> refusals; // by statement
  std::set<std::string> formed;                // statements

  void form(Step &step) {
    if (step.kind == Step::Kind::For && step.execution == Execution::Tensorized) {
      formTile(step);
      return;
    }
    for (std::vector<Step> *list : {&step.body, &step.otherwise})
      for (Step &each : *list)
        form(each);
  }

private:
  static void makeSerial(Step &step) {
    if (step.execution == Execution::Tensorized)
      step.execution = Execution::Serial;
    for (std::vector<Step> *list : {&step.body, &step.otherwise})
      for (Step &each : *list)
        makeSerial(each);
  }

  std::shared_ptr<const TileIntrinsic> intrinsicOf(const Step &loop) const {
    auto mark = marks_.find(loop.loop);
    for (const auto &each : intrinsics_)
      if (mark != marks_.end() && each->name == mark->second)
        return each;
    return nullptr;
  }

  void formTile(Step &step) {
    std::vector<TileLoop> loops;
    const Step *inner = &step;
    bool isWhole = true;
    while (inner->kind != Step::Kind::Point && isWhole) {
      if (inner->kind == Step::Kind::For) {
        isWhole = inner->execution == Execution::Tensorized && inner->lanes.lower.empty() &&
                  inner->lanes.upper.empty() && inner->lanes.least == 0;
        loops.push_back({inner->variable, inner->loop, inner->lanes.count});
      }
      isWhole &= inner->kind != Step::Kind::If && inner->body.size() == 1;
      if (isWhole)
        inner = &inner->body[0];
    }
    std::shared_ptr<const TileIntrinsic> intrinsic = intrinsicOf(step);
    if (!isWhole || !intrinsic)
      return makeSerial(step);
    Step point = *inner;
    TileRefusal refusal;
    auto fit = fitTile(program_, nest_, point, loops, *intrinsic, refusal);
    if (!fit) {
      refusals[point.statement] = refusal;
      return makeSerial(step);
    }
    formed.insert(point.statement);
    auto tile = std::make_shared<Tile>();
    tile->intrinsic = intrinsic;
    tile->inputs = fit->inputs;
    for (size_t loop : fit->loops)
      tile->variables.push_back(loops[loop].variable);
    point.kind = Step::Kind::Tile;
    point.tile = std::move(tile);
    step = std::move(point);
  }

  LoopProgram &program_;
  const Nest &nest_;
  const TileIntrinsics &intrinsics_;
  std::map<std::string, std::string> marks_; // instructions' names, by loop
};

/// A marked loop has marked loops within and then one statement, and no loop of vectors around.
std::string brokenTile(const Node &node, bool isInVectors) {
  bool isMarked = node.isLoop() && node.execution == Execution::Tensorized;
  if (isMarked && isInVectors)
    return "loop '" + node.name + "' of '" + node.intrinsic + "' stands in one of vectors";
  isInVectors |= node.isLoop() && node.execution == Execution::Vector;
  for (const Node &child : node.children) {
    bool isTile = child.kind == Node::Kind::Statement ||
                  (child.isLoop() && child.execution == Execution::Tensorized &&
                   child.intrinsic == node.intrinsic);
    if (isMarked && !isTile)
      return "loop '" + node.name + "' is of '" + node.intrinsic +
             "': within it may stand its other loops and one statement alone";
    if (std::string problem = brokenTile(child, isInVectors); !problem.empty())
      return problem;
  }
  return {};
}

std::string noIntrinsic(const std::string &name, const TileIntrinsics &intrinsics) {
  std::string names;
  for (const auto &each : intrinsics)
    names += (names.empty() ? "" : ", ") + each->name;
  return "the target has no instruction '" + name + "' for tiles; it has " +
         (names.empty() ? "none" : names);
}

/// The instruction of each marked loop, and the statements in them.
struct Marks {
  std::map<std::string, std::string> intrinsics;
  std::set<std::string> statements;
};

Marks marksOf(const Node &node) {
  Marks marks;
  node.visit([&](const Node &each) {
    if (!each.isLoop() || each.execution != Execution::Tensorized)
      return;
    marks.intrinsics[each.name] = each.intrinsic;
    for (const std::string &name : each.statements())
      marks.statements.insert(name);
  });
  return marks;
}

} // namespace

TileRefusal formTiles(LoopProgram &program, const Nest &nest, const Node &tree,
                      const TileIntrinsics &intrinsics) {
  Marks marks = marksOf(tree);
  if (marks.intrinsics.empty())
    return {};
  Former former(program, nest, intrinsics, marks.intrinsics);
  former.form(program.root);
  for (const std::string &name : marks.statements) {
    if (former.formed.count(name))
      continue;
    auto refused = former.refusals.find(name);
    return refused != former.refusals.end()
               ? refused->second
               : TileRefusal{"no whole tile of '" + name + "' can be told from those cut off"};
  }
  return {};
}

TileRefusal refusedTiles(const Nest &nest, const Node &tree, const Relations &relations,
                         const TileIntrinsics &intrinsics) {
  Marks marks = marksOf(tree);
  if (marks.intrinsics.empty())
    return {};
  for (const auto &[loop, name] : marks.intrinsics)
    if (std::none_of(intrinsics.begin(), intrinsics.end(),
                     [&](const auto &each) { return each->name == name; }))
      return {noIntrinsic(name, intrinsics)};
  if (std::string problem = brokenTile(tree, false); !problem.empty())
    return {problem};
  LoopProgram program;
  if (std::string problem = makeLoops(program, tree, relations); !problem.empty())
    return {problem};
  finishLoops(program);
  return formTiles(program, nest, tree, intrinsics);
}

/// A copy that there is already gets the layout; of two halves each.
static std::string layOut(ScheduleState &state, const CacheRequest &request) {
  Nest nest = state.nest;
  auto copy = std::find_if(nest.tensors.begin(), nest.tensors.end(),
                           [&](const Tensor &each) { return each.name == request.tensor; });
  std::vector<LayoutDimension> layout = request.order;
  if (copy->hasTwoHalves())
    layout.insert(layout.begin(), copy->layout[0]);
  copy->layout = std::move(layout);
  std::string problem = memoryProblem(nest, state.memories);
  if (problem.empty())
    state.nest = std::move(nest);
  return problem;
}

Status Schedule::tensorize(const std::vector<std::string> &loops, const std::string &intrinsic,
                           bool packing) {
  const std::string what = "tensorize " + (loops.empty() ? intrinsic : loops[0]);
  Schedule trial = copy();
  // An operand is packed once.
  for (size_t packed = 0;; ++packed) {
    TileRefusal refusal;
    Status status = changeTree(*trial.state_, what, [&](Node &tree) -> std::string {
      const ScheduleState &state = *trial.state_;
      for (const std::string &loop : loops) {
        std::string problem = setExecution(tree, *state.relations, loop, Execution::Tensorized);
        if (!problem.empty())
          return problem;
        loopsTo(tree, loop).back()->intrinsic = intrinsic;
      }
      refusal = refusedTiles(state.nest, tree, *state.relations, state.intrinsics);
      return refusal.words;
    });
    if (status.ok()) {
      *this = std::move(trial);
      return status;
    }
    if (!packing || !refusal.packing || packed == nest().tensors.size())
      return status;
    const std::string packingFailed = what + ": packing needs it, but ";
    if (trial.nest().tensor(refusal.packing->tensor)->instances) {
      if (std::string problem = layOut(*trial.state_, *refusal.packing); !problem.empty())
        return invalidArgument(packingFailed + problem);
      continue;
    }
    std::string base = refusal.packing->name;
    for (int number = 2; trial.nest().tensor(refusal.packing->name); ++number)
      refusal.packing->name = base + std::to_string(number);
    if (Status cached = trial.cacheRead(*refusal.packing); !cached.ok())
      return {cached.code(), packingFailed + cached.message()};
  }
}

} // namespace tensmith::nest
