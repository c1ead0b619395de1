// Strides of affine places; see Layout.h.
#include "compiler/nest/Layout.h"

#include <algorithm>

namespace tensmith::nest {

using Part = LayoutDimension::Part;

std::vector<LayoutDimension> layoutOf(const Tensor &tensor) {
  if (!tensor.layout.empty())
    return tensor.layout;
  std::vector<LayoutDimension> result;
  for (size_t dim = tensor.instances; dim < tensor.extents.size(); ++dim)
    result.push_back({dim});
  return result;
}

namespace {

/// Elements that the entry counts, where that is known.
std::optional<int64_t> sizeOf(const Tensor &tensor, const LayoutDimension &entry) {
  if (entry.part == Part::Remainder)
    return entry.block;
  const Affine &extent = tensor.extents[entry.dim];
  if (!extent.isConstant())
    return std::nullopt;
  return entry.part == Part::Whole ? extent.constant
                                   : (extent.constant + entry.block - 1) / entry.block;
}

/// Whether the values from the rest on are within one block.
bool isWithinBlock(const Affine &rest, int64_t count, int64_t block) {
  int64_t first = ((rest.constant % block) + block) % block;
  return first + count <= block &&
         std::all_of(rest.terms.begin(), rest.terms.end(),
                     [&](const auto &term) { return term.second % block == 0; });
}

} // namespace

std::optional<int64_t> strideAlong(const LoopProgram &program, const Tensor &tensor,
                                   const std::vector<Affine> &indices, const std::string &variable,
                                   int64_t count) {
  std::vector<Affine> rests = indices;
  std::vector<int64_t> factors;
  for (Affine &rest : rests) {
    factors.push_back(rest.coefficient(variable));
    rest.terms.erase(variable);
    if (involves(program, rest, variable))
      return std::nullopt;
  }
  for (size_t dim = 0; dim < tensor.instances; ++dim)
    if (factors[dim])
      return std::nullopt;
  int64_t result = 0;
  std::optional<int64_t> inside = 1; // elements of what lies further inside
  std::vector<LayoutDimension> layout = layoutOf(tensor);
  for (auto entry = layout.rbegin(); entry != layout.rend(); ++entry) {
    int64_t factor = factors[entry->dim];
    if (factor && entry->part == Part::Remainder &&
        (factor != 1 || !isWithinBlock(rests[entry->dim], count, entry->block)))
      return std::nullopt;
    if (factor && entry->part != Part::Quotient) { // the quotient stays the same within a block
      if (!inside)
        return std::nullopt;
      result += factor * *inside;
    }
    std::optional<int64_t> own = sizeOf(tensor, *entry);
    inside = inside && own ? std::optional(*inside * *own) : std::nullopt;
  }
  return result;
}

} // namespace tensmith::nest
