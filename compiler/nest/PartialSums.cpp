// A reduction split into partial results: `rfactor`.
//
// Problem: a loop that carries a sum can't be parallel, and its lanes can't be kept apart.
// Method: each iteration of the loop gets results of its own, in a local tensor with a dimension
// more. They begin with the value that the operation changes nothing by, and are joined by the same
// operation when all are done. The order of a reduction's points is free, so this needs no
// dependence; but the statement must not read what it accumulates into.
//
// Source: P. Suriana, A. Adams, S. Kamil, Parallel associative reductions in Halide, CGO 2017.
#include "compiler/nest/Footprint.h"

#include <isl/map.h>
#include <isl/set.h>

#include <algorithm>

namespace tensmith::nest {
namespace {

class PartialSums {
public:
  PartialSums(NestChange &change, std::string statement, std::string loop, std::string name)
      : change_(change), statement_(std::move(statement)), loop_(std::move(loop)),
        name_(std::move(name)) {}

  std::string run() {
    if (std::string problem = unsuited(); !problem.empty())
      return problem;
    std::vector<Affine> values;
    if (std::string problem = change_.expose(statement_, loop_, values); !problem.empty())
      return problem;
    const Node *loop = change_.loops(loop_).back();
    isl::map parts = touched({loop});
    auto bounds = boundsOf(parts, {});
    if (!bounds)
      return "the number of iterations of '" + loop_ + "' is no affine function of sizes";
    target_ = change_.nest.statement(statement_)->tensor;
    auto whole =
        nest::touched(change_, {}, {statement_}, [](const Access &each) { return each.isWrite; });
    auto box = footprintOf(whole, *change_.nest.tensor(target_), *change_.relations, {});
    if (!box)
      return box.status().message();
    addTensor(bounds->extent);
    Statement &own = *change_.nest.statement(statement_);
    own.tensor = name_;
    own.indices.insert(own.indices.begin(), index(values.back() - bounds->low));
    addStatement(*box, bounds->extent, true);
    addStatement(*box, bounds->extent, false);
    change_.renew();
    return place();
  }

private:
  std::string unsuited() {
    const Statement *own = change_.nest.statement(statement_);
    if (!own)
      return "there is no statement '" + statement_ + "'";
    if (own->reduction == Reduction::None)
      return "'" + statement_ + "' accumulates nothing";
    std::vector<Node *> path = change_.loops(loop_);
    if (path.empty())
      return noLoop(change_.tree, loop_);
    if (!path.back()->values.count(statement_))
      return "loop '" + loop_ + "' is not around '" + statement_ + "'";
    if (path.front()->values.size() != 1)
      return "loop '" + path.front()->name + "' is around other statements, too; split the sum " +
             "before they join it";
    for (const Expr &each : own->indices)
      if (each->operation != Operation::Index)
        return "'" + statement_ + "' scatters";
    bool isRead = false;
    forEachLoad(*own,
                [&](const Expression &load, size_t) { isRead |= load.tensor == own->tensor; });
    if (isRead)
      return "'" + statement_ + "' reads '" + own->tensor + "', into which it accumulates";
    for (const std::string &each : {name_, name_ + "_start", name_ + "_join"})
      if (!change_.isFree(each))
        return "the name '" + each + "' is taken, or no identifier";
    return {};
  }

  /// { [] -> [value of the loop] }
  isl::map touched(const std::vector<const Node *> &loops) {
    isl_set *values = isl_map_range(valuesOf(loops, statement_, *change_.relations).release());
    return isl::manage(isl_map_from_range(values));
  }

  void addTensor(const Affine &count) {
    const Tensor &target = *change_.nest.tensor(target_);
    Tensor parts{name_, target.type, {count}, Tensor::Role::Local};
    parts.extents.insert(parts.extents.end(), target.extents.begin(), target.extents.end());
    change_.nest.tensors.push_back(std::move(parts));
  }

  /// The start, whose outermost iterator is the part; or the join, of which it is the innermost.
  void addStatement(const Footprint &box, const Affine &count, bool isStart) {
    Statement own;
    own.name = name_ + (isStart ? "_start" : "_join");
    std::vector<Affine> element;
    std::map<std::string, Affine> values;
    std::string part = change_.newIterator(own, "part");
    for (size_t dim = 0; dim < box.indices.size(); ++dim) {
      own.iterators.push_back(change_.newIterator(own, "x" + std::to_string(dim)));
      element.push_back(Affine(own.iterators.back()));
      values[box.indices[dim]] = element.back();
    }
    own.iterators.insert(isStart ? own.iterators.begin() : own.iterators.end(), part);
    for (const Constraint &each : box.points)
      own.domain.push_back({substituted(each.value, values), each.isEquality});
    for (Constraint &each : within(part, 0, count))
      own.domain.push_back(std::move(each));
    const Statement &sum = *change_.nest.statement(statement_);
    std::vector<Affine> partial = element;
    partial.insert(partial.begin(), Affine(part));
    own.tensor = isStart ? name_ : target_;
    for (const Affine &each : isStart ? partial : element)
      own.indices.push_back(index(each));
    const Tensor &parts = *change_.nest.tensor(name_);
    own.reduction = isStart ? Reduction::None : sum.reduction;
    own.value = isStart ? identity(sum.reduction, parts.type) : load(parts, partial);
    change_.nest.statements.push_back(std::move(own));
  }

  /// In front of the sum's outermost loop and behind it.
  std::string place() {
    std::vector<std::string> startLoops, joinLoops;
    size_t rank = change_.nest.tensor(target_)->extents.size();
    for (size_t dim = 0; dim <= rank; ++dim)
      startLoops.push_back(name_ + "s" + std::to_string(dim));
    for (size_t dim = 1; dim <= rank + 1; ++dim)
      joinLoops.push_back(name_ + "j" + std::to_string(dim % (rank + 1)));
    std::vector<std::string> names = startLoops;
    names.insert(names.end(), joinLoops.begin(), joinLoops.end());
    if (std::string problem = change_.taken(names); !problem.empty())
      return problem;
    Node &sum = *change_.loops(loop_).front();
    Node all{Node::Kind::Sequence};
    all.children.push_back(change_.ownLoops(name_ + "_start", 0, startLoops));
    all.children.push_back(std::move(sum));
    all.children.push_back(change_.ownLoops(name_ + "_join", 0, joinLoops));
    sum = std::move(all);
    return {};
  }

  NestChange &change_;
  std::string statement_, loop_, name_, target_;
};

} // namespace

Status Schedule::rfactor(const std::string &statement, const std::string &loop,
                         const std::string &name) {
  return changeNest(*state_, "rfactor " + statement, [&](NestChange &change) {
    return PartialSums(change, statement, loop, name).run();
  });
}

} // namespace tensmith::nest
