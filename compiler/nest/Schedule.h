// A nest in an order: primitives change the order and can't change the results.
//
// Problem: who writes a schedule, a person or a search, must not have to prove it right.
// Method: each primitive changes a copy of the schedule tree (ScheduleTree.h), and every dependence
// is checked against the new order. What breaks one is refused with the dependence, two points and
// the loops' names, and nothing is changed.
// Invariant: the tree runs every point of the nest once, in an order that keeps all dependences;
// loops that are parallel or of vectors carry none.
//
// Schedule text, one primitive a line, `#` begins a comment:
//
//   split i 6 -> i0 i1          points i = 6 * i0 + i1
//   tile i j by 32 64 -> i0 j0 i1 j1
//   fuse i j -> f               of two loops, one in the other
//   reorder i0 j0 k i1 j1       of loops that stand in one another
//   skew x by 1 t               x becomes x + 1 * t
//   parallel i0
//   vectorize j1 16             cut by 16 if there are more
//   unroll i1
//   virtual_threads i 4 -> i0 v points i = 4 * i0 + v, of which the four run by turns, each
//                               statement's side by side
//   bind i threads              that loop alone runs on threads; `bind j lanes`: it is a vector of
//                               the target
//   tensorize j1 k1 by dot4     whole tiles of the loops become that instruction of the target;
//                               `packing` behind it copies operands that don't lie as it takes them
//   fuse_at start j0            the statement's points run in the first iteration of the loops down
//                               to j0 that needs them, or the last that they need
//   cache_read B at j0 order 1 0 -> P
//                               P holds what an iteration of j0 reads of B, its dimension 1
//                               outside; "0/4 1 0%4" are blocks of four of dimension 0, which lie
//                               inside
//   cache_write C at i0 -> W    W holds what an iteration of i0 writes of C
//                               `in l1` in front of `->` says that it must fit that memory
//   double_buffer P             a copy is filled an iteration ahead, in two halves by turns
//   compute_at T y              each iteration of y computes what it reads of T, again if need be
//   inline T                    the value of T's statement stands where T is read
//   rfactor add k0 -> R         each iteration of k0 has partial sums of its own, joined afterwards
//   affine maximal              the order that isl's scheduler finds, statements in common loops
//                               as far as possible, shifted if need be; `affine minimal`, each in
//                               its own; `affine coincident`, in common where none loses a loop
//                               that carries nothing; `affine recomputed`, and stages in the
//                               loops that read them
//   default 16                  an order by estimate, of vectors of so many lanes
//
// Sources: J. Ragan-Kelley et al., Halide, PLDI 2013; T. Chen et al., TVM, OSDI 2018.
#pragma once

#include "compiler/nest/Nest.h"

#include <string_view>

namespace tensmith::nest {

struct ScheduleState;
struct TileIntrinsic;
/// What a target has, the better of two that do the same first.
using TileIntrinsics = std::vector<std::shared_ptr<const TileIntrinsic>>;

/// How a sum is tiled. Its innermost tile is kept in registers: rows, and vectors of each. What is
/// 0 is chosen, or left out.
struct RegisterTile {
  int64_t rows = 0, vectors = 0;
  /// Iterators of the statement, by place from 1: whose values are a vector's lanes, and the rows.
  /// Where a reduction's are the lanes, `vectors` counts elements of the next loop that the result
  /// has, each with a vector of partial sums.
  size_t lanesAlong = 0, rowsAlong = 0;
  /// Values of the innermost reduction that all tiles of a block pass, before the next ones.
  int64_t depth = 0;
  /// Tiles of a block, along the rows and along the lanes.
  int64_t rowTiles = 0, laneTiles = 0;
  /// Of operands that the statement reads, in their order: whether it reads a copy whose dimension
  /// of the lanes lies innermost.
  enum class Packing : uint8_t { None, Panel, Whole }; // made for each panel of lanes, or once
  std::vector<Packing> packing = {};
  /// How often loops of the rows and the lanes run, four each, and two of the sum: in the order
  /// rows and lanes, rows and lanes, sum, rows and lanes, sum, rows and lanes. Empty: as said
  /// above.
  std::vector<int64_t> rowFactors = {}, laneFactors = {}, depthFactors = {};

