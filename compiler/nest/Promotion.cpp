// Which loops keep which elements in registers; see Promotion.h.
#include "compiler/nest/Promotion.h"

#include "compiler/nest/Layout.h"
#include "compiler/nest/Tensorize.h"

#include <algorithm>
#include <set>

namespace tensmith::nest {

Affine composed(const Affine &affine, const Statement &statement,
                const std::vector<Affine> &arguments) {
  Affine result = affine.constant;
  for (const auto &[name, factor] : affine.terms) {
    auto at = std::find(statement.iterators.begin(), statement.iterators.end(), name);
    result = result + factor * (at == statement.iterators.end()
                                    ? Affine(name)
                                    : arguments[size_t(at - statement.iterators.begin())]);
  }
  return result;
}

Place placeOf(const std::string &tensor, const std::vector<Expr> &indices, size_t rank,
              const Statement &statement, const std::vector<Affine> &arguments) {
  Place result{tensor, {}};
  for (size_t dim = 0; dim < rank; ++dim)
    if (indices[dim]->operation == Operation::Index)
      result.indices.push_back(composed(indices[dim]->affine, statement, arguments));
    else
      result.isAffine = false;
  if (!result.isAffine)
    result.indices.clear();
  return result;
}

/// The dimension whose elements lie side by side.
static std::optional<size_t> innermostOf(const Tensor &tensor) {
  std::vector<LayoutDimension> layout = layoutOf(tensor);
  bool isWhole = !layout.empty() && layout.back().part == LayoutDimension::Part::Whole;
  return isWhole ? std::optional(layout.back().dim) : std::nullopt;
}

Along alongLanes(const LoopProgram &program, const Tensor &tensor, const Place &place,
                 const Lanes &lanes) {
  if (lanes.variable.empty())
    return Along::Uniform;
  if (!place.isAffine)
    return Along::Scattered;
  Along result = Along::Uniform;
  std::optional<size_t> innermost = innermostOf(tensor);
  for (size_t dim = 0; dim < place.indices.size(); ++dim) {
    Affine rest = place.indices[dim];
    int64_t factor = rest.coefficient(lanes.variable);
    rest.terms.erase(lanes.variable);
    bool isLast = innermost == std::optional(dim);
    if (involves(program, rest, lanes.variable) || (factor != 0 && !(isLast && factor == 1)))
      return Along::Scattered;
    if (factor == 1)
      result = Along::Contiguous;
  }
  return result;
}

Lanes lanesOf(const Step &tile) {
  const TileIntrinsic &intrinsic = *tile.tile->intrinsic;
  return {tile.tile->variables[intrinsic.output.dims.back()], intrinsic.lanes(), 0};
}

std::vector<std::vector<Affine>> rowsOf(const Step &tile) {
  const TileIntrinsic &intrinsic = *tile.tile->intrinsic;
  std::vector<std::vector<Affine>> rows{tile.arguments};
  for (size_t at = 0; at + 1 < intrinsic.output.dims.size(); ++at) {
    size_t dim = intrinsic.output.dims[at];
    const std::string &variable = tile.tile->variables[dim];
    std::vector<std::vector<Affine>> next;
    for (const std::vector<Affine> &row : rows)
      for (int64_t value = 0; value < intrinsic.sizes[dim]; ++value) {
        next.push_back(row);
        for (Affine &each : next.back())
          each = substituted(each, {{variable, Affine(value)}});
      }
    rows = std::move(next);
  }
  return rows;
}

namespace {

struct Touch {
  Accumulator place;
  Along along;
  bool isWrite;
  Reduction reduction; // of an accumulating write or its read
};

/// All that a loop's body touches.
class Touches {
public:
  Touches(const LoopProgram &program, const Nest &nest) : program_(program), nest_(nest) {}

  std::vector<Touch> all;
  std::set<std::string> variables; // of loops within
  std::set<std::string> untold;    // tensors touched at places that are not affine
  bool isPlain = true;             // no parallel loop within

