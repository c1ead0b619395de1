// An order without tuning: `default`.
//
// Each statement is looked at by itself, as far as its loops are its own. The vector loop is one
// along which the result is contiguous, or a reduction, where operands are contiguous along that
// alone; a sum has a register tile of it and one more loop that the result has, around its
// innermost reduction; what starts it joins it at the tile. Outermost loops
// are parallel where they carry nothing. Whatever a dependence forbids is left out, so that the
// result is legal for every nest.
#include "compiler/nest/ScheduleState.h"

#include <isl/aff.h>

#include <algorithm>
#include <map>

namespace tensmith::nest {
namespace {

/// Loops that are a statement's alone and stand directly in one another, from outside in.
std::vector<std::string> ownLoops(Node &tree, const std::string &statement) {
  std::vector<std::string> result;
  std::vector<Node *> path = pathTo(tree, statement);
  for (Node *each : path) {
    if (each->kind == Node::Kind::Sequence)
      result.clear();
    if (each->isLoop() && each->values.size() == 1 && each->execution == Execution::Serial)
      result.push_back(each->name);
  }
  return result;
}

/// The iterator that the loop goes over, if it is one as it stands.
std::optional<std::string> iteratorOf(Node &tree, const std::string &loop,
                                      const Statement &statement, const Relations &relations) {
  std::vector<Node *> loops = loopsTo(tree, loop);
  for (size_t number = 0; number < statement.iterators.size(); ++number) {
    isl::pw_aff own = relations.iterator(statement, number);
    if (isl_pw_aff_plain_is_equal(own.get(), loops.back()->values.at(statement.name).get()))
      return statement.iterators[number];
  }
  return std::nullopt;
}

struct Roles {
  std::string lanes, row; // loops; empty: there is none
  std::string lanesIterator;
  std::string column;                  // where the lanes are a reduction's
  std::vector<std::string> reductions; // loops that the result does not have, but for the lanes
  std::vector<std::string> others;     // that the result has, but for lanes, rows and columns
  bool sumsLanes = false;              // the lanes are a reduction's
};

/// Whether the result's last index goes with the iterator, step by step; nothing where no index
/// has it.
std::optional<bool> isContiguous(const Statement &statement, const std::string &iterator) {
  std::optional<bool> result;
  for (const Expr &each : statement.indices) {
    bool isIndex = each->operation == Operation::Index;
    if (!isIndex || each->affine.coefficient(iterator) != 0)
      result =
          isIndex && each->affine.coefficient(iterator) == 1 && each == statement.indices.back();
  }
  return result;
}

/// How dear the statement's reads are where the iterator's values are lanes: of one that doesn't go
/// along nothing, of neighbours in memory one vector, of others an element for each lane.
int64_t costOfReads(const Statement &statement, const std::string &iterator, int64_t lanes) {
  int64_t cost = 0;
  forEachLoad(statement, [&](const Expression &load, size_t rank) {
    int64_t own = 0;
    for (size_t dim = 0; dim < rank; ++dim) {
      const Expression &index = *load.operands[dim];
      if (index.operation != Operation::Index)
        continue; // a gather, whatever the lanes are
      if (int64_t step = index.affine.coefficient(iterator); step != 0)
        own = std::max(own, dim + 1 == rank && step == 1 ? int64_t(1) : lanes);
    }
    cost += own;
  });
  return cost;
}

std::string takeOut(std::vector<std::string> &loops, const std::string &loop) {
  std::erase(loops, loop);
  return loop;
}

/// The asked loop where the statement has it among these, else the last of them.
std::string pick(std::vector<std::string> &loops, const std::string &asked) {
  if (loops.empty())
    return {};
  bool isThere = std::find(loops.begin(), loops.end(), asked) != loops.end();
  return takeOut(loops, isThere ? asked : std::string(loops.back()));
}

Roles rolesOf(ScheduleState &state, const Statement &statement, const RegisterTile &tile,
              int64_t lanes) {
  Roles result;
  std::string contiguous, asked, askedRow, summed;
  std::map<std::string, std::string> iterators; // by loop
  int64_t ofContiguous = 0, ofSummed = 0;       // cost of reads
  auto isAt = [&](size_t place, const std::string &iterator) {
    return place > 0 && place <= statement.iterators.size() &&
           statement.iterators[place - 1] == iterator;
  };
  for (const std::string &loop : ownLoops(state.tree, statement.name)) {
    auto iterator = iteratorOf(state.tree, loop, statement, *state.relations);
    if (!iterator)
      continue;
    iterators[loop] = *iterator;
    auto along = isContiguous(statement, *iterator);
    (along ? result.others : result.reductions).push_back(loop);
    int64_t cost = costOfReads(statement, *iterator, lanes);
    if (along.value_or(false) && contiguous.empty()) {
      contiguous = loop;
      ofContiguous = cost;
    }
    if (!along && (summed.empty() || cost < ofSummed)) {
      summed = loop;
      ofSummed = cost;
    }
    if (isAt(tile.lanesAlong, *iterator))
      asked = loop;
    if (isAt(tile.rowsAlong, *iterator))
      askedRow = loop;
  }
  // Lanes that are added up behind the sum cost something, too.
  constexpr int64_t kDear = 4;
  bool maySum = !summed.empty() && tile.laneFactors.empty() && ofSummed > 0;
  bool isDear = contiguous.empty() ? ofSummed < lanes : ofContiguous >= kDear * ofSummed;
  result.lanes = !asked.empty() ? asked : maySum && isDear ? summed : contiguous;
  result.lanesIterator = iterators[result.lanes];
  result.sumsLanes = std::find(result.reductions.begin(), result.reductions.end(), result.lanes) !=
                     result.reductions.end();
  takeOut(result.sumsLanes ? result.reductions : result.others, result.lanes);
  result.row = pick(result.others, askedRow);
  if (result.sumsLanes)
    result.column = pick(result.others, {});
  return result;
}

/// Loops cut on a copy of a schedule, all or nothing.
class Cuts {
public:
  explicit Cuts(Schedule &schedule) : schedule_(schedule), trial_(schedule.copy()) {}

