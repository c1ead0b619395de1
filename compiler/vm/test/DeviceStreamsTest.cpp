// Plans of random functions for several devices, held against what a plan must guarantee: two
// instructions that touch the same bytes, one of which writes them, don't go on at the same time.
//
// The oracle looks at the finished plan alone: places in arenas as bytes, streams, waits, and the
// host's order. Fails where a wait is missing, where a result is written over an operand that
// another stream still reads, or where two buffers share memory because they stand one behind the
// other in the plan. That no wait is for nothing: without any one of them two do go on together.
#include "compiler/vm/DeviceStreams.h"
#include "compiler/vm/test/PlannedFunction.h"
#include "runtime/ModuleFormat.h"

#include <random>

namespace tensmith::vm {
namespace {

/// Kernels of one, two or three earlier values, and views of some.
std::string randomFunction(std::mt19937 &random) {
  std::vector<std::pair<std::string, int>> values = {{"%x", 4}, {"%z", 8}};
  auto typeOf = [](int size) {
    return "tensor<" + std::to_string(size) + "x" + std::to_string(size) + "xf32>";
  };
  std::string text = "func.func @main(%x: " + typeOf(4) + ", %z: " + typeOf(8) + ") -> (";
  std::string body;
  auto draw = [&](int size) {
    for (;;) {
      const auto &value =
          values[random() % 3 ? values.size() - 1 - random() % std::min<size_t>(4, values.size())
                              : random() % values.size()];
      if (value.second == size)
        return value.first;
    }
  };
  int kernels = 6 + int(random() % 14);
  for (int k = 0; k < kernels; ++k) {
    int size = values[values.size() - 1 - random() % 2].second, count = 1 + int(random() % 3);
    std::string type = typeOf(size), name = "%k" + std::to_string(k), operands, types, arguments;
    std::string inside, last = "%a0";
    for (int i = 0; i < count; ++i) {
      std::string number = std::to_string(i), comma = i ? ", " : "";
      operands += comma + draw(size);
      types += comma + type;
      arguments += comma + "%a" + number + ": " + type;
      std::string next = "%r" + number, both = i ? last + ", %a" + number : last;
      inside += next + (i ? " = graph.add " : " = graph.exp ") + both + " : (" + type +
                (i ? ", " + type : "") + ") -> " + type + "\n";
      last = next;
    }
    body += name + " = graph.kernel " + operands + " {label = \"" + name +
            "\", kind = \"loops\"} : (" + types + ") -> " + type + " {\n^bb0(" + arguments +
            "):\n" + inside + "graph.yield " + last + " : " + type + "\n}\n";
    values.emplace_back(name, size);
    if (random() % 4 == 0) { // seen as a row, and back
      std::string row = "tensor<" + std::to_string(size * size) + "xf32>";
      body += name + "v = graph.reshape " + name + " : (" + type + ") -> " + row + "\n";
      body += name + "w = graph.reshape " + name + "v : (" + row + ") -> " + type + "\n";
      values.emplace_back(name + "w", size);
    }
  }
  std::string results, types;
  for (size_t i = values.size() - 3; i < values.size(); ++i)
    if (values[i].first[1] == 'k') {
      results += (results.empty() ? "" : ", ") + values[i].first;
      types += (types.empty() ? "" : ", ") + typeOf(values[i].second);
    }
  return text + types + ") {\n" + body + "return " + results + " : " + types + "\n}\n";
}

/// Bytes of a memory that an instruction reads or writes.
struct Access {
  uint64_t memory, begin, end; // arenas are memories 0, 1, ...; what lies elsewhere one of its own
  bool writes;

  bool conflicts(const Access &other) const {
    return memory == other.memory && begin < other.end && other.begin < end &&
           (writes || other.writes);
  }
};

class Races {
public:
  explicit Races(const PlannedFunction &planned) : planned_(planned), main_(planned.main()) {
    roots_.resize(main_.values.size());
    for (uint32_t value = 0; value < roots_.size(); ++value)
      roots_[value] = value;
    for (const auto &instruction : main_.instructions) {
      std::vector<Access> &accesses = accesses_.emplace_back();
      if (instruction->opcode == plan::Opcode::View) {
        roots_[instruction->results[0]] = roots_[instruction->operands[0]];
        continue;
      }
      for (uint32_t operand : instruction->operands)
        accesses.push_back(access(operand, false));
      for (uint32_t result : instruction->results)
        accesses.push_back(access(result, true));
    }
  }

