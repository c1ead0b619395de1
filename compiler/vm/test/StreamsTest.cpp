// Streams of random graphs against all assignments that there are.
//
// The oracle tries every way to cut each machine's pieces into streams on which everything comes
// after what stands before it, and for each every set of waits, smallest first, until all
// dependencies hold. Fails where an edge that follows from others gets a wait, where the matching
// isn't maximum, or where pieces that don't need one another share a stream.
#include "compiler/vm/Streams.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

namespace tensmith::vm {
namespace {

using Masks = std::vector<uint32_t>; // of each piece, those before it, a bit each

/// What follows from a graph whose edges go from smaller to larger numbers.
Masks closure(Masks before) {
  for (size_t piece = 0; piece < before.size(); ++piece)
    for (size_t source = 0; source < piece; ++source)
      if (before[piece] >> source & 1)
        before[piece] |= before[source];
  return before;
}

/// What the host's order says: each of its pieces comes before all later ones.
Masks ofHost(const std::vector<Piece> &pieces) {
  Masks before(pieces.size());
  for (size_t piece = 0; piece < pieces.size(); ++piece)
    for (size_t source = 0; source < piece; ++source)
      before[piece] |= uint32_t(pieces[source].machine == 0) << source;
  return before;
}

Masks needed(const std::vector<Piece> &pieces) {
  Masks before = ofHost(pieces);
  for (size_t piece = 0; piece < pieces.size(); ++piece)
    for (uint32_t source : pieces[piece].after)
      before[piece] |= 1u << source;
  return closure(before);
}

bool holds(const Masks &have, const Masks &need) {
  for (size_t i = 0; i < have.size(); ++i)
    if (need[i] & ~have[i])
      return false;
  return true;
}

class Exhaustive {
public:
  explicit Exhaustive(const std::vector<Piece> &pieces)
      : pieces_(pieces), need_(needed(pieces)), streams_(pieces.size()) {}

  /// The fewest waits of all assignments.
  size_t fewestWaits() {
    assign(0);
    return best_;
  }

private:
  void assign(uint32_t piece) {
    if (piece == pieces_.size())
      return tryWaits();
    if (pieces_[piece].machine == 0)
      return assign(piece + 1);
    for (uint32_t stream = 0; stream <= piece; ++stream) {
      bool fits = true, isUsed = stream == 0;
      for (uint32_t other = 0; other < piece; ++other) {
        if (pieces_[other].machine != pieces_[piece].machine)
          continue;
        isUsed |= streams_[other] + 1 == stream;
        fits &= streams_[other] != stream || (need_[piece] >> other & 1);
      }
      if (!isUsed)
        break; // streams are numbered as they are first used
      if (!fits)
        continue;
      streams_[piece] = stream;
      assign(piece + 1);
    }
  }

  void tryWaits() {
    Masks have = ofHost(pieces_);
    std::vector<std::pair<uint32_t, uint32_t>> candidates;
    for (uint32_t piece = 0; piece < pieces_.size(); ++piece)
      for (uint32_t source = 0; source < piece; ++source) {
        bool together = pieces_[source].machine &&
                        pieces_[source].machine == pieces_[piece].machine &&
                        streams_[source] == streams_[piece];
        if (together)
          have[piece] |= 1u << source;
        else if (pieces_[source].machine && (need_[piece] >> source & 1))
          candidates.emplace_back(source, piece);
      }
    for (uint32_t set = 0; set < 1u << candidates.size(); ++set) {
      if (size_t(std::popcount(set)) >= best_)
        continue;
      Masks with = have;
      for (size_t i = 0; i < candidates.size(); ++i)
        with[candidates[i].second] |= (set >> i & 1) << candidates[i].first;
      if (holds(closure(with), need_))
        best_ = size_t(std::popcount(set));
    }
  }

  const std::vector<Piece> &pieces_;
  Masks need_;
  std::vector<uint32_t> streams_;
  size_t best_ = SIZE_MAX;
};

std::vector<Piece> randomPieces(std::mt19937 &random, uint32_t most, uint32_t machines) {
  std::vector<Piece> pieces(2 + random() % (most - 1));
  uint32_t density = 1 + random() % 4;
  for (uint32_t piece = 0; piece < pieces.size(); ++piece) {
    pieces[piece].machine = machines == 1 ? 1 : random() % (machines + 1);
    for (uint32_t source = 0; source < piece; ++source)
      if (random() % 5 < density)
        pieces[piece].after.push_back(source);
  }
  return pieces;
}

size_t waitsOf(const StreamPlan &plan) {
  size_t count = 0;
  for (const auto &waits : plan.waits)
    count += waits.size();
  return count;
}

/// That what is needed follows from streams and waits, that nothing else does, and that pieces that
/// don't need one another are on different streams.
void expectSound(const std::vector<Piece> &pieces, const StreamPlan &plan) {
  Masks have = ofHost(pieces), need = needed(pieces);
  for (uint32_t piece = 0; piece < pieces.size(); ++piece) {
    for (uint32_t source : plan.waits[piece])
      have[piece] |= 1u << source;
    for (uint32_t source = 0; source < piece; ++source) {
      bool together = pieces[piece].machine && pieces[source].machine == pieces[piece].machine &&
                      plan.streams[source] == plan.streams[piece];
      EXPECT_TRUE(!together || (need[piece] >> source & 1));
      have[piece] |= uint32_t(together) << source;
    }
  }
  EXPECT_EQ(closure(have), need);
  for (uint32_t piece = 0; piece < pieces.size(); ++piece)
    for (uint32_t source = 0; source < pieces.size(); ++source)
      EXPECT_EQ(plan.before[piece].test(source), bool(need[piece] >> source & 1));
}

TEST(Streams, OfRandomGraphsHaveTheFewestWaits) {
  std::mt19937 random(7);
  for (int graph = 0; graph < 2000; ++graph) {
    std::vector<Piece> pieces =
        randomPieces(random, graph % 20 == 0 ? 7 : 6, graph % 3 == 0 ? 1 : 2);
    StreamPlan plan = planStreams(pieces);
    expectSound(pieces, plan);
    EXPECT_EQ(waitsOf(plan), Exhaustive(pieces).fewestWaits()) << "graph " << graph;
    if (HasFailure())
      return;
  }
}

TEST(Streams, OfLargerGraphsHold) {
  std::mt19937 random(8);
  for (int graph = 0; graph < 300; ++graph) {
    std::vector<Piece> pieces = randomPieces(random, 30, 3);
    expectSound(pieces, planStreams(pieces));
    if (HasFailure())
      return;
  }
}

// What the host comes between needs no stream of its own.
TEST(Streams, OfAChainThroughTheHost) {
  std::vector<Piece> pieces = {{1, {}}, {0, {0}}, {1, {1}}, {2, {1}}, {0, {2, 3}}, {1, {4}}};
  StreamPlan plan = planStreams(pieces);
  EXPECT_EQ(waitsOf(plan), 3u);
  EXPECT_EQ(plan.streams, (std::vector<uint32_t>{0, 0, 0, 0, 0, 0}));
}

// Of two chains that begin and end together one waits twice, at its begin and for its end.
TEST(Streams, OfADiamond) {
  std::vector<Piece> pieces = {{1, {}}, {1, {0}}, {1, {0}}, {1, {1}}, {1, {2}}, {1, {3, 4}}};
  StreamPlan plan = planStreams(pieces);
  EXPECT_EQ(waitsOf(plan), 2u);
  EXPECT_EQ(std::ranges::max(plan.streams), 1u);
}

} // namespace
} // namespace tensmith::vm
