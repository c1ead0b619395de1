// tensmith/builder.h as a class: values are numbers, types pairs of a name and dimensions,
// attributes what Python has of their kind.
#include "client/CompilerLibrary.h"
#include "python/Conversion.h"
#include "python/Settings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <optional>
#include <vector>

#include "python/Builder.h"

namespace {

using Dims = std::optional<std::vector<std::string>>;
using TypeText = std::tuple<std::string, Dims>; // ("f32", ["batch", "784"])

ts_type typeNamed(const std::string &name) {
  for (int type = TS_F32; type <= TS_I2; ++type)
    if (name == ts_type_name(ts_type(type)))
      return ts_type(type);
  throw Error("there is no element type '" + name + "'");
}

/// An element type as an attribute.
struct ElementType {
  explicit ElementType(const std::string &name) : type(typeNamed(name)) {}
  ts_type type;
};

/// A type in the C API's form, which points into what this holds.
class ValueType {
public:
  explicit ValueType(const TypeText &given) {
    const auto &[name, dims] = given;
    value.type = typeNamed(name);
    value.rank = dims ? int64_t(dims->size()) : -1;
    if (dims)
      for (const std::string &dim : *dims)
        pointers_.push_back(dim.c_str());
    value.dims = pointers_.data();
  }
  ts_value_type value{};

private:
  std::vector<const char *> pointers_;
};

/// Attributes in the C API's form, likewise.
class AttributeList {
public:
  explicit AttributeList(const nb::dict &given) {
    for (auto [name, value] : given)
      add(nb::cast<std::string>(name), value);
  }
  const ts_attribute *data() const { return attributes_.data(); }
  size_t size() const { return attributes_.size(); }

private:
  void add(const std::string &name, nb::handle value) {
    ts_attribute attribute{};
    attribute.name = texts_.emplace_back(name).c_str();
    if (nb::isinstance<nb::bool_>(value))
      attribute.kind = TS_ATTRIBUTE_BOOL, attribute.integer = nb::cast<bool>(value);
    else if (nb::isinstance<nb::int_>(value))
      attribute.kind = TS_ATTRIBUTE_INT, attribute.integer = nb::cast<int64_t>(value);
    else if (nb::isinstance<nb::float_>(value))
      attribute.kind = TS_ATTRIBUTE_FLOAT, attribute.real = nb::cast<double>(value);
    else if (nb::isinstance<nb::str>(value))
      attribute.kind = TS_ATTRIBUTE_TEXT,
      attribute.text = texts_.emplace_back(nb::cast<std::string>(value)).c_str();
    else if (nb::isinstance<ElementType>(value))
      attribute.kind = TS_ATTRIBUTE_TYPE, attribute.type = nb::cast<ElementType &>(value).type;
    else if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value))
      addList(attribute, value);
    else
      attribute.kind = TS_ATTRIBUTE_TENSOR,
      attribute.tensor = tensors_.emplace_back(toTensor(value)).get();
    attributes_.push_back(attribute);
  }

  void addList(ts_attribute &attribute, nb::handle list) {
    bool hasFloats = false;
    for (nb::handle element : list)
      hasFloats |= nb::isinstance<nb::float_>(element);
    if (hasFloats) {
      auto &reals = reals_.emplace_back(nb::cast<std::vector<double>>(list));
      attribute.kind = TS_ATTRIBUTE_FLOATS;
      attribute.reals = reals.data();
      attribute.count = reals.size();
      return;
    }
    auto &integers = integers_.emplace_back(nb::cast<std::vector<int64_t>>(list));
    attribute.kind = TS_ATTRIBUTE_INTS;
    attribute.integers = integers.data();
    attribute.count = integers.size();
  }

  std::vector<ts_attribute> attributes_;
  std::deque<std::string> texts_;
  std::deque<std::vector<double>> reals_;
  std::deque<std::vector<int64_t>> integers_;
  std::vector<Owned<ts_tensor>> tensors_;
};

class Builder {
public:
  Builder() : library_(tensmith::client::compilerLibrary()) {
    if (!library_.failure.empty())
      throw Error(library_.failure, TS_UNSUPPORTED);
    check(library_.builderCreate(&builder_));
  }
  ~Builder() {
    if (builder_)
      library_.builderFree(builder_);
  }
  Builder(const Builder &) = delete;
  Builder &operator=(const Builder &) = delete;

  ts_value input(const std::string &name, const TypeText &type) {
    ts_value value;
    ValueType given(type);
    check(library_.builderInput(idle(), name.c_str(), &given.value, &value));
    return value;
  }

  ts_value constant(nb::handle array, std::optional<std::string> name) {
    ts_value value;
    Owned<ts_tensor> tensor = toTensor(array);
    check(library_.builderConstant(idle(), name ? name->c_str() : nullptr, tensor.get(), &value));
    return value;
  }

  std::vector<ts_value> op(const std::string &name,
                           const std::vector<std::optional<ts_value>> &operands,
                           const nb::dict &attributes, const std::optional<TypeText> &result,
                           const std::string &location) {
    std::vector<ts_value> numbers;
    for (std::optional<ts_value> operand : operands)
      numbers.push_back(operand.value_or(TS_NO_VALUE));
    AttributeList list(attributes);
    std::optional<ValueType> type;
    if (result)
      type.emplace(*result);
    std::vector<ts_value> results(kMostResults);
    size_t count = 0;
    check(library_.builderOp(idle(), name.c_str(), numbers.data(), numbers.size(), list.data(),
                             list.size(), type ? &type->value : nullptr, location.c_str(),
                             results.data(), results.size(), &count));
    results.resize(count);
    return results;
  }

