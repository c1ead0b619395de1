// From `--input` to tensors: files by their ending, fills by their words, everything checked
// against the signature here, where the message can name the argument.
#include "tools/tensors/Arguments.h"

#include "files/Failure.h"
#include "files/Npy.h"
#include "files/Words.h"

#include "base/Philox.h"
#include "base/ShapeHints.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <numeric>

namespace tensmith::cli {
namespace {

using Symbols = std::map<std::string, int64_t>;

/// One `--input`, taken apart.
struct Argument {
  std::string text, name, value; // no name: for all inputs (.npz), or for the only one
};

bool isFill(std::string_view word) {
  return word == "random" || word == "zeros" || word == "ones" || word == "range";
}

double elementOf(std::string_view fill, DataType type, uint64_t seed, int64_t index) {
  if (fill == "zeros" || fill == "ones")
    return fill == "ones";
  if (fill == "range")
    return double(index);
  double uniform = uniformAt(seed, uint64_t(index));
  switch (info(type).kind) {
  case TypeClass::Float:
    return type == DataType::F8E8M0 ? uniform + 0.5 : 2 * uniform - 1;
  case TypeClass::Bool:
    return uniform < 0.5;
  default: // small enough for every integer type and, mostly, as an index
    return double(int64_t(uniform * (info(type).bits < 4 ? 2 : 8)));
  }
}

HostTensor filled(DataType type, const Shape &shape, std::string_view fill, uint64_t seed,
                  const std::string &where) {
  TypeClass kind = info(type).kind;
  if (kind == TypeClass::String || kind == TypeClass::None)
    fail(where, "strings can't be made up; give an .npy file of them");
  HostTensor tensor(type, shape);
  if (!tensor.valid() || tensor.size() < 0)
    fail(where, toString(shape) + " needs more memory than there is");
  if (kind == TypeClass::Complex) { // as twice as many floats
    auto part = type == DataType::C64 ? DataType::F32 : DataType::F64;
    HostTensor parts = filled(part, {2 * tensor.size()}, fill, seed, where);
    std::memcpy(tensor.mutableData(), parts.data(), size_t(tensor.bytes()));
    return tensor;
  }
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setDouble(i, elementOf(fill, type, seed, i));
  return tensor;
}

/// "1x3x224x224xf32" as a type and a shape.
std::pair<DataType, Shape> parseType(const std::string &text, const std::string &where) {
  Shape shape;
  size_t at = 0;
  for (size_t cross; (cross = text.find('x', at)) != std::string::npos; at = cross + 1) {
    auto dim = dimNumber(text.substr(at, cross - at));
    if (!dim || *dim < 0)
      break;
    shape.push_back(*dim);
  }
  auto type = parseDataType(text.substr(at));
  if (!type || *type == DataType::Undefined)
    failUsage(where + ": '" + text + "' is no shape and element type; write 1x3x224x224xf32");
  if (!elementCount(shape))
    failUsage(where + ": no tensor can have the shape " + toString(shape));
  return {*type, shape};
}

Argument parseArgument(const std::string &text, const std::vector<Port> &inputs) {
  size_t equals = text.find('=');
  bool noName = equals == std::string::npos;
  if (!noName && inputs.size() == 1 && inputs[0].name != text.substr(0, equals))
    noName = isFill(text.substr(equals + 1)) && text.find('x') < equals; // "1x3xf32=ones"
  if (noName)
    return {text, "", text};
  return {text, text.substr(0, equals), text.substr(equals + 1)};
}

std::string where(const Argument &argument) { return "--input " + printable(argument.text); }

size_t indexOf(const std::vector<Port> &inputs, const Argument &argument, const std::string &file) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == argument.name || (argument.name.empty() && inputs.size() == 1))
      return i;
  std::vector<std::string> names = namesOf(inputs);
  if (argument.name.empty())
    failUsage(where(argument) + ": says not which input it is for; write NAME=" +
              printable(argument.value) + ", where the inputs are: " + listed(names));
  auto close = nearest(argument.name, names);
  failUsage(where(argument) + ": " + file + " has no input '" + printable(argument.name) + "'; " +
            (close ? "did you mean '" + printable(*close) + "'?" : "it has: " + listed(names)));
}

/// The value of `NAME=VALUE`.
HostTensor readValue(const Argument &argument, const Port &input, const InputWords &words,
                     uint64_t seed) {
  const std::string &value = argument.value;
  size_t equals = value.rfind('=');
  std::string fill = equals == std::string::npos ? "" : value.substr(equals + 1);
  if (isFill(fill)) {
    auto [type, shape] = parseType(value.substr(0, equals), where(argument));
    return filled(type, shape, fill, seed, where(argument));
  }
  if (ending(value) == ".npy")
    return readNpy(readFile(value), value, DataType(input.type));
  if (words.others.one)
    if (auto tensor = words.others.one(value, input))
      return std::move(*tensor);
  failUsage(where(argument) + ": is none of NAME=file.npy" + words.others.named +
            ", or NAME=1x3x224x224xf32=random");
}

