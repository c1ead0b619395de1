// What a program does to its tensors, recorded as it runs, so that it can be compiled and
// differentiated: values, each computed once by a step from values before it.
//
// Storage is written over and seen through views; values are not. So a tape knows for each storage
// which value it holds now, for a tensor that covers it (its base), and how other tensors are views
// of that. To read a view is a step on the base's value (slice, reshape, transpose, broadcast); to
// write one gives the base another value ("put_slice"). A view that was made before the tape began
// is a gather at its elements' places.
//
// Only what depends on a watched tensor is recorded. All else is an input, read as it is when a
// step first reads it: before its memory is written over, the input becomes a copy. What Python
// does with elements that it reads (branches, loops) is not recorded; the tape holds for the way
// that was taken.
//
// Invariant: a step's text, with sizes by name, says all that its graph depends on (TapeText.cpp).
// Sources: PyTorch's functionalisation; Chen et al., MXNet (2015), for recording what is issued.
#pragma once

#include "eager/Operators.h"

#include <map>
#include <unordered_map>

namespace tensmith::eager {

/// Where a tensor's elements lie in a storage.
struct Geometry {
  DataType type;
  int64_t offset;
  Shape shape;
  Strides strides;
  explicit Geometry(const Array &array)
      : type(array.type()), offset(array.offset()), shape(array.shape()), strides(array.strides()) {
  }
  auto operator<=>(const Geometry &) const = default;
};

/// How one tensor is a view of another.
struct ViewStep {
  std::string_view name;                        // slice, reshape, transpose, broadcast
  Shape shape;                                  // of the view
  std::vector<int64_t> starts = {}, steps = {}; // slice
  std::vector<int64_t> fromEnd = {};            // slice: 1 where the end was given from the end
  std::vector<int64_t> permutation = {};        // transpose
};

class Tape : public std::enable_shared_from_this<Tape> {
public:
  using Number = int; // of a value
  struct Value {
    DataType type;
    Shape shape;
  };

  /// `isStrict`: nothing that depends on a watched tensor may be taken as it happens to be, neither
  /// read by Python nor computed by an operator that has no graph. `isWhole`: what depends on no
  /// watched tensor is recorded as well, since it may differ for whoever runs the recording.
  explicit Tape(bool isStrict = false, bool isWhole = false)
      : isStrict_(isStrict), isWhole_(isWhole) {
    live().push_back(this);
  }
  ~Tape();
  Tape(const Tape &) = delete;

  /// Numbers that are equal are one input from now on: of a program that is always given the same.
  void shareNumbers() { sharesNumbers_ = true; }

  /// Operations that the thread issues are recorded from now on, by this tape and those outside it.
  void begin();
  void end();
  /// Of the thread, the outermost first.
  static std::vector<std::shared_ptr<Tape>> &recording();

  /// Nothing is recorded by the thread while this lives.
  class Paused {
  public:
    Paused() { std::swap(kept_, recording()); }
    ~Paused() { std::swap(kept_, recording()); }
    Paused(const Paused &) = delete;

  private:
    std::vector<std::shared_ptr<Tape>> kept_;
  };

  /// From now on the tensor is this value, which derivatives may be taken by. `isInput`: what it
  /// was computed from is forgotten.
  Number watch(const Array &array, bool isInput);
  /// The value that a tensor has now.
  Result<Number> read(const Array &array);
  bool isActive(const Array &array) const;
  /// Tensors that ask for gradients are values of their own from now on, so that what was computed
  /// from them before is constant to derivatives by them.
  void renewLeaves();
  /// What a value was before it was renewed.
  Number unrenewed(Number value) const;
  /// Another step; gives the number of its first result.
  Number add(std::string name, Attributes attributes, std::vector<Number> operands,
             std::vector<Value> results);
  bool isComputed(Number value) const; // by a step
  /// What a storage that was written holds now, and as what it is seen.
  std::optional<std::pair<Geometry, Number>> baseOf(const Array &array) const;
  /// What a tensor of no dimensions is told as where its number is part of the structure.
  static std::optional<std::string> constantText(const Array &array);
  /// What a tensor is told as that is part of the structure of a program of its own sizes.
  static std::optional<std::string> structureText(const Array &array);
  /// The tensor, whose memory is new, is this value.
  void bind(const Array &array, Number value);
  /// Before a tensor that was there when the tape began, and is all of its storage, is written:
  /// what the tape has read or reads of it is `kept`, which has its elements as they are now.
  Status keepFor(const Array &array, const Array &kept);

