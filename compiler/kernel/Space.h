// The choices of one kernel: what a choice is, a point that makes some of them, and the space of
// all points.
//
// A template declares its choices beside its code (Template.h): which it takes, and of a kernel
// which values each may have. A value that the kernel can't take is not in its space; any point of
// the space gives right results, and only the order of the work, and with it the rounding, depends
// on it. What a point doesn't say, estimates choose; so the empty point is what the compiler does
// unasked.
//
// A choice may be conditional: it exists where an earlier one has one of some values. A space is
// finite and ordered: its points are counted, enumerated by number and drawn (base/MixedRadix.h).
// Searches see it as tune/SearchSpace.h.
#pragma once

#include "base/MixedRadix.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tensmith::kernel {

/// A name that schedule files have, and the numbers that may stand behind it: multiples of
/// `multiple` from `least` to `most`. Each is one constant, known by its address.
struct Choice {
  llvm::StringLiteral name;
  int64_t least, most;
  int64_t multiple = 1;
  /// Whether the kernel's sizes may bound it further: less is taken than is asked for.
  bool bounded = true;

  bool takes(int64_t value) const {
    return value >= least && value <= most && value % multiple == 0;
  }
};

/// Of a choice without a bound of its own.
inline constexpr int64_t kAny = int64_t(1) << 30;

/// Values of some choices.
class Point {
public:
  using Entry = std::pair<const Choice *, int64_t>;

  /// Nothing where the point doesn't say.
  std::optional<int64_t> operator[](const Choice &choice) const;
  /// Nothing: the point says no more of it.
  void set(const Choice &choice, std::optional<int64_t> value);
  /// What `other` says in place of what is said here.
  void override(const Point &other);

  /// What it says of these.
  Point of(llvm::ArrayRef<const Choice *> choices) const;

  bool empty() const { return entries_.empty(); }
  const Entry *begin() const { return entries_.begin(); } // sorted by name
  const Entry *end() const { return entries_.end(); }
  bool operator==(const Point &other) const { return entries_ == other.entries_; }
  /// As a schedule file has it, without braces: "\"item_tiles\":4,\"tile_rows\":6".
  std::string text() const;

private:
  llvm::SmallVector<Entry, 4> entries_;
};

/// A point, and the open sizes of the kernel that it was measured at, in the order in which they
/// first occur; none: it is for all sizes.
struct SizedPoint {
  Point point;
  llvm::SmallVector<int64_t, 2> sizes = {};

  bool operator==(const SizedPoint &) const = default;
};
/// By which points are ordered, and a run finds its own. Rounded where it is beyond 2^53.
double productOf(llvm::ArrayRef<int64_t> sizes);
/// That one kernel chooses between, by its sizes at run time.
inline constexpr size_t kMostSizedPoints = 4;

class Space {
public:
  /// A choice of this kernel.
  struct Dimension {
    const Choice *choice;
    llvm::SmallVector<int64_t, 8> values; // ascending, at least one
    /// It exists where an earlier choice has one of these values; null: always.
    const Choice *guard = nullptr;
    llvm::SmallVector<int64_t, 2> guardValues = {};
  };

  /// Numbers that are uniform below the given one.
  using Random = std::function<uint64_t(uint64_t below)>;

  /// With these values; of those that the choice doesn't take none. Null where none is left. What
  /// is returned stays where it is until the next is added.
  Dimension *add(const Choice &choice, llvm::ArrayRef<int64_t> values);
  /// All values up to `most`, which is at least the least one.
  Dimension *addAll(const Choice &choice, int64_t most);
  /// The least value, twice that, and so on, up to `most`, and `most` itself, as a multiple.
  Dimension *addDoubling(const Choice &choice, int64_t most);

  llvm::ArrayRef<Dimension> dimensions() const { return dimensions_; }
  bool empty() const { return dimensions_.empty(); }
  bool contains(const Point &point) const;

  /// How many points there are that make every choice which exists for them; at most 2^63.
  uint64_t size() const { return radix().size(); }
  /// By number below `size`: the last choice counts fastest.
  Point at(uint64_t number) const;
  Point random(const Random &random) const { return at(random(size())); }

private:
  /// A digit for each dimension, for its values in their order.
  MixedRadix radix() const;

  llvm::SmallVector<Dimension, 8> dimensions_;
};

} // namespace tensmith::kernel
