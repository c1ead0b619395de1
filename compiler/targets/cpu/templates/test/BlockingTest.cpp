// How rows of an open size are cut into tiles, at the sizes that runs may have.
#include "compiler/targets/cpu/templates/Blocking.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tensmith::kernel {
namespace {

/// The value's number where `rows` is a block argument of that one.
int64_t numberOf(Value value, int64_t rows) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return rows;
  SmallVector<Attribute> operands;
  for (Value operand : op->getOperands())
    operands.push_back(operand.getType().isInteger(1)
                           ? Attribute(BoolAttr::get(op->getContext(), numberOf(operand, rows)))
                           : IntegerAttr::get(operand.getType(), numberOf(operand, rows)));
  SmallVector<OpFoldResult> results;
  EXPECT_TRUE(succeeded(op->fold(operands, results))) << op->getName().getStringRef().str();
  Attribute result = llvm::dyn_cast_if_present<Attribute>(results.front());
  return result ? cast<IntegerAttr>(result).getValue().getZExtValue()
                : numberOf(cast<Value>(results.front()), rows);
}

// Breaks if rows are left out or in two tiles, or if the last tile has few rows that the one before
// could share: with code for 6, 4, 2 and 1 rows, 8 are 4 and 4.
TEST(Blocking, RowsOfAnOpenSize) {
  MLIRContext context;
  context.loadDialect<arith::ArithDialect>();
  Location location = UnknownLoc::get(&context);
  for (int64_t height : {1, 2, 3, 4, 5, 6, 8, 12}) {
    Block block;
    OpBuilder builder(&context);
    builder.setInsertionPointToEnd(&block);
    IndexMath math(builder, location);
    Value argument = block.addArgument(builder.getIndexType(), location);
    Blocking cut = Blocking::ofRows(math, argument, height);
    int64_t next = height > 1 ? int64_t(llvm::bit_floor(uint64_t(height - 1))) : 0;
    for (int64_t rows = 0; rows < 40; ++rows) {
      std::vector<int64_t> wanted(rows / height, height), found;
      int64_t rest = rows % height;
      if (rest && !wanted.empty() && height + rest <= 2 * next) {
        wanted.back() = next;
        rest += height - next;
      }
      if (rest)
        wanted.push_back(rest);
      int64_t tiles = numberOf(cut.tiles, rows), first = 0;
      for (int64_t tile = 0; tile < tiles; ++tile) {
        EXPECT_EQ(numberOf(cut.firstRow(math, math.constant(tile)), rows), first);
        int64_t end = numberOf(cut.firstRow(math, math.constant(tile + 1)), rows);
        found.push_back(end - std::exchange(first, end));
      }
      EXPECT_EQ(found, wanted) << height << " " << rows;
    }
  }
}

} // namespace
} // namespace tensmith::kernel