/// What `--shape` fixes: sizes of symbols ("batch=4"), and inputs' dimensions ("x=1x3x96x96").
struct FixedSizes {
  Symbols symbols;
  std::map<size_t, std::vector<int64_t>> inputs; // by number; others are absent

  void fix(const Port &input, size_t number, const std::string &name,
           const std::vector<int64_t> &sizes) {
    std::string what = "--shape " + printable(name) + ": input '" + printable(input.name) +
                       "' is " + typeText(input) + ", ";
    if (!input.ranked || sizes.size() != input.dims.size())
      failUsage(what + "which has other dimensions");
    for (size_t d = 0; d < sizes.size(); ++d) {
      auto known = dimNumber(input.dims[d]);
      if (!known && input.dims[d] != "?")
        known = symbols.try_emplace(input.dims[d], sizes[d]).first->second;
      if (known && *known != sizes[d])
        failUsage(what + fmt::format("whose dimension {} is {}", d, *known));
    }
    inputs[number] = sizes;
  }
};

/// The numbers of "=1x3x224x224"; none where there is anything else, such as a name for a size.
std::vector<int64_t> sizesIn(std::string_view text) {
  std::vector<int64_t> sizes;
  while (!text.empty()) {
    text.remove_prefix(1); // "=" or "x"
    size_t length = std::min(text.find('x'), text.size());
    auto size = dimNumber(std::string(text.substr(0, length)));
    if (!size)
      return {};
    sizes.push_back(*size);
    text.remove_prefix(length);
  }
  return sizes;
}

/// A name that a dimension has is that symbol's, else an input's. What names neither, or has names
/// for sizes, was the compilation's.
FixedSizes fixedSizes(const std::vector<std::string> &shapes, const std::vector<Port> &inputs) {
  FixedSizes fixed;
  std::vector<std::pair<const std::string *, std::vector<int64_t>>> ofInputs;
  for (const std::string &shape : shapes) {
    size_t equals = std::min(shape.rfind('='), shape.size());
    std::string name = shape.substr(0, equals);
    std::vector<int64_t> sizes = sizesIn(std::string_view(shape).substr(equals));
    bool isSymbol = std::ranges::any_of(inputs, [&](const Port &input) {
      return std::ranges::find(input.dims, name) != input.dims.end();
    });
    bool isInput = std::ranges::find(inputs, name, &Port::name) != inputs.end();
    if (sizes.size() == 1 && (isSymbol || !isInput))
      fixed.symbols[name] = sizes[0];
    else if (isInput && !sizes.empty())
      ofInputs.emplace_back(&shape, sizes);
  }
  for (const auto &[shape, sizes] : ofInputs) {
    auto input = std::ranges::find(inputs, shape->substr(0, shape->rfind('=')), &Port::name);
    fixed.fix(*input, size_t(input - inputs.begin()), *shape, sizes);
  }
  return fixed;
}

/// The sizes that are fixed.
std::vector<int64_t> sizesOf(const Port &input) {
  std::vector<int64_t> sizes;
  for (const std::string &dim : input.dims)
    sizes.push_back(dimNumber(dim).value_or(kOpenSize));
  return sizes;
}

/// "input 'x': expected f32 1x3, got ...", or nothing where it fits; symbols get their sizes.
void checkInput(const Port &input, const Tensor &tensor, const std::string &from,
                Symbols &symbols) {
  if (input.kind != TS_TENSOR)
    return;
  std::string got = typeText(tensor), wanted = typeText(input);
  std::string mismatch =
      from + ": input '" + printable(input.name) + "': expected " + wanted + ", got " + got + ": ";
  if (input.type != TS_UNDEFINED && tensor.type() != input.type)
    throw Failure(mismatch + "the element type differs; convert it to " + ts_type_name(input.type));
  if (!input.ranked)
    return;
  std::vector<int64_t> shape = tensor.shape();
  std::string hint = shapeHint(sizesOf(input), shape);
  if (shape.size() != input.dims.size())
    throw Failure(mismatch + fmt::format("it must have {} dimensions{}", input.dims.size(), hint));
  for (size_t d = 0; d < shape.size(); ++d) {
    auto fixed = dimNumber(input.dims[d]);
    if (!fixed && input.dims[d] != "?")
      fixed = symbols.try_emplace(input.dims[d], shape[d]).first->second;
    if (fixed && *fixed != shape[d])
      throw Failure(mismatch +
                    fmt::format("dimension {} must be {}, but is {}{}", d, *fixed, shape[d], hint));
  }
}

