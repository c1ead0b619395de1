// Co-execution: a Python step runs as it is, and what it does to tensors is done by a compiled
// graph of steps like it, at the same time.
//
// The first steps are recorded: they run eagerly, and each deed (an operator, a write in place, a
// read by Python) is kept in order. A step's deeds are a path. A read ends a segment: what it
// depends on becomes one compiled program (by a tape, as everything that is recorded does), and all
// else waits for the next one. So a check of labels does not split a model.
//
// A later step is followed. Its deeds are not done but compared with the known paths, and Python
// gets tensors whose elements are to come. A segment is launched, by the engine, as soon as what it
// takes from outside is there and only one way is left to its end: mostly long before Python has
// issued its last deed. So Python and the graph run at the same time, and Python waits where it
// reads. What Python gives is the segment's input; what it reads, keeps, or uses in a later
// segment, its output.
//
// Where the deeds leave all paths, the step goes on by blocks, which are what paths have in common
// (TraceGraph.h): each deed is compared with one block, whose program is launched in the same way.
// So ways that part and meet again, and loops that turn more or less often, are no paths of their
// own. Steps of which many leave the paths go by blocks from their begin.
//
// Where there is no block either, the step falls back: the deeds since the last cut are done
// eagerly, into the tensors that Python holds already, and the step is recorded to its end.
//
// A step keeps of a tensor what programs depend on, and its memory only for deeds that are put off.
// What a deed costs does not grow with the step, but while it is recorded with the tensors that are
// held.
//
// Invariants: a tensor from outside is written only once Python has issued all deeds of the segment
// (so a launched segment can be dropped at any time); and a followed deed is the recorded one in
// all that its graph depends on: operator, attributes, and for each operand which of the step's
// storages it is, its type, shape and strides. Where a deed stands in the program decides nothing.
// All calls hold the interpreter's lock, and let go of it where they wait. So each holds a lock of
// co-execution besides: another thread that reads a tensor of the step makes it fall back, and the
// step goes on when that is done.
// Source: Kim et al., Terra: Imperative-Symbolic Co-Execution, NeurIPS 2021.
#pragma once

#include "eager/TraceGraph.h"

#include <deque>

namespace tensmith::eager {

/// The deeds of a whole step.
struct Path {
  std::vector<std::shared_ptr<const Meaning>> meanings;
  std::vector<std::string> places;
  std::vector<size_t> stacks;
  size_t way = 0; // of all but reads
  std::vector<std::shared_ptr<Segment>> segments;
  int64_t runs = 0,
          lastRun = 0; // how often it was followed; the number of the step that took it last
};

struct CoexecutionCounts {
  int64_t steps = 0, recorded = 0, coexecuted = 0, fellBack = 0;
  int64_t byBlocks = 0; // of those that were co-executed
};

/// The block that a step is on.
struct BlockUnderWay {
  std::vector<BlockRef> candidates; // none: the step is between blocks
  size_t begin = 0, met = 0;        // of the step's deeds; how many of the block's were met
  std::vector<int> storages = {};   // of the step, by the block's numbers
  std::unordered_map<int, int> numbers = {};
  int number(int storage);
  bool isWhole() const { return !candidates.empty() && met == candidates[0]->nodes.size(); }
};

/// The ways of the last steps, which say whether it is worth it to look for whole ones.
class WayHistory {
public:
  void note(size_t way, bool isPath);
  bool areMostlyPaths() const;
  /// Steps go few ways, of which one is no path: the next step may take it.
  bool asksForPath() const;
  /// For tests: no path is followed where there are blocks.
  void ignorePaths() { looksForPaths_ = false; }

private:
  struct Way {
    size_t way;
    bool isPath;
  };
  std::deque<Way> last_;
  bool looksForPaths_ = true;
};

class Coexecution {
public:
  using Arrays = std::span<const Array>;

  Coexecution() = default;
  ~Coexecution();
  Coexecution(const Coexecution &) = delete;

  /// Of the thread; null: nothing is co-executed.
  static Coexecution *current();
  /// Operations of the thread are done by themselves while this lives.
  class Paused {
  public:
    Paused();
    ~Paused();
    Paused(const Paused &) = delete;

  private:
    Coexecution *kept_;
  };

  /// Of the known paths those are followed whose programs are compiled.
  void begin();
  /// The end of a step. A recorded one becomes a path, whose segments may lack their programs.
  Status end();
  /// Programs that are to be compiled before the next step.
  std::vector<std::shared_ptr<Segment>> uncompiled() const;

  // ---- what happens in a step, told by who would do it otherwise
  Result<std::vector<Array>> operation(const Operator &op, const Attributes &attributes,
                                       Arrays operands,
                                       const std::vector<reference::ResultType> &types);
  Result<std::vector<Array>> program(std::shared_ptr<const Compiled> compiled, Arrays operands,
                                     const std::vector<reference::ResultType> &types);
  Result<Array> concat(int64_t axis, Arrays operands, DataType type, Shape shape);
  /// Pairs of one type and shape, as one deed. The numbers of those that the caller is to do, now.
  Result<std::vector<size_t>> write(Arrays to, Arrays from);
  void view(const Array &of, const Array &view, const ViewStep &step);
  /// Before elements are taken, or given to others to write, outside of the graph: told to all
  /// steps that have met the tensor.
  static Status read(const Array &array, bool toWrite = false);

