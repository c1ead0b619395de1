// Values that are computed where they are used: `compute_at` and `inline`.
//
// Problem: a stage that another one reads goes through memory as a whole, though each of its
// elements is used by few iterations of the other's loops.
// Method: `compute_at T L` gives all statements that write T the loops down to L, as new iterators:
// each iteration of L computes what it reads of T (Footprint.h), into an instance of T of its own.
// An element that several iterations read is computed by each. `inline T` has no memory at all: the
// value of T's statement stands in place of its element.
// Invariant: what is computed again reads the same values as before. So each dependence between
// T's statements and others is asked for at all the points where they now run.
//
// Sources: J. Ragan-Kelley et al., Halide, PLDI 2013; R. Mullapudi, V. Vasista, U. Bondhugula,
// PolyMage, ASPLOS 2015 (overlapped tiles).
#include "compiler/nest/Footprint.h"

#include <isl/aff.h>
#include <isl/map.h>
#include <isl/set.h>
#include <isl/space.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace tensmith::nest {
namespace {

/// Statements that write a local tensor, and others that read it, as the tree has them.
struct Stage {
  std::vector<std::string> writers, readers;

  bool isWriter(const std::string &name) const {
    return std::count(writers.begin(), writers.end(), name) > 0;
  }
};

bool reads(const Statement &statement, const std::string &tensor) {
  bool result = false;
  forEachLoad(statement, [&](const Expression &load, size_t) { result |= load.tensor == tensor; });
  return result;
}

std::string stageOf(const NestChange &change, const std::string &name, Stage &stage) {
  const Tensor *tensor = change.nest.tensor(name);
  if (!tensor)
    return "there is no tensor '" + name + "'";
  if (tensor->role != Tensor::Role::Local)
    return "'" + name + "' is an operand of the kernel; only what is local can be computed " +
           "elsewhere";
  if (tensor->instances)
    return "'" + name + "' is computed within a loop already";
  for (const std::string &each : change.tree.statements()) {
    const Statement &statement = *change.nest.statement(each);
    if (statement.tensor == name)
      stage.writers.push_back(each);
    else if (reads(statement, name))
      stage.readers.push_back(each);
  }
  if (stage.writers.empty() || stage.readers.empty())
    return "nothing " + std::string(stage.writers.empty() ? "writes" : "reads") + " '" + name + "'";
  return {};
}

bool isAffine(const std::vector<Expr> &indices, size_t rank) {
  return std::all_of(indices.begin(), indices.begin() + int64_t(rank),
                     [](const Expr &each) { return each->operation == Operation::Index; });
}

/// { S[i...] -> T[...] } of the accesses to the tensor that are writes, or are none.
isl::map elements(const Relations &relations, const std::string &statement,
                  const std::string &tensor, bool isWrite) {
  isl::map result;
  for (const Access &each : relations.of(statement).accesses)
    if (each.tensor == tensor && each.isWrite == isWrite)
      result = result.is_null() ? each.elements : result.unite(each.elements);
  return result;
}

//===-- compute_at ---------------------------------------------------------------------------===//

class ComputeAt {
public:
  ComputeAt(NestChange &change, const ScheduleState &state, std::string tensor, std::string loop)
      : change_(change), state_(state), tensor_(std::move(tensor)), loop_(std::move(loop)) {}

  std::string run() {
    std::string problem = stageOf(change_, tensor_, stage_);
    if (problem.empty() && change_.loops(loop_).empty())
      problem = noLoop(change_.tree, loop_);
    if (problem.empty())
      problem = unsuited();
    if (problem.empty())
      problem = readBefore();
    for (const std::string &each : stage_.readers)
      if (problem.empty())
        problem = change_.expose(each, loop_, at_[each]);
    if (problem.empty())
      problem = makeBox();
    if (!problem.empty())
      return problem;
    for (const std::string &each : stage_.writers)
      change_.remove(each);
    for (const std::string &each : stage_.writers)
      extend(each);
    for (const std::string &each : stage_.readers)
      redirect(*change_.nest.statement(each), at_[each]);
    resizeTensor();
    change_.renew();
    for (size_t number = stage_.writers.size(); number-- > 0 && problem.empty();)
      problem = place(stage_.writers[number]);
    return problem.empty() ? brokenByMove() : problem;
  }

private:
  std::string unsuited() {
    const Node &loop = *change_.loops(loop_).back();
    for (const std::string &each : stage_.readers)
      if (!loop.values.count(each))
        return "'" + each + "' reads '" + tensor_ + "' outside of loop '" + loop_ + "'";
    std::string problem;
    for (const std::string &each : stage_.writers) {
      const Statement &writer = *change_.nest.statement(each);
      if (loop.values.count(each))
        return "'" + each + "' stands in loop '" + loop_ + "' already";
      if (!isAffine(writer.indices, writer.indices.size()))
        return "'" + each + "' scatters into '" + tensor_ + "'";
      forEachLoad(writer, [&](const Expression &load, size_t rank) {
        bool isOwn = load.tensor == tensor_;
        if (isOwn && (!isAffine(load.operands, rank) ||
                      affineIndices(load.operands, rank) != affineIndices(writer.indices, rank)))
          problem = "'" + each + "' reads other elements of '" + tensor_ + "' than it writes";
      });
    }
    for (const std::string &each : stage_.readers)
      forEachLoad(*change_.nest.statement(each), [&](const Expression &load, size_t rank) {
        if (load.tensor == tensor_ && !isAffine(load.operands, rank))
          problem = "'" + each + "' reads '" + tensor_ + "' at an index that is not affine";
      });
    return problem;
  }

