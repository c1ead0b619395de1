// Who needs whom in a function of a plan; see DeviceStreams.h.
#include "compiler/vm/DeviceStreams.h"

#include "compiler/vm/DevicePlacement.h"
#include "compiler/vm/Streams.h"
#include "runtime/ModuleFormat.h"

#include <map>

namespace tensmith::vm {
namespace {

class StreamBuilder {
public:
  StreamBuilder(const plan::ModuleT &module, plan::FunctionT &function, const Arena &arena)
      : module_(module), function_(function), buffers_(arena.buffersOfValues(function)),
        makers_(function.values.size()), roots_(function.values.size()) {
    for (uint32_t value = 0; value < roots_.size(); ++value)
      roots_[value] = value;
    for (size_t i = 0; i + 1 < function.overwrites.size(); i += 2)
      roots_[function.overwrites[i + 1]] = function.params[function.overwrites[i]];
  }

  std::vector<llvm::BitVector> build() {
    for (uint32_t i = 0; i < function_.instructions.size(); ++i)
      add(i);
    StreamPlan plan = planStreams(pieces_);
    for (uint32_t i = 0; i < pieces_.size(); ++i) {
      plan::InstructionT &instruction = *function_.instructions[i];
      if (pieces_[i].machine)
        instruction.stream = plan.streams[i];
      instruction.waits = std::move(plan.waits[i]);
    }
    return std::move(plan.before);
  }

private:
  /// The device that an instruction is put on a stream of; 0: the host does it itself.
  uint32_t machineOf(const plan::InstructionT &instruction) const {
    if (instruction.opcode == plan::Opcode::Kernel)
      return function_.values[instruction.results[0]]->device;
    if (instruction.opcode != plan::Opcode::Copy)
      return 0;
    const plan::ValueT &from = *function_.values[instruction.operands[0]];
    const plan::ValueT &to = *function_.values[instruction.results[0]];
    return isPlain(from) && isPlain(to) ? std::max(from.device, to.device) : 0;
  }

  /// What values have in common that can't be in use at the same time: a buffer in one memory.
  std::pair<size_t, size_t> placeOf(uint32_t value) const {
    if (buffers_[value] != Arena::kNone)
      return {buffers_[value], function_.values[value]->device + 1};
    return {roots_[value], 0};
  }

  void add(uint32_t index) {
    const plan::InstructionT &instruction = *function_.instructions[index];
    Piece &piece = pieces_.emplace_back();
    if (instruction.opcode == plan::Opcode::View || instruction.opcode == plan::Opcode::Join) {
      // Nothing is done by it; who reads the result needs those that made the operands.
      uint32_t result = instruction.results[0];
      roots_[result] = roots_[instruction.operands[0]];
      for (uint32_t operand : instruction.operands)
        makers_[result].insert(makers_[result].end(), makers_[operand].begin(),
                               makers_[operand].end());
      return;
    }
    piece.machine = machineOf(instruction);
    bool callsFunctions =
        !instruction.functions.empty() || instruction.opcode == plan::Opcode::Procedure;
    for (uint32_t earlier = 0; callsFunctions && earlier < index; ++earlier)
      piece.after.push_back(earlier);
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      uint32_t operand = instruction.operands[i];
      if (operand == runtime::kAbsent || (i == 0 && readsShapeAlone(module_, instruction)))
        continue;
      piece.after.insert(piece.after.end(), makers_[operand].begin(), makers_[operand].end());
      users_[placeOf(operand)].push_back(index);
    }
    for (uint32_t result : instruction.results) {
      std::vector<uint32_t> &users = users_[placeOf(result)];
      for (uint32_t user : users)
        if (user != index)
          piece.after.push_back(user);
      users.push_back(index);
      makers_[result] = {index};
    }
  }

  const plan::ModuleT &module_;
  plan::FunctionT &function_;
  std::vector<size_t> buffers_;               // of values
  std::vector<std::vector<uint32_t>> makers_; // of values: instructions
  std::vector<uint32_t> roots_;               // of views: what they look at
  std::map<std::pair<size_t, size_t>, std::vector<uint32_t>> users_;
  std::vector<Piece> pieces_;
};

} // namespace

std::vector<llvm::BitVector> putOnStreams(const plan::ModuleT &module, plan::FunctionT &function,
                                          const Arena &arena) {
  return StreamBuilder(module, function, arena).build();
}

} // namespace tensmith::vm
