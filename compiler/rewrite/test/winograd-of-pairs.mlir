// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-winograd{precision=bf16}))' | FileCheck %s
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-winograd{precision=bf16 pairs-of-halves=true}))' | FileCheck %s --check-prefix=PAIRS
// Breaks when the direct product, where it would multiply pairs of bf16, is held for as slow as one of f32: it then
// beats minimal filtering, which stays f32, up to larger layers.

// CHECK-LABEL: func @small
// CHECK: graph.winograd_input
// PAIRS-LABEL: func @small
// PAIRS-NOT: winograd
func.func @small(%x: tensor<1x20x20x32xf32>) -> tensor<1x20x20x32xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<32x32x3x3xf32>} : () -> tensor<32x32x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x20x20x32xf32>, tensor<32x32x3x3xf32>, none) -> tensor<1x20x20x32xf32>
  return %0 : tensor<1x20x20x32xf32>
}

// CHECK-LABEL: func @large
// PAIRS-LABEL: func @large
// PAIRS: graph.winograd_input
func.func @large(%x: tensor<1x32x32x64xf32>) -> tensor<1x32x32x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x64x3x3xf32>} : () -> tensor<64x64x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x32x32x64xf32>, tensor<64x64x3x3xf32>, none) -> tensor<1x32x32x64xf32>
  return %0 : tensor<1x32x32x64xf32>
}
