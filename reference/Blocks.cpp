// Reference evaluation of block_values and block_product: numbers in blocks of few bits are what
// base/BlockFormats.h says of their format.
#include "reference/Blocks.h"

#include "base/BlockFormats.h"
#include "reference/Elements.h"
#include "reference/Workspace.h"

namespace tensmith::reference {
namespace {

/// Rows of bytes and the numbers in each.
struct Rows {
  const BlockFormat *format = nullptr;
  const HostTensor &blocks;
  int64_t bytes = 0, columns = 0;

  void decode(int64_t row, float *to) const {
    const std::byte *from = blocks.data() + row * bytes;
    for (int64_t at = 0; at < bytes; at += format->bytes, to += format->elements)
      decodeBlock(*format, from + at, to);
  }
};

Rows rowsOf(Workspace &workspace, const Invocation &invocation, size_t operand) {
  Rows rows{nullptr, workspace.operand(operand, "blocks")};
  rows.format = findBlockFormat(invocation.attributes.string("format"));
  if (!rows.format)
    workspace.rejectAttribute("format", "is none of blocks");
  workspace.require(rows.blocks.type() == DataType::U8 && rows.blocks.rank() > 0, "blocks",
                    "must be rows of u8");
  if (!workspace.ok())
    return rows;
  rows.bytes = rows.blocks.shape().back();
  workspace.require(rows.bytes % rows.format->bytes == 0, "blocks",
                    "must have rows of whole blocks");
  rows.columns = rows.bytes / rows.format->bytes * rows.format->elements;
  return rows;
}

} // namespace

Outcome evaluateBlockValues(const Invocation &invocation) {
  Workspace workspace(invocation);
  Rows rows = rowsOf(workspace, invocation, 0);
  if (!workspace.ok())
    return workspace.status();
  Shape shape = rows.blocks.shape();
  shape.back() = rows.columns;
  HostTensor y = workspace.allocate(DataType::F32, shape);
  for (int64_t row = 0; workspace.ok() && row * rows.columns < y.size(); ++row)
    rows.decode(row, y.as<float>().data() + row * rows.columns);
  return workspace.finish(std::move(y));
}

Outcome evaluateBlockProduct(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  Rows rows = rowsOf(workspace, invocation, 1);
  workspace.require(x.type() == DataType::F32 && x.rank() > 0 && x.shape().back() == rows.columns,
                    "x", "must be f32, with as many columns as a row of the blocks has numbers");
  if (!workspace.ok())
    return workspace.status();
  int64_t count = rows.blocks.shape()[0];
  Shape shape = x.shape();
  shape.back() = count;
  HostTensor y = workspace.allocate(DataType::F32, shape);
  std::vector<float> row(size_t(workspace.ok() ? rows.columns : 0));
  if (!workspace.ok())
    return workspace.status();
  for (int64_t n = 0; n < count && y.size() > 0; ++n) {
    rows.decode(n, row.data());
    for (int64_t m = 0; m < y.size() / count; ++m) {
      double sum = 0;
      for (int64_t k = 0; k < rows.columns; ++k)
        sum += double(x.as<float>()[size_t(m * rows.columns + k)]) * double(row[size_t(k)]);
      y.setDouble(m * count + n, sum);
    }
  }
  return workspace.finish(std::move(y));
}

} // namespace tensmith::reference