  /// Why no step can be followed: a recorded one has no graph. Empty where that is not so.
  const std::string &refusal() const { return refusal_; }
  const CoexecutionCounts &counts() const { return counts_; }
  const std::vector<std::shared_ptr<Path>> &paths() const { return paths_; }
  const TraceGraph &graph() const { return graph_; }
  void ignorePaths() { ways_.ignorePaths(); }
  /// Where steps have left the known paths, the latest last.
  const std::vector<std::string> &departures() const { return departures_; }

private:
  /// A storage that the step has met. The step itself does not keep it: deeds do that are put off.
  struct Known {
    int number;
    Array asMet; // without its storage; of a step that is over, on its trace's
    std::weak_ptr<Storage> storage;
    int64_t bytes;
    std::optional<Shape> leaf; // what derivatives are asked for
    /// By which of the deeds that are compared, and by each that was the first since Python could
    /// write the elements.
    size_t firstMetAt;
    std::vector<size_t> metAgainAt = {};
    bool isMade = false;     // by a deed of the step
    bool isWritable = false; // by Python, since it was met last
    size_t madeBy = 0;       // the segment, once it is known
    /// The deeds of no segment yet that make or write it.
    std::vector<size_t> putOffBy = {};
    int handles = 0;                       // of deeds that are put off
    std::optional<size_t> diedBefore = {}; // the deed by which nobody held it
    bool isComing() const { return !putOffBy.empty(); }
    size_t lastMetBefore(size_t end) const;
    /// On no storage where nobody holds it any more.
    Array seen(const Array &as) const { return as.on(storage.lock()); }
  };

  void beginSignature(char kind);
  Result<std::vector<Array>> meet(Deed &&deed, const Attributes &attributes,
                                  const std::vector<reference::ResultType> &types);
  Status keep(Deed &&deed, const Attributes &attributes = {});
  Status takeOperand(Array &array, Deed &deed);
  Status go();
  void giveResults(Arrays results);
  void forget(Deed &deed);
  Known *find(const Array &array);
  Known &meetStorage(const Array &array);
  Status meetRead(const Array &array, bool toWrite);
  bool depends(const Array &array, bool toWrite) const;
  static Status settleOthers(const Coexecution *step, const Array &array, bool toWrite);
  Result<bool> follows(Deed &deed, const Attributes &attributes);
  bool followsPaths(Deed &deed);
  Segment *segmentUnderWay() const; // null: it is not clear which
  Known &numbered(int number);      // by a segment
  int nextNumber() const;
  std::vector<size_t> neededFor(const Known &known, bool isAll) const;
  bool isComputedAgain(const std::set<size_t> &deeds) const;
  void takeIntoSegment(std::span<const size_t> deeds);
  bool isOnlyWay(const Segment &segment) const;
  Status advance();
  Status launch(const Segment &segment);
  Status finishSegment(std::span<const size_t> deeds);
  Status fallBack(const std::string &why);
  Status redo(const Deed &deed);
  bool isComingFrom(int number) const;
  std::set<int> alive(std::span<const size_t> deeds) const;
  std::set<int> aliveWhenIdle(std::span<const size_t> deeds) const;
  std::vector<size_t> allPutOff() const;
  void close();
  bool noteWay();
  Status keepStep();
  Status doWhatIsPutOff();
  // CoexecutionBlocks.cpp
  bool isByBlocks() const { return isFollowing_ && hasLeftPaths_; }
  bool canLeavePaths(Deed &deed);
  Status leavePaths();
  void takeStacksOfPath();
  Result<bool> followsBlocks(Deed &deed);
  Status finishBlock();
  // CoexecutionPaths.cpp
  void noteDeaths();
  Trace trace();
  Status addPath(const Trace &trace);
  std::vector<std::set<int>> wantedOf(const Trace &trace) const;

  std::vector<std::shared_ptr<Path>> paths_;
  CoexecutionCounts counts_;
  std::vector<std::string> departures_;
  std::string refusal_;
  int64_t fellBackInARow_ = 0;
  TraceGraph graph_;
  WayHistory ways_;

  // ---- of the step
  bool isFollowing_ = false;
  std::vector<Deed> deeds_;
  Signature signature_; // of the deed that is being met
  std::vector<std::set<int>>
      alive_; // at the end of each segment, what Python held of what was made
  std::unordered_map<const Storage *, int> numbers_;
  std::vector<Known> known_;
  std::vector<size_t> putOff_; // deeds of no segment yet, but for views and reads, and some of one
  size_t takenOfPutOff_ = 0;   // these
  std::unordered_map<const Storage *, std::pair<std::weak_ptr<Storage>, std::vector<Deed>>>
      viewsOfUnmet_;
  std::vector<int> living_; // of what was made while the step is recorded, by those that are looked
  size_t lookedAt_ = 0;     // at for deaths: of so many
  size_t compared_ = 0;     // deeds that had a signature
  std::vector<std::shared_ptr<Path>> candidates_; // that the step may be on
  size_t segment_ = 0;                            // which is under way
  bool isLaunched_ = false;
  std::map<int, Array> coming_; // outputs of what was launched, by storage
  bool hasLeftPaths_ = false;   // it goes by blocks, or has before it was recorded
  bool isToBePath_ = false;     // if it is none
  bool isPathTold_ = true;      // what a path is made of is known of all of the step
  BlockUnderWay block_;
};

} // namespace tensmith::eager
