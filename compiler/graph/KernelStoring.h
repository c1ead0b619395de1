// What a kernel keeps to when it stores, noted on the op by the template that takes its region.
//
// The planner gives a result the memory of an operand that dies there, if the kernel has read what
// it needs of the operand before it stores over it. How far a kernel reads ahead of its stores is
// its template's business: this is the property that the planner goes by, so that it knows no
// template.
#pragma once

#include "compiler/graph/Graph.h"

namespace tensmith::graph {

enum class Storing {
  /// A result's element is stored when what it is computed from at the same place was read; of
  /// several results nothing is promised.
  Element,
  /// The elements of all results at a place are computed before any of them is stored.
  Elements,
  /// A row is read before any of it is stored; its elements are results of the first alone.
  Rows,
  /// The first operand's elements stay where both are one buffer; others are combined into it.
  Sums,
};

inline constexpr char kStoringAttribute[] = "tensmith.storing";

inline Storing storingOf(KernelOp kernel) {
  auto noted = kernel->getAttrOfType<mlir::StringAttr>(kStoringAttribute);
  llvm::StringRef text = noted ? noted.getValue() : "";
  return text == "elements" ? Storing::Elements
         : text == "rows"   ? Storing::Rows
         : text == "sums"   ? Storing::Sums
                            : Storing::Element;
}

inline void setStoring(KernelOp kernel, Storing storing) {
  constexpr llvm::StringLiteral kTexts[] = {"", "elements", "rows", "sums"};
  if (storing == Storing::Element)
    kernel->removeAttr(kStoringAttribute);
  else
    kernel->setAttr(kStoringAttribute,
                    mlir::StringAttr::get(kernel.getContext(), kTexts[size_t(storing)]));
}

} // namespace tensmith::graph
