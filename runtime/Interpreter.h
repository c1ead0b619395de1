// Executing a function of a program in a frame: the parts, a file each.
//
//   Binding.cpp      parameters and sizes: checks, addresses, the arena
//   ArenaPlaces.cpp  where in the arena buffers lie whose sizes the inputs tell
//   Interpreter.cpp  the loop over the steps; kernels, views, results
//   ControlFlow.cpp  If and Loop
//   SteadyLoop.cpp   iterations that all do the same
//   Copies.cpp       copies between the host's memory and devices'
//   Launches.cpp     what is put on devices' streams
//   Routines.cpp     operators without a kernel, by reference evaluation
//   Sequences.cpp    operators on sequences, maps and optional values
//   Procedures.cpp   the way into what functions of the language became (Machine.h)
//   Observation.cpp  what a run that is watched shows of each step
#pragma once

#include "reference/Reference.h"
#include "runtime/References.h"
#include "runtime/Session.h"

namespace tensmith::runtime {

/// One run of a session, through all its functions.
struct Run {
  Session &session;
  Profile *profile = nullptr;
  Watch watch = {};
  uint64_t key = 0; ///< what `run_key` gives
  References references = {};
  /// Of main's results, where `written` is watched: the caller's tensors, and which were told of.
  std::span<Tensor *const> destinations = {};
  std::vector<bool> told = {};
};

/// Runs the frame's function. `given`: the symbols that the caller gives; `destinations`: empty, or
/// for each result the caller's tensor to write into, or null (main alone has them).
Result<std::vector<Passed>> execute(Run &run, Frame &frame, uint32_t function,
                                    std::span<const Passed> arguments,
                                    std::span<const int64_t> given,
                                    std::span<Tensor *const> destinations);

/// Calls the steps of a function that is kernels, views and joins alone, with addresses that are
/// all known.
Status callSteps(const Run &run, Frame &frame);

/// Whether a kernel has no element to compute; its code need not look at such sizes.
bool computesNothing(const Frame &frame, const Step &step);

/// The step's place in the model, before an error of it.
Status located(const Module &module, const Step &step, const Status &status);

/// Whether what a check says of sizes that are known holds; else the error, with its place.
Status checkSizes(const Module &module, const Frame &frame, const Step &step);

/// Checks the arguments, binds symbols, and makes addresses and sizes ready.
Status bindParameters(const Session &session, Frame &frame, std::span<const Passed> arguments,
                      std::span<const int64_t> given);

/// Gives the symbols of places their values, once the symbols of the inputs are bound and what
/// follows from them is computed: poison, where the buffers have no valid sizes.
void placeBuffers(Frame &frame);

/// A step's results: checks kinds, types and shapes, binds fresh symbols, and puts the values where
/// the plan wants them.
Status storeResults(const Run &run, Frame &frame, const Step &step, std::span<Passed> results);

/// The value as a tensor of its own; on the arena's memory where it is there, unless its rows lie
/// apart.
Result<TensorRef> tensorOf(const Run &run, const Frame &frame, uint32_t value);

/// The value's part of its arena.
inline std::byte *placeInArena(const Frame &frame, const ValueCode &value) {
  std::byte *arena =
      value.device ? frame.deviceArenas[value.device - 1u].memory.get() : frame.arena.data();
  return arena + frame.exprs[value.offset];
}

/// Gives a value whose size is known by now the memory that was set aside for it; false where that
/// is too little, and it needs memory of its own.
bool placeReserved(Frame &frame, uint32_t value);

/// Gives a step's results memory where the plan has none for them. Their sizes are known.
Status placeResults(const Run &run, Frame &frame, const Step &step);

/// Of a kernel that said so, with its place.
Status failureOf(const Module &module, const Step &step, const KernelContext &context);

/// Of a value whose size is known by now, or of an operand that is absent.
int64_t bytesOf(const Frame &frame, uint32_t value);

/// Null where the instruction has no such operand.
Result<TensorRef> operandOf(const Run &run, const Frame &frame, const Step &step, size_t index);

Status executeIf(Run &run, Frame &frame, const Step &step);
Status executeLoop(Run &run, Frame &frame, const Step &step);
Status executeRoutine(Run &run, Frame &frame, const Step &step);
Status executeProcedure(Run &run, Frame &frame, const Step &step);
Status executeCopy(Run &run, Frame &frame, const Step &step);

/// Joins tensors of one type and shape along a new first dimension. `shape` is that of one element
/// where there is none, and `device` tells in whose memory the result is.
Result<TensorRef> stack(std::span<const TensorRef> elements, DataType type,
                        std::span<const int64_t> shape, Device *device);

/// The operator that gives the run's key, which the reference evaluation knows of no run's.
inline constexpr std::string_view kRunKey = "run_key";

/// The operators on sequences, maps and optional values, which are no tensors: an evaluator, or
/// null.
using SequenceEvaluator = Result<TensorRef> (*)(std::span<const TensorRef> operands,
                                                const Attributes &attributes);
SequenceEvaluator findSequenceOperator(std::string_view name);

/// "f32[batch,3]" as the value is declared.
std::string declaredType(const FunctionCode &code, const ValueCode &value);

} // namespace tensmith::runtime
