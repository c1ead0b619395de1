// Copies of what a loop's iteration touches: `cache_read` and `cache_write`.
//
// Problem: rows of a tile lie apart in memory, fall into few sets of a cache, or in an order that
// vectors and instructions can't read.
// Method: the footprint of the loop's iteration (Footprint.h) becomes a local tensor that has an
// instance for each iteration, in a layout of its own: its dimensions in any order, in blocks if
// that is said, of whole tiles.
// A statement copies what is read into it when the iteration begins, or out of it when it ends, and
// all of the tensor that is touched within the loop is touched there.
// Invariant: the copy is made when all has been written that is read of it. What a loop accumulates
// into, and began before, is copied in as well.
//
// Source: J. Ragan-Kelley et al., Halide, PLDI 2013; T. Chen et al., TVM, OSDI 2018 (the names).
#include "compiler/nest/Footprint.h"

#include <isl/map.h>
#include <isl/set.h>

#include <algorithm>
#include <numeric>

namespace tensmith::nest {
namespace {

class Cache {
public:
  Cache(NestChange &change, ScheduleState &state, const CacheRequest &request)
      : change_(change), state_(state), request_(request) {}

  std::string read() {
    if (std::string problem = begin(false); !problem.empty())
      return problem;
    if (std::string problem = makeTensor(meant([](const Access &each) { return !each.isWrite; }));
        !problem.empty())
      return problem;
    std::string copy = request_.name + "_copy";
    if (std::string problem = addCopy(copy, *box_, true); !problem.empty())
      return problem;
    for (const std::string &each : users_)
      redirect(each);
    change_.renew();
    std::string problem = change_.place(copy, request_.loop, loopNames(""), true);
    return problem.empty() ? staleReads(copy) : problem;
  }

  std::string write() {
    if (std::string problem = begin(true); !problem.empty())
      return problem;
    isl::map written = meant([](const Access &each) { return each.isWrite; });
    if (std::string problem = makeTensor(meant([](const Access &) { return true; }));
        !problem.empty())
      return problem;
    auto out = footprintOf(written, source(), *change_.relations, box_->at);
    if (!out || !out->isExact)
      return "which elements of '" + request_.tensor +
             "' an iteration writes is no conjunction of affine constraints";
    isl::map early = readEarly();
    bool isBegun = !early.is_null() && !early.is_empty();
    std::string in = request_.name + "_read", last = request_.name + "_write";
    if (isBegun) {
      auto begun = footprintOf(early, source(), *change_.relations, box_->at);
      if (!begun)
        return begun.status().message();
      if (std::string problem = addCopy(in, *begun, true); !problem.empty())
        return problem;
    }
    if (std::string problem = addCopy(last, *out, false); !problem.empty())
      return problem;
    for (const std::string &each : users_) {
      redirect(each);
      redirectTarget(each);
    }
    change_.renew();
    std::string problem;
    if (isBegun)
      problem = change_.place(in, request_.loop, loopNames("r"), true);
    return problem.empty() ? change_.place(last, request_.loop, loopNames("w"), false) : problem;
  }

private:
  const Tensor &source() const { return *change_.nest.tensor(request_.tensor); }

  /// The statements below the loop that touch the tensor, with its loops' values as iterators.
  std::string begin(bool writes) {
    const Tensor *tensor = change_.nest.tensor(request_.tensor);
    if (!tensor)
      return "there is no tensor '" + request_.tensor + "'";
    if (tensor->instances)
      return "'" + request_.tensor + "' has instances already";
    if (!request_.loop.empty() && change_.loops(request_.loop).empty())
      return noLoop(change_.tree, request_.loop);
    if (std::string problem = orderProblem(tensor->extents.size()); !problem.empty())
      return problem;
    if (!change_.isFree(request_.name))
      return "the name '" + request_.name + "' is taken, or no identifier";
    const Node &below = request_.loop.empty() ? change_.tree : *change_.loops(request_.loop).back();
    bool isWritten = false;
    for (const std::string &name : below.statements())
      if (std::string problem = addUser(name, writes, isWritten); !problem.empty())
        return problem;
    std::string where = request_.loop.empty() ? "" : " in loop '" + request_.loop + "'";
    if (users_.empty() || (writes && !isWritten))
      return "nothing" + where + (writes ? " writes '" : " reads '") + request_.tensor + "'";
    for (const std::string &name : users_)
      if (std::string problem = change_.expose(name, request_.loop, at_[name]); !problem.empty())
        return problem;
    for (Node *each : change_.loops(request_.loop))
      loops_.push_back(each);
    return {};
  }

