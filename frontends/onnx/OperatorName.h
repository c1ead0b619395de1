// The name of a graph operator as a template's argument: one import rule serves all operators of a
// signature.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cstddef>

namespace tensmith::onnx_import {

template <size_t size> struct OperatorName {
  char text[size];
  constexpr OperatorName(const char (&name)[size]) { std::copy_n(name, size, text); }
  operator llvm::StringRef() const { return llvm::StringRef(text, size - 1); }
};

} // namespace tensmith::onnx_import
