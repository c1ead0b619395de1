// The machine that procedures run on.
//
// Activations lie on a stack of the machine's own, and their registers on another, both on the
// heap: how deep a program recurses is bounded by the session's limits and by memory, never by the
// host's stack. A tail call takes the place of its activation. A register that is read for the last
// time is emptied, so that a value lives no longer than it is needed, however long its function
// runs.
//
// Tensor code is in functions (Interpreter.cpp), of which the machine keeps one frame each: a
// function never comes back to a procedure, so one is enough. What it gives owns its memory.
#pragma once

#include "runtime/Cell.h"
#include "runtime/Interpreter.h"

namespace tensmith::runtime {

class Machine {
public:
  explicit Machine(Run &run);

  Result<TensorRef> call(uint32_t procedure, std::vector<TensorRef> arguments);

private:
  struct Activation {
    const ProcedureCode *procedure;
    uint32_t position; // of the instruction to go on with
    uint32_t result;   // the caller's register
    size_t base;       // of its registers
  };

  const Program &program() const { return run_.session.module().program(); }
  Cell &at(uint32_t index) { return base_[index]; }

  /// Runs until the first activation has returned or something failed.
  bool loop();
  bool invoke(const uint32_t *word, uint32_t count);
  bool constant(uint32_t result, uint32_t index);
  bool construct(const uint32_t *word, uint32_t count, uint32_t tag, TensorKind kind);
  bool field(const uint32_t *word);
  bool choose(const uint32_t *word, uint32_t count);
  bool branch(const uint32_t *word);
  bool scalar(const uint32_t *word, uint32_t count);
  bool apply(uint32_t callee, const uint32_t *words, uint32_t count, uint32_t result, bool tail);
  bool returnFrom(uint32_t word);

  /// Puts an activation on top, with `captured` and what the words name in its first registers.
  bool enter(uint32_t procedure, std::span<const TensorRef> captured, const uint32_t *words,
             uint32_t count, uint32_t result);
  /// The same in the place of the one on top.
  bool replace(uint32_t procedure, std::span<const TensorRef> captured, const uint32_t *words,
               uint32_t count);
  bool pass(std::span<const TensorRef> captured, const uint32_t *words, uint32_t count, Cell *to);
  /// Goes on with the activation on top.
  void resume();
  bool countInstructions();

  // What a word of an instruction names; each fails where the register is empty.
  bool readCell(uint32_t word, Cell &value);
  bool readTensor(uint32_t word, TensorRef &value);
  bool readScalar(uint32_t word, plan::ScalarType type, Scalar &value);

  bool fail(Status status);
  bool failEmpty();
  /// Where the program is, for a message.
  std::string_view place() const;

  Run &run_;
  CellStack cells_;
  std::vector<Activation> activations_;
  std::vector<std::unique_ptr<Session::Lease>> frames_;
  std::vector<TensorRef> constants_; // those that were read so far
  std::vector<Passed> passed_;
  TensorRef returned_;
  Status failure_;

  // Of the activation on top.
  const uint32_t *code_ = nullptr;
  Cell *base_ = nullptr;
  uint32_t position_ = 0; // of the next instruction
  uint32_t at_ = 0;       // of the instruction in work
  int64_t left_ = 0;      // instructions until the limit
};

} // namespace tensmith::runtime
