// Reference evaluation of conversions between element types: cast (by value, strings included) and
// bit_cast.
//
// What ONNX leaves undefined is defined here: a float beyond an integer's range becomes the nearest
// integer, NaN becomes 0; integers of fewer than 8 bits wrap, as the standard's own arrays of them
// do. Text of numbers is the shortest that reads back as the same float.
#include "base/Float.h"
#include "reference/Elementwise.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace tensmith::reference {
namespace {

struct CastRules {
  DataType to = DataType::Undefined;
  bool saturate = true;
  PowerRounding rounding = PowerRounding::Up;
};

std::optional<PowerRounding> parseRounding(const std::string &text) {
  if (text == "up")
    return PowerRounding::Up;
  if (text == "down")
    return PowerRounding::Down;
  if (text == "nearest")
    return PowerRounding::Nearest;
  return std::nullopt;
}

bool isNarrowFloat(DataType type) { return isFloat(type) && byteSize(type) == 1; }

// ---- floats to integers

/// The integers of a type lie in [low, high); both are doubles exactly.
struct IntegerRange {
  double low, high;
};

IntegerRange integerRange(DataType type) {
  int bits = info(type).bits;
  if (info(type).kind == TypeClass::Unsigned)
    return {0, std::ldexp(1.0, bits)};
  return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1)};
}

int64_t clampToInteger(double value, DataType type, IntegerRange range) {
  if (std::isnan(value))
    return 0;
  if (value >= range.high) // the largest: `high` - 1, which of 64 bits is no double
    return type == DataType::U64   ? -1
           : type == DataType::I64 ? std::numeric_limits<int64_t>::max()
                                   : int64_t(range.high) - 1;
  return int64_t(truncateToInteger(std::max(value, range.low)));
}

void castToIntegers(HostTensor &y, int64_t offset, int64_t count, const double *values) {
  DataType via = info(y.type()).bits < 8 ? DataType::I32 : y.type();
  IntegerRange range = integerRange(via);
  std::array<int64_t, kRun> integers;
  for (int64_t i = 0; i < count; ++i)
    integers[size_t(i)] = clampToInteger(values[i], via, range);
  storeRun<int64_t>(y, offset, count, integers.data());
}

// ---- to floats of 8 bits and fewer

template <typename T>
void castToNarrowFloats(HostTensor &y, int64_t offset, int64_t count, const T *values,
                        const CastRules &rules) {
  const FloatFormat *format = floatFormat(rules.to);
  std::span<uint8_t> codes = y.as<uint8_t>().subspan(size_t(offset), size_t(count));
  for (size_t i = 0; i < codes.size(); ++i) {
    double value;
    if constexpr (std::is_same_v<T, double>)
      value = values[i];
    else
      value = roundToOdd(values[i]);
    codes[i] = format ? uint8_t(encode(*format, value, rules.saturate))
                      : encodeF8E8M0(value, rules.rounding, rules.saturate);
  }
}

template <typename T>
Outcome castNumbers(Workspace &workspace, const HostTensor &x, const CastRules &rules) {
  HostTensor y = workspace.allocate(rules.to, x.shape());
  if (!workspace.ok())
    return workspace.status();
  std::array<T, kRun> values;
  for (int64_t offset = 0; offset < x.size(); offset += kRun) {
    int64_t count = std::min(kRun, x.size() - offset);
    loadRun<T>(x, offset, 1, count, values.data());
    if (isNarrowFloat(rules.to))
      castToNarrowFloats<T>(y, offset, count, values.data(), rules);
    else if (std::is_same_v<T, double> && isInteger(rules.to))
      castToIntegers(y, offset, count, reinterpret_cast<const double *>(values.data()));
    else
      storeRun<T>(y, offset, count, values.data());
  }
  return workspace.finish(std::move(y));
}

// ---- text

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos)
    return {};
  text = text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
  return text.starts_with('+') ? text.substr(1) : text;
}

/// The whole text as a number ("1e-5", "-INF", "nan" in any case), if it is one.
template <typename T> std::optional<T> parseNumber(std::string_view text) {
  text = trimmed(text);
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = end == text.data() + text.size() && !text.empty();
  if (whole && error == std::errc::result_out_of_range && std::is_same_v<T, double>)
    return text.find("e-") != text.npos || text.find("E-") != text.npos
               ? T(0)
               : T(text.starts_with('-') ? -HUGE_VAL : HUGE_VAL);
  if (!whole || error != std::errc())
    return std::nullopt;
  return value;
}

