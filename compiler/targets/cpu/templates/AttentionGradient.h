// Attention's gradient as one kernel, in which no matrix of scores is ever in memory:
//
//   x = f(q k^T), p = softmax(x), g = dy v^T     rows of a block of queries, against all keys
//   r = sum of g p over a row, d = p (g - r)
//   dq = d k                                     of the block's own rows
//   dk = d^T q, dv = p^T dy                      sums over all blocks
//
// The scores are made again on the way back (Dao, "FlashAttention-2", 2023, section 3.1). Rows stay
// whole as they do on the way there (AttentionRows.h), so that not even a softmax's sums are kept
// in between. Where more than the softmax reads scores (the derivative of a soft cap does), the
// product's rows are kept beside what becomes of them. A work item is one matrix of the stack, one
// head: its queries pass a block at a time, the block's rows lie in the thread's own memory, and
// behind them the sums over blocks, in as many bytes as dk and dv have. What is element-wise
// between the products is any code.
//
// The gradient of a bias that several matrices of the stack share is a sum of their rows. Then a
// work item is all matrices that are summed, one after the other: to each row of the sum, which is
// in memory, that of the next matrix is added. That of a bias of each matrix's own is its rows,
// which are stored. Where no sum goes over queries, blocks of them are work items of their own.
#pragma once

#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

struct AttentionGradient {
  mlir::Value scores, weights; // the softmax's operand and result
  bool readsScores = false;    // whether anything else is computed from the product of scores
  /// Products that the rows are made of; of the first the scores are.
  llvm::SmallVector<Contraction> made;
  llvm::SmallVector<graph::ReduceSumOp> sums; // over a row, in order
  /// Products of the kernel's results: of rows, and of rows that lie transposed.
  llvm::SmallVector<Contraction> ofRows, overRows;
  /// Results that are sums of rows of matrices, all of them over the same dimensions of the stack.
  llvm::SmallVector<graph::ReduceSumOp> overMatrices;
  llvm::SmallVector<mlir::Value> stored; // results that are rows

  bool cutsQueries() const { return overRows.empty(); }
  llvm::ArrayRef<int64_t> summedDimensions() const {
    graph::ReduceSumOp sum = overMatrices.empty() ? nullptr : overMatrices.front();
    return sum ? sum.getAxes() : llvm::ArrayRef<int64_t>();
  }
};

/// Of a kernel's region that has this form.
std::optional<AttentionGradient> matchAttentionGradient(graph::KernelOp kernel);

extern const Template kAttentionGradient;

} // namespace tensmith::kernel
