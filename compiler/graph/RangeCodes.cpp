// Quantisation by a tensor's own range; see RangeCodes.h.
#include "compiler/graph/RangeCodes.h"

#include <numeric>

using namespace mlir;

namespace tensmith::graph {

RangeCodes codesByRange(const GraphCode &code, Value x) {
  if (!x)
    return {};
  SmallVector<int64_t> all(size_t(GraphCode::rank(x)));
  std::iota(all.begin(), all.end(), 0);
  Value zero = code.scalar(x, 0);
  Value least = code.op("graph.min", {code.reduce("graph.reduce_min", x, all, false), zero});
  Value most = code.op("graph.max", {code.reduce("graph.reduce_max", x, all, false), zero});
  Value range = code.sub(most, least);
  if (!range)
    return {};
  Value scale = code.mul(range, 1.0 / 255), one = code.scalar(x, 1);
  scale = code.where(code.op("graph.equal", {range, zero}), one, scale);
  Type u8 = code.builder.getIntegerType(8, /*isSigned=*/false);
  NamedAttribute attributes[] = {code.integer("axis", 0),
                                 code.builder.getNamedAttr("to", TypeAttr::get(u8))};
  Value start = code.div(code.sub(zero, least), scale);
  Value zeroPoint = code.op("graph.quantize", {start, one, code.graph.none()}, attributes);
  if (!zeroPoint)
    return {};
  return {code.op("graph.quantize", {x, scale, zeroPoint}, attributes), scale, zeroPoint};
}

Value roundedByRange(const GraphCode &code, Value x) {
  RangeCodes codes = codesByRange(code, x);
  if (!codes.values)
    return {};
  NamedAttribute to = code.builder.getNamedAttr("to", TypeAttr::get(GraphCode::element(x)));
  return code.op("graph.dequantize", {codes.values, codes.scale, codes.zeroPoint},
                 {code.integer("axis", 0), to});
}

} // namespace tensmith::graph