  /// A reader that runs before a writer would find what is written after it.
  std::string readBefore() {
    for (const Dependence &each : state_.dependences)
      if (each.tensor == tensor_ && each.kind == Dependence::Kind::Anti &&
          !state_.unchecked[each.kind] && stage_.isWriter(each.sink) &&
          !stage_.isWriter(each.source))
        return "it would break " + each.text();
    return {};
  }

  std::string makeBox() {
    std::vector<std::string> names;
    for (Node *each : change_.loops(loop_)) {
      loops_.push_back(each);
      names.push_back("at." + each->name);
    }
    isl::map read = touched(change_, loops_, stage_.readers,
                            [&](const Access &each) { return each.tensor == tensor_; });
    auto box = footprintOf(read, *change_.nest.tensor(tensor_), *change_.relations, names);
    if (!box)
      return box.status().message();
    box_ = std::move(*box);
    return {};
  }

  std::vector<Affine> own(const std::vector<Affine> &at, const std::vector<Affine> &indices) {
    std::vector<int64_t> order(indices.size());
    std::iota(order.begin(), order.end(), 0);
    return placed(*box_, order, at, indices);
  }

  void redirect(Statement &statement, const std::vector<Affine> &at) {
    redirectLoads(statement, tensor_, tensor_,
                  [&](const std::vector<Affine> &indices) { return own(at, indices); });
  }

  /// The loops' values become the writer's first iterators, and its points those that are read.
  void extend(const std::string &name) {
    Statement &statement = *change_.nest.statement(name);
    std::vector<std::string> names;
    std::vector<Affine> at;
    Statement known = statement;
    for (size_t number = 0; number < loops_.size(); ++number) {
      names.push_back(change_.newIterator(known, "a" + std::to_string(number)));
      known.iterators.push_back(names.back());
      at.push_back(Affine(names.back()));
    }
    statement.iterators.insert(statement.iterators.begin(), names.begin(), names.end());
    std::vector<Affine> indices = affineIndices(statement.indices, statement.indices.size());
    std::map<std::string, Affine> values = valuesAt(*box_, at);
    for (size_t dim = 0; dim < indices.size(); ++dim)
      values[box_->indices[dim]] = indices[dim];
    for (const Constraint &each : box_->points)
      statement.domain.push_back({substituted(each.value, values), each.isEquality});
    redirect(statement, at);
    statement.indices = asIndices(own(at, indices));
  }

  void resizeTensor() {
    for (Tensor &each : change_.nest.tensors)
      if (each.name == tensor_) {
        each.instances = loops_.size();
        each.extents.assign(loops_.size(), Affine(1));
        each.extents.insert(each.extents.end(), box_->extents.begin(), box_->extents.end());
      }
  }

  std::string place(const std::string &name) {
    const Statement &statement = *change_.nest.statement(name);
    std::vector<std::string> names;
    for (size_t at = loops_.size(); at < statement.iterators.size(); ++at) {
      names.push_back(statement.iterators[at] + "_" + name);
      while (!change_.taken(names).empty())
        names.back() += "_";
    }
    // { S[i...] -> S[a..., i...] }
    isl_space *space = isl_set_get_space(change_.relations->of(name).domain.get());
    isl_id *id = isl_space_get_tuple_id(space, isl_dim_set);
    isl_multi_aff *back =
        isl_multi_aff_project_out_map(space, isl_dim_set, 0, unsigned(loops_.size()));
    isl::map lift =
        isl::manage(isl_map_from_multi_aff(isl_multi_aff_set_tuple_id(back, isl_dim_out, id)));
    change_.setLift(name, lift.reverse().intersect_range(change_.relations->of(name).domain));
    return change_.place(name, loop_, names, true);
  }

  std::string brokenByMove() {
    for (const Dependence &each : state_.dependences) {
      bool from = stage_.isWriter(each.source), to = stage_.isWriter(each.sink);
      bool isOwn = each.tensor == tensor_;
      if (each.kind == Dependence::Kind::Accumulation || (!from && !to) || (isOwn && from != to))
        continue;
      Dependence moved = each;
      moved.points =
          each.points.apply_domain(change_.lift(each.source)).apply_range(change_.lift(each.sink));
      if (isOwn) { // of one instance
        isl::map first = elements(*change_.relations, each.source, tensor_, true);
        isl::map second = elements(*change_.relations, each.sink, tensor_, true);
        moved.points = moved.points.intersect(first.apply_range(second.reverse()));
      }
      if (std::string problem = change_.broken(moved); !problem.empty())
        return problem;
    }
    return {};
  }