  void add(const Step &step, const Lanes &lanes) {
    if (step.kind == Step::Kind::If && step.otherwise.empty()) {
      around_.push_back(step.condition);
      for (const Step &each : step.body)
        add(each, lanes);
      around_.pop_back();
      return;
    }
    branches_ += step.kind == Step::Kind::If;
    addWithin(step, lanes);
    branches_ -= step.kind == Step::Kind::If;
  }

private:
  void addWithin(const Step &step, const Lanes &lanes) {
    if (step.kind == Step::Kind::Point)
      return addPoint(step, step.arguments, lanes);
    if (step.kind == Step::Kind::Tile)
      return addTile(step);
    bool isLoop = step.kind == Step::Kind::For;
    bool isVector = isLoop && step.execution == Execution::Vector;
    isPlain &= !(isLoop && step.execution == Execution::Parallel);
    if (isLoop && !isVector)
      variables.insert(step.variable);
    for (const std::vector<Step> *list : {&step.body, &step.otherwise})
      for (const Step &each : *list)
        add(each, isVector ? step.lanes : lanes);
  }

  void addPlace(const Place &place, const Lanes &lanes, bool isWrite, Reduction reduction) {
    if (!place.isAffine) {
      untold.insert(place.tensor);
      return;
    }
    Along along = alongLanes(program_, *nest_.tensor(place.tensor), place, lanes);
    Accumulator accumulator{place.tensor, place.indices};
    accumulator.conditions = around_;
    accumulator.isLookedAt = branches_ > 0;
    if (along != Along::Uniform)
      accumulator.lanes = lanes;
    bool isSpread =
        along == Along::Uniform && !lanes.variable.empty() && reduction != Reduction::None;
    if (isSpread) {
      accumulator.lanes = lanes;
      accumulator.isSpread = true;
      accumulator.reduction = reduction;
    }
    all.push_back({accumulator, along, isWrite, reduction});
  }

  /// A row of results is a vector; along the other dimensions of the tile what is read may change.
  void addTile(const Step &step) {
    Lanes lanes = lanesOf(step);
    for (const std::string &each : step.tile->variables)
      if (each != lanes.variable)
        variables.insert(each);
    for (const std::vector<Affine> &row : rowsOf(step))
      addPoint(step, row, lanes);
  }

  void addPoint(const Step &step, const std::vector<Affine> &arguments, const Lanes &lanes) {
    const Statement &statement = *nest_.statement(step.statement);
    Place target = placeOf(statement.tensor, statement.indices, statement.indices.size(), statement,
                           arguments);
    addPlace(target, lanes, true, statement.reduction);
    forEachLoad(statement, [&](const Expression &load, size_t rank) {
      if (!load.guard.empty()) // it may be outside, where it isn't read
        untold.insert(load.tensor);
      addPlace(placeOf(load.tensor, load.operands, rank, statement, arguments), lanes, false,
               Reduction::None);
    });
  }

