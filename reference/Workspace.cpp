// The operands and buffers of one evaluation: see Workspace.h.
#include "reference/Workspace.h"

#include "base/Placement.h"

#include <algorithm>

namespace tensmith::reference {

namespace {

template <typename T> constexpr DataType kWideType = DataType::Undefined;
template <> constexpr DataType kWideType<double> = DataType::F64;
template <> constexpr DataType kWideType<int64_t> = DataType::I64;
template <> constexpr DataType kWideType<uint64_t> = DataType::U64;

template <typename T> T element(const HostTensor &tensor, int64_t index) {
  if constexpr (std::is_same_v<T, double>)
    return tensor.getDouble(index);
  else
    return T(tensor.getInt(index));
}

template <typename T> void setElement(HostTensor &tensor, int64_t index, T value) {
  if constexpr (std::is_same_v<T, double>)
    tensor.setDouble(index, value);
  else
    tensor.setInt(index, int64_t(value));
}

const HostTensor &noTensor() {
  static const HostTensor none;
  return none;
}

} // namespace

void Workspace::note(Status status) {
  if (status_.ok())
    status_ = std::move(status);
}

void Workspace::reject(std::string_view operand, const std::string &problem) {
  note(invalidArgument(std::string(invocation_.name) + ": operand '" + std::string(operand) + "' " +
                       problem));
}

void Workspace::rejectAttribute(std::string_view attribute, const std::string &problem) {
  note(invalidArgument(std::string(invocation_.name) + ": attribute '" + std::string(attribute) +
                       "' " + problem));
}

bool Workspace::hasNumbers(const HostTensor &tensor, std::string_view operand) {
  TypeClass kind = info(tensor.type()).kind;
  if (kind != TypeClass::String && kind != TypeClass::Complex && kind != TypeClass::None)
    return true;
  note(unsupported(std::string(invocation_.name) + ": operand '" + std::string(operand) +
                   "' is of type " + std::string(name(tensor.type())) + ", which is not handled"));
  return false;
}

const HostTensor &Workspace::anyOperand(size_t index, std::string_view name, int64_t rank) {
  if (!invocation_.present(index)) {
    reject(name, "is missing");
    return noTensor();
  }
  const HostTensor &tensor = invocation_.operands[index];
  if (!tensor.valid()) {
    reject(name, "has no data");
    return noTensor();
  }
  if (rank != kAnyRank && tensor.rank() != rank) {
    reject(name, "has shape " + toString(tensor.shape()) + ", but must have " +
                     std::to_string(rank) + " dimensions");
    return noTensor();
  }
  return tensor;
}

const HostTensor &Workspace::operand(size_t index, std::string_view name, int64_t rank) {
  const HostTensor &tensor = anyOperand(index, name, rank);
  if (tensor.type() == DataType::Undefined || hasNumbers(tensor, name))
    return tensor;
  return noTensor();
}

const HostTensor &Workspace::floatOperand(size_t index, std::string_view name, int64_t rank) {
  const HostTensor &tensor = operand(index, name, rank);
  if (tensor.type() == DataType::Undefined || isFloat(tensor.type()))
    return tensor;
  note(unsupported(std::string(invocation_.name) + ": operand '" + std::string(name) +
                   "' is of type " + std::string(tensmith::name(tensor.type())) +
                   ", but only floats are handled"));
  return noTensor();
}

void Workspace::expectShape(const HostTensor &tensor, std::string_view name,
                            std::span<const int64_t> shape) {
  if (!std::ranges::equal(tensor.shape(), shape))
    reject(name, "has shape " + toString(tensor.shape()) + ", but must have " + toString(shape));
}

std::vector<int64_t> Workspace::integers(size_t index, std::string_view name) {
  const HostTensor &tensor = operand(index, name);
  constexpr int64_t kLongestList = 64;
  if (ok() && (isFloat(tensor.type()) || tensor.rank() > 1 || tensor.size() > kLongestList))
    reject(name, "must be a list of at most 64 integers");
  std::vector<int64_t> values;
  for (int64_t i = 0; ok() && i < tensor.size(); ++i)
    values.push_back(tensor.getInt(i));
  return values;
}

int64_t Workspace::integer(size_t index, std::string_view name) {
  const HostTensor &tensor = operand(index, name);
  if (ok() && (isFloat(tensor.type()) || tensor.size() != 1))
    reject(name, "must be one integer");
  return ok() ? tensor.getInt(0) : 0;
}

double Workspace::real(size_t index, std::string_view name) {
  const HostTensor &tensor = operand(index, name);
  if (ok() && tensor.size() != 1)
    reject(name, "must be one number");
  return ok() ? tensor.getDouble(0) : 0;
}

void Workspace::noteExhausted(std::span<const int64_t> shape) {
  note(Status(StatusCode::ResourceExhausted, std::string(invocation_.name) +
                                                 ": no memory for a tensor of shape " +
                                                 toString(shape)));
}

void Workspace::expectRepresentable(std::span<const int64_t> shape) {
  if (!elementCount(shape))
    noteExhausted(shape);
}

size_t Workspace::axis(std::string_view attribute, int64_t value, int64_t rank) {
  if (value >= -rank && value < rank)
    return size_t(value < 0 ? value + rank : value);
  rejectAttribute(attribute, "is " + std::to_string(value) + ", outside of the " +
                                 std::to_string(rank) + " dimensions");
  return 0;
}

bool Workspace::isChannelsLast() {
  const std::string layout = invocation_.attributes.string("layout", "channels_first");
  if (layout != "channels_first" && layout != "channels_last")
    rejectAttribute("layout", "is '" + layout + "', but must be channels_first or channels_last");
  // Before format 1.8 modules said it by a number.
  return layout == "channels_last" || invocation_.attributes.integer("channels_last") != 0;
}

HostTensor Workspace::allocate(DataType type, Shape shape) {
  expectRepresentable(shape);
  if (!ok())
    return {};
  HostTensor tensor(type, shape);
  if (tensor.valid())
    return tensor;
  noteExhausted(shape);
  return {};
}

HostTensor Workspace::allocateResult(size_t index, DataType type, Shape shape) {
  bool isSetAside = index < invocation_.results.size() && type != DataType::String;
  Placement placement(isSetAside ? invocation_.results[index].memory : std::span<std::byte>());
  return allocate(type, std::move(shape));
}

template <typename T> std::span<T> Workspace::zeros(std::span<const int64_t> shape) {
  HostTensor buffer = allocate(kWideType<T>, Shape(shape.begin(), shape.end()));
  if (!ok())
    return {};
  buffers_.push_back(std::move(buffer));
  return buffers_.back().as<T>();
}

template <typename T> std::span<T> Workspace::widen(const HostTensor &tensor) {
  if (!ok() || tensor.type() == DataType::Undefined)
    return {};
  std::span<T> values = zeros<T>(tensor.shape());
  if (!ok())
    return {};
  if (std::is_same_v<T, double> && tensor.type() == DataType::F32)
    std::ranges::copy(tensor.as<float>(), values.begin());
  else
    for (int64_t i = 0; i < tensor.size(); ++i)
      values[size_t(i)] = element<T>(tensor, i);
  return values;
}

template <typename T>
HostTensor Workspace::narrow(std::span<const T> values, DataType type, Shape shape, size_t result) {
  HostTensor tensor = allocateResult(result, type, std::move(shape));
  if (!ok())
    return {};
  assert(int64_t(values.size()) == tensor.size());
  if (std::is_same_v<T, double> && type == DataType::F32)
    std::ranges::transform(values, tensor.as<float>().begin(),
                           [](T value) { return float(value); });
  else
    for (int64_t i = 0; i < tensor.size(); ++i)
      setElement<T>(tensor, i, values[size_t(i)]);
  return tensor;
}

Outcome Workspace::finish(std::vector<HostTensor> results) {
  if (!ok())
    return status_;
  return results;
}

int64_t extent(const Shape &shape, size_t begin, size_t end) {
  uint64_t product = 1; // may wrap where another dimension is 0: nothing is then done with it
  for (size_t axis = begin; axis < end; ++axis)
    product *= uint64_t(shape[axis]);
  return int64_t(product);
}

std::optional<std::vector<int64_t>> broadcastStrides(std::span<const int64_t> shape,
                                                     std::span<const int64_t> target) {
  if (shape.size() > target.size())
    return std::nullopt;
  std::vector<int64_t> strides(target.size(), 0);
  uint64_t stride = 1;
  for (size_t i = 1; i <= shape.size(); ++i) {
    const int64_t size = shape[shape.size() - i], wanted = target[target.size() - i];
    if (size != 1 && size != wanted)
      return std::nullopt;
    if (size != 1)
      strides[target.size() - i] = int64_t(stride);
    stride *= uint64_t(size);
  }
  return strides;
}

#define TENSMITH_WIDE(T)                                                                           \
  template std::span<T> Workspace::zeros<T>(std::span<const int64_t>);                             \
  template std::span<T> Workspace::widen<T>(const HostTensor &);                                   \
  template HostTensor Workspace::narrow<T>(std::span<const T>, DataType, Shape, size_t);
TENSMITH_WIDE(double)
TENSMITH_WIDE(int64_t)
TENSMITH_WIDE(uint64_t)
#undef TENSMITH_WIDE

} // namespace tensmith::reference
