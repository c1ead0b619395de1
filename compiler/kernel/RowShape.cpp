// By the dimensions' expressions; see RowShape.h.
#include "compiler/kernel/RowShape.h"

#include "compiler/graph/Shape.h"

using namespace mlir;

namespace tensmith::kernel {

std::optional<RowShape> rowShapeOf(RankedTensorType type, RankedTensorType rows) {
  if (!type)
    return std::nullopt;
  graph::ShapeContext shapes(rows.getContext());
  auto own = shapes.dims(type), all = shapes.dims(rows);
  AffineExpr columns = all.pop_back_val();
  auto startsAlike = [&] {
    return own.size() >= all.size() && llvm::all_of(llvm::zip(own, all), [&](auto pair) {
             return shapes.equal(std::get<0>(pair), std::get<1>(pair));
           });
  };
  if (!startsAlike() || own.size() > all.size() + 1)
    return std::nullopt;
  if (own.size() == all.size())
    return RowShape::Dropped;
  if (shapes.equal(own.back(), columns))
    return RowShape::Whole;
  return own.back() == shapes.constant(1) ? std::optional(RowShape::Kept) : std::nullopt;
}

} // namespace tensmith::kernel
