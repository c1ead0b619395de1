// Compiles a scheduled nest for this machine, runs it, and compares it with the oracle.
#pragma once

#include "compiler/nest/NestKernel.h"
#include "compiler/nest/test/Evaluator.h"
#include "compiler/targets/cpu/test/KernelHarness.h"

#include "mlir/IR/Verifier.h"

#include <bit>
#include <cmath>

namespace tensmith::nest::test {

/// The kernel of a schedule, loaded.
class RunnableNest {
public:
  static Result<RunnableNest> of(Schedule &schedule) {
    mlir::DialectRegistry registry;
    targets::cpu::registerCodegenDialects(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    auto kernel = emitNest(schedule, context);
    if (!kernel)
      return kernel.status();
    if (failed(mlir::verify(*kernel->module)))
      return Status(StatusCode::Internal, "the module does not verify");
    std::string text;
    llvm::raw_string_ostream out(text);
    kernel->module->print(out);
    auto loaded = targets::cpu::LoadedKernel::of(text);
    if (!loaded)
      return loaded.status();
    RunnableNest result;
    result.kernel_ = std::move(*loaded);
    return result;
  }

  /// Codes that the kernel reported are counted in `failures`.
  int failures = 0;

  void call(std::vector<void *> operands, std::vector<int64_t> sizes) {
    struct State {
      std::vector<std::unique_ptr<char[]>> memory;
      int failures = 0;
    } state;
    TensmithServices services{};
    // Ranges of two, the last first: what a parallel loop must bear.
    services.parallel_for = [](const TensmithCall *, int64_t count, int64_t, TensmithBody body,
                               void *closure) {
      for (int64_t end = count; end > 0; end -= 2)
        body(closure, std::max<int64_t>(end - 2, 0), end);
    };
    services.scratch = [](const TensmithCall *call, int64_t bytes) -> void * {
      auto &memory = static_cast<State *>(call->context)->memory;
      memory.push_back(std::make_unique<char[]>(size_t(bytes) + 64));
      std::memset(memory.back().get(), 0x7f, size_t(bytes) + 64);
      auto address = reinterpret_cast<uintptr_t>(memory.back().get());
      return reinterpret_cast<void *>((address + 63) / 64 * 64);
    };
    services.fail = [](const TensmithCall *call, int32_t, int64_t) -> int32_t {
      ++static_cast<State *>(call->context)->failures;
      return 1;
    };
    TensmithCall call{operands.data(), sizes.data(), &services, &state};
    kernel_->entry()(&call);
    failures = state.failures;
  }

private:
  std::unique_ptr<targets::cpu::LoadedKernel> kernel_;
};

/// An element in memory, of the types that the tests have: small whole numbers, which all of them
/// hold.
inline void setElement(DataType type, char *memory, size_t at, double value) {
  float number = float(value);
  auto whole = int64_t(value);
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  bits >>= 16; // of a bf16
  bool isFloat = info(type).kind == TypeClass::Float;
  const void *from = type == DataType::F32 ? static_cast<const void *>(&number)
                     : isFloat             ? static_cast<const void *>(&bits)
                                           : static_cast<const void *>(&whole);
  size_t size = size_t(byteSize(type));
  std::memcpy(memory + at * size, from, size); // the low bytes come first
}
inline double elementOf(DataType type, const char *memory, size_t at) {
  auto as = [&](auto number) {
    std::memcpy(&number, memory + at * sizeof number, sizeof number);
    return double(number);
  };
  switch (type) {
  case DataType::I64:
    return as(int64_t());
  case DataType::I32:
    return as(int32_t());
  case DataType::I8:
    return as(int8_t());
  case DataType::U8:
    return as(uint8_t());
  case DataType::BF16: {
    uint16_t half;
    std::memcpy(&half, memory + at * sizeof half, sizeof half);
    uint32_t bits = uint32_t(half) << 16;
    return double(std::bit_cast<float>(bits));
  }
  default:
    return as(float());
  }
}

/// Memory of a tensor of its own type.
inline std::vector<char> packed(const Tensor &tensor, const Values &values) {
  std::vector<char> bytes(values.elements.size() * size_t(byteSize(tensor.type)) + 1);
  for (size_t at = 0; at < values.elements.size(); ++at)
    setElement(tensor.type, bytes.data(), at, values.elements[at]);
  return bytes;
}

/// Where the kernel's results differ from the oracle's on `original`, in words; empty: nowhere.
inline std::string difference(RunnableNest &kernel, const Nest &original,
                              const std::vector<int64_t> &sizes, uint64_t seed,
                              int64_t indexBound = 1) {
  std::map<std::string, int64_t> parameters;
  for (size_t number = 0; number < sizes.size(); ++number)
    parameters[original.parameters[number].name] = sizes[number];
  Environment tensors = drawTensors(original, parameters, seed, indexBound);
  std::vector<const Tensor *> operands;
  for (Tensor::Role role : {Tensor::Role::Input, Tensor::Role::Output})
    for (const Tensor &each : original.tensors)
      if (each.role == role)
        operands.push_back(&each);
  std::vector<std::vector<char>> memory;
  for (const Tensor *each : operands)
    memory.push_back(packed(*each, tensors.at(each->name)));
  std::vector<void *> pointers;
  for (auto &each : memory)
    pointers.push_back(each.data());
  kernel.call(pointers, sizes);
  if (kernel.failures)
    return "the kernel reported a failure";
  run(original, parameters, tensors);
  for (size_t number = 0; number < operands.size(); ++number) {
    const std::vector<double> &wanted = tensors.at(operands[number]->name).elements;
    for (size_t at = 0; at < wanted.size(); ++at) {
      double got = elementOf(operands[number]->type, memory[number].data(), at);
      if (!(std::abs(got - wanted[at]) <= 1e-5 * std::abs(wanted[at]) + 1e-6))
        return operands[number]->name + " element " + std::to_string(at) + " is " +
               std::to_string(got) + ", not " + std::to_string(wanted[at]);
    }
  }
  return {};
}

} // namespace tensmith::nest::test
