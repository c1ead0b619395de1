/* The contract between a module and a library that does operators for it, such as
 * libtensmith_onednn.so. It stands alone, in C.
 *
 * A library exports kernels of KernelAbi.h, one for each kind of operator that it does, by the
 * names below; a module names one as "onednn:tensmith_matmul". Where a kernel of the module's own
 * knows all constants, these are told everything by `call->sizes`, in the order of the
 * enumerations: sizes, attributes, and the steps that follow, which are done to each element of the
 * result. Operands are f32, but where an enumeration says otherwise: the operator's own, then that
 * of each step that has one, then the result, which may be the same memory as the operand of a step
 * of the result's shape. Real numbers are given as the bits of a double.
 *
 * A library uses one thread for each call of a body: it spreads its work by
 * `call->services->parallel_for`, on the session's threads. */
#ifndef TENSMITH_RUNTIME_LIBRARY_ABI_H
#define TENSMITH_RUNTIME_LIBRARY_ABI_H

#include "runtime/KernelAbi.h"

#define TENSMITH_MATMUL "tensmith_matmul"
#define TENSMITH_CONVOLUTION "tensmith_convolution"
#define TENSMITH_SOFTMAX "tensmith_softmax"
#define TENSMITH_LAYER_NORM "tensmith_layer_norm"
#define TENSMITH_ALL_REDUCE_MEAN "tensmith_all_reduce_mean"
/* Not a kernel: a library that keeps anything of weights which calls say are `kept` exports
 * `void tensmith_forget(const void *begin, const void *end)`, and forgets what it has of weights in
 * that memory, where others may lie from then on. A module calls it when it is unloaded. */
#define TENSMITH_FORGET "tensmith_forget"
typedef void (*TensmithForget)(const void *begin, const void *end);

/* Code 0 of `fail`: the library refused; the detail is its own status. */
#define TENSMITH_FAIL_REFUSED 0
/* Code 1: it was to be done by several processes together, and nobody told the library of them. */
#define TENSMITH_FAIL_UNTOLD 1

/* operands: left, right. `batch` products of [rows, depth] by [depth, columns], each dense; of a
 * transposed operand the two sizes have changed places in memory. The right one is the same for all
 * products unless `right_varies`, and the same in all calls with its address if `right_kept`. */
enum TensmithMatMul {
  TENSMITH_MATMUL_BATCH,
  TENSMITH_MATMUL_ROWS,
  TENSMITH_MATMUL_COLUMNS,
  TENSMITH_MATMUL_DEPTH,
  TENSMITH_MATMUL_LEFT_TRANSPOSED,
  TENSMITH_MATMUL_RIGHT_TRANSPOSED,
  TENSMITH_MATMUL_RIGHT_VARIES,
  TENSMITH_MATMUL_RIGHT_KEPT,
  TENSMITH_MATMUL_STEPS /* their number; then TensmithStep for each */
};

/* operands: images [images, in_height, in_width, in_channels], weights [out_channels, in_channels /
 * group, kernel_height, kernel_width], which are the same in all calls with their address if
 * `weights_kept`. */
enum TensmithConvolution {
  TENSMITH_CONVOLUTION_IMAGES,
  TENSMITH_CONVOLUTION_IN_HEIGHT,
  TENSMITH_CONVOLUTION_IN_WIDTH,
  TENSMITH_CONVOLUTION_IN_CHANNELS,
  TENSMITH_CONVOLUTION_OUT_HEIGHT,
  TENSMITH_CONVOLUTION_OUT_WIDTH,
  TENSMITH_CONVOLUTION_OUT_CHANNELS,
  TENSMITH_CONVOLUTION_KERNEL_HEIGHT,
  TENSMITH_CONVOLUTION_KERNEL_WIDTH,
  TENSMITH_CONVOLUTION_STRIDE_HEIGHT,
  TENSMITH_CONVOLUTION_STRIDE_WIDTH,
  TENSMITH_CONVOLUTION_DILATION_HEIGHT,
  TENSMITH_CONVOLUTION_DILATION_WIDTH,
  TENSMITH_CONVOLUTION_PAD_TOP,
  TENSMITH_CONVOLUTION_PAD_LEFT,
  TENSMITH_CONVOLUTION_PAD_BOTTOM,
  TENSMITH_CONVOLUTION_PAD_RIGHT,
  TENSMITH_CONVOLUTION_GROUP,
  TENSMITH_CONVOLUTION_WEIGHTS_KEPT,
  TENSMITH_CONVOLUTION_STEPS /* their number; then TensmithStep for each */
};

/* operands: [rows, columns]; along the columns. */
enum TensmithSoftmax { TENSMITH_SOFTMAX_ROWS, TENSMITH_SOFTMAX_COLUMNS };

/* operands: [rows, columns], scale [columns], bias [columns] if `biased`. */
enum TensmithLayerNorm {
  TENSMITH_LAYER_NORM_ROWS,
  TENSMITH_LAYER_NORM_COLUMNS,
  TENSMITH_LAYER_NORM_BIASED,
  TENSMITH_LAYER_NORM_EPSILON /* bits of a double */
};

/* operands: of any shape, of f32, or of f64 if `wide`. The result is the mean over the processes
 * that run the module together, and may be the operand's memory. */
enum TensmithAllReduceMean { TENSMITH_ALL_REDUCE_MEAN_COUNT, TENSMITH_ALL_REDUCE_MEAN_WIDE };

/* What is done to an element y of the result, in column (or channel) j: two numbers each, the kind
 * and the bits of a double (0 where it has none). */
enum TensmithStep {
  TENSMITH_STEP_SCALE,         /* y * number */
  TENSMITH_STEP_SCALE_COLUMNS, /* y * operand[j] */
  TENSMITH_STEP_ADD_COLUMNS,   /* y + operand[j] */
  TENSMITH_STEP_ADD,           /* y + operand, of the result's shape */
  TENSMITH_STEP_SUBTRACT_FROM, /* operand - y */
  TENSMITH_STEP_RELU,          /* max(y, 0) */
  TENSMITH_STEP_GELU,          /* y / 2 * (1 + erf(y / sqrt(2))) */
  TENSMITH_STEP_TANH,
  TENSMITH_STEP_SIGMOID,
  TENSMITH_STEP_SUBTRACT /* y - operand */
};

#endif
