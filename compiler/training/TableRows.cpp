// Rows out of a table and back, and what a program does to those that have no gradient; see
// TableRows.h.
#include "compiler/training/TableRows.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tensmith::training {
namespace {

using graph::GraphCode;

bool isZeros(Value value) {
  if (auto broadcast = value.getDefiningOp<graph::BroadcastOp>())
    value = broadcast.getX();
  DenseFPElementsAttr zeros;
  return matchPattern(value, m_Constant(&zeros)) && zeros.isSplat() &&
         zeros.getSplatValue<APFloat>().isZero();
}

/// The places [n, 1] and rows [n, ...] that are added; more of them for each term of a sum.
bool collect(Value gradient, const GraphCode &code, SmallVectorImpl<Value> &places,
             SmallVectorImpl<Value> &rows) {
  if (auto sum = gradient.getDefiningOp<graph::AddOp>())
    return sum.getA().getType() == sum.getB().getType() &&
           collect(sum.getA(), code, places, rows) && collect(sum.getB(), code, places, rows);
  auto scatter = gradient.getDefiningOp<graph::ScatterNDOp>();
  if (!scatter || scatter.getReduction() != "add" || !isZeros(scatter.getX()) ||
      !GraphCode::isRanked(scatter.getIndices()))
    return false;
  GraphCode::Dims table = code.dims(gradient), indices = code.dims(scatter.getIndices());
  if (indices.back() != code.size(1))
    return false;
  AffineExpr count = code.graph.shapes.product(ArrayRef(indices).drop_back());
  Value place = code.cast(code.reshape(scatter.getIndices(), {count, code.size(1)}),
                          code.builder.getI64Type());
  Value isFromEnd = code.op("graph.less", {place, code.scalar(place, 0)});
  places.push_back(code.where(isFromEnd, code.add(place, code.sizeOf(gradient, 0)), place));
  table[0] = count;
  rows.push_back(code.reshape(scatter.getUpdates(), table));
  return places.back() && rows.back();
}

/// Goes through the operators that the results are made by, down to the old values and the
/// gradient.
class Walk {
public:
  explicit Walk(const UpdateValues &update) : update_(update) {}

  bool leavesZeros() {
    return llvm::all_of(llvm::zip_equal(update_.results, update_.old),
                        [&](auto pair) { return isOld(std::get<0>(pair), std::get<1>(pair)); });
  }

private:
  /// Whether the value is zero where the gradient is.
  bool isZero(Value value) {
    auto known = isZero_.find(value);
    if (known != isZero_.end())
      return known->second;
    bool is =
        value == update_.gradient || (value.getDefiningOp() && isMadeZero(value.getDefiningOp()));
    return isZero_[value] = is;
  }
  bool isMadeZero(Operation *op) {
    auto isZeroOperand = [&](Value operand) { return isZero(operand); };
    if (isa<graph::MulOp>(op))
      return llvm::any_of(op->getOperands(), isZeroOperand);
    if (isa<graph::DivOp>(op))
      return isZero(op->getOperand(0));
    return isa<graph::AddOp, graph::SubOp, graph::NegOp, graph::SqrtOp, graph::AbsOp,
               graph::CastOp>(op) &&
           llvm::all_of(op->getOperands(), isZeroOperand);
  }

  /// Whether it is the old value there.
  bool isOld(Value value, Value old) {
    if (value == old)
      return true;
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<graph::AddOp>(op) && isZero(op->getOperand(0)))
      return isOld(op->getOperand(1), old);
    return isa_and_nonnull<graph::AddOp, graph::SubOp>(op) && isOld(op->getOperand(0), old) &&
           isZero(op->getOperand(1));
  }

  const UpdateValues &update_;
  llvm::DenseMap<Value, bool> isZero_;
};

} // namespace

Value TableRows::of(Value table, const GraphCode &code) const {
  Value flat = code.reshape(places, {code.dims(places)[0]});
  return code.op("graph.gather", {table, flat}, {code.integer("axis", 0)});
}

Value TableRows::into(Value table, Value rows, const GraphCode &code) const {
  return code.op("graph.scatter_nd", {table, places, rows},
                 {code.builder.getNamedAttr("reduction", code.builder.getStringAttr("none"))});
}

std::optional<TableRows> tableRows(Value gradient, const GraphCode &code) {
  SmallVector<Value> places, rows;
  Type element = GraphCode::element(gradient);
  if (!GraphCode::isRanked(gradient) || GraphCode::rank(gradient) == 0 ||
      !(element.isF32() || element.isF64()) || !collect(gradient, code, places, rows))
    return std::nullopt;
  TableRows found;
  found.places = code.concat(places, 0);
  Value added = code.concat(rows, 0);
  if (!found.places || !added)
    return std::nullopt;
  // Which of the distinct rows each is: the run alone knows how many those are.
  AffineExpr count = code.dims(found.places)[0];
  Operation *unique = code.graph.create("graph.unique", {code.reshape(found.places, {count})});
  if (!unique)
    return std::nullopt;
  Value number = unique->getResult(2);
  Value zeros = code.broadcast(code.scalar(added, 0), code.dims(added));
  found.distinct =
      code.op("graph.scatter_nd", {zeros, code.reshape(number, {count, code.size(1)}), added},
              {code.builder.getNamedAttr("reduction", code.builder.getStringAttr("add"))});
  found.gradient = code.op("graph.gather", {found.distinct, number}, {code.integer("axis", 0)});
  return found.gradient ? std::optional(found) : std::nullopt;
}

bool leavesZeros(const UpdateValues &update) { return Walk(update).leavesZeros(); }

} // namespace tensmith::training