  /// How many pairs of instructions may meet, where waits of instruction `without` are left out.
  int count(uint32_t without = runtime::kAbsent, size_t wait = 0) const {
    std::vector<llvm::BitVector> before;
    int races = 0;
    for (uint32_t i = 0; i < main_.instructions.size(); ++i) {
      before.push_back(beforeOf(i, before, i == without ? wait : SIZE_MAX));
      for (uint32_t earlier = 0; earlier < i; ++earlier)
        races += !before[i].test(earlier) && conflict(earlier, i);
    }
    return races;
  }

private:
  Access access(uint32_t index, bool writes) const {
    const plan::ValueT &value = *main_.values[index];
    uint64_t bytes = 4;
    for (uint32_t dim : value.dims)
      bytes *= uint64_t(planned_.constant(dim));
    if (value.storage != plan::Storage::Arena)
      return {1000 + roots_[index], 0, bytes, writes};
    auto begin = uint64_t(planned_.constant(value.offset));
    return {value.device, begin, begin + bytes, writes};
  }

  bool conflict(uint32_t a, uint32_t b) const {
    for (const Access &one : accesses_[a])
      for (const Access &other : accesses_[b])
        if (one.conflicts(other))
          return true;
    return false;
  }

  std::pair<uint32_t, uint32_t> streamOf(uint32_t index) const {
    const plan::InstructionT &instruction = *main_.instructions[index];
    if (instruction.stream == runtime::kAbsent)
      return {0, 0};
    uint32_t device = main_.values[instruction.results[0]]->device;
    return {device ? device : main_.values[instruction.operands[0]]->device, instruction.stream};
  }

  llvm::BitVector beforeOf(uint32_t index, const std::vector<llvm::BitVector> &before,
                           size_t without) const {
    llvm::BitVector result(unsigned(main_.instructions.size()));
    auto add = [&](uint32_t earlier) {
      result |= before[earlier];
      result.set(earlier);
    };
    for (uint32_t earlier = 0; earlier < index; ++earlier)
      if (streamOf(earlier).first == 0 || streamOf(earlier) == streamOf(index))
        add(earlier);
    const std::vector<uint32_t> &waits = main_.instructions[index]->waits;
    for (size_t i = 0; i < waits.size(); ++i)
      if (i != without)
        add(waits[i]);
    return result;
  }

  const PlannedFunction &planned_;
  const plan::FunctionT &main_;
  std::vector<uint32_t> roots_;
  std::vector<std::vector<Access>> accesses_;
};

TEST(DeviceStreams, NothingThatIsUnderWayIsReadOrWritten) {
  std::mt19937 random(5);
  size_t waits = 0, streams = 0, shared = 0;
  for (int function = 0; function < 150; ++function) {
    std::vector<std::string> devices = {"separate:0", "separate:1", "separate:2"};
    devices.resize(1 + random() % 3);
    PlannedFunction planned(randomFunction(random), devices, [&](uint32_t, uint32_t count) {
      return 1 + uint32_t(random() % count);
    });
    ASSERT_TRUE(planned.ok()) << planned.status.message();
    Races races(planned);
    ASSERT_EQ(races.count(), 0) << function;
    const auto &instructions = planned.main().instructions;
    for (uint32_t i = 0; i < instructions.size(); ++i) {
      for (size_t wait = 0; wait < instructions[i]->waits.size(); ++wait)
        ASSERT_GT(races.count(i, wait), 0) << function << ": a wait for nothing";
      waits += instructions[i]->waits.size();
      streams += instructions[i]->stream != runtime::kAbsent && instructions[i]->stream > 0;
    }
    shared += size_t(planned.metadata("arena_bytes_planned") <
                     planned.metadata("arena_bytes_without_sharing"));
  }
  // That there was something to find.
  EXPECT_GT(waits, 500u);
  EXPECT_GT(streams, 500u);
  EXPECT_GT(shared, 100u);
}

} // namespace
} // namespace tensmith::vm
