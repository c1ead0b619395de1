// Convolutions that one kernel computes one after the other, a band of lines at a time, so that the
// images between them never leave the cache: depthwise and pointwise ones, inverted residuals,
// bottlenecks.
//
// An item is a band of lines of the last convolution's result. Of each image before, the thread
// holds as many lines as a band's windows reach over (LineBuffer): the ones that the next
// convolution reads. Bands of a thread follow one another, so that only the lines that are new are
// computed; at the beginning of a thread's part, and of each picture, all of them are. (The sliding
// window of Ragan-Kelley et al., "Halide", 2013; Alwani et al., "Fused-Layer CNN Accelerators",
// 2016.) Sums are the ones of separate kernels, in the same order.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/kernel/Machine.h"
#include "compiler/kernel/Space.h"

#include "llvm/ADT/SetVector.h"

#include <optional>

namespace tensmith::kernel {

namespace choice {
/// Of a chain of convolutions: lines of its result in a work item.
inline constexpr Choice bandLines{"band_lines", 1, kAny};
} // namespace choice

/// A convolution whose result, through element-wise operators, is the image of another one.
struct ChainLink {
  graph::ConvOp conv;
  llvm::SetVector<mlir::Operation *> elementwise;
};

/// What the products of a convolution's sums are filled up to a multiple of, as its weights are
/// laid out or will be; nothing where it gets no tile.
using MultipleOf = llvm::function_ref<std::optional<int64_t>(graph::ConvOp)>;
/// The convolution that computes the image of `conv`, both of known sizes and with tiles that read
/// pixels where they lie. Who else uses what is between is not looked at.
std::optional<ChainLink> linkBefore(graph::ConvOp conv, MultipleOf multipleOf);
/// Whether in the kernel's region the image is computed by such a convolution, whose own image is
/// so, too, or in memory.
bool computesImage(graph::ConvOp conv);
/// The convolutions up to the root, which comes last; none where it is the only one.
llvm::SmallVector<graph::ConvOp> chainBehind(mlir::Operation *root);

/// What a convolution reads along the lines of its image.
struct LineWindow {
  int64_t stride, pad, extent, lines; // extent: of a window; lines: of the image
  explicit LineWindow(graph::ConvOp conv);
};

/// How the lines of the last result are cut, and what is held of the images before.
struct ChainBands {
  int64_t lines, bands; // of a band, and of a picture
  int64_t highBands;    // of so many lines; the others have one fewer
  /// Of each image between: lines, and bytes of them, in whole cache lines.
  llvm::SmallVector<int64_t> held, bytesOf;
  int64_t bytes; // of them all
  /// Bands that a thread should do at least, beside which those lines count little that the bands
  /// of two threads both need.
  int64_t leastBands;

  ChainBands(llvm::ArrayRef<graph::ConvOp> chain, const Machine &machine, const Point &asked);

private:
  void hold(llvm::ArrayRef<graph::ConvOp> chain, int64_t lines);
};

/// Of a tensor of known sizes.
int64_t bytesOf(mlir::Value value);

/// What it saves to compute `chain`, in the order of their results, in one kernel, in cycles of a
/// core: less than nothing where separate kernels are faster.
double cyclesSavedByChain(llvm::ArrayRef<graph::ConvOp> chain, const Machine &machine);

/// Rows that a register tile has where pixels come in lines of so many: the most, up to `most`, of
/// which, with tiles of one row fewer, any number of lines is made.
int64_t rowsOfLines(int64_t pixels, int64_t most);

} // namespace tensmith::kernel
