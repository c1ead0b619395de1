// Operands read by the places of a result of open sizes; see OpenBroadcast.h.
#include "compiler/rewrite/OpenBroadcast.h"

#include "compiler/graph/Bounds.h"
#include "compiler/graph/GraphCode.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

class OpenBroadcast {
public:
  OpenBroadcast(Operation *op, graph::GraphBuilder &builder)
      : op_(op), code_(builder), operands_(op->getOperands()) {}

  Value run() {
    graph::GraphCode::Dims result = code_.dims(op_->getResult(0));
    bool any = false;
    for (size_t dim = 0; dim < result.size(); ++dim) {
      auto isUncertain = [&](Value operand) {
        AffineExpr own = sizeAt(operand, dim, result.size());
        return own && !code_.graph.shapes.equal(own, result[dim]);
      };
      if (!llvm::any_of(op_->getOperands(), isUncertain))
        continue;
      any = true;
      Value places = placesOf(dim, result);
      for (auto [operand, original] : llvm::zip_equal(operands_, op_->getOperands()))
        if (isUncertain(original))
          operand =
              gathered(operand, places, dim + graph::GraphCode::rank(original) - result.size(),
                       sizeAt(original, dim, result.size()));
    }
    if (!any)
      return {};
    return code_.op(op_->getName().getStringRef(), operands_, llvm::to_vector(op_->getAttrs()));
  }

private:
  /// The operand's size along a dimension of the result; null where it is 1 or has none.
  AffineExpr sizeAt(Value operand, size_t dim, size_t rank) {
    graph::GraphCode::Dims own = code_.dims(operand);
    if (dim + own.size() < rank)
      return {};
    AffineExpr size = own[dim + own.size() - rank];
    return size == code_.size(1) ? AffineExpr() : size;
  }

  Value placesOf(size_t dim, const graph::GraphCode::Dims &result) {
    Value places;
    for (Value operand : op_->getOperands())
      if (AffineExpr own = sizeAt(operand, dim, result.size())) {
        Value numbers = code_.iota({own}, 0);
        places = places ? code_.op("graph.max", {places, numbers}) : numbers;
      }
    if (places)
      places.setType(
          code_.graph.shapes.tensorType(graph::GraphCode::element(places), {result[dim]}));
    return places;
  }

  Value gathered(Value operand, Value places, size_t axis, AffineExpr size) {
    Value last = code_.add(code_.sizeOf(code_.iota({size}, 0), 0), -1);
    Value y = code_.op("graph.gather", {operand, code_.op("graph.min", {places, last})},
                       {code_.integer("axis", int64_t(axis))});
    if (y)
      y.getDefiningOp()->setAttr(graph::kInRange, code_.builder.getUnitAttr());
    return y;
  }

  Operation *op_;
  graph::GraphCode code_;
  SmallVector<Value> operands_;
};

} // namespace

LogicalResult broadcastByPlaces(Operation *op, graph::GraphBuilder &builder,
                                SmallVectorImpl<Value> &results) {
  auto isMovable = [](Type type) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    return ranked && graph::kernelElementType(ranked.getElementType());
  };
  if (op->getNumOperands() < 2 || op->getNumResults() != 1 ||
      !llvm::all_of(op->getOperandTypes(), isMovable) || !isMovable(op->getResult(0).getType()))
    return failure();
  // Of numbers of places, what this itself makes.
  auto isNumber = [](Value operand) {
    return operand.getDefiningOp<graph::IotaOp>() || operand.getDefiningOp<graph::MaxOp>();
  };
  if (isa<graph::MaxOp>(op) && llvm::all_of(op->getOperands(), isNumber))
    return failure();
  Value result = OpenBroadcast(op, builder).run();
  if (!result)
    return failure();
  results.push_back(result);
  return success();
}

} // namespace tensmith::rewrite
