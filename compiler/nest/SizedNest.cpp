// Sizes to parameters; see SizedNest.h.
#include "compiler/nest/SizedNest.h"

using namespace mlir;

namespace tensmith::nest {

DataType computedAs(DataType type) {
  return type == DataType::F16 || type == DataType::BF16 ? DataType::F32 : type;
}

/// A size is not negative; what else is computed of sizes may be.
std::string Parameters::parameter(AffineExpr value) {
  auto [place, isNew] = known_.try_emplace(value);
  if (!isNew)
    return place->second;
  constexpr int64_t kMost = int64_t(1) << 31;
  std::string name = "n" + std::to_string(into_.parameters.size());
  into_.nest.parameters.push_back({name, isa<AffineSymbolExpr>(value) ? 0 : -kMost, kMost});
  into_.parameters.push_back(value);
  return known_[value] = name;
}

Affine Parameters::affine(AffineExpr value) {
  if (auto constant = dyn_cast<AffineConstantExpr>(value))
    return constant.getValue();
  auto binary = dyn_cast<AffineBinaryOpExpr>(value);
  if (!binary)
    return parameter(value);
  auto factor = dyn_cast<AffineConstantExpr>(binary.getRHS());
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return affine(binary.getLHS()) + affine(binary.getRHS());
  case AffineExprKind::Mul:
    return factor ? factor.getValue() * affine(binary.getLHS()) : Affine(parameter(value));
  case AffineExprKind::Mod:
    if (factor && factor.getValue() > 0)
      return affine(binary.getLHS()) -
             factor.getValue() * affine(binary.getLHS().floorDiv(factor.getValue()));
    break;
  case AffineExprKind::FloorDiv:
  case AffineExprKind::CeilDiv:
    if (factor && factor.getValue() > 0)
      return quotient(binary, factor.getValue());
    break;
  default:
    break;
  }
  return parameter(value);
}

/// A parameter of which is known between which multiples of the divisor the dividend lies.
Affine Parameters::quotient(AffineBinaryOpExpr value, int64_t divisor) {
  bool isNew = !known_.count(value);
  Affine result = parameter(value), dividend = affine(value.getLHS());
  if (isNew) {
    Affine rest = value.getKind() == AffineExprKind::FloorDiv ? dividend - divisor * result
                                                              : divisor * result - dividend;
    into_.nest.context.push_back(atLeast(rest, 0));
    into_.nest.context.push_back(less(rest, divisor));
  }
  return result;
}

std::vector<Affine> Parameters::extents(Type rankedTensor) {
  std::vector<Affine> extents;
  for (AffineExpr dim : shapes_.dims(rankedTensor))
    extents.push_back(affine(shapes_.simplify(dim)));
  return extents;
}

} // namespace tensmith::nest
