// Modules made by hand: a plan written through FlatBuffers' object API, over the kernels of
// kernels.c.
#pragma once

#include "runtime/Module.h"
#include "runtime/ModuleImage.h"
#include "runtime/Tensor.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace tensmith::runtime::test {

using Bytes = std::vector<std::byte>;

/// Builds one function. Expressions and values are numbers of the function's.
class FunctionBuilder {
public:
  explicit FunctionBuilder(std::string name) { function.name = std::move(name); }

  uint32_t symbol(const std::string &name);
  uint32_t constant(int64_t value);
  uint32_t binary(plan::ExprKind kind, uint32_t a, uint32_t b);

  uint32_t value(const std::string &name, DataType type, std::vector<uint32_t> dims,
                 plan::Storage storage, uint64_t offset = 0);
  uint32_t param(const std::string &name, DataType type, std::vector<uint32_t> dims);
  uint32_t valueOfKind(const std::string &name, plan::ValueKind kind, DataType type,
                       plan::Storage storage);

  plan::InstructionT &add(plan::Opcode opcode, uint32_t target, std::vector<uint32_t> operands,
                          std::vector<uint32_t> results, std::vector<uint32_t> sizes = {});

  plan::FunctionT function;
};

/// Builds a module; main is its first function.
class ModuleBuilder {
public:
  ModuleBuilder();

  uint32_t kernel(const std::string &symbol, std::vector<std::string> messages = {});
  uint32_t routine(const std::string &name);
  void setAttribute(uint32_t routine, const std::string &name, int64_t value);
  uint32_t location(const std::string &text);
  uint32_t add(FunctionBuilder function);

  /// The file. Ports are made from main's parameters and results.
  Bytes finish(std::span<const float> weights = {});

  plan::ModuleT module;
};

/// The file from its parts, with the right hashes.
Bytes assemble(std::span<const std::byte> plan, std::span<const std::byte> weights);
/// Computes the hashes of a changed file anew.
void reseal(Bytes &file);
Bytes serialise(const plan::ModuleT &module);

/// y[n] = x[n] + w[n] + x[n], with an intermediate result in the arena; n is `size` where that is
/// not 0.
Bytes addModule(int64_t size, std::span<const float> weights);

std::shared_ptr<const Module> load(const Bytes &file);
TensorRef floats(std::vector<int64_t> shape, std::vector<float> values);
std::vector<float> floatsOf(const TensorRef &tensor);

} // namespace tensmith::runtime::test