  // ---- what happens to tensors, told by who does it
  /// An operation. `hasGraph`: jumps of integers and booleans that have none are not followed.
  Status record(std::string_view name, const Attributes &attributes,
                std::span<const Array> operands, std::span<const Array> results,
                bool hasGraph = true);
  void view(const Array &of, const Array &view, ViewStep step);
  /// Rows of `row` elements at `places` (in elements, from the storage's begin) of a storage.
  Status gathered(const Array &from, std::span<const int64_t> places, int64_t row,
                  const Array &result);
  Status scattered(const Array &to, std::vector<int64_t> places, int64_t row, const Array &values);
  /// Before `to` is written everywhere, from what broadcasts to it and is of its type.
  Status write(const Array &to, const Array &from);
  /// Python has read elements.
  Status reads(const Array &array) const;

  /// Before a storage is written, for all tapes that are there.
  static Status keepInputs(const Storage &storage);

  /// The part of the tape that values need: its structure as text, and its inputs.
  struct Program {
    std::string text;
    std::vector<Array> inputs;
    std::vector<Value> outputs;
    std::vector<Number> operands; // the values that are its inputs
  };
  /// `hasOwnSizes`: it is of the sizes that there are, and of no others. Then tensors that nobody
  /// watches are part of the structure, too, where they are as a size is: few integers, as bounds
  /// of labels, or one number that rules look for at each place, as a state's first zeros.
  Program program(std::span<const Number> outputs, bool hasOwnSizes = false) const {
    return program(outputs, hasOwnSizes, 0);
  }
  /// What computes the values from those that were there before the number `first`, and from
  /// inputs; `operands` has all of them in order.
  Program part(Number first, std::span<const Number> outputs) const {
    return program(outputs, /*hasOwnSizes=*/false, first);
  }
  /// The number of the next value.
  Number next() const { return Number(values_.size()); }

  /// Leaves that were read (Array.h), and their values.
  const std::vector<std::pair<Array, Number>> &leaves() const { return leaves_; }
  /// Results keep the tape alive, until it is released.
  void keepWithResults() { keptByResults_ = true; }
  bool isReleased() const { return isReleased_; }
  bool isWhole() const { return isWhole_; }
  bool isStrict() const { return isStrict_; }
  void release();

private:
  struct Step {
    std::string name;
    Attributes attributes;
    std::vector<Number> operands;
    Number first;
    size_t resultCount;
  };
  struct Base {
    Geometry geometry;
    Number value;
  };
  struct Link {
    Geometry parent;
    ViewStep step;
  };
  /// What is known of a storage.
  struct Known {
    std::weak_ptr<Storage> storage;
    std::optional<Base> base;
    std::map<Geometry, Link> links;
    std::map<Geometry, Number> seen; // views of the base's value
  };
  struct Input {
    Array array;
    Number value;
    bool isFixed;   // its sizes are part of the structure
    bool isWatched; // it may be another tensor for whoever runs the program
  };

  Program program(std::span<const Number> outputs, bool hasOwnSizes, Number first) const;
  static std::vector<Tape *> &live();
  Known *find(const std::shared_ptr<Storage> &storage) const;
  Known &known(const std::shared_ptr<Storage> &storage);
  Number newValue(DataType type, Shape shape);
  Number input(const Array &array, bool isFixed = false, bool isShared = true);
  Number integers(std::span<const int64_t> numbers, Shape shape);
  std::optional<Number> constant(const Array &array);
  std::optional<Number> equalInput(const Array &array) const;
  Number one(std::string name, std::vector<Number> operands, DataType type, Shape shape,
             Attributes attributes = {});
  Number reshaped(Number value, const Shape &shape);
  Number applied(const ViewStep &step, Number parent);
  Number putThrough(const ViewStep &step, Number parent, Number value);
  Result<Number> readAt(Known &known, const Geometry &geometry);
  Status put(const Array &to, const Geometry &geometry, Number value);
  Status scatter(Known &known, std::span<const int64_t> places, int64_t row, Number updates);
  Base baseFor(const Array &to, const Known &known);
  Status checkReadable(const Base &base, const Geometry &geometry) const;

  bool isStrict_, isWhole_, sharesNumbers_ = false, keptByResults_ = false, isReleased_ = false;
  std::vector<Value> values_;
  std::vector<Step> steps_;
  std::vector<Input> inputs_;
  std::map<std::pair<const Storage *, Geometry>, Number> sharedInputs_;
  std::map<Number, std::string> constants_;
  std::unordered_map<Number, Number> renewed_;
  mutable std::unordered_map<const Storage *, Known> known_;
  std::vector<std::pair<Array, Number>> leaves_;
};

/// Offsets of a tensor's elements in its storage, row-major.
std::vector<int64_t> placesOf(const Geometry &geometry);

/// What happens is told to the tapes that record; nothing, and at no cost, where there are none.
template <typename Tell> Status tellTapes(Tell tell) {
  for (const std::shared_ptr<Tape> &tape : Tape::recording())
    if (Status status = tell(*tape); !status.ok())
      return status;
  return {};
}

} // namespace tensmith::eager
