// Matrix products and convolutions seen alike, as what the register tile computes:
//
//   C[batch, row, column] = sum over taps, k of A[batch, row, tap, k] * B[batch, tap * depth + k,
//   column]
//
// the batch-reduce GEMM of Georganas et al., "Harnessing Deep Learning via a Single Building Block"
// (2019). Of a matrix product there is one tap; of a convolution the taps are the positions of the
// window, a row is an output pixel and the batch is the group. B lies in panels of `width` columns
// (graph.pack).
//
// Where the machine adds up `step` products of small integers in one instruction, so many
// consecutive rows of B lie element by element side by side: B is packed as a matrix [depth / step,
// columns * step].
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/kernel/Machine.h"
#include "compiler/kernel/Space.h"

#include "llvm/ADT/SetVector.h"

#include <optional>

namespace tensmith::graph {
class GraphBuilder;
}

namespace tensmith::kernel {

namespace choice {
/// 1: of a product that a matrix unit could do, it does.
inline constexpr Choice matrixUnit{"matrix_unit", 0, 1, 1, /*bounded=*/false};
/// Of a register tile: its rows (pixels, of a depthwise convolution), and its vectors of columns.
inline constexpr Choice tileRows{"tile_rows", 1, 16};
inline constexpr Choice panelVectors{"panel_vectors", 1, 4};
} // namespace choice

/// Below so many input channels of a group a convolution's rows are copied: a tap's loop would be
/// shorter than the work of finding its pixels.
inline constexpr int64_t kFewChannels = 8;

/// Columns of a panel of a packed right operand whose products accumulate in elements of so many
/// bytes.
int64_t panelWidth(const Machine &machine, int64_t accumulatorBytes, const Point &asked = {});
/// Rows of the register tile that goes with it: 6 x 2 accumulators, 2 vectors of B and a broadcast
/// of A are 15 of 16 registers; 6 x 4 + 4 + 1 are 29 of 32.
inline constexpr int64_t kTileRows = 6;

/// An operand as it lies in memory: 16 bits that are widened to f32 right where it is multiplied,
/// or the operand itself.
mlir::Value storedOperand(mlir::Value operand);
mlir::Value storedLeft(mlir::Operation *root);
/// The right operand: as stored, or bytes that are widened to i16.
mlir::Value storedRight(mlir::Operation *root);

struct Contraction {
  mlir::Operation *root;
  mlir::Value left;   // A, as stored: [..., rows, depth], or an image [N, spatial..., channels]
  mlir::Value panels; // B: a block argument [batch..., panels, taps * depth / step, width * step]
  int64_t width;      // columns of a panel
  int64_t step;       // products that are added up at once
  int64_t multiple;   // of products that rows of A have: panels may be filled up with rows of zeros
  mlir::Type accumulator; // the kernel element type of the result
  mlir::Value bias;       // [columns], of a convolution, or null

