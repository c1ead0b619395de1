// The one notation in which sizes over symbols are shown: "2*n+1", "(n+1)/2" (rounded down),
// "ceil(n/2)", "n%4", "max(a, b)". Parentheses stand only where they are needed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace tensmith {

struct SizeText {
  enum Kind : uint8_t { Sum, Product, Quotient, Atom } kind = Atom;
  std::string text;
};

/// A message with values in the place of {a} and {b}.
inline std::string formatSizes(std::string message, int64_t a, int64_t b) {
  for (auto [name, value] : {std::pair("{a}", a), std::pair("{b}", b)})
    for (size_t at; (at = message.find(name)) != message.npos;)
      message.replace(at, 3, std::to_string(value));
  return message;
}

namespace size_text {

inline std::string within(const SizeText &part, bool needsParentheses) {
  return needsParentheses ? "(" + part.text + ")" : part.text;
}

inline SizeText sum(const SizeText &a, const SizeText &b) {
  return {SizeText::Sum, a.text + (b.text.starts_with("-") ? "" : "+") + b.text};
}

/// A number stands before what it multiplies.
inline SizeText product(const SizeText &a, const SizeText &b) {
  bool isNumber = b.text.find_first_not_of("-0123456789") == std::string::npos;
  auto factor = [](const SizeText &part) {
    return within(part, part.kind == SizeText::Sum || part.kind == SizeText::Quotient);
  };
  return {SizeText::Product, isNumber ? factor(b) + "*" + factor(a) : factor(a) + "*" + factor(b)};
}

inline SizeText quotient(const SizeText &a, char sign, const SizeText &b) {
  return {SizeText::Quotient, within(a, a.kind == SizeText::Sum || a.kind == SizeText::Quotient) +
                                  sign + within(b, b.kind != SizeText::Atom)};
}

inline SizeText ceilQuotient(const SizeText &a, const SizeText &b) {
  return {SizeText::Atom, "ceil(" + quotient(a, '/', b).text + ")"};
}

inline SizeText call(const std::string &name, const SizeText &a, const SizeText &b) {
  return {SizeText::Atom, name + "(" + a.text + ", " + b.text + ")"};
}

} // namespace size_text
} // namespace tensmith