  /// Takes the order apart: the copy's dimensions, and how they lie in memory if there are blocks.
  std::string orderProblem(size_t rank) {
    using Part = LayoutDimension::Part;
    std::vector<std::vector<LayoutDimension>> parts(rank);
    bool hasBlocks = false, isWrong = false;
    for (const LayoutDimension &each : request_.order) {
      hasBlocks |= each.part != Part::Whole;
      if ((isWrong |= each.dim >= rank))
        break;
      if (each.part != Part::Remainder)
        order_.push_back(int64_t(each.dim));
      parts[each.dim].push_back(each);
    }
    for (const auto &own : parts) {
      bool isWhole = own.size() == 1 && own[0].part == Part::Whole;
      bool isInBlocks = own.size() == 2 && own[0].part == Part::Quotient &&
                        own[1].part == Part::Remainder && own[0].block == own[1].block;
      isWrong |= !request_.order.empty() && !isWhole && !isInBlocks;
    }
    if (isWrong)
      return "the order must name each of the " + std::to_string(rank) + " dimensions of '" +
             request_.tensor + "' once, from 0 on: whole, as 1, or its blocks and further inside " +
             "what is in them, as 1/4 and 1%4";
    if (std::string problem = blockProblem(); !problem.empty())
      return problem;
    if (request_.order.empty()) {
      order_.resize(rank);
      std::iota(order_.begin(), order_.end(), 0);
    }
    if (hasBlocks)
      for (LayoutDimension each : request_.order) {
        auto own = std::find(order_.begin(), order_.end(), int64_t(each.dim));
        each.dim = size_t(own - order_.begin());
        layout_.push_back(each);
      }
    return {};
  }

  /// A copy of whole blocks has at most as many elements as what it copies, times the product of
  /// the blocks' sizes: with a bound for these its size in bytes is within 64 bits.
  std::string blockProblem() const {
    constexpr int64_t kMost = 1 << 16;
    int64_t product = 1;
    for (const LayoutDimension &each : request_.order) {
      if (each.part != LayoutDimension::Part::Remainder)
        continue;
      if (each.block > kMost / product)
        return "the blocks of '" + request_.name + "' are too large: the product of their sizes " +
               "may be " + std::to_string(kMost) + " at most";
      product *= each.block;
    }
    return {};
  }

  std::string addUser(const std::string &name, bool writes, bool &isWritten) {
    const Statement &statement = *change_.nest.statement(name);
    bool isUser = false, isAffine = true;
    auto look = [&](const std::vector<Expr> &indices, size_t rank) {
      isUser = true;
      for (size_t dim = 0; dim < rank; ++dim)
        isAffine &= indices[dim]->operation == Operation::Index;
    };
    forEachLoad(statement, [&](const Expression &load, size_t rank) {
      if (load.tensor == request_.tensor)
        look(load.operands, rank);
    });
    if (writes && statement.tensor == request_.tensor) {
      look(statement.indices, statement.indices.size());
      isWritten = true;
    }
    if (!isAffine)
      return "'" + name + "' touches '" + request_.tensor + "' at an index that is not affine";
    if (isUser)
      users_.push_back(name);
    return {};
  }

  isl::map meant(const std::function<bool(const Access &)> &isMeant) {
    return touched(change_, loops_, users_, [&](const Access &each) {
      bool isOwn = !request_.isWrite && each.accumulates; // of a sum into the tensor
      return each.tensor == request_.tensor && !isOwn && isMeant(each);
    });
  }

  std::string makeTensor(const isl::map &elements) {
    std::vector<std::string> names;
    for (const Node *each : loops_)
      names.push_back("at." + each->name);
    auto box = footprintOf(elements, source(), *change_.relations, names);
    if (!box)
      return box.status().message();
    box_ = std::move(*box);
    Tensor cache{request_.name, source().type, {}, Tensor::Role::Local};
    cache.instances = loops_.size();
    cache.extents.assign(loops_.size(), Affine(1));
    for (int64_t dim : order_)
      cache.extents.push_back(box_->extents[size_t(dim)]);
    cache.layout = layout_;
    for (LayoutDimension &each : cache.layout)
      each.dim += cache.instances;
    cache.memory = request_.memory;
    change_.nest.tensors.push_back(std::move(cache));
    return memoryProblem(change_.nest, state_.memories);
  }

  /// The cache's indices at these of the tensor, over the statement's iterators.
  std::vector<Affine> own(const std::string &statement, const std::vector<Affine> &indices) {
    return placed(*box_, order_, at_[statement], indices);
  }

  void redirect(const std::string &name) {
    redirectLoads(*change_.nest.statement(name), request_.tensor, request_.name,
                  [&](const std::vector<Affine> &indices) { return own(name, indices); });
  }

  void redirectTarget(const std::string &name) {
    Statement &statement = *change_.nest.statement(name);
    if (statement.tensor != request_.tensor)
      return;
    statement.indices =
        asIndices(own(name, affineIndices(statement.indices, statement.indices.size())));
    statement.tensor = request_.name;
  }