  const LoopProgram &program_;
  const Nest &nest_;
  std::vector<Condition> around_; // of branches within the loop
  int branches_ = 0;              // with two sides
};

/// Whether two places that are not equal have no element in common.
bool areApart(const Accumulator &a, const Accumulator &b) {
  for (size_t dim = 0; dim < a.indices.size(); ++dim) {
    auto split = [&](const Accumulator &of, int64_t &width) {
      Affine rest = of.indices[dim];
      if (!of.isSpread && rest.coefficient(of.lanes.variable)) {
        width = of.lanes.count;
        rest = rest + of.lanes.least;
        rest.terms.erase(of.lanes.variable);
      }
      return rest;
    };
    int64_t widthA = 1, widthB = 1;
    Affine first = split(a, widthA), second = split(b, widthB);
    Affine difference = second - first;
    if (difference.isConstant() &&
        (difference.constant >= widthA || -difference.constant >= widthB))
      return true;
  }
  return false;
}

/// The same place, be it in another copy of the vector loop.
bool isSame(const Accumulator &a, const Accumulator &b) {
  if (a.tensor != b.tensor || a.isSpread != b.isSpread || a.reduction != b.reduction ||
      a.lanes.variable.empty() != b.lanes.variable.empty())
    return false;
  Accumulator other = b;
  for (Affine &each : other.indices)
    if (int64_t factor = each.coefficient(b.lanes.variable)) {
      each.terms.erase(b.lanes.variable);
      each = each + factor * Affine(a.lanes.variable);
    }
  other.lanes.variable = a.lanes.variable;
  return a.indices == other.indices && a.lanes == other.lanes;
}

bool dependsOn(const LoopProgram &program, const Accumulator &place,
               const std::set<std::string> &variables) {
  auto any = [&](const std::vector<Affine> &all) {
    return std::any_of(all.begin(), all.end(), [&](const Affine &each) {
      return std::any_of(variables.begin(), variables.end(), [&](const std::string &variable) {
        return involves(program, each, variable);
      });
    });
  };
  return any(place.indices) || any(place.lanes.lower) || any(place.lanes.upper);
}

bool changes(const LoopProgram &program, const Condition &condition,
             const std::set<std::string> &variables) {
  auto isIn = [&](const std::string &variable) {
    return involves(program, condition.value, variable);
  };
  return std::any_of(variables.begin(), variables.end(), isIn) ||
         std::any_of(condition.parts.begin(), condition.parts.end(),
                     [&](const Condition &part) { return changes(program, part, variables); });
}

/// The tensor's places, if all of them can be in registers; else none.
std::vector<Accumulator> accumulatorsOf(const LoopProgram &program, const Touches &touches,
                                        const std::string &tensor) {
  std::vector<Accumulator> result;
  for (const Touch &each : touches.all) {
    if (each.place.tensor != tensor)
      continue;
    bool isMixed = each.along == Along::Uniform && each.isWrite && !each.place.isSpread &&
                   !each.place.lanes.variable.empty();
    if (each.along == Along::Scattered || isMixed ||
        dependsOn(program, each.place, touches.variables))
      return {};
    Accumulator own = each.place;
    own.isLookedAt |= std::erase_if(own.conditions, [&](const Condition &condition) {
                        return changes(program, condition, touches.variables);
                      }) > 0;
    bool isKnown = false;
    for (Accumulator &other : result) {
      if (!isSame(own, other) && !areApart(own, other))
        return {};
      if (!isSame(own, other))
        continue;
      isKnown = true;
      other.isLookedAt |= own.isLookedAt || own.conditions != other.conditions;
      if (own.conditions != other.conditions)
        other.conditions.clear();
    }
    if (!isKnown)
      result.push_back(std::move(own));
  }
  return result;
}

class Promoter {
public:
  Promoter(LoopProgram &program, const Nest &nest, size_t most)
      : program_(program), nest_(nest), most_(most) {}

  void promote(Step &step, const Lanes &lanes) {
    bool isLoop = step.kind == Step::Kind::For;
    bool isVector = isLoop && step.execution == Execution::Vector && lanes.variable.empty();
    if (isLoop && !isVector && step.execution != Execution::Parallel && promoteLoop(step, lanes))
      return;
    for (std::vector<Step> *list : {&step.body, &step.otherwise})
      for (Step &each : *list)
        promote(each, isVector ? step.lanes : lanes);
  }

private:
  bool promoteLoop(Step &loop, const Lanes &lanes) {
    Touches touches(program_, nest_);
    touches.variables.insert(loop.variable);
    for (const Step &each : loop.body)
      touches.add(each, lanes);
    if (!touches.isPlain)
      return false;
    std::set<std::string> written;
    for (const Touch &each : touches.all)
      if (each.isWrite)
        written.insert(each.place.tensor);
    std::vector<Accumulator> all;
    for (const std::string &tensor : written) {
      if (touches.untold.count(tensor))
        continue;
      std::vector<Accumulator> own = accumulatorsOf(program_, touches, tensor);
      all.insert(all.end(), own.begin(), own.end());
    }
    if (all.empty() || all.size() > most_)
      return false;
    loop.accumulators = std::move(all);
    return true;
  }

  LoopProgram &program_;
  const Nest &nest_;
  size_t most_;
};

} // namespace

void promoteAccumulators(LoopProgram &program, const Nest &nest, size_t most) {
  Promoter(program, nest, most).promote(program.root, {});
}

} // namespace tensmith::nest
