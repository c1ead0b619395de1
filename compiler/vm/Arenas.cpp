// Buffers of each memory, and when they are in use; see Arenas.h.
#include "compiler/vm/Arenas.h"

#include "runtime/ModuleFormat.h"

namespace tensmith::vm {
namespace {

/// The buffers of one memory, by the instructions that read or write them.
class MemoryUse {
public:
  MemoryUse(const plan::FunctionT &function, const Arena &arena, uint32_t memory,
            std::span<const llvm::BitVector> before)
      : function_(function), arena_(arena), before_(before),
        bufferOf_(arena.buffersOfValues(function)) {
    for (size_t value = 0; value < bufferOf_.size(); ++value)
      if (function.values[value]->device != memory)
        bufferOf_[value] = Arena::kNone;
    collect();
  }

  std::vector<Buffer> buffers;
  std::vector<size_t> numbers; // of all of the arena's: that among these, or kNone

  bool meet(size_t a, size_t b) const { return !endsBefore(a, b) && !endsBefore(b, a); }

private:
  struct Use {
    std::vector<uint32_t> instructions;
    llvm::BitVector beforeAll; // what is done before any of them
    bool toEnd = false;        // it is handed out when the function ends
  };

  size_t numberOf(uint32_t value) {
    size_t buffer = value == runtime::kAbsent ? Arena::kNone : bufferOf_[value];
    if (buffer == Arena::kNone)
      return Arena::kNone;
    if (numbers[buffer] == Arena::kNone) {
      numbers[buffer] = buffers.size();
      buffers.push_back(arena_.buffers[buffer]);
      uses_.emplace_back();
    }
    return numbers[buffer];
  }

  void collect() {
    numbers.assign(arena_.buffers.size(), Arena::kNone);
    for (uint32_t i = 0; i < function_.instructions.size(); ++i) {
      const plan::InstructionT &instruction = *function_.instructions[i];
      bool isSeen = instruction.opcode == plan::Opcode::View; // its reader is what reads
      for (const auto *list : {&instruction.operands, &instruction.results})
        for (uint32_t value : *list)
          if (size_t number = numberOf(value); number != Arena::kNone && !isSeen)
            uses_[number].instructions.push_back(i);
    }
    for (uint32_t result : function_.results)
      if (size_t number = numberOf(result); number != Arena::kNone)
        uses_[number].toEnd = true;
    for (size_t i = 0; i < buffers.size(); ++i) {
      Use &use = uses_[i];
      use.toEnd |= use.instructions.empty();
      buffers[i].first = use.instructions.empty() ? 0 : use.instructions.front();
      buffers[i].last = use.toEnd ? function_.instructions.size() : use.instructions.back();
      use.beforeAll.resize(unsigned(function_.instructions.size()), !use.instructions.empty());
      for (uint32_t instruction : use.instructions)
        use.beforeAll &= before_[instruction];
    }
  }

  bool endsBefore(size_t a, size_t b) const {
    return !uses_[a].toEnd && std::ranges::all_of(uses_[a].instructions, [&](uint32_t instruction) {
      return uses_[b].beforeAll.test(instruction);
    });
  }

  const plan::FunctionT &function_;
  const Arena &arena_;
  std::span<const llvm::BitVector> before_;
  std::vector<size_t> bufferOf_;
  std::vector<Use> uses_;
};

void place(plan::FunctionT &function, Arena &arena, const Arena::Placed &placed,
           const Buffer &buffer) {
  plan::ValueT &value = *function.values[placed.value];
  Expressions &expressions = arena.expressions;
  value.offset = placed.offset == 0 ? buffer.offset
                                    : expressions.binary(plan::ExprKind::Add, buffer.offset,
                                                         expressions.constant(placed.offset));
  if (placed.isBounded)
    value.reserved = buffer.bytes;
}

void add(const MemoryPlan &plan, size_t buffers, ArenaTotals &totals) {
  totals.buffers += int64_t(buffers);
  totals.plannedBytes += plan.plannedBytes;
  totals.aliveBytes += plan.aliveBytes;
  totals.separateBytes += plan.separateBytes;
}

} // namespace

void Arena::place(uint32_t value, size_t buffer) {
  auto one = std::ranges::find(placed, value, &Placed::value);
  if (one == placed.end())
    placed.push_back({value, buffer, 0, false});
  else
    one->buffer = buffer;
}

std::vector<size_t> Arena::buffersOfValues(const plan::FunctionT &function) const {
  std::vector<size_t> result(function.values.size(), kNone);
  for (const Placed &one : placed)
    if (function.values[one.value]->storage == plan::Storage::Arena)
      result[one.value] = one.buffer;
  return result;
}

void layOutArena(plan::FunctionT &function, Arena &arena, size_t devices,
                 std::span<const llvm::BitVector> before, ArenaTotals &totals) {
  Expressions &expressions = arena.expressions;
  if (devices == 0) {
    MemoryPlan plan = planMemory(arena.buffers, expressions);
    function.arena_bytes = arena.buffers.empty() ? expressions.constant(0) : plan.bytes;
    for (const Arena::Placed &placed : arena.placed)
      place(function, arena, placed, arena.buffers[placed.buffer]);
    add(plan, arena.buffers.size(), totals);
    return;
  }
  for (uint32_t memory = 0; memory <= devices; ++memory) {
    MemoryUse use(function, arena, memory, before);
    MemoryPlan plan =
        planMemory(use.buffers, expressions, [&](size_t a, size_t b) { return use.meet(a, b); });
    uint32_t bytes = use.buffers.empty() ? expressions.constant(0) : plan.bytes;
    if (memory == 0)
      function.arena_bytes = bytes;
    else
      function.device_arenas.push_back(bytes);
    for (const Arena::Placed &placed : arena.placed) {
      const plan::ValueT &value = *function.values[placed.value];
      if (value.storage == plan::Storage::Arena && value.device == memory &&
          use.numbers[placed.buffer] != Arena::kNone)
        place(function, arena, placed, use.buffers[use.numbers[placed.buffer]]);
    }
    add(plan, use.buffers.size(), totals);
  }
}

} // namespace tensmith::vm
