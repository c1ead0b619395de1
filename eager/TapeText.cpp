// The structure of a tape as text: what is compiled, and the key that it is kept by.
//
// A size is told by name, so that one structure serves all sizes: equal sizes of inputs have one
// name, and a size of a result is an expression of names where the step says how it comes about
// (a product where a reshape joins dimensions, a sum where tensors are joined). Whatever is not
// known to be one is a number. So two tapes of one text mean one graph, whose sizes are those of
// either's inputs. 0 and 1 are always numbers, and so are sizes that parameters have, and in what
// is recorded of a whole call those of the pictures that windows move over: which windows lie side
// by side, and by which algorithm they are computed, is decided when it is compiled. Who knows that
// no size will be another one asks for all of them as numbers, which is compiled to better code.
//
//     input f32 s0 784
//     const f32 0
//     matmul||0 1|f32 s0 10
//     reshape||2|f32 s0*10
//     out 3
#include "eager/Tape.h"

#include <charconv>

namespace tensmith::eager {
namespace {

/// Names of sizes, by what they are in this tape.
class Sizes {
public:
  /// Without names all sizes are numbers.
  explicit Sizes(bool hasNames) : hasNames_(hasNames) {}
  void fix(const Shape &shape) {
    for (int64_t size : shape)
      names_[size] = std::to_string(size);
  }
  void name(const Shape &shape) {
    for (int64_t size : shape)
      if (hasNames_ && size > 1 && !names_.contains(size))
        names_[size] = "s" + std::to_string(next_++);
  }
  const std::string &of(int64_t size) {
    std::string &name = names_[size];
    if (name.empty())
      name = std::to_string(size);
    return name;
  }
  /// The size has a name that it can be known by from now on.
  void learn(int64_t size, const std::string &expression) {
    if (hasNames_ && size > 1 && !names_.contains(size))
      names_[size] = expression;
  }

private:
  bool hasNames_;
  std::unordered_map<int64_t, std::string> names_;
  int next_ = 0;
};

std::string joined(Sizes &sizes, const Shape &shape, size_t first, size_t last,
                   const char *between) {
  std::string text;
  for (size_t i = first; i < last; ++i)
    text += (i > first ? between : "") + ("(" + sizes.of(shape[i]) + ")");
  return text;
}

/// Runs of dimensions that a reshape joins into one.
void learnProducts(Sizes &sizes, const Shape &from, const Shape &to) {
  size_t i = 0;
  for (int64_t size : to) {
    size_t first = i;
    int64_t product = 1;
    while (i < from.size() && product < size)
      product *= from[i++];
    if (product == size && i > first + 1)
      sizes.learn(size, joined(sizes, from, first, i, "*"));
    if (product != size)
      break;
  }
  int64_t all = 1;
  for (int64_t size : from)
    all *= size;
  if (to.size() == 1 && to[0] == all && from.size() > 1)
    sizes.learn(all, joined(sizes, from, 0, from.size(), "*"));
}

/// Ends that were given from the end.
void learnDifferences(Sizes &sizes, const Attributes &attributes, const Shape &from,
                      const Shape &to) {
  std::vector<int64_t> fromEnd = attributes.integers("from_end");
  std::vector<int64_t> steps = attributes.integers("steps");
  for (size_t i = 0; i < to.size() && i < fromEnd.size(); ++i)
    if (fromEnd[i] && steps[i] == 1 && to[i] < from[i])
      sizes.learn(to[i], "(" + sizes.of(from[i]) + ")-" + std::to_string(from[i] - to[i]));
}

std::string numberText(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

template <typename List, typename Text> std::string listText(const List &list, Text text) {
  std::string result;
  for (const auto &each : list)
    result += (result.empty() ? "" : ",") + text(each);
  return result;
}

std::string attributeText(const std::string &name, const Attribute &value) {
  auto integer = [](int64_t number) { return std::to_string(number); };
  if (const auto *number = std::get_if<int64_t>(&value))
    return name == "to" ? "t:" + std::string(tensmith::name(DataType(*number)))
                        : "i:" + integer(*number);
  if (const auto *number = std::get_if<double>(&value))
    return "f:" + numberText(*number);
  if (const auto *text = std::get_if<std::string>(&value))
    return "s:" + *text;
  if (const auto *list = std::get_if<std::vector<int64_t>>(&value))
    return "l:" + listText(*list, integer);
  if (const auto *list = std::get_if<std::vector<double>>(&value))
    return "m:" + listText(*list, numberText);
  return "?";
}

std::string typeText(Sizes &sizes, const Tape::Value &value) {
  std::string text(name(value.type));
  for (int64_t size : value.shape)
    text += " " + sizes.of(size);
  return text;
}

/// A convolution or a pool.
bool hasWindows(const Attributes &attributes) {
  return !attributes.string("operator").empty() && !attributes.integers("strides").empty();
}

/// What windows move over, without the batch and the channels.
Shape pictureOf(const Shape &shape) {
  return shape.size() > 2 ? Shape(shape.begin() + 2, shape.end()) : Shape();
}

} // namespace

Tape::Program Tape::program(std::span<const Number> outputs, bool hasOwnSizes, Number first) const {
  std::vector<char> isNeeded(values_.size(), 0);
  for (Number output : outputs)
    isNeeded[size_t(output)] = 1;
  auto isUsed = [&](const Step &step) {
    for (size_t i = 0; step.first >= first && i < step.resultCount; ++i)
      if (isNeeded[size_t(step.first) + i])
        return true;
    return false;
  };
  for (size_t i = steps_.size(); i-- > 0;)
    if (isUsed(steps_[i]))
      for (Number operand : steps_[i].operands)
        if (operand >= 0)
          isNeeded[size_t(operand)] = 1;
  Program program;
  Sizes sizes(!hasOwnSizes);
  std::vector<int> numbers(values_.size(), -1);
  int next = 0;
  for (const Input &input : inputs_)
    if (isNeeded[size_t(input.value)] && input.isFixed)
      sizes.fix(input.array.shape());
  for (const Step &step : steps_) { // operands whose sizes belong to the structure, and such sizes
    if (!isUsed(step))
      continue;
    for (int64_t operand : step.attributes.integers("fixed"))
      if (step.operands[size_t(operand)] >= 0)
        sizes.fix(values_[size_t(step.operands[size_t(operand)])].shape);
    sizes.fix(step.attributes.integers("fixed_sizes"));
  }
  for (const Step &step : steps_)
    if (isStrict_ && isUsed(step) && hasWindows(step.attributes))
      sizes.fix(pictureOf(values_[size_t(step.operands[0])].shape));
  std::vector<std::pair<Number, std::string>> constants(constants_.begin(), constants_.end());
  auto addInput = [&](Number value) {
    sizes.name(values_[size_t(value)].shape);
    numbers[size_t(value)] = next++;
    program.operands.push_back(value);
    program.text += "input " + typeText(sizes, values_[size_t(value)]) + "\n";
  };
  for (Number value = 0; value < first; ++value)
    if (isNeeded[size_t(value)] && !constants_.contains(value))
      addInput(value);
  for (const Input &input : inputs_) {
    if (!isNeeded[size_t(input.value)] || input.value < first)
      continue;
    if (auto text = hasOwnSizes && !input.isWatched ? structureText(input.array) : std::nullopt) {
      constants.emplace_back(input.value, std::move(*text));
      continue;
    }
    addInput(input.value);
    program.inputs.push_back(input.array);
  }
  for (const auto &[value, text] : constants) {
    if (!isNeeded[size_t(value)])
      continue;
    numbers[size_t(value)] = next++;
    const auto &[type, shape] = values_[size_t(value)];
    program.text += "const " + std::string(name(type)) + " " + text;
    for (int64_t size : shape) // of numbers that are part of the structure, as they are themselves
      program.text += " " + std::to_string(size);
    program.text += "\n";
  }
  for (const Step &step : steps_) {
    if (!isUsed(step))
      continue;
    std::string attributes, operands, types;
    for (const auto &[name, value] : step.attributes.all())
      attributes += (attributes.empty() ? "" : ";") + name + "=" + attributeText(name, value);
    for (Number operand : step.operands)
      operands += (operands.empty() ? "" : " ") +
                  std::to_string(operand < 0 ? -1 : numbers[size_t(operand)]);
    const Shape &to = values_[size_t(step.first)].shape;
    if (step.name == "reshape")
      learnProducts(sizes, values_[size_t(step.operands[0])].shape, to);
    if (step.name == "slice")
      learnDifferences(sizes, step.attributes, values_[size_t(step.operands[0])].shape, to);
    if (step.name == "concat") {
      auto axis = size_t(step.attributes.integer("axis"));
      std::string sum;
      for (Number operand : step.operands)
        sum += (sum.empty() ? "" : "+") + sizes.of(values_[size_t(operand)].shape[axis]);
      sizes.learn(to[axis], sum);
    }
    for (size_t i = 0; i < step.resultCount; ++i) {
      numbers[size_t(step.first) + i] = next++;
      types += (i ? "," : "") + typeText(sizes, values_[size_t(step.first) + i]);
    }
    program.text += step.name + "|" + attributes + "|" + operands + "|" + types + "\n";
  }
  for (Number output : outputs) {
    program.text += "out " + std::to_string(numbers[size_t(output)]) + "\n";
    program.outputs.push_back(values_[size_t(output)]);
  }
  return program;
}

} // namespace tensmith::eager