Outcome castFromStrings(Workspace &workspace, const HostTensor &x, const CastRules &rules) {
  HostTensor y = workspace.allocate(rules.to, x.shape());
  for (int64_t i = 0; workspace.ok() && i < x.size(); ++i) {
    const std::string &text = x.getString(i);
    bool isSigned = info(rules.to).kind == TypeClass::Signed;
    std::optional<int64_t> integer = isSigned ? parseNumber<int64_t>(text) : std::nullopt;
    std::optional<uint64_t> natural =
        rules.to == DataType::U64 ? parseNumber<uint64_t>(text) : std::nullopt;
    if (integer || natural) {
      y.setInt(i, integer ? *integer : int64_t(*natural));
    } else if (std::optional<double> real = parseNumber<double>(text)) {
      if (isInteger(rules.to))
        castToIntegers(y, i, 1, &*real);
      else if (isNarrowFloat(rules.to))
        castToNarrowFloats<double>(y, i, 1, &*real, rules);
      else
        y.setDouble(i, *real);
    } else {
      workspace.reject("x",
                       "holds '" + text + "' at " + std::to_string(i) + ", which is no number");
    }
  }
  return workspace.finish(std::move(y));
}

template <typename T> std::string textOf(T value) {
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end);
}

std::string textOfElement(const HostTensor &x, int64_t index) {
  if (x.type() == DataType::U64)
    return textOf(uint64_t(x.getInt(index)));
  if (!isFloat(x.type()))
    return textOf(x.getInt(index));
  double value = x.getDouble(index);
  if (std::isnan(value))
    return "NaN";
  if (std::isinf(value))
    return value < 0 ? "-INF" : "INF";
  return x.type() == DataType::F64 ? textOf(value) : textOf(float(value));
}

Outcome castToStrings(Workspace &workspace, const HostTensor &x) {
  HostTensor y = workspace.allocate(DataType::String, x.shape());
  for (int64_t i = 0; workspace.ok() && i < x.size(); ++i)
    y.setString(i, textOfElement(x, i));
  return workspace.finish(std::move(y));
}

bool hasConversion(DataType type) {
  TypeClass kind = info(type).kind;
  return kind != TypeClass::None && kind != TypeClass::Complex;
}

Outcome evaluateCast(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::optional<DataType> to = dataTypeFromOnnx(invocation.attributes.integer("to"));
  auto rounding = parseRounding(invocation.attributes.string("round_mode", "up"));
  if (!to)
    workspace.rejectAttribute("to", "is no element type");
  if (!rounding)
    workspace.rejectAttribute("round_mode", "must be up, down or nearest");
  if (!workspace.ok())
    return workspace.status();
  if (x.type() == *to && !isNarrowFloat(*to))
    return workspace.finish(x);
  if (!hasConversion(x.type()) || !hasConversion(*to))
    return unsupported("cast: from " + std::string(name(x.type())) + " to " +
                       std::string(name(*to)) + " is not handled");
  CastRules rules{*to, invocation.attributes.integer("saturate", 1) != 0, *rounding};
  if (x.type() == DataType::String)
    return castFromStrings(workspace, x, rules);
  if (*to == DataType::String)
    return castToStrings(workspace, x);
  return withWideType(x.type(),
                      [&](auto wide) { return castNumbers<decltype(wide)>(workspace, x, rules); });
}

/// The width that matters for a reinterpretation: 8 of a boolean, which is a byte.
int storedBits(DataType type) { return type == DataType::Bool ? 8 : info(type).bits; }

void reinterpretCodes(HostTensor &y, const HostTensor &x) {
  for (int64_t i = 0; i < x.size(); ++i)
    if (uint8_t code = uint8_t(x.data()[i]); isInteger(y.type()) || y.type() == DataType::Bool)
      y.setInt(i, code);
    else
      y.as<uint8_t>()[size_t(i)] = code & uint8_t((1 << storedBits(y.type())) - 1);
}

Outcome evaluateBitCast(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x");
  std::optional<DataType> to = dataTypeFromOnnx(invocation.attributes.integer("to"));
  if (workspace.ok() && (!to || *to == DataType::String || x.type() == DataType::String ||
                         storedBits(*to) != storedBits(x.type())))
    workspace.rejectAttribute("to", "must be a type as wide as " + std::string(name(x.type())));
  HostTensor y = workspace.allocate(to.value_or(DataType::Undefined), x.shape());
  if (!workspace.ok())
    return workspace.status();
  if (byteSize(*to) == 1)
    reinterpretCodes(y, x);
  else if (x.size() > 0)
    std::memcpy(y.mutableData(), x.data(), size_t(x.bytes()));
  return workspace.finish(std::move(y));
}

constexpr Entry kEntries[] = {{"cast", evaluateCast}, {"bit_cast", evaluateBitCast}};

} // namespace

std::span<const Entry> castEntries() { return kEntries; }

} // namespace tensmith::reference