  void beginIf(ts_value condition, const std::string &location) {
    check(library_.builderBeginIf(idle(), condition, location.c_str()));
  }

  std::vector<ts_value> beginLoop(std::optional<ts_value> trips, std::optional<ts_value> condition,
                                  const std::vector<ts_value> &carried,
                                  const std::string &location) {
    std::vector<ts_value> arguments(2 + carried.size());
    check(library_.builderBeginLoop(idle(), trips.value_or(TS_NO_VALUE),
                                    condition.value_or(TS_NO_VALUE), carried.data(), carried.size(),
                                    location.c_str(), arguments.data()));
    return arguments;
  }

  std::vector<ts_value> yield(const std::vector<ts_value> &values) {
    std::vector<ts_value> results(values.size() + 1);
    size_t count = 0;
    check(library_.builderYield(idle(), values.data(), values.size(), results.data(),
                                results.size(), &count));
    results.resize(count);
    return results;
  }

  std::vector<ts_value> differentiate(bool isForward, const std::vector<ts_value> &of,
                                      const std::vector<ts_value> &by,
                                      const std::vector<std::optional<ts_value>> &changes) {
    std::vector<ts_value> given;
    for (std::optional<ts_value> change : changes)
      given.push_back(change.value_or(TS_NO_VALUE));
    if (given.size() != (isForward ? by : of).size())
      throw Error("a derivative takes a tangent for each value that it is by, or a cotangent");
    std::vector<ts_value> results((isForward ? of : by).size());
    check(library_.builderDifferentiate(idle(), isForward ? TS_TANGENT : TS_GRADIENT, of.data(),
                                        of.size(), by.data(), by.size(), given.data(),
                                        results.data()));
    return results;
  }

  void output(const std::string &name, ts_value value) {
    check(library_.builderOutput(idle(), name.c_str(), value));
  }

  void state(const std::string &input, const std::string &output) {
    check(library_.builderState(idle(), input.c_str(), output.c_str()));
  }

  TypeText type(ts_value value) {
    ts_value_type type;
    check(library_.builderType(idle(), value, &type));
    if (type.rank < 0)
      return {ts_type_name(type.type), std::nullopt};
    return {ts_type_name(type.type), std::vector<std::string>(type.dims, type.dims + type.rank)};
  }

  Dims contents(ts_value value) {
    const char *const *texts = nullptr;
    size_t count = 0;
    check(library_.builderContents(idle(), value, &texts, &count));
    return texts ? Dims(std::vector<std::string>(texts, texts + count)) : std::nullopt;
  }

  std::string text(bool locations) {
    char *text = nullptr;
    check(library_.builderText(idle(), locations, &text));
    std::string result(text);
    library_.freeBytes(text);
    return result;
  }

  void compile(const std::string &path, const Settings &settings) {
    Pointers pointers;
    ts_compile_options options = settings.options(pointers);
    ts_builder *builder = idle();
    ts_status *status;
    isCompiling_ = true;
    {
      nb::gil_scoped_release unlocked;
      status = library_.builderCompile(builder, &options, path.c_str());
    }
    isCompiling_ = false;
    check(status);
  }

private:
  static constexpr size_t kMostResults = 16;

  /// The builder, which one thread uses at a time: all but compiling holds the interpreter's lock.
  ts_builder *idle() const {
    if (isCompiling_)
      throw Error("another thread compiles the builder's graph; wait until it has");
    return builder_;
  }

  const tensmith::client::CompilerLibrary &library_;
  ts_builder *builder_ = nullptr;
  bool isCompiling_ = false; // changed with the interpreter's lock held
};

} // namespace

void bindBuilder(nb::module_ &m) {
  nb::class_<ElementType>(m, "ElementType").def(nb::init<const std::string &>());
  nb::class_<Builder>(m, "Builder",
                      "A graph that is made operator by operator; docs/pytorch.md has an example.")
      .def(nb::init<>())
      .def("input", &Builder::input, nb::arg("name"), nb::arg("type"))
      .def("constant", &Builder::constant, nb::arg("array"), nb::arg("name").none() = nb::none())
      .def("op", &Builder::op, nb::arg("name"), nb::arg("operands"),
           nb::arg("attributes") = nb::dict(), nb::arg("result").none() = nb::none(),
           nb::arg("location") = "")
      .def("begin_if", &Builder::beginIf, nb::arg("condition"), nb::arg("location") = "")
      .def("begin_loop", &Builder::beginLoop, nb::arg("trips").none(), nb::arg("condition").none(),
           nb::arg("carried"), nb::arg("location") = "")
      .def("end", &Builder::yield, nb::arg("values"))
      .def("differentiate", &Builder::differentiate, nb::arg("is_forward"), nb::arg("of"),
           nb::arg("by"), nb::arg("changes"))
      .def("output", &Builder::output, nb::arg("name"), nb::arg("value"))
      .def("state", &Builder::state, nb::arg("input"), nb::arg("output"))
      .def("type", &Builder::type, nb::arg("value"))
      .def("contents", &Builder::contents, nb::arg("value"))
      .def("text", &Builder::text, nb::arg("locations") = false)
      .def("compile", &Builder::compile, nb::arg("path"), nb::arg("settings"));
}
