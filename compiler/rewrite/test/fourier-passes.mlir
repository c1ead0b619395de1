// RUN: tensmith-opt --graph-fourier-passes --cse --split-input-file %s | FileCheck %s
// Breaks when a pass of a layer with large windows stays plain, when passes of a layer don't share their transforms, or when
// one that transforms can't compute, or not faster, is taken.

// CHECK-LABEL: func @step
// CHECK-DAG: %[[X:.*]] = graph.fourier_input %{{.*}} {{.*}}tile = array<i64: [[T:[0-9]+]], [[T]]>
// CHECK-DAG: graph.matmul %[[X]], %{{.*}}
// CHECK-DAG: %[[G:.*]] = graph.fourier_gradient {{.*}}tile = array<i64: [[T]], [[T]]>
// CHECK-DAG: graph.fourier_output
// CHECK-DAG: graph.matmul %[[G]], %{{.*}}
// CHECK-DAG: graph.fourier_image_gradient
// CHECK-DAG: graph.matmul %{{.*}}, %[[G]]
// CHECK-DAG: graph.fourier_weights_gradient
// CHECK-NOT: graph.conv
func.func @step(%x: tensor<16x64x40x40xf32>, %w: tensor<64x64x11x11xf32>, %g: tensor<16x64x40x40xf32>)
    -> (tensor<16x64x40x40xf32>, tensor<16x64x40x40xf32>, tensor<64x64x11x11xf32>) {
  %none = graph.none : none
  %y = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 5, 5, 5, 5>, dilations = array<i64: 1, 1>}
    : (tensor<16x64x40x40xf32>, tensor<64x64x11x11xf32>, none) -> tensor<16x64x40x40xf32>
  %dx = graph.conv_transpose %g, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 5, 5, 5, 5>, dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>}
    : (tensor<16x64x40x40xf32>, tensor<64x64x11x11xf32>, none) -> tensor<16x64x40x40xf32>
  %dw = graph.conv_weights_gradient %x, %g {kernel = array<i64: 11, 11>, strides = array<i64: 1, 1>, pads = array<i64: 5, 5, 5, 5>, dilations = array<i64: 1, 1>}
    : (tensor<16x64x40x40xf32>, tensor<16x64x40x40xf32>) -> tensor<64x64x11x11xf32>
  return %y, %dx, %dw : tensor<16x64x40x40xf32>, tensor<16x64x40x40xf32>, tensor<64x64x11x11xf32>
}

// -----

// CHECK-LABEL: func @strided
// CHECK-NOT: fourier
func.func @strided(%x: tensor<16x64x41x41xf32>, %w: tensor<64x64x11x11xf32>) -> tensor<16x64x16x16xf32> {
  %none = graph.none : none
  %y = graph.conv %x, %w, %none {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<16x64x41x41xf32>, tensor<64x64x11x11xf32>, none) -> tensor<16x64x16x16xf32>
  return %y : tensor<16x64x16x16xf32>
}

// -----

// Constant weights are the other rewrite's, which looks at them.
// CHECK-LABEL: func @constant
// CHECK-NOT: fourier
func.func @constant(%x: tensor<16x64x40x40xf32>) -> tensor<16x64x30x30xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x64x11x11xf32>} : () -> tensor<64x64x11x11xf32>
  %y = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<16x64x40x40xf32>, tensor<64x64x11x11xf32>, none) -> tensor<16x64x30x30xf32>
  return %y : tensor<16x64x30x30xf32>
}

// -----

// Hardly anything but weights.
// CHECK-LABEL: func @small
// CHECK-NOT: fourier
func.func @small(%x: tensor<1x256x4x4xf32>, %w: tensor<256x256x3x3xf32>) -> tensor<1x256x2x2xf32> {
  %none = graph.none : none
  %y = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x256x4x4xf32>, tensor<256x256x3x3xf32>, none) -> tensor<1x256x2x2xf32>
  return %y : tensor<1x256x2x2xf32>
}
