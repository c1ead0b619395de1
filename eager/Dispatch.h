// The one way by which an operation of eager tensors happens.
//
// `dispatch` finds the results' types, and has the operation done: where it is issued if it is
// small and what it reads is there, else by the engine; by a compiled kernel where one is worth it
// and there (Kernels.h), else by the operator's evaluation. Whatever else is to happen to an
// operation (recording it, tracing it into a graph) has its place here, and nowhere else.
//
// Called by threads that hold the interpreter's lock, and so issue operations one at a time. What
// takes long, evaluations and waits, lets go of it; operands are copied before. Threads that use
// one tensor, and of which one writes it, have to take turns by themselves.
#pragma once

#include "eager/Compiled.h"
#include "eager/Operators.h"
#include "eager/Tape.h"

namespace tensmith::eager {

/// One array for each result, which may not be computed yet. The failure of an operation that is
/// known at once (types and sizes that don't fit) comes back here; others where a result is read.
Result<std::vector<Array>> dispatch(const Operator &op, const Attributes &attributes,
                                    std::span<const Array> operands);

/// Copies `from`, broadcast and converted, into `to`, which may be a view.
Status assign(const Array &to, const Array &from);
/// Pairwise, of one type and shape: what a step of an optimiser writes. No source
/// may share memory with a place. `taken`: the numbers of sources that nobody else has, whose
/// memory becomes the place's where both are all of theirs.
Status assignAll(std::span<const Array> to, std::span<const Array> from,
                 std::span<const size_t> taken = {});

/// A view was made, of which tapes and co-execution are told; whether there are any.
Status tellView(const Array &of, const Array &view, ViewStep step);
bool areViewsTold();

/// The tensors next to each other along an axis, in `result`, which has their type.
Result<Array> concatenate(int64_t axis, std::span<const Array> parts, Shape shape);

// What the above come to where nothing is co-executed (Coexecution.h): results are set aside.
Status computeInto(const Operator &op, const Attributes &attributes,
                   std::span<const Array> operands, std::span<const Array> results);
Status runInto(std::shared_ptr<const Compiled> compiled, const char *name,
               std::span<const Array> inputs, std::span<const Array> results);
Status copyInto(const Array &to, const Array &from); // of one type and shape
/// Of what nobody else has, pairwise; so memory that is all of a tensor becomes the other's.
Status moveInto(std::span<const Array> to, std::span<const Array> from);
Status concatenateInto(int64_t axis, std::span<const Array> parts, const Array &result);
/// Until the engine has done all, without the interpreter's lock, which the end of an operation may
/// need; `forgiven`: these have not failed then.
void waitForEngine(std::span<const Array> forgiven = {});
/// The place in the program that the calling thread is at.
std::string placeOfCall();
/// The calls that it stands in, hashed, from that of the step on that is co-executed.
size_t stackOfCall();

/// Whether elements may be written: a failure in words where they may not.
Status checkWritable(const Array &to);
/// Once it is sure that the array will be written, by others than `assign`.
Status beforeWrite(const Array &to);

/// Waits until the array's elements are there, without the interpreter's lock; `toWrite`: and
/// nobody reads them any more, so that the caller's caller may write.
Status wait(const Array &array, bool toWrite = false);

/// The elements as they are, of a tensor that others write whenever they like, on memory that
/// nobody writes. As long as the elements are the same it is the same array, so that recordings and
/// steps which take the tensor several times know it for one.
Result<Array> snapshotOf(const Array &array);

/// The language that operations are issued from. Null: it has no such thing.
struct Caller {
  /// The place in its program of an operation that does not run at once.
  std::string (*place)() = nullptr;
  size_t (*stack)() = nullptr;
  /// The same program compiled for a device, by its text.
  Result<std::shared_ptr<Compiled>> (*compileOn)(const Compiled &program,
                                                 const Device &device) = nullptr;
  /// Let go of the interpreter's lock, which the thread holds, and take it again.
  void *(*letGo)() = nullptr;
  void (*takeBack)(void *state) = nullptr;
};
void setCaller(const Caller &caller);

/// Without the interpreter's lock for as long as this lives.
class LetGo {
public:
  LetGo();
  ~LetGo();
  LetGo(const LetGo &) = delete;

private:
  void *state_;
};

/// Operands of an element-wise operator as their promoted type; `array` itself where it has it.
Result<Array> cast(const Array &array, DataType type);

} // namespace tensmith::eager
