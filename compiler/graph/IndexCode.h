// Arithmetic on indices, folded as it is written, so that what is static leaves no code behind and
// the vectoriser sees affine accesses.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/graph/ScalarCode.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tensmith::graph {

class IndexCode {
public:
  using Value = mlir::Value;

  explicit IndexCode(ElementContext &context)
      : context(context), builder(context.builder), location(context.location) {}

  Value constant(int64_t value) const {
    return builder.create<mlir::arith::ConstantIndexOp>(location, value);
  }
  Value add(Value a, Value b) const { return make<mlir::arith::AddIOp>(a, b); }
  Value add(Value a, int64_t b) const { return b == 0 ? a : add(a, constant(b)); }
  Value sub(Value a, Value b) const { return make<mlir::arith::SubIOp>(a, b); }
  Value mul(Value a, Value b) const { return make<mlir::arith::MulIOp>(a, b); }
  Value mul(Value a, int64_t b) const { return b == 1 ? a : mul(a, constant(b)); }
  /// Of values that are not negative (then unsigned division, the cheaper one, is the same).
  Value div(Value a, Value b) const { return make<mlir::arith::DivUIOp>(a, b); }
  Value rem(Value a, Value b) const { return make<mlir::arith::RemUIOp>(a, b); }

  Value less(Value a, Value b) const { return compare(mlir::arith::CmpIPredicate::slt, a, b); }
  Value isNegative(Value a) const { return less(a, constant(0)); }
  /// 0 <= a < bound, in one comparison.
  Value within(Value a, Value bound) const {
    return compare(mlir::arith::CmpIPredicate::ult, a, bound);
  }
  Value compare(mlir::arith::CmpIPredicate predicate, Value a, Value b) const {
    return make<mlir::arith::CmpIOp>(predicate, a, b);
  }
  Value select(Value condition, Value a, Value b) const {
    return make<mlir::arith::SelectOp>(condition, a, b);
  }
  Value both(Value a, Value b) const { // a null condition is true
    return !a ? b : make<mlir::arith::AndIOp>(a, b);
  }
  /// a within [0, size - 1]: any index for an empty dimension, which nothing is read from.
  Value clamp(Value a, Value size) const {
    Value last = sub(size, constant(1));
    a = make<mlir::arith::MinSIOp>(a, last);
    return make<mlir::arith::MaxSIOp>(a, constant(0));
  }
  /// An index from an integer of the kernel.
  Value fromInteger(Value integer, bool isUnsigned) const {
    return isUnsigned ? make<mlir::arith::IndexCastUIOp>(builder.getIndexType(), integer)
                      : make<mlir::arith::IndexCastOp>(builder.getIndexType(), integer);
  }

  template <typename Op, typename... Args> Value make(Args &&...args) const {
    return builder.createOrFold<Op>(location, std::forward<Args>(args)...);
  }

  ElementContext &context;
  mlir::OpBuilder &builder;
  mlir::Location location;
};

inline mlir::RankedTensorType rankedType(mlir::Value tensor) {
  return mlir::dyn_cast<mlir::RankedTensorType>(tensor.getType());
}

/// Whether operands and results are ranked tensors (or absent) with elements that kernels have.
inline bool hasKernelTypes(mlir::Operation *op) {
  auto isKernelValue = [](mlir::Value value) {
    if (mlir::isa<mlir::NoneType>(value.getType()))
      return true;
    auto type = rankedType(value);
    return type && kernelElementType(type.getElementType());
  };
  return llvm::all_of(op->getOperands(), isKernelValue) &&
         llvm::all_of(op->getResults(), isKernelValue);
}

/// The zero of a tensor's elements, as kernels hold them.
inline mlir::Value zeroElement(ElementContext &context, mlir::Value tensor) {
  mlir::Type type = kernelElementType(rankedType(tensor).getElementType());
  return context.builder.create<mlir::arith::ConstantOp>(context.location,
                                                         context.builder.getZeroAttr(type));
}

/// The element that `read` gives where `inside` is true, `otherwise` elsewhere. A branch where the
/// element may not be touched otherwise; else a read, whose indices are clamped, and a select.
inline mlir::Value readWhere(const IndexCode &code, mlir::Value inside, bool asBranch,
                             mlir::Value otherwise, llvm::function_ref<mlir::Value()> read) {
  if (!asBranch) {
    mlir::Value element = read();
    return element ? code.select(inside, element, otherwise) : element;
  }
  auto branch = code.builder.create<mlir::scf::IfOp>(code.location, otherwise.getType(), inside,
                                                     /*withElseRegion=*/true);
  mlir::OpBuilder::InsertionGuard guard(code.builder);
  code.builder.setInsertionPointToStart(branch.thenBlock());
  code.builder.create<mlir::scf::YieldOp>(code.location, read());
  code.builder.setInsertionPointToStart(branch.elseBlock());
  code.builder.create<mlir::scf::YieldOp>(code.location, otherwise);
  return branch.getResult(0);
}

} // namespace tensmith::graph
