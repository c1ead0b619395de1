// Operators that read an image between its elements, as graphs of reads at indices, which have
// derivatives by the image and by the positions: grid_sample, roi_align, deform_conv; and
// max_roi_pool, whose regions are whole elements.
#pragma once

#include "compiler/graph/Gradient.h"

namespace tensmith::graph::sampling {

// Rules of the operators that they are called after; see ExpandRule.
mlir::LogicalResult gridSample(const GradientCode &code, mlir::Operation *op,
                               llvm::SmallVectorImpl<mlir::Value> &results);
mlir::LogicalResult roiAlign(const GradientCode &code, mlir::Operation *op,
                             llvm::SmallVectorImpl<mlir::Value> &results);
mlir::LogicalResult deformConv(const GradientCode &code, mlir::Operation *op,
                               llvm::SmallVectorImpl<mlir::Value> &results);
mlir::LogicalResult maxRoiPool(const GradientCode &code, mlir::Operation *op,
                               llvm::SmallVectorImpl<mlir::Value> &results);

} // namespace tensmith::graph::sampling
