// Runs a loaded module and counts; see ModuleRun.h.
#include "tests/fuzz/ModuleRun.h"

#include "runtime/Session.h"

#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace tensmith::fuzz {
namespace {

constexpr int64_t kInputBytes = 1 << 20; // of one input of a run
constexpr int64_t kSymbolSize = 2;
constexpr int64_t kMemoryBytes = 256 << 20; // of what a run makes
constexpr double kSeconds = 0.5;

using Counts = std::array<int64_t, size_t(Stage::Count)>;

Counts &counts() {
  static Counts &shared = []() -> Counts & {
    static Counts own{};
    const char *path = std::getenv("TENSMITH_FUZZ_COUNTS");
    int file = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0)
      return own;
    void *mapped = ftruncate(file, sizeof(Counts)) == 0
                       ? mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    close(file);
    return mapped == MAP_FAILED ? own : *static_cast<Counts *>(mapped);
  }();
  return shared;
}

/// Small numbers, valid for any type: indices and sizes among the integers.
void fill(runtime::Tensor &tensor) {
  HostTensor values(tensor.type(), tensor.shape());
  bool whole = isInteger(tensor.type()) || tensor.type() == DataType::Bool;
  for (int64_t i = 0; values.valid() && i < values.size(); ++i)
    whole ? values.setInt(i, i % 2) : values.setDouble(i, double(i % 5) - 1.5);
  if (values.valid() && values.bytes())
    std::memcpy(tensor.data(), values.data(), size_t(values.bytes()));
}

/// With one entry; null where there can be none of that type.
runtime::TensorRef mapTo(DataType type) {
  int64_t shape[] = {1};
  auto keys = runtime::Tensor::create(DataType::I64, shape);
  auto values = runtime::Tensor::create(type == DataType::Undefined ? DataType::F32 : type, shape);
  if (!keys || !values)
    return {};
  fill(**keys);
  fill(**values);
  return runtime::Tensor::map(std::move(*keys), std::move(*values));
}

/// Null where the value's size is beyond what a run is worth.
runtime::TensorRef inputFor(const runtime::FunctionCode &main, const runtime::ValueCode &value) {
  if (value.kind == plan::ValueKind::Sequence)
    return runtime::Tensor::sequence({});
  if (value.kind == plan::ValueKind::Map)
    return mapTo(value.type);
  if (value.kind != plan::ValueKind::Tensor)
    return runtime::Tensor::none();
  Shape shape;
  for (uint32_t dim : value.dims) {
    const plan::Expr &expr = main.exprs[dim];
    shape.push_back(expr.kind() == plan::ExprKind::Constant ? expr.a() : kSymbolSize);
  }
  DataType type = value.type == DataType::Undefined ? DataType::F32 : value.type;
  auto elements = elementCount(shape, kInputBytes / 16);
  if (!elements)
    return {};
  auto tensor =
      type == DataType::String
          ? runtime::Tensor::ofStrings(std::vector<std::string>(size_t(*elements), "a1"), shape)
          : runtime::Tensor::create(type, shape);
  if (!tensor)
    return {};
  if (type != DataType::String)
    fill(**tensor);
  return *tensor;
}

} // namespace

void count(Stage stage) { ++counts()[size_t(stage)]; }

void runModule(std::shared_ptr<const runtime::Module> module) {
  const runtime::FunctionCode &main = module->program().functions[0];
  std::vector<runtime::TensorRef> inputs, outputs(main.results.size());
  for (uint32_t param : main.params) {
    inputs.push_back(inputFor(main, main.values[param]));
    if (!inputs.back())
      return;
  }
  runtime::Limits limits;
  limits.memoryBytes = kMemoryBytes;
  limits.seconds = kSeconds;
  limits.depth = 100'000;
  runtime::Session session(std::move(module), 1, limits);
  count(Stage::Ran);
  for (int run = 0; run < 2; ++run) {
    std::fill(outputs.begin(), outputs.end(), runtime::TensorRef());
    try {
      if (!session.run(inputs, outputs).ok())
        return;
    } catch (const std::bad_alloc &) { // which the C API makes a status
      return;
    }
  }
}

} // namespace tensmith::fuzz