  graph::ConvOp conv() const { return llvm::dyn_cast<graph::ConvOp>(root); }
  mlir::RankedTensorType result() const {
    return llvm::cast<mlir::RankedTensorType>(root->getResult(0).getType());
  }
};

/// The contraction that a matmul or a channels-last convolution is, if its right operand is
/// unpacked from a block argument: directly for a matmul; for a convolution through the chain that
/// `unpackedWeights` builds.
std::optional<Contraction> matchContraction(mlir::Operation *root);

/// Whether the matmul or the channels-last convolution is a contraction once its right operand is
/// packed: its types are summed up in 32 bits at least, and its stacks are the result's.
bool isContraction(mlir::Operation *root);

/// Attention: the left operand of a product is a softmax of another one, scaled and masked by
/// element-wise operators of the same shape.
struct AttentionScores {
  graph::MatMulOp product;
  graph::SoftmaxOp softmax;
  llvm::SetVector<mlir::Operation *> elementwise; // before and after the softmax
};

/// Of a softmax along the last dimension of a stack of matrices of f32, with what is before it.
std::optional<AttentionScores> scoresBehind(graph::SoftmaxOp softmax);
/// Of a product of stacks of matrices of f32. Who else uses what is between is not looked at.
std::optional<AttentionScores> matchScores(mlir::Operation *root);

/// The only operator that the predicate accepts before `value`, from which that is computed by
/// element-wise operators of the same shape, which are collected; null where there is none, or
/// several.
mlir::Operation *onlyBehind(mlir::Value value, llvm::function_ref<bool(mlir::Operation *)> accepts,
                            llvm::SetVector<mlir::Operation *> &elementwise);
/// Those of the operators that are computed from `source` by others of them.
llvm::SetVector<mlir::Operation *> dependentOn(mlir::Operation *source,
                                               const llvm::SetVector<mlir::Operation *> &operators);

/// The instruction that adds up its products by its step; null: they are added one by one.
const Intrinsic *productsOf(const Contraction &contraction, const Machine &machine);
/// The same of a matrix unit.
const Intrinsic *tileProductsOf(const Contraction &contraction, const Machine &machine);
/// Steps of a register tile whose operands are loaded together (RegisterTile.h), and the rows of
/// the tile that leaves registers for them.
struct Burst {
  int64_t rows, steps;
};
/// None where operands are loaded as they are multiplied. Rows of A that are turned have none.
std::optional<Burst> burstOf(const Contraction &contraction, const Machine &machine);
/// How many products are added up at once where operands have these elements.
int64_t stepOf(const Machine &machine, mlir::Type left, mlir::Type right, mlir::Type accumulator);
/// The same of a product or a convolution, whose operands are stored so.
int64_t stepOf(const Machine &machine, mlir::Operation *root);
/// The same of a convolution of small groups, each lane of which has a row of its own.
int64_t stepOfGroups(const Machine &machine, graph::ConvOp conv);
/// Whether a matrix unit may do the product or the convolution, whose operands are stored so; its
/// panels are as wide as two tiles, and filled up to `productsOfTile`.
bool suitsMatrixUnit(const Machine &machine, mlir::Operation *root);
/// Products of bf16 in the time of one of f32, about.
double bfloatRate(const Machine &machine);
/// That are added up by one instruction of the unit.
int64_t productsOfTile(int64_t step);
/// Products that are summed for an element of the result, if either operand of the product or the
/// convolution says so as a number; ShapedType::kDynamic otherwise.
int64_t depthOf(mlir::Operation *root);

/// A stack of matrices [..., depth, columns], filled up to a multiple of rows, with `step` of them
/// side by side, [..., rows / step, columns * step]; depth must be known.
mlir::Value interleaved(graph::GraphBuilder &builder, mlir::Value matrix, int64_t step,
                        int64_t multiple);
/// The inverse.
mlir::Value deinterleaved(graph::GraphBuilder &builder, mlir::Value lines, int64_t step,
                          int64_t depth);

/// The permutation of `rank` dimensions that changes the last two.
llvm::SmallVector<int64_t> swapLast(int64_t rank);
/// Whether the transposition does so: it is one of each matrix of a stack.
bool swapsLast(graph::TransposeOp transpose);

/// The weights [M, C/group, window...] of a convolution in the form of its right operand [group,
/// taps * C/group, M/group].
mlir::Value weightsAsMatrix(graph::GraphBuilder &builder, graph::ConvOp conv, mlir::Value weights);
/// The inverse of `weightsAsMatrix`: what stands in the kernel's region behind the unpack.
mlir::Value matrixAsWeights(graph::GraphBuilder &builder, graph::ConvOp conv, mlir::Value matrix);

/// The weights [C, 1, window...] of a depthwise convolution as [taps, C], and back.
mlir::Value depthwiseWeightsAsTaps(graph::GraphBuilder &builder, mlir::Value weights);
mlir::Value tapsAsDepthwiseWeights(graph::GraphBuilder &builder, graph::ConvOp conv,
                                   mlir::Value taps);
/// Whether the pixels of a row of the window lie side by side in the image, with their channels.
bool readsWholeRows(graph::ConvOp conv);
/// Whether rows are the image's pixels, one after the other: of a window of one, without padding.
bool isPointwise(graph::ConvOp conv);
/// Whether its window has more than a pixel.
bool hasWindow(graph::ConvOp conv);
/// Whether a convolution of an image in memory has its rows in place: its channels make whole
/// multiples, and are many, or side by side for the whole width of the window.
bool readsPixelsInPlace(graph::ConvOp conv, int64_t multiple);
/// What a convolution reads the pixels of: its image as stored.
mlir::Value imageInMemory(graph::ConvOp conv);
/// One channel in and one out of each group.
bool isDepthwise(graph::ConvOp conv);
/// The block argument [taps, C] that a depthwise convolution's weights come from through
/// `tapsAsDepthwiseWeights`, or null.
mlir::Value matchDepthwiseTaps(graph::ConvOp conv);

/// As many channels out of each group as into it, 2, 4, 8 or 16: vectors of channels have whole
/// groups, or groups whole vectors, and few.
bool hasSmallGroups(graph::ConvOp conv);
/// Taps of the window.
int64_t tapCount(graph::ConvOp conv);
/// Taps up to which a window is straight code, whose pointers are kept.
inline constexpr int64_t kMostStraightTaps = 49;
/// Whether the convolution, channels-last of small groups in f32, has so few products for an
/// element that they are straight code.
bool fitsSmallGroups(graph::ConvOp conv);
/// The same, and its weights are f32 in memory as well.
bool takesSmallGroups(graph::ConvOp conv);
/// Whether pairs of its products are added up in bf16: of groups of at least eight channels, where
/// image and weights are bf16 or, being f32 both, were rounded.
bool takesPairsOfGroups(graph::ConvOp conv, const Machine &machine);
/// The weights [C, C / group, window...] of small groups as a matrix [taps * C / group, C], and
/// back.
mlir::Value smallGroupsAsMatrix(graph::GraphBuilder &builder, mlir::Value weights);
mlir::Value matrixAsSmallGroups(graph::GraphBuilder &builder, graph::ConvOp conv,
                                mlir::Value matrix);
/// The block argument of panels [C / width, taps * C / group, width] that such weights come from
/// through an unpack and `matrixAsSmallGroups`, or null. Of bf16 two rows of a panel lie side by
/// side, as `interleaved` puts them.
mlir::Value matchSmallGroupPanels(graph::ConvOp conv);

} // namespace tensmith::kernel
