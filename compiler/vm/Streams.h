// Streams for pieces of work of which some need others, so that those that don't may go on at the
// same time.
//
// A machine does what is put on one stream in order, and knows nothing of its other streams unless
// it is told to wait. Two pieces share a stream only where one of them comes after the other
// anyway: all that could go on at the same time may. Of all such assignments this one has the
// fewest waits. A dependency that follows from others needs none; what is left (the minimum
// equivalent graph) is the same for every assignment, and each of its edges is a wait unless both
// pieces are neighbours on a stream. A piece has at most one neighbour on either side, so the edges
// that are saved are a matching of pieces as sources with pieces as targets, and the most are
// saved by a maximum one (Kwon et al., "Nimble: Lightweight and Parallel GPU Task Scheduling for
// Deep Learning", 2020, theorems 1 to 4).
//
// The host differs: it does its pieces one after the other, and each before it puts later ones on
// streams. So what needs a piece of the host's waits for nothing.
#pragma once

#include "llvm/ADT/BitVector.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tensmith::vm {

struct Piece {
  uint32_t machine = 0;        // 0: the host
  std::vector<uint32_t> after; // earlier pieces that it needs, by number
};

struct StreamPlan {
  std::vector<uint32_t> streams;            // of each piece, among those of its machine
  std::vector<std::vector<uint32_t>> waits; // for pieces of machines beside the host
  /// All pieces that are done before one begins.
  std::vector<llvm::BitVector> before;
};

/// Pieces stand in an order in which they may be done.
StreamPlan planStreams(std::span<const Piece> pieces);

} // namespace tensmith::vm
