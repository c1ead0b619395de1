// How parameters lie in memory where several processes train together: one after the other in
// buckets, whose gradients are summed at once.
//
// A bucket is a vector of one element type. It is sent when the last of its gradients is there, so
// that its parameters should be those whose gradients are computed one after the other. Each
// process has a part of equal size: what it updates where the optimiser's state is shared out.
// Parameters begin at whole cache lines, and the end is filled up so that the parts do, too.
#pragma once

#include "base/DataType.h"
#include "base/HostTensor.h"

#include <span>
#include <string>
#include <vector>

namespace tensmith::train {

struct Bucketed {
  std::string name;
  DataType type;
  Shape shape;
};

/// What is updated by the sums.
struct Updated : Bucketed {
  int64_t part = 0; // not 0: it is shared out, and a process has so many of its elements
};

struct Bucket {
  struct Piece {
    size_t parameter;      // its number
    int64_t offset, count; // in elements
  };
  DataType type = DataType::F32;
  std::vector<Piece> pieces;
  int64_t count = 0; // of elements, what fills it up included: a multiple of the processes
  int64_t bytes() const { return count * byteSize(type); }
};

/// Parameters in the order in which their gradients are computed; a bucket is closed once it has
/// `bytes` or more: with 0 each parameter has its own.
std::vector<Bucket> makeBuckets(std::span<const Bucketed> parameters, int64_t bytes, int processes);

} // namespace tensmith::train