  /// A statement that goes over the points of the box in the cache's order.
  std::string addCopy(const std::string &name, const Footprint &points, bool isRead) {
    if (!change_.isFree(name))
      return "the name '" + name + "' is taken, or no identifier";
    Statement copy;
    copy.name = name;
    std::vector<Affine> at, inside, outside(order_.size());
    for (size_t number = 0; number < loops_.size(); ++number) {
      copy.iterators.push_back(change_.newIterator(copy, "a" + std::to_string(number)));
      at.push_back(Affine(copy.iterators.back()));
    }
    std::map<std::string, Affine> values = valuesAt(*box_, at);
    inside = at;
    for (int64_t dim : order_) {
      copy.iterators.push_back(change_.newIterator(copy, "x" + std::to_string(dim)));
      Affine own = copy.iterators.back();
      outside[size_t(dim)] = own + substituted(box_->low[size_t(dim)], values);
      inside.push_back(own);
    }
    std::map<std::string, Affine> all = values;
    for (size_t dim = 0; dim < outside.size(); ++dim)
      all[points.indices[dim]] = outside[dim];
    for (const Constraint &each : points.points)
      copy.domain.push_back({substituted(each.value, all), each.isEquality});
    const Tensor &cache = *change_.nest.tensor(request_.name);
    copy.tensor = isRead ? request_.name : request_.tensor;
    copy.indices = asIndices(isRead ? inside : outside);
    copy.value = isRead ? load(source(), outside) : load(cache, inside);
    change_.nest.statements.push_back(std::move(copy));
    return {};
  }

  std::vector<std::string> loopNames(const std::string &suffix) const {
    std::vector<std::string> result;
    for (int64_t dim : order_)
      result.push_back(request_.name + suffix + std::to_string(dim));
    return result;
  }

  /// What was written between the copy and the read that it now serves.
  std::string staleReads(const std::string &copy) {
    auto elements = [&](const std::string &statement, bool isWrite, const std::string &tensor) {
      isl::map result;
      for (const Access &each : change_.relations->of(statement).accesses)
        if (each.tensor == tensor && each.isWrite == isWrite)
          result = result.is_null() ? each.elements : result.unite(each.elements);
      return result;
    };
    isl::map read = elements(copy, false, request_.tensor);
    isl::map made = elements(copy, true, request_.name);
    for (const Dependence &each : state_.dependences) {
      bool isUsed = std::count(users_.begin(), users_.end(), each.sink) > 0;
      if (each.kind != Dependence::Kind::Flow || each.tensor != request_.tensor || !isUsed)
        continue;
      isl::map serves = elements(each.sink, false, request_.name).apply_range(made.reverse());
      isl::map moved = each.points.apply_domain(change_.lift(each.source))
                           .apply_range(change_.lift(each.sink))
                           .apply_range(serves);
      moved =
          moved.intersect(elements(each.source, true, request_.tensor).apply_range(read.reverse()));
      Dependence own{each.kind, each.source, copy, each.tensor, moved};
      if (std::string problem = change_.broken(own); !problem.empty())
        return problem;
    }
    return {};
  }

  /// Elements that an iteration reads before it has written them, at the values of the loops. Null:
  /// nothing is read.
  isl::map readEarly() {
    std::map<std::string, isl::map> time = times(change_.tree, *change_.relations);
    isl::map result;
    for (const std::string &reader : users_)
      for (const Access &read : change_.relations->of(reader).accesses) {
        if (read.isWrite || read.tensor != request_.tensor)
          continue;
        isl::map early = read.elements; // { reader -> element }
        isl::map values = valuesOf(loops_, reader, *change_.relations);
        for (const std::string &writer : users_) {
          const Statement &own = *change_.nest.statement(writer);
          if (own.tensor != request_.tensor || own.reduction != Reduction::None)
            continue;
          isl::map pairs = inOrder(time.at(writer), time.at(reader));
          pairs = pairs.intersect(
              valuesOf(loops_, writer, *change_.relations).apply_range(values.reverse()));
          early = early.subtract(pairs.reverse().apply_range(writeOf(writer)));
        }
        early = values.reverse().apply_range(early);
        result = result.is_null() ? early : result.unite(early);
      }
    return result;
  }

  isl::map writeOf(const std::string &statement) {
    for (const Access &each : change_.relations->of(statement).accesses)
      if (each.isWrite)
        return each.elements;
    return {};
  }

  NestChange &change_;
  ScheduleState &state_;
  const CacheRequest &request_;
  std::vector<int64_t> order_; // of the copy's dimensions
  std::vector<LayoutDimension> layout_;
  std::vector<std::string> users_;
  std::map<std::string, std::vector<Affine>> at_; // values of the loops, by user
  std::vector<const Node *> loops_;
  std::optional<Footprint> box_;
};

} // namespace

Status Schedule::cacheRead(const CacheRequest &request) {
  return changeNest(*state_, "cache_read " + request.tensor,
                    [&](NestChange &change) { return Cache(change, *state_, request).read(); });
}

Status Schedule::cacheWrite(CacheRequest request) {
  request.isWrite = true;
  return changeNest(*state_, "cache_write " + request.tensor,
                    [&](NestChange &change) { return Cache(change, *state_, request).write(); });
}

} // namespace tensmith::nest