  void take(const Status &status) { isDone_ &= status.ok(); }
  /// The outer loop; the inner one is left in `loop`.
  std::string cut(std::string &loop, int64_t factor, const char *outer, const char *inner) {
    std::string from = loop;
    loop = from + inner;
    take(trial_.split(from, factor, from + outer, loop));
    return from + outer;
  }
  Schedule &trial() { return trial_; }
  bool finish() {
    if (isDone_)
      schedule_ = std::move(trial_);
    return isDone_;
  }

private:
  Schedule &schedule_;
  Schedule trial_;
  bool isDone_ = true;
};

/// Dimensions with those that the iterator goes along last.
std::vector<LayoutDimension> lanesLast(const Expression &load, size_t rank,
                                       const std::string &iterator) {
  std::vector<LayoutDimension> order, last;
  for (size_t dim = 0; dim < rank; ++dim) {
    const Expression &index = *load.operands[dim];
    bool goesAlong = index.operation == Operation::Index && index.affine.coefficient(iterator) != 0;
    (goesAlong ? last : order).push_back({dim});
  }
  order.insert(order.end(), last.begin(), last.end());
  return order;
}

class Estimate {
public:
  Estimate(Schedule &schedule, int64_t lanes, int64_t registers, RegisterTile tile)
      : schedule_(schedule), lanes_(lanes), tile_(tile.completed(schedule.nest(), registers)) {}

  void run() {
    std::vector<std::string> names;
    for (const Statement &each : schedule_.nest().statements)
      names.push_back(each.name);
    for (const std::string &name : names)
      statement(Statement(*schedule_.nest().statement(name)));
    std::vector<std::string> outermost;
    collectOutermost(schedule_.state().tree, outermost);
    for (const std::string &loop : outermost)
      attempt(schedule_.parallel(loop));
  }

private:
  static bool attempt(const Status &status) { return status.ok(); }

  static void collectOutermost(const Node &node, std::vector<std::string> &into) {
    if (node.isLoop())
      into.push_back(node.name);
    else
      for (const Node &child : node.children)
        collectOutermost(child, into);
  }

