// Operators that rearrange elements: what the graph says by result types and attributes, ONNX is
// told by operands.
#include "frontends/onnx/ExportRules.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace mlir;

namespace tensmith::onnx_export {
namespace {

constexpr int64_t kToTheStart = std::numeric_limits<int64_t>::min();

std::optional<int64_t> known(AffineExpr size) {
  auto constant = dyn_cast<AffineConstantExpr>(size);
  return constant ? std::optional(constant.getValue()) : std::nullopt;
}

/// One size that only the run knows is what remains.
Status reshape(NodeExport &n) {
  auto dims = n.dims(n.op->getResult(0));
  if (!dims.ok())
    return dims.status();
  bool hasZero = llvm::any_of(*dims, [](AffineExpr size) { return known(size) == 0; });
  if (llvm::count_if(*dims, [](AffineExpr size) { return !known(size); }) == 1 && !hasZero) {
    llvm::SmallVector<int64_t> shape;
    for (AffineExpr size : *dims)
      shape.push_back(known(size).value_or(-1));
    return n.giveNode("Reshape", {n.input(0), n.vector(shape)});
  }
  auto shape = n.sizes(*dims);
  if (!shape.ok())
    return shape.status();
  return n.giveNode("Reshape", {n.input(0), *shape}, {{"allowzero", int64_t(1)}});
}

Status broadcast(NodeExport &n) {
  auto dims = n.dims(n.op->getResult(0));
  if (!dims.ok())
    return dims.status();
  auto shape = n.sizes(*dims);
  return shape.ok() ? n.giveNode("Expand", {n.input(0), *shape}) : shape.status();
}

/// Ends are counted from the dimension's end where steps are negative: there is no other number for
/// the place before the first.
AffineExpr endOf(int64_t start, int64_t step, AffineExpr size, AffineExpr whole) {
  AffineExpr end = size * step + start;
  return step > 0 ? end : end - whole;
}

Status slice(NodeExport &n) {
  auto from = n.dims(n.op->getOperand(0)), to = n.dims(n.op->getResult(0));
  if (!from.ok() || !to.ok())
    return from.ok() ? to.status() : from.status();
  std::vector<int64_t> starts = n.attributes.integers("starts"),
                       steps = n.attributes.integers("steps"), usedStarts, usedSteps, axes;
  Dims ends;
  for (size_t i = 0; i < starts.size(); ++i) {
    AffineExpr size = (*to)[i], whole = (*from)[i];
    if (starts[i] == 0 && steps[i] == 1 && n.exporter.shapes.equal(size, whole))
      continue;
    usedStarts.push_back(starts[i]);
    usedSteps.push_back(steps[i]);
    axes.push_back(int64_t(i));
    ends.push_back(n.exporter.shapes.simplify(endOf(starts[i], steps[i], size, whole)));
    if (known(size) == 0) // none, whichever way the steps go
      ends.back() = n.exporter.shapes.constant(starts[i]);
  }
  if (axes.empty())
    return n.giveNode("Identity", {n.input(0)});
  auto last = n.sizes(ends);
  if (!last.ok())
    return last.status();
  return n.giveNode("Slice",
                    {n.input(0), n.vector(usedStarts), *last, n.vector(axes), n.vector(usedSteps)});
}

Status reverse(NodeExport &n) {
  std::vector<int64_t> axes = n.attributes.integers("axes");
  std::vector<int64_t> last(axes.size(), -1), first(axes.size(), kToTheStart);
  return n.giveNode("Slice",
                    {n.input(0), n.vector(last), n.vector(first), n.vector(axes), n.vector(last)});
}

Status pad(NodeExport &n) {
  std::vector<int64_t> pads = n.attributes.integers("low"), high = n.attributes.integers("high");
  pads.insert(pads.end(), high.begin(), high.end());
  return n.giveNode("Pad", {n.input(0), n.vector(pads), n.input(1)},
                    {{"mode", n.attributes.string("mode")}});
}

const Record kRecords[] = {
    {"graph.reshape", "Reshape", {}, reshape},
    {"graph.broadcast", "Expand", {}, broadcast},
    {"graph.slice", "Slice", {}, slice},
    {"graph.reverse", "Slice", {}, reverse},
    {"graph.pad", "Pad", {}, pad},
};

} // namespace

std::span<const Record> movementRecords() { return kRecords; }

} // namespace tensmith::onnx_export
