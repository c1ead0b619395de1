// One bucket of each element type is open at a time; see Buckets.h.
#include "train/Buckets.h"

#include <algorithm>
#include <map>

namespace tensmith::train {
namespace {

constexpr int64_t kLine = 64; // bytes

int64_t roundedUp(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

} // namespace

std::vector<Bucket> makeBuckets(std::span<const Bucketed> parameters, int64_t bytes,
                                int processes) {
  std::vector<Bucket> buckets;
  std::map<DataType, size_t> open;
  for (size_t i = 0; i < parameters.size(); ++i) {
    DataType type = parameters[i].type;
    auto [found, isNew] = open.try_emplace(type, buckets.size());
    if (isNew)
      buckets.emplace_back().type = type;
    Bucket &bucket = buckets[found->second];
    int64_t count = elementCount(parameters[i].shape).value_or(0);
    bucket.pieces.push_back({i, bucket.count, count});
    bucket.count = roundedUp(bucket.count + count, kLine / byteSize(type));
    if (bucket.bytes() >= bytes)
      open.erase(found);
  }
  for (Bucket &bucket : buckets)
    bucket.count =
        roundedUp(std::max<int64_t>(1, bucket.count), kLine / byteSize(bucket.type) * processes);
  return buckets;
}

} // namespace tensmith::train