  void statement(const Statement &own) {
    Roles roles;
    Status status = guarded(schedule_.state(), "default", [&]() -> Status {
      roles = rolesOf(schedule_.state(), own,
                      own.reduction == Reduction::None ? RegisterTile() : tile_, lanes_);
      return {};
    });
    if (!status.ok() || roles.lanes.empty())
      return;
    bool tiles = own.reduction != Reduction::None && !roles.row.empty() &&
                 (roles.sumsLanes || !roles.reductions.empty()) &&
                 (tile_.laneFactors.empty() ? registerTile(own, roles)
                                            : !roles.sumsLanes && factoredTile(roles));
    if (!tiles)
      vectors(own, roles);
  }

  /// Outermost the blocks, then the tiles of a block, the sum, and the tile. Where the lanes are
  /// the result's, the tile has vectors of them; else it has columns, whose lanes are added up
  /// behind the sum.
  bool registerTile(const Statement &own, const Roles &roles) {
    Cuts cuts(schedule_);
    std::string row = roles.row, column = roles.sumsLanes ? roles.column : roles.lanes;
    std::string lanes = roles.lanes, panel;
    std::vector<std::string> blocks, tiles, sum = roles.reductions, order = roles.others;
    if (!column.empty()) {
      panel = cuts.cut(column, tile_.vectors * (roles.sumsLanes ? 1 : lanes_), "0", "1");
      if (tile_.laneTiles > 1)
        blocks.push_back(cuts.cut(panel, tile_.laneTiles, "b", "t"));
      tiles.push_back(panel);
    }
    std::string rows = cuts.cut(row, tile_.rows, "0", "1");
    if (tile_.rowTiles > 1)
      blocks.push_back(cuts.cut(rows, tile_.rowTiles, "b", "t"));
    tiles.push_back(rows);
    if (std::string &deep = roles.sumsLanes ? lanes : sum.back(); tile_.depth > 0)
      blocks.push_back(cuts.cut(deep, std::max(tile_.depth, lanes_), "b", "t"));
    if (roles.sumsLanes)
      sum.push_back(cuts.cut(lanes, lanes_, "0", "1"));
    for (const auto &group : {blocks, tiles, sum, {row}})
      order.insert(order.end(), group.begin(), group.end());
    if (!column.empty())
      order.push_back(column);
    if (roles.sumsLanes)
      order.push_back(lanes);
    cuts.take(cuts.trial().reorder(order));
    pack(cuts, own, roles, panel);
    cuts.take(cuts.trial().unroll(row));
    if (!roles.sumsLanes) {
      std::string vectors = cuts.cut(column, lanes_, "2", "3");
      cuts.take(cuts.trial().unroll(vectors));
      lanes = column;
    } else if (!column.empty()) {
      cuts.take(cuts.trial().unroll(column));
    }
    cuts.take(cuts.trial().vectorize(lanes));
    return cuts.finish();
  }

  /// Four loops of rows and of lanes, two of the sum. The innermost ones are a register tile where
  /// that is small enough to be straight code.
  bool factoredTile(const Roles &roles) {
    Cuts cuts(schedule_);
    std::vector<std::string> rows, lanes, sums, order = roles.others;
    std::string row = roles.row, lane = roles.lanes, sum = roles.reductions.back();
    cutByFactors(cuts, row, tile_.rowFactors, rows);
    cutByFactors(cuts, lane, tile_.laneFactors, lanes);
    cutByFactors(cuts, sum, tile_.depthFactors, sums);
    order.insert(order.end(), roles.reductions.begin(), roles.reductions.end() - 1);
    order.insert(order.end(), {rows[0], lanes[0], rows[1], lanes[1], sums[0], rows[2], lanes[2],
                               sums[1], rows[3], lanes[3]});
    cuts.take(cuts.trial().reorder(order));
    constexpr int64_t kStraight = 64; // vectors
    int64_t vectors = std::max<int64_t>(tile_.laneFactors[3] / lanes_, 1);
    bool isStraight = tile_.rowFactors[3] * vectors <= kStraight;
    if (vectors > 1) {
      std::string outer = cuts.cut(lanes[3], lanes_, "v", "l");
      if (isStraight)
        cuts.take(cuts.trial().unroll(outer));
    }
    if (isStraight)
      cuts.take(cuts.trial().unroll(rows[3]));
    if (tile_.laneFactors[3] > 1)
      cuts.take(cuts.trial().vectorize(lanes[3], std::min(lanes_, tile_.laneFactors[3])));
    return cuts.finish();
  }