  /// With rows and vectors chosen for so many vector registers.
  RegisterTile completed(const Nest &nest, int64_t registers) const;
};

/// Of a target: "l1", of so many bytes.
struct Memory {
  std::string name;
  int64_t bytes = 0;
};

/// What of a target schedules may name.
struct TargetUnits {
  TileIntrinsics intrinsics = {};
  std::vector<Memory> memories = {};
  int64_t vectorBytes = 0;
};

/// A copy of what a loop's iteration touches of a tensor.
struct CacheRequest {
  std::string tensor;
  std::string loop; // empty: of all
  /// Of the copy, from outside in: the tensor's dimensions in any order, whole or in blocks. Empty:
  /// as they are.
  std::vector<LayoutDimension> order = {};
  std::string name;        // of the copy
  std::string memory = {}; // that it must fit, with all else that is in it; empty: any
  bool isWrite = false;    // set by cacheWrite
};

/// Which statements the affine scheduler puts into common loops: none that need not be, all that
/// may be, or those that keep as many coincident loops as each has alone; the last one then
/// computes stages in the loops of what reads them, again where iterations read the same.
enum class Fusion : uint8_t { Minimal, Maximal, Coincident, Recomputed };

/// A line of schedule text by its first word, for editors.
struct Primitive {
  std::string_view name, form; // "split", "split i 6 -> i0 i1"
};
std::vector<Primitive> primitives();

class Schedule {
public:
  /// The textual order. InvalidArgument where the nest is none, or may touch elements outside of
  /// its tensors; ResourceExhausted where isl's limit of operations was reached.
  static Result<Schedule> of(Nest nest);
  Schedule(Schedule &&) noexcept;
  Schedule &operator=(Schedule &&) noexcept;
  ~Schedule();
  Schedule copy() const;

  const Nest &nest() const;
  /// A summary for people: the loops, indented, and statements.
  std::string outline() const;
  /// The schedule tree, as isl's YAML; and the one of such a text, if it is legal.
  std::string tree() const;
  Status setTree(const std::string &text);
  /// "the flow of 'C' from 'add' to 'relu': { add[i, k] -> relu[i'] : ... }", a line each.
  std::string dependences() const;

  /// Schedule text. The first line that is refused ends it, with its number in the message; those
  /// before it count.
  Status apply(std::string_view text);

  Status split(const std::string &loop, int64_t factor, const std::string &outer,
               const std::string &inner);
  Status tile(const std::vector<std::string> &loops, const std::vector<int64_t> &factors,
              const std::vector<std::string> &names);
  Status fuse(const std::string &outer, const std::string &inner, const std::string &name);
  Status reorder(const std::vector<std::string> &loops);
  Status skew(const std::string &loop, int64_t factor, const std::string &by);
  Status parallel(const std::string &loop);
  /// lanes 0: all points of the loop, whose number must be known, and at most 64.
  Status vectorize(const std::string &loop, int64_t lanes = 0);
  Status unroll(const std::string &loop);
  /// The loops, which stand in one another with the statement innermost, become tiles of that
  /// instruction of the target (Tensorize.h). `packing` copies operands that lie otherwise into a
  /// layout that it takes: TENSOR_packed, once and as a whole.
  Status tensorize(const std::vector<std::string> &loops, const std::string &intrinsic,
                   bool packing = false);
  /// The instructions that `tensorize` may name.
  void setIntrinsics(TileIntrinsics intrinsics);
  void setTarget(TargetUnits units);
  /// The unit "threads": as `parallel`, but no loop within or around is; "lanes": as `vectorize`,
  /// of as many points as a vector of the target holds, or less.
  Status bind(const std::string &loop, const std::string &unit);
  /// Points are `count` * outer + thread. The threads carry nothing; each statement within runs
  /// for all of them before the next one.
  Status virtualThreads(const std::string &loop, int64_t count, const std::string &outer,
                        const std::string &thread);
  /// What the statements write that fill the copy is for the loop's next iteration.
  Status doubleBuffer(const std::string &tensor);
  /// The statement stands in the loop from now on, in front of what is there or behind it.
  Status fuseAt(const std::string &statement, const std::string &loop);
  /// What the loop's iteration reads of the tensor is copied when it begins, by the statement
  /// NAME_copy in loops NAME0, NAME1, ... by the tensor's dimensions.
  Status cacheRead(const CacheRequest &request);
  /// What it writes of the tensor stays in the copy until it ends: NAME_write in loops NAMEw0, ...;
  /// what it goes on with is copied in before: NAME_read in loops NAMEr0, ...
  Status cacheWrite(CacheRequest request);
  /// Each iteration of the loop computes what it reads of the local tensor.
  Status computeAt(const std::string &tensor, const std::string &loop);
  /// The value of the local tensor's statement stands where its elements are read.
  Status inlined(const std::string &tensor);
  /// Each iteration of the loop has a result of the statement's sum for itself, in the tensor
  /// `name`: begun by NAME_start in loops NAMEs0, ..., added up by NAME_join in NAMEj1, ...,
  /// NAMEj0.
  Status rfactor(const std::string &statement, const std::string &loop, const std::string &name);
  /// Loops are c0, c1, ... then, from outside in. Where isl takes too long the order stays as it
  /// was, and the status is ResourceExhausted.
  Status affine(Fusion fusion);
  /// Register tiles for reductions, vectors along contiguous results, parallel outer loops: what is
  /// legal of them. Never fails for a legal schedule; the order before counts for nothing but as
  /// the start.
  Status byEstimate(int64_t lanes, int64_t registers = 16, RegisterTile tile = {});

  ScheduleState &state() { return *state_; }
  const ScheduleState &state() const { return *state_; }

private:
  explicit Schedule(std::unique_ptr<ScheduleState> state);
  Status recompute();
  std::unique_ptr<ScheduleState> state_;
};

} // namespace tensmith::nest
