// Adds a module's three sections to a shared object that the build made from kernels.c.
#include "TestModule.h"

#include "runtime/KernelAbi.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <gtest/gtest.h>

namespace tensmith::runtime::test {
namespace {

Bytes readFile(const char *path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

template <typename T> T read(const Bytes &file, uint64_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

uint64_t append(Bytes &file, std::span<const std::byte> bytes, size_t alignment) {
  file.resize((file.size() + alignment - 1) / alignment * alignment);
  uint64_t offset = file.size();
  file.insert(file.end(), bytes.begin(), bytes.end());
  return offset;
}

/// Writes a new table of sections, with new names, after everything else.
void addSections(Bytes &file,
                 std::vector<std::pair<std::string, std::span<const std::byte>>> contents) {
  auto header = read<Elf64_Ehdr>(file, 0);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), file.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  Elf64_Shdr &names = sections[header.e_shstrndx];
  Bytes text(file.begin() + long(names.sh_offset),
             file.begin() + long(names.sh_offset + names.sh_size));
  for (auto &[name, bytes] : contents) {
    Elf64_Shdr section = {};
    section.sh_name = uint32_t(text.size());
    section.sh_type = SHT_PROGBITS;
    section.sh_offset = append(file, bytes, name == kWeightsSection ? 4096 : 8);
    section.sh_size = bytes.size();
    section.sh_addralign = 1;
    auto nameBytes = std::as_bytes(std::span(name.c_str(), name.size() + 1));
    text.insert(text.end(), nameBytes.begin(), nameBytes.end());
    sections.push_back(section);
  }
  sections[header.e_shstrndx].sh_offset = append(file, text, 1);
  sections[header.e_shstrndx].sh_size = text.size();
  header.e_shoff = append(file, std::as_bytes(std::span(sections)), 8);
  header.e_shnum = uint16_t(sections.size());
  std::memcpy(file.data(), &header, sizeof(header));
}

} // namespace

uint32_t FunctionBuilder::symbol(const std::string &name) {
  function.symbols.push_back(name);
  function.exprs.emplace_back(int64_t(function.symbols.size() - 1), 0, plan::ExprKind::Symbol);
  return uint32_t(function.exprs.size() - 1);
}

uint32_t FunctionBuilder::constant(int64_t value) {
  function.exprs.emplace_back(value, 0, plan::ExprKind::Constant);
  return uint32_t(function.exprs.size() - 1);
}

uint32_t FunctionBuilder::binary(plan::ExprKind kind, uint32_t a, uint32_t b) {
  function.exprs.emplace_back(int64_t(a), int32_t(b), kind);
  return uint32_t(function.exprs.size() - 1);
}

uint32_t FunctionBuilder::value(const std::string &name, DataType type, std::vector<uint32_t> dims,
                                plan::Storage storage, uint64_t offset) {
  auto value = std::make_unique<plan::ValueT>();
  value->kind = plan::ValueKind::Tensor;
  value->type = uint8_t(type);
  value->dims = std::move(dims);
  value->storage = storage;
  value->offset = offset;
  value->name = name;
  function.values.push_back(std::move(value));
  return uint32_t(function.values.size() - 1);
}

uint32_t FunctionBuilder::param(const std::string &name, DataType type,
                                std::vector<uint32_t> dims) {
  uint32_t index = value(name, type, std::move(dims), plan::Storage::Parameter);
  function.params.push_back(index);
  return index;
}

uint32_t FunctionBuilder::valueOfKind(const std::string &name, plan::ValueKind kind, DataType type,
                                      plan::Storage storage) {
  uint32_t index = value(name, type, {}, storage);
  function.values[index]->kind = kind;
  function.values[index]->ranked = false;
  return index;
}

plan::InstructionT &FunctionBuilder::add(plan::Opcode opcode, uint32_t target,
                                         std::vector<uint32_t> operands,
                                         std::vector<uint32_t> results,
                                         std::vector<uint32_t> sizes) {
  auto instruction = std::make_unique<plan::InstructionT>();
  instruction->opcode = opcode;
  instruction->target = target;
  instruction->operands = std::move(operands);
  instruction->results = std::move(results);
  instruction->sizes = std::move(sizes);
  instruction->location = kAbsent;
  function.instructions.push_back(std::move(instruction));
  return *function.instructions.back();
}

ModuleBuilder::ModuleBuilder() {
  module.producer = "tensmith test";
  module.model = "test.onnx";
}

uint32_t ModuleBuilder::kernel(const std::string &symbol, std::vector<std::string> messages) {
  auto kernel = std::make_unique<plan::KernelT>();
  kernel->symbol = symbol;
  kernel->label = symbol + "_label";
  kernel->messages = std::move(messages);
  module.kernels.push_back(std::move(kernel));
  return uint32_t(module.kernels.size() - 1);
}

uint32_t ModuleBuilder::routine(const std::string &name) {
  auto routine = std::make_unique<plan::RoutineT>();
  routine->operator_ = name;
  module.routines.push_back(std::move(routine));
  return uint32_t(module.routines.size() - 1);
}

void ModuleBuilder::setAttribute(uint32_t routine, const std::string &name, int64_t value) {
  auto attribute = std::make_unique<plan::AttributeT>();
  attribute->name = name;
  plan::IntegerT integer;
  integer.value = value;
  attribute->value.Set(std::move(integer));
  module.routines[routine]->attributes.push_back(std::move(attribute));
}

uint32_t ModuleBuilder::location(const std::string &text) {
  module.locations.push_back(text);
  return uint32_t(module.locations.size() - 1);
}

uint32_t ModuleBuilder::add(FunctionBuilder function) {
  module.functions.push_back(std::make_unique<plan::FunctionT>(std::move(function.function)));
  return uint32_t(module.functions.size() - 1);
}

/// Of values and dimensions that exist: a test may have made a plan that lies.
void describePort(const plan::FunctionT &main, uint32_t value, plan::PortT &port) {
  port.value = value;
  port.name = "?";
  if (value >= main.values.size())
    return;
  port.name = main.values[value]->name;
  for (uint32_t dim : main.values[value]->dims) {
    bool constant = dim < main.exprs.size() && main.exprs[dim].kind() == plan::ExprKind::Constant;
    port.dims.push_back(constant ? std::to_string(main.exprs[dim].a()) : "n");
  }
}

Bytes ModuleBuilder::finish(std::span<const float> weights) {
  const plan::FunctionT &main = *module.functions[0];
  for (auto [values, ports] :
       {std::pair(&main.params, &module.inputs), std::pair(&main.results, &module.outputs)})
    for (uint32_t value : *values) {
      ports->push_back(std::make_unique<plan::PortT>());
      describePort(main, value, *ports->back());
    }
  return assemble(serialise(module), std::as_bytes(weights));
}

Bytes serialise(const plan::ModuleT &module) {
  flatbuffers::FlatBufferBuilder builder;
  plan::FinishModuleBuffer(builder, plan::Module::Pack(builder, &module));
  Bytes bytes(builder.GetSize());
  std::memcpy(bytes.data(), builder.GetBufferPointer(), bytes.size());
  return bytes;
}

Bytes assemble(std::span<const std::byte> plan, std::span<const std::byte> weights) {
  static const Bytes kernels = readFile(TEST_KERNELS);
  Bytes file = kernels;
  ModuleHeader header = {kMagic, kFormatMajor, kFormatMinor, TENSMITH_KERNEL_ABI, {}, {}};
  addSections(file, {{kHeaderSection, std::as_bytes(std::span(&header, 1))},
                     {kPlanSection, plan},
                     {kWeightsSection, weights}});
  reseal(file);
  return file;
}

void reseal(Bytes &file) {
  auto sections = findSections(file);
  ASSERT_TRUE(sections.ok()) << sections.status().message();
  ModuleHeader header = readHeader(file, *sections);
  Hash128 weights = hashWeights(file, *sections), image = hashImage(file, *sections);
  header.weightsHash[0] = weights.low;
  header.weightsHash[1] = weights.high;
  header.imageHash[0] = image.low;
  header.imageHash[1] = image.high;
  std::memcpy(file.data() + sections->header.offset, &header, sizeof(header));
}

Bytes addModule(int64_t size, std::span<const float> weights) {
  ModuleBuilder module;
  uint32_t add = module.kernel("test_add"), sum = module.kernel("test_sum");
  FunctionBuilder main("main");
  uint32_t n = size ? main.constant(size) : main.symbol("n");
  uint32_t zero = main.constant(0), four = main.constant(4), line = main.constant(64);
  uint32_t bytes = main.binary(plan::ExprKind::Mul, n, four);
  uint32_t rounded =
      main.binary(plan::ExprKind::Mul, main.binary(plan::ExprKind::CeilDiv, bytes, line), line);
  uint32_t one = main.constant(1);
  main.function.arena_bytes = main.binary(plan::ExprKind::Add, rounded, line);
  uint32_t x = main.param("x", DataType::F32, {n});
  uint32_t w = weights.empty()
                   ? x
                   : main.value("w", DataType::F32, {main.constant(int64_t(weights.size()))},
                                plan::Storage::Constant);
  uint32_t t = main.value("t", DataType::F32, {n}, plan::Storage::Arena, zero);
  uint32_t s = main.value("s", DataType::F32, {one}, plan::Storage::Arena, rounded);
  uint32_t y = main.value("y", DataType::F32, {n}, plan::Storage::Result);
  main.add(plan::Opcode::Kernel, add, {x, w}, {t}, {n}).location =
      module.location("test.onnx: node 'first' (Add)");
  main.add(plan::Opcode::Kernel, sum, {t}, {s}, {n});
  main.add(plan::Opcode::Kernel, add, {t, x}, {y}, {n});
  main.function.results = {y, s};
  module.add(std::move(main));
  return module.finish(weights);
}

std::shared_ptr<const Module> load(const Bytes &file) {
  auto module = Module::loadBytes(file, {});
  EXPECT_TRUE(module.ok()) << module.status().message();
  return module ? *module : nullptr;
}

TensorRef floats(std::vector<int64_t> shape, std::vector<float> values) {
  auto tensor = Tensor::create(DataType::F32, shape);
  EXPECT_TRUE(tensor.ok() && (*tensor)->size() == int64_t(values.size()));
  std::copy(values.begin(), values.end(), reinterpret_cast<float *>((*tensor)->data()));
  return *tensor;
}

std::vector<float> floatsOf(const TensorRef &tensor) {
  const auto *data = reinterpret_cast<const float *>(tensor->data());
  return {data, data + tensor->size()};
}

} // namespace tensmith::runtime::test