  NestChange &change_;
  const ScheduleState &state_;
  std::string tensor_, loop_;
  Stage stage_;
  std::map<std::string, std::vector<Affine>> at_; // values of the loops, by reader
  std::vector<const Node *> loops_;
  std::optional<Footprint> box_;
};

//===-- inline -------------------------------------------------------------------------------===//

class Inline {
public:
  Inline(NestChange &change, const ScheduleState &state, std::string tensor)
      : change_(change), state_(state), tensor_(std::move(tensor)) {}

  std::string run() {
    std::string problem = stageOf(change_, tensor_, stage_);
    if (problem.empty())
      problem = unsuited();
    if (problem.empty())
      problem = brokenByMove();
    if (!problem.empty())
      return problem;
    for (const std::string &each : stage_.readers)
      replaceIn(*change_.nest.statement(each));
    change_.remove(stage_.writers[0]);
    std::erase_if(change_.nest.statements,
                  [&](const Statement &each) { return each.name == stage_.writers[0]; });
    std::erase_if(change_.nest.tensors, [&](const Tensor &each) { return each.name == tensor_; });
    change_.renew();
    return {};
  }

private:
  const Statement &writer() const { return *change_.nest.statement(stage_.writers[0]); }

  std::string unsuited() {
    if (stage_.writers.size() != 1 || writer().reduction != Reduction::None)
      return "'" + tensor_ + "' is made by more than one point of a statement";
    if (reads(writer(), tensor_))
      return "'" + stage_.writers[0] + "' reads '" + tensor_ + "' itself";
    for (const std::string &iterator : writer().iterators)
      if (!dimensionOf(iterator))
        return "from an element of '" + tensor_ + "' it does not follow what '" + iterator +
               "' is in '" + stage_.writers[0] + "'";
    std::string problem;
    for (const std::string &each : stage_.readers)
      forEachLoad(*change_.nest.statement(each), [&](const Expression &load, size_t rank) {
        if (load.tensor == tensor_ &&
            (!isAffine(load.operands, rank) || load.operands.size() != rank))
          problem = "'" + each + "' reads '" + tensor_ + "' under a condition, or at an index " +
                    "that is not affine";
      });
    return problem;
  }

  /// The dimension whose index is the iterator plus what is no iterator.
  std::optional<size_t> dimensionOf(const std::string &iterator) const {
    const Statement &own = writer();
    for (size_t dim = 0; dim < own.indices.size(); ++dim) {
      if (own.indices[dim]->operation != Operation::Index)
        continue;
      const Affine &affine = own.indices[dim]->affine;
      auto isOther = [&](const std::string &each) {
        return each != iterator && affine.coefficient(each) != 0;
      };
      if (affine.coefficient(iterator) == 1 &&
          std::none_of(own.iterators.begin(), own.iterators.end(), isOther))
        return dim;
    }
    return std::nullopt;
  }

  void replaceIn(Statement &statement) {
    const Statement own = writer();
    auto replace = [&](const Expression &load) -> Expr {
      if (load.tensor != tensor_)
        return nullptr;
      std::map<std::string, Affine> values;
      for (const std::string &iterator : own.iterators) {
        size_t dim = *dimensionOf(iterator);
        values[iterator] = load.operands[dim]->affine - own.indices[dim]->affine + iterator;
      }
      return substituted(own.value, values);
    };
    statement.value = withLoads(statement.value, replace);
    for (Expr &each : statement.indices)
      each = withLoads(each, replace);
  }

  /// What the writer reads must not be overwritten before the readers run.
  std::string brokenByMove() {
    const std::string &from = stage_.writers[0];
    for (const Dependence &each : state_.dependences) {
      if (each.source != from || each.tensor == tensor_ ||
          each.kind == Dependence::Kind::Accumulation)
        continue;
      for (const std::string &reader : stage_.readers) {
        isl::map serves =
            elements(*change_.relations, reader, tensor_, false)
                .apply_range(elements(*change_.relations, from, tensor_, true).reverse());
        Dependence moved{each.kind, reader, each.sink, each.tensor,
                         serves.apply_range(each.points)};
        if (reader == each.sink) // at one point the reads come first
          moved.points = moved.points.subtract(change_.lift(reader));
        if (std::string problem = change_.broken(moved); !problem.empty())
          return problem;
      }
    }
    return {};
  }

  NestChange &change_;
  const ScheduleState &state_;
  std::string tensor_;
  Stage stage_;
};

} // namespace

Status Schedule::computeAt(const std::string &tensor, const std::string &loop) {
  return changeNest(*state_, "compute_at " + tensor, [&](NestChange &change) {
    return ComputeAt(change, *state_, tensor, loop).run();
  });
}

Status Schedule::inlined(const std::string &tensor) {
  return changeNest(*state_, "inline " + tensor,
                    [&](NestChange &change) { return Inline(change, *state_, tensor).run(); });
}

} // namespace tensmith::nest
