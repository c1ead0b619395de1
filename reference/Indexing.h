// Indices that are data: read, checked against the dimension that they point into, and counted from
// its start.
#pragma once

#include "reference/Elements.h"
#include "reference/Workspace.h"

#include <optional>
#include <string>

namespace tensmith::reference {

/// A required operand of integers.
const HostTensor &indexOperand(Workspace &workspace, size_t operand, std::string_view name,
                               int64_t rank = kAnyRank);

/// What is told of an index that is not there, by compiled code too: `index` as text, and the
/// dimension's size where it is known before the run.
std::string indexRefusal(std::string_view index, std::optional<int64_t> size);

/// What is told of lengths that no part of a sequence has, by compiled code too.
inline constexpr char kLengthRefusal[] = "has a length that is negative or beyond the sequence";

/// The index at `position`, in [0, size); rejects one outside of [-size, size), naming it, the
/// bound and its place.
int64_t checkedIndex(Workspace &workspace, const HostTensor &indices, int64_t position,
                     int64_t size);

/// The offset in elements that a tuple of `length` indices gives within a tensor of `shape` from
/// its dimension `first` on.
int64_t tupleOffset(Workspace &workspace, const HostTensor &indices, int64_t position,
                    int64_t length, const Shape &shape, size_t first);

} // namespace tensmith::reference
