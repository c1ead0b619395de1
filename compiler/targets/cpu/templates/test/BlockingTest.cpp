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

// Breaks if rows are left out or in two tiles, if the last tile has few rows that the one before
// could share, or if a tile has more than fit into one.
TEST(Blocking, RowsOfAnOpenSize) {
  MLIRContext context;
  context.loadDialect<arith::ArithDialect>();
  Location location = UnknownLoc::get(&context);
  for (int64_t height : {1, 2, 3, 4, 5, 6, 8, 12}) {
    Block block;
    OpBuilder builder(&context);
    builder.setInsertionPointToEnd(&block);
    IndexMath math(builder, location);
    Blocking cut =
        Blocking::ofRows(math, block.addArgument(builder.getIndexType(), location), height);
    for (int64_t rows = 0; rows < 40; ++rows) {
      int64_t tiles = numberOf(cut.tiles, rows);
      EXPECT_EQ(tiles, (rows + height - 1) / height);
      std::vector<int64_t> first;
      for (int64_t tile = 0; tile <= tiles; ++tile)
        first.push_back(numberOf(cut.firstRow(math, math.constant(tile)), rows));
      EXPECT_EQ(first.front(), 0);
      EXPECT_EQ(first.back(), rows);
      for (int64_t tile = 0; tile < tiles; ++tile) {
        int64_t size = first[tile + 1] - first[tile];
        EXPECT_GT(size, 0) << height << " " << rows << " " << tile;
        EXPECT_LE(size, height) << height << " " << rows << " " << tile;
        if (height == 6 && tiles > 1)
          EXPECT_GT(size, 2) << rows << " " << tile;
      }
    }
  }
}

} // namespace
} // namespace tensmith::kernel
