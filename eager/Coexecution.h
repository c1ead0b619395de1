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
// Where the deeds leave all paths, the step falls back: the deeds since the last cut are done
// eagerly, into the tensors that Python holds already, and the step is recorded to its end.
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

#include "eager/Compiled.h"
#include "eager/Operators.h"
#include "eager/Tape.h"

#include <set>

namespace tensmith::eager {

/// What a step does, in the order of its program. Of kinds that compute, `operands` to `results`; a
/// write has the array that is written as its one result.
struct Deed {
  enum class Kind : uint8_t { Operation, Program, Concat, Write, View, Read };
  Kind kind;
  const Operator *op = nullptr; // Operation
  Attributes attributes = {};
  std::shared_ptr<const Compiled> program = {};
  std::vector<Array> operands = {}, results = {};
  ViewStep view = {};         // View: results[0] is one of operands[0]
  std::string signature = {}; // empty: is not compared
  int segment = -1;           // -1: of none yet
  std::string place = {};
};

/// What a read depends on, or all deeds that are left, as one program.
struct Segment {
  /// A storage by its number in the step; `geometry`: as the program has it.
  struct Value {
    int storage;
    Geometry geometry;
    bool isMade; // by a deed of this segment, so that it can be written before Python gets there
  };
  size_t begin = 0, end = 0; // deeds that are compared, and were met while it was under way
  std::string text;
  std::vector<Value> inputs, outputs;
  std::vector<Array> constants; // inputs that are always the same: those whose storage is -1
  size_t lastInput = 0;         // the deed that brings the last of them, and its number + 1
  std::set<int> wanted;         // made storages that have to be outputs
  std::shared_ptr<const Compiled> compiled;
  bool isEmpty() const { return outputs.empty(); }
};

/// The deeds of a whole step.
struct Path {
  std::vector<std::string> signatures, places;
  std::vector<std::shared_ptr<Segment>> segments;
  int64_t runs = 0,
          lastRun = 0; // how often it was followed; the number of the step that took it last
};

struct CoexecutionCounts {
  int64_t steps = 0, recorded = 0, coexecuted = 0, fellBack = 0;
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
  /// Of one type and shape. False: the caller is to do it, now.
  Result<bool> write(const Array &to, const Array &from);
  void view(const Array &of, const Array &view, const ViewStep &step);
  /// Before elements are taken, or given to others to write, outside of the graph.
  Status read(const Array &array, bool toWrite = false);

  /// Why no step can be followed: a recorded one has no graph. Empty where that is not so.
  const std::string &refusal() const { return refusal_; }
  const CoexecutionCounts &counts() const { return counts_; }
  const std::vector<std::shared_ptr<Path>> &paths() const { return paths_; }
  /// Where steps have left the known paths, the latest last.
  const std::vector<std::string> &departures() const { return departures_; }

private:
  /// A storage that the step has met.
  struct Known {
    int number;
    Array array; // as it was met
    /// By which of the deeds that are compared: the first, and each that is the first since Python
    /// could write the elements.
    std::vector<size_t> metAt;
    bool isMade = false;     // by a deed of the step
    bool isComing = false;   // a deed that is of no segment yet makes or writes it
    bool isWritable = false; // by Python, since it was met last
    size_t madeBy = 0;       // the segment, as far as is known
    size_t lastMetBefore(size_t end) const;
  };

  Result<std::vector<Array>> meet(Deed deed, const std::vector<reference::ResultType> &types);
  Status keep(Deed deed);
  Status takeOperand(Array &array, std::string &signature);
  Known *find(const Array &array);
  Known &meetStorage(const Array &array);
  bool follows(const std::string &signature);
  Segment *segmentUnderWay() const;
  std::vector<size_t> neededFor(const Known &known, bool isAll) const;
  bool isOnlyWay(const Segment &segment) const;
  Status advance();
  Status launch(const Segment &segment);
  Status finishSegment();
  Status fallBack(const std::string &why);
  Status redo(const Deed &deed);
  std::set<int> alive() const;
  std::set<int> aliveWhenIdle() const;
  void close();
  // CoexecutionPaths.cpp
  Status addPath();
  std::vector<std::set<int>> wantedOf() const;
  Status build(Segment &segment, int number) const;
  Status tell(Tape &tape, const Deed &deed) const;

  std::vector<std::shared_ptr<Path>> paths_;
  CoexecutionCounts counts_;
  std::vector<std::string> departures_;
  std::string refusal_;
  int64_t fellBackInARow_ = 0;

  // ---- of the step
  bool isFollowing_ = false;
  std::vector<Deed> deeds_;
  std::vector<std::set<int>>
      alive_; // at the end of each segment, what Python held of what was made
  std::unordered_map<const Storage *, int> numbers_;
  std::vector<Known> known_;
  size_t compared_ = 0;                           // deeds that had a signature
  std::vector<std::shared_ptr<Path>> candidates_; // that the step may be on
  size_t segment_ = 0;                            // which is under way
  bool isLaunched_ = false;
  std::map<int, Array> coming_; // outputs of what was launched, by storage
};

} // namespace tensmith::eager
