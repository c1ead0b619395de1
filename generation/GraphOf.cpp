// The builder's C interface as calls that throw; see GraphOf.h.
#include "generation/GraphOf.h"

namespace tensmith::generation {
namespace {

const client::CompilerLibrary &checkedLibrary() {
  const client::CompilerLibrary &library = client::compilerLibrary();
  if (!library.failure.empty())
    throw Error(TS_UNSUPPORTED, library.failure.c_str());
  return library;
}

ts_attribute listed(const NamedAttribute &given) {
  ts_attribute attribute{};
  attribute.name = given.name;
  if (const auto *integer = std::get_if<int64_t>(&given.value))
    attribute.kind = TS_ATTRIBUTE_INT, attribute.integer = *integer;
  else if (const auto *flag = std::get_if<bool>(&given.value))
    attribute.kind = TS_ATTRIBUTE_BOOL, attribute.integer = *flag;
  else if (const auto *real = std::get_if<double>(&given.value))
    attribute.kind = TS_ATTRIBUTE_FLOAT, attribute.real = *real;
  else if (const auto *type = std::get_if<ts_type>(&given.value))
    attribute.kind = TS_ATTRIBUTE_TYPE, attribute.type = *type;
  else if (const auto *text = std::get_if<std::string>(&given.value))
    attribute.kind = TS_ATTRIBUTE_TEXT, attribute.text = text->c_str();
  else if (const auto *integers = std::get_if<std::vector<int64_t>>(&given.value))
    attribute.kind = TS_ATTRIBUTE_INTS, attribute.integers = integers->data(),
    attribute.count = integers->size();
  return attribute;
}

std::vector<const char *> pointers(const Dims &dims) {
  std::vector<const char *> result;
  for (const std::string &dim : dims)
    result.push_back(dim.c_str());
  return result;
}

} // namespace

GraphOf::GraphOf() : library_(checkedLibrary()) {
  detail::check(library_.builderCreate(&builder_));
}

GraphOf::~GraphOf() { library_.builderFree(builder_); }

GraphOf::Value GraphOf::input(const std::string &name, ts_type type, const Dims &dims) {
  std::vector<const char *> sizes = pointers(dims);
  ts_value_type of = {type, int64_t(sizes.size()), sizes.data()};
  Value value = TS_NO_VALUE;
  detail::check(library_.builderInput(builder_, name.c_str(), &of, &value));
  place_ = name;
  return value;
}

void GraphOf::output(const std::string &name, Value value) {
  detail::check(library_.builderOutput(builder_, name.c_str(), value));
}

GraphOf::Value GraphOf::op(const char *name, const std::vector<Value> &operands,
                           const std::vector<NamedAttribute> &attributes, const Dims *dims,
                           ts_type type) {
  std::vector<ts_attribute> list;
  for (const NamedAttribute &attribute : attributes)
    list.push_back(listed(attribute));
  std::vector<const char *> sizes = dims ? pointers(*dims) : std::vector<const char *>();
  ts_value_type of = {type, int64_t(sizes.size()), sizes.data()};
  Value result = TS_NO_VALUE;
  detail::check(library_.builderOp(builder_, name, operands.data(), operands.size(), list.data(),
                                   list.size(), dims ? &of : nullptr, place_.c_str(), &result, 1,
                                   nullptr));
  return result;
}

GraphOf::Value GraphOf::scalar(double value) {
  Tensor number(TS_F32, {});
  *number.as<float>() = float(value);
  Value result = TS_NO_VALUE;
  detail::check(library_.builderConstant(builder_, nullptr, number.handle(), &result));
  return result;
}

GraphOf::Value GraphOf::columns(Value x, int64_t start, int64_t step, const Dims &dims,
                                ts_type type) {
  std::vector<int64_t> starts(dims.size(), 0), steps(dims.size(), 1);
  starts.back() = start, steps.back() = step;
  return op("slice", {x}, {{"starts", starts}, {"steps", steps}}, &dims, type);
}

std::string GraphOf::text() {
  char *text = nullptr;
  detail::check(library_.builderText(builder_, 0, &text));
  std::string result = text;
  library_.freeBytes(text);
  return result;
}

std::string GraphOf::compile(const ts_compile_options &options) {
  void *module = nullptr;
  size_t size = 0;
  detail::check(library_.builderCompileBytes(builder_, &options, &module, &size));
  std::string bytes(static_cast<const char *>(module), size);
  library_.freeBytes(module);
  return bytes;
}

} // namespace tensmith::generation
