// A structure's text is the key in memory and on disk alike.
#include "eager/Kernels.h"

#include "client/Compiler.h"
#include "client/CompilerLibrary.h"
#include "client/ModuleCache.h"
#include "eager/Compiled.h"

#include <tensmith/workers.h>

#include <cstdlib>
#include <string_view>

namespace tensmith::eager {
namespace {

/// Elements of an element-wise operator or a reduction, and multiplications of a product, from
/// which a run of a module (about 5 us) is faster than an evaluation (1 to 3 ns for each).
constexpr int64_t kWorthElements = 1 << 14, kWorthProducts = 1 << 13;

/// An operand as a graph's input: a dimension is "1" or the name of an open size.
struct Input {
  DataType type;
  std::vector<std::string> dims;
};

bool isWorthIt(const Operator &op, std::span<const Array> operands) {
  int64_t size = 0;
  for (const Array &operand : operands)
    size = std::max(size, operand.size());
  if (op.form == KernelForm::Contraction) {
    const Shape &b = operands[1].shape();
    return !b.empty() && size > 0 && size * b.back() >= kWorthProducts;
  }
  return size >= kWorthElements;
}

/// All of one shape or of one element: then the shape is of no account.
bool isFlat(const Operator &op, std::span<const Array> operands, const Shape &result) {
  if (op.form != KernelForm::Elementwise)
    return false;
  for (const Array &operand : operands)
    if (operand.size() != 1 && operand.shape() != result)
      return false;
  return true;
}

std::vector<Input> flatInputs(std::span<const Array> operands) {
  std::vector<Input> inputs;
  for (const Array &operand : operands)
    inputs.push_back({operand.type(), operand.size() == 1 ? std::vector<std::string>{}
                                                          : std::vector<std::string>{"n"}});
  return inputs;
}

/// Sizes that must be equal have one name. Dimensions are counted from the right, where
/// broadcasting begins; the two that a product multiplies are set apart.
std::vector<Input> openInputs(const Operator &op, std::span<const Array> operands) {
  std::vector<Input> inputs;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Shape &shape = operands[k].shape();
    Input input{operands[k].type(), {}};
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      size_t right = shape.size() - axis;
      std::string name = "d" + std::to_string(right);
      if (op.form == KernelForm::Contraction && right <= 2)
        name = (k == 0) == (right == 1) ? "k" : k == 0 ? "m" : "n";
      input.dims.push_back(shape[axis] == 1 ? "1" : name);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::string keyOf(const Operator &op, const Attributes &attributes,
                  const std::vector<Input> &inputs, const Device *device) {
  std::string key(op.graph);
  if (device)
    key += "@" + device->name;
  for (const auto &[name, value] : attributes.all()) {
    key += ";" + name + "=";
    if (const auto *integer = std::get_if<int64_t>(&value))
      key += std::to_string(*integer);
    else if (const auto *list = std::get_if<std::vector<int64_t>>(&value))
      for (int64_t each : *list)
        key += std::to_string(each) + ",";
  }
  for (const Input &input : inputs) {
    key += "|";
    key += name(input.type);
    for (const std::string &dim : input.dims)
      key += "," + dim;
  }
  return key;
}

/// Attributes in the C API's form, which point into what was given.
std::vector<ts_attribute> listed(const Attributes &attributes) {
  std::vector<ts_attribute> list;
  for (const auto &[name, value] : attributes.all()) {
    ts_attribute attribute{};
    attribute.name = name.c_str();
    if (const auto *integers = std::get_if<std::vector<int64_t>>(&value)) {
      attribute.kind = TS_ATTRIBUTE_INTS;
      attribute.integers = integers->data();
      attribute.count = integers->size();
    } else {
      attribute.integer = std::get<int64_t>(value);
      attribute.kind = name == "to"         ? TS_ATTRIBUTE_TYPE
                       : name == "keepdims" ? TS_ATTRIBUTE_BOOL
                                            : TS_ATTRIBUTE_INT;
      attribute.type = ts_type(attribute.integer);
    }
    list.push_back(attribute);
  }
  return list;
}

using CompiledHandle = std::unique_ptr<Compiled>;

using Bytes = std::string;

thread_local bool isMakingHere = false;

/// The module of a graph of one operator; empty where it can't be made.
Bytes compiled(const Operator &op, const Attributes &attributes, const std::vector<Input> &inputs,
               const ts_compile_options &options) {
  const client::CompilerLibrary &library = client::compilerLibrary();
  ts_builder *builder = nullptr;
  if (!library.failure.empty())
    return {};
  ts_status *status = library.builderCreate(&builder);
  std::vector<ts_value> values;
  for (const Input &input : inputs) {
    std::vector<const char *> dims;
    for (const std::string &dim : input.dims)
      dims.push_back(dim.c_str());
    ts_value_type type = {ts_type(input.type), int64_t(dims.size()), dims.data()};
    if (!status)
      status = library.builderInput(builder, ("x" + std::to_string(values.size())).c_str(), &type,
                                    &values.emplace_back());
  }
  std::vector<ts_attribute> list = listed(attributes);
  ts_value result = TS_NO_VALUE;
  if (!status)
    status = library.builderOp(builder, std::string(op.graph).c_str(), values.data(), values.size(),
                               list.data(), list.size(), nullptr, "", &result, 1, nullptr);
  if (!status)
    status = library.builderOutput(builder, "y", result);
  void *module = nullptr;
  size_t size = 0;
  if (!status)
    status = library.builderCompileBytes(builder, &options, &module, &size);
  if (builder)
    library.builderFree(builder);
  Bytes bytes;
  if (!status) {
    bytes.assign(static_cast<const char *>(module), size);
    library.freeBytes(module);
  }
  ts_status_free(status);
  return bytes;
}

} // namespace

struct Kernels::Kernel {
  enum class State { Making, Ready, Failed };
  Kernels *owner;
  std::string key;
  const Operator &op;
  Attributes attributes;
  std::vector<Input> inputs;
  const Device *device;        // null: the host
  State state = State::Making; // guarded by the owner's lock
  CompiledHandle compiled = nullptr;
};

Kernels::Kernels() {
  const char *setting = std::getenv("TENSMITH_EAGER_KERNELS");
  off_ = setting && std::string_view(setting) == "off";
}

Kernels &Kernels::ofProcess() {
  static Kernels &kernels = *new Kernels(); // threads may outlive static objects
  return kernels;
}

bool Kernels::isMaking() { return isMakingHere; }

void Kernels::make(Kernel &kernel) {
  isMakingHere = true;
  ts_compile_options options = client::defaultOptions();
  if (kernel.device) {
    options.device = kernel.device->name.c_str();
    options.resident = 1;
  }
  client::ModuleCache cache("eager/" + std::string(kernel.op.name) + ".mlir",
                            std::as_bytes(std::span(kernel.key)), options);
  CompiledHandle made;
  bool wasKept = false;
  try {
    if (auto found = cache.find()) {
      made = std::make_unique<Compiled>(
          Module::load(found->module.path(), false, found->module.bytes()), kernel.device);
      wasKept = true;
    }
  } catch (const Error &) { // of another version: it is made again
  }
  if (!made) {
    cache.begin(options);
    Bytes bytes = compiled(kernel.op, kernel.attributes, kernel.inputs, options);
    try {
      if (!bytes.empty())
        made = std::make_unique<Compiled>(Module::load(bytes.data(), bytes.size()), kernel.device);
      if (made)
        cache.keepBytes(bytes, "");
    } catch (const Error &) { // as if there were no compiler: evaluations go on
    }
  }
  std::lock_guard lock(mutex_);
  ++(!made ? statistics_.failed : wasKept ? statistics_.loaded : statistics_.compiled);
  kernel.compiled = std::move(made);
  kernel.state = kernel.compiled ? Kernel::State::Ready : Kernel::State::Failed;
  --making_;
  made_.notify_all();
  isMakingHere = false;
}

std::shared_ptr<Kernels::Kernel> Kernels::find(const Operator &op, const Attributes &attributes,
                                               std::span<const Array> operands,
                                               const Device *device) {
  const Shape *shapes[4];
  for (size_t k = 0; k < operands.size(); ++k)
    shapes[k] = &operands[k].shape();
  bool flat = op.form == KernelForm::Elementwise &&
              isFlat(op, operands, *broadcastShapes(std::span(shapes, operands.size())));
  std::vector<Input> inputs = flat ? flatInputs(operands) : openInputs(op, operands);
  std::string key = keyOf(op, attributes, inputs, device);
  std::unique_lock lock(mutex_);
  if (off_)
    return nullptr;
  auto [place, isNew] = kernels_.try_emplace(key);
  std::shared_ptr<Kernel> kernel = place->second;
  if (isNew) {
    kernel.reset(new Kernel{this, key, op, attributes, std::move(inputs), device});
    place->second = kernel;
    ++making_;
    lock.unlock();
    auto body = [](void *context) {
      auto *kernel = static_cast<Kernel *>(context);
      kernel->owner->make(*kernel);
    };
    if (!op.exact || device || !ts_workers_call(body, kernel.get()))
      make(*kernel);
    lock.lock();
  }
  if (!op.exact || device)
    made_.wait(lock, [&] { return kernel->state != Kernel::State::Making; });
  return kernel->state == Kernel::State::Ready ? kernel : nullptr;
}

std::optional<Result<std::vector<Array>>>
Kernels::run(const Operator &op, const Attributes &attributes, std::span<const Array> operands,
             std::span<const reference::ResultType> types, std::span<const Array> set) {
  Result<const Device *> device = set.empty() ? deviceOf(operands) : set[0].device();
  if (!device.ok())
    return Result<std::vector<Array>>(device.status());
  if (!*device && !isWorthIt(op, operands))
    return std::nullopt;
  std::shared_ptr<Kernel> kernel = find(op, attributes, operands, *device);
  if (!kernel)
    return std::nullopt;
  std::vector<Array> results;
  if (set.empty()) {
    Result<Array> result = Array::allocate(types[0].type, *types[0].shape, *device);
    if (!result.ok())
      return Result<std::vector<Array>>(result.status());
    results.push_back(std::move(*result));
  }
  const Array &into = set.empty() ? results[0] : set[0];
  bool flat = isFlat(op, operands, into.shape());
  bool isOfOne = std::ranges::all_of(operands, [](const Array &x) { return x.size() == 1; });
  auto asInKernel = [&](const Array &array, bool isResult) {
    Shape shape = !flat                                         ? array.shape()
                  : array.size() == 1 && (!isResult || isOfOne) ? Shape{}
                                                                : Shape{array.size()};
    return array.view(shape, denseStrides(shape), array.offset());
  };
  std::vector<Array> inputs;
  for (const Array &operand : operands)
    inputs.push_back(asInKernel(operand, false));
  const Array output = asInKernel(into, true);
  if (Status status = kernel->compiled->run(inputs, {&output, 1}); !status.ok())
    return Result<std::vector<Array>>(status);
  std::lock_guard lock(mutex_);
  ++statistics_.runs;
  return Result<std::vector<Array>>(std::move(results));
}

void Kernels::finish() {
  std::unique_lock lock(mutex_);
  made_.wait(lock, [&] { return making_ == 0; });
}

void Kernels::beforeFork() {
  std::unique_lock lock(mutex_);
  made_.wait(lock, [&] { return making_ == 0; });
  lock.release();
}

void Kernels::afterFork(bool isChild) {
  if (isChild) // threads that slept in the condition are not there
    std::construct_at(&made_);
  mutex_.unlock();
}

Kernels::Statistics Kernels::statistics() {
  std::lock_guard lock(mutex_);
  return statistics_;
}

} // namespace tensmith::eager