Tensor makeUp(const Port &input, size_t number, const FixedSizes &fixed, std::string_view fill,
              uint64_t seed, const std::string &file) {
  std::string what = file + ": input '" + printable(input.name) + "' (" + typeText(input) + ")";
  std::string hint = input.kind == TS_MAP ? "; maps are given from Python or C"
                                          : "; give --input " + printable(input.name) + "=file.npy";
  if (input.kind == TS_NONE || input.kind == TS_OPTIONAL) {
    ts_tensor *none = nullptr;
    detail::check(ts_tensor_none(&none));
    return Tensor(none);
  }
  if (input.kind != TS_TENSOR || !input.ranked || input.type == TS_UNDEFINED)
    failUsage(what + " is not given, and can't be made up" + hint);
  Shape shape;
  auto whole = fixed.inputs.find(number);
  for (size_t d = 0; d < input.dims.size(); ++d) {
    const std::string &dim = input.dims[d];
    auto size = dimNumber(dim);
    if (auto symbol = fixed.symbols.find(dim); !size && symbol != fixed.symbols.end())
      size = symbol->second;
    if (whole != fixed.inputs.end())
      size = whole->second[d];
    if (!size)
      failUsage(what + " is not given, and its size '" + printable(dim) + "' is open" + hint +
                " or --shape " + printable(dim) + "=SIZE");
    shape.push_back(*size);
  }
  return toTensor(filled(DataType(input.type), shape, fill, seed, what));
}

/// The value of an input that no word gives.
Tensor makeUpMissing(const Port &input, size_t number, const FixedSizes &fixed,
                     const InputWords &words) {
  bool optional = input.kind == TS_NONE || input.kind == TS_OPTIONAL;
  if (!words.makesUp && !optional)
    failUsage(words.file + ": input '" + printable(input.name) + "' (" + typeText(input) +
              ") is not given; give --input " + printable(input.name) + "=file.npy");
  return makeUp(input, number, fixed, "random", words.seed + number, words.file);
}

/// Of many, such as a step of training has, the first few are named.
void noteMadeUp(const std::vector<std::string> &madeUp, const InputWords &words) {
  constexpr size_t kNamed = 4;
  if (!words.note)
    return;
  for (size_t i = 0; i < std::min(madeUp.size(), kNamed); ++i)
    words.note("input " + madeUp[i]);
  if (madeUp.size() > kNamed)
    words.note(fmt::format("{} more inputs are not given, and random", madeUp.size() - kNamed));
}

} // namespace

std::string ending(const std::string &path) {
  std::string ending = std::filesystem::path(path).extension();
  for (char &c : ending)
    c = char(std::tolower(static_cast<unsigned char>(c)));
  return ending;
}

std::vector<std::string> namesOf(const std::vector<Port> &inputs) {
  std::vector<std::string> names;
  for (const Port &input : inputs)
    names.push_back(input.name);
  return names;
}

std::string listed(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + printable(name);
  return text.empty() ? "none" : text;
}

std::vector<Tensor> makeInputs(const std::vector<Port> &inputs, const InputWords &words) {
  std::vector<Tensor> tensors(inputs.size());
  std::map<size_t, std::string> fills;
  FixedSizes fixed = fixedSizes(words.shapes, inputs);
  auto take = [&](size_t i, HostTensor tensor, const std::string &from) {
    tensors[i] = toTensor(std::move(tensor));
    checkInput(inputs[i], tensors[i], from, fixed.symbols);
  };
  for (const std::string &text : words.given) {
    Argument argument = parseArgument(text, inputs);
    if (argument.name.empty() && words.others.all && words.others.all(argument.value, take))
      continue;
    size_t i = indexOf(inputs, argument, words.file);
    if (tensors[i] || fills.contains(i))
      failUsage(where(argument) + ": input '" + printable(inputs[i].name) + "' is given twice");
    if (isFill(argument.value))
      fills[i] = argument.value;
    else
      take(i, readValue(argument, inputs[i], words, words.seed + i), where(argument));
  }
  std::vector<std::string> madeUp;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (fills.contains(i))
      tensors[i] = makeUp(inputs[i], i, fixed, fills[i], words.seed + i, words.file);
    else if (!tensors[i]) {
      tensors[i] = makeUpMissing(inputs[i], i, fixed, words);
      if (inputs[i].kind == TS_TENSOR)
        madeUp.push_back("'" + printable(inputs[i].name) + "' is not given: random " +
                         typeText(tensors[i]));
    }
  }
  noteMadeUp(madeUp, words);
  return tensors;
}

} // namespace tensmith::cli