  /// The loops from outside in: so many that each but the first runs as often as its factor says.
  static void cutByFactors(Cuts &cuts, std::string &loop, const std::vector<int64_t> &factors,
                           std::vector<std::string> &loops) {
    constexpr const char *kNames[] = {"0", "1", "2", "3"};
    int64_t inside = 1;
    for (size_t part = 1; part < factors.size(); ++part)
      inside *= factors[part];
    for (size_t part = 0; part + 1 < factors.size(); inside /= factors[++part])
      loops.push_back(cuts.cut(loop, inside, kNames[part], "_"));
    loops.push_back(loop);
  }

  /// What can't be copied, as what is gathered, is read where it lies.
  void pack(Cuts &cuts, const Statement &own, const Roles &roles, const std::string &panel) {
    std::map<std::string, std::vector<LayoutDimension>> orders; // of what is read
    forEachLoad(own, [&](const Expression &load, size_t rank) {
      orders.try_emplace(load.tensor, lanesLast(load, rank, roles.lanesIterator));
    });
    std::vector<CacheRequest> requests;
    size_t number = 0;
    for (const Tensor &tensor : schedule_.nest().tensors) {
      auto order = orders.find(tensor.name);
      if (order == orders.end() || number == tile_.packing.size())
        continue;
      RegisterTile::Packing asked = tile_.packing[number++];
      if (asked != RegisterTile::Packing::None && !order->second.empty())
        requests.push_back({tensor.name,
                            asked == RegisterTile::Packing::Panel ? panel : std::string(),
                            order->second, tensor.name + "_packed"});
    }
    for (const CacheRequest &request : requests)
      attempt(cuts.trial().cacheRead(request));
  }

  void vectors(const Statement &own, const Roles &roles) {
    Schedule trial = schedule_.copy();
    std::vector<std::string> loops = ownLoops(trial.state().tree, own.name), order;
    for (const std::string &each : loops)
      if (each != roles.lanes)
        order.push_back(each);
    order.push_back(roles.lanes);
    if (order.size() > 1 && order != loops && !attempt(trial.reorder(order)))
      return;
    if (attempt(trial.vectorize(roles.lanes, lanes_)))
      schedule_ = std::move(trial);
  }

  Schedule &schedule_;
  int64_t lanes_;
  RegisterTile tile_;
};

} // namespace

namespace {

/// Whether the statement reads elements whose places other elements tell.
bool readsTables(const Statement &statement) {
  bool reads = false;
  forEachLoad(statement, [&](const Expression &load, size_t rank) {
    for (size_t dim = 0; dim < rank; ++dim)
      reads |= load.operands[dim]->operation != Operation::Index;
  });
  return reads;
}

} // namespace

RegisterTile RegisterTile::completed(const Nest &nest, int64_t registers) const {
  bool isMany = registers >= 32;
  // The rows of a tile read some operand together; of what is looked up each reads its own.
  bool isSingle = llvm::any_of(nest.statements, readsTables);
  RegisterTile result = *this;
  result.rows = rows ? rows : isSingle ? 1 : isMany ? 6 : 4;
  result.vectors = vectors ? vectors : isMany ? 4 : 2;
  return result;
}

Status Schedule::byEstimate(int64_t lanes, int64_t registers, RegisterTile tile) {
  if (lanes < 1 || lanes > 64)
    return invalidArgument("default: the number of lanes must be from 1 to 64");
  Estimate(*this, lanes, registers, tile).run();
  return {};
}

} // namespace tensmith::nest
