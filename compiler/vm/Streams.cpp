// Minimum equivalent graph, matching, chains; see Streams.h.
#include "compiler/vm/Streams.h"

#include <algorithm>
#include <functional>

namespace tensmith::vm {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

class StreamPlanner {
public:
  explicit StreamPlanner(std::span<const Piece> pieces)
      : pieces_(pieces), edges_(pieces.size()), next_(pieces.size(), kNone),
        previous_(pieces.size(), kNone) {}

  StreamPlan plan() {
    reduce();
    for (uint32_t piece = 0; piece < pieces_.size(); ++piece)
      if (pieces_[piece].machine)
        augment(piece);
    joinChains();
    numberStreams();
    addWaits();
    return std::move(plan_);
  }

private:
  bool share(uint32_t a, uint32_t b) const {
    return pieces_[a].machine && pieces_[a].machine == pieces_[b].machine;
  }

  /// Edges that don't follow from others. Of a piece's, the latest source comes first: what it
  /// comes after need not be said again.
  void reduce() {
    uint32_t host = kNone; // its latest piece
    for (uint32_t piece = 0; piece < pieces_.size(); ++piece) {
      llvm::BitVector before(unsigned(pieces_.size()));
      std::vector<uint32_t> after = pieces_[piece].after;
      if (host != kNone)
        after.push_back(host);
      std::ranges::sort(after, std::greater());
      for (uint32_t source : after) {
        if (before.test(source))
          continue;
        before |= plan_.before[source];
        before.set(source);
        edges_[piece].push_back(source);
      }
      plan_.before.push_back(std::move(before));
      if (pieces_[piece].machine == 0)
        host = piece;
    }
    targets_.resize(pieces_.size());
    for (uint32_t piece = 0; piece < pieces_.size(); ++piece)
      for (uint32_t source : edges_[piece])
        if (share(source, piece))
          targets_[source].push_back(piece);
  }

  /// Matches a source, if there is a way to: a path on which edges that are matched and edges that
  /// are not take turns, from it to a target that has none (Berge).
  void augment(uint32_t source) {
    std::vector<uint32_t> reached = {source}, from(pieces_.size(), kNone);
    for (size_t at = 0; at < reached.size(); ++at)
      for (uint32_t target : targets_[reached[at]]) {
        if (from[target] != kNone)
          continue;
        from[target] = reached[at];
        if (previous_[target] != kNone) {
          reached.push_back(previous_[target]);
          continue;
        }
        for (uint32_t end = target; end != kNone;) {
          uint32_t begin = from[end], freed = next_[begin];
          next_[begin] = end;
          previous_[end] = begin;
          end = freed;
        }
        return;
      }
  }

  /// A chain behind another one that all of it comes after anyway: fewer streams, as many waits.
  void joinChains() {
    for (uint32_t head = 0; head < pieces_.size(); ++head) {
      if (!pieces_[head].machine || previous_[head] != kNone)
        continue;
      for (uint32_t tail = head; tail-- > 0;)
        if (next_[tail] == kNone && share(tail, head) && plan_.before[head].test(tail)) {
          next_[tail] = head;
          previous_[head] = tail;
          break;
        }
    }
  }

  void numberStreams() {
    std::vector<uint32_t> counts;
    for (uint32_t piece = 0; piece < pieces_.size(); ++piece) {
      uint32_t machine = pieces_[piece].machine;
      counts.resize(std::max<size_t>(counts.size(), machine + 1));
      bool begins = machine && previous_[piece] == kNone;
      plan_.streams.push_back(begins                      ? counts[machine]++
                              : previous_[piece] != kNone ? plan_.streams[previous_[piece]]
                                                          : 0);
    }
  }

  void addWaits() {
    plan_.waits.resize(pieces_.size());
    for (uint32_t piece = 0; piece < pieces_.size(); ++piece)
      for (uint32_t source : edges_[piece])
        if (pieces_[source].machine && previous_[piece] != source)
          plan_.waits[piece].push_back(source);
  }

  std::span<const Piece> pieces_;
  std::vector<std::vector<uint32_t>> edges_;   // of the minimum equivalent graph: of each target
  std::vector<std::vector<uint32_t>> targets_; // of each source, on its machine
  std::vector<uint32_t> next_, previous_;      // on a stream
  StreamPlan plan_;
};

} // namespace

StreamPlan planStreams(std::span<const Piece> pieces) { return StreamPlanner(pieces).plan(); }

} // namespace tensmith::vm
