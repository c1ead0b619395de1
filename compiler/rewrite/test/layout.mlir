// RUN: tensmith-opt --graph-layout --split-input-file %s | FileCheck %s
// Breaks when a window operator stays channels-first, or a transposition is left between two of them.

// The bias of shape 5x1x1 is turned by a reshape, which costs nothing.
// CHECK-LABEL: func @chain
// CHECK: graph.transpose %arg0 {permutation = array<i64: 0, 2, 3, 1>}
// CHECK-NOT: graph.transpose
// CHECK: graph.conv {{.*}}layout = "channels_last"
// CHECK-NOT: graph.transpose
// CHECK: graph.add {{.*}}tensor<1x1x1x5xf32>) -> tensor<1x8x8x5xf32>
// CHECK-NOT: graph.transpose
// CHECK: graph.max_pool {{.*}}layout = "channels_last"
// CHECK-NOT: graph.transpose
// CHECK: graph.conv {{.*}}layout = "channels_last"
// CHECK-NEXT: graph.transpose {{.*}}permutation = array<i64: 0, 3, 1, 2>
// CHECK-NEXT: return
func.func @chain(%x: tensor<1x3x8x8xf32>, %w: tensor<5x3x3x3xf32>, %b: tensor<5x1x1xf32>, %v: tensor<4x5x1x1xf32>) -> tensor<1x4x4x4xf32> {
  %none = graph.none : none
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<5x3x3x3xf32>, none) -> tensor<1x5x8x8xf32>
  %1 = graph.add %0, %b : (tensor<1x5x8x8xf32>, tensor<5x1x1xf32>) -> tensor<1x5x8x8xf32>
  %2 = graph.max_pool %1 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x5x8x8xf32>) -> tensor<1x5x4x4xf32>
  %3 = graph.conv %2, %v, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x5x4x4xf32>, tensor<4x5x1x1xf32>, none) -> tensor<1x4x4x4xf32>
  return %3 : tensor<1x4x4x4xf32>
}

// -----

// Both sides of a residual sum are channels-last, so it is too.
// CHECK-LABEL: func @residual
// CHECK-COUNT-1: graph.transpose %arg0
// CHECK-NOT: graph.transpose
// CHECK: graph.add {{.*}} -> tensor<1x4x4x3xf32>
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: return
func.func @residual(%x: tensor<1x3x4x4xf32>, %w: tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32> {
  %none = graph.none : none
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>, none) -> tensor<1x3x4x4xf32>
  %1 = graph.conv %0, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>, none) -> tensor<1x3x4x4xf32>
  %2 = graph.add %0, %1 : (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  return %2 : tensor<1x3x4x4xf32>
}

// -----

// Moving the transposition of one constant behind the sum would make one of the other, without end.
// CHECK-LABEL: func @constants_on_both_sides
// CHECK: graph.add
// CHECK-NEXT: return
func.func @constants_on_both_sides() -> tensor<3x2xf32> {
  %x = graph.constant {value = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  %y = graph.constant {value = dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>} : () -> tensor<3x2xf32>
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = graph.add %0, %y : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// -----

// Of few channels a row of the window is read in one piece, which padding in the kernel would break.
// CHECK-LABEL: func @few_channels
// CHECK: %[[PADDED:.*]] = graph.pad {{.*}} {high = array<i64: 0, 1, 2, 0>, low = array<i64: 0, 3, 0, 0>}
// CHECK: graph.conv %[[PADDED]], {{.*}}pads = array<i64: 0, 0, 0, 0>
// CHECK-LABEL: func @many_channels
// CHECK-NOT: graph.pad
// CHECK: return
func.func @few_channels(%x: tensor<1x3x20x20xf32>, %w: tensor<8x3x5x5xf32>) -> tensor<1x8x20x18xf32> {
  %none = graph.none : none
  %y = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 3, 0, 1, 2>, dilations = array<i64: 1, 1>} : (tensor<1x3x20x20xf32>, tensor<8x3x5x5xf32>, none) -> tensor<1x8x20x18xf32>
  return %y : tensor<1x8x20x18xf32>
}
func.func @many_channels(%x: tensor<1x8x20x20xf32>, %w: tensor<8x8x5x5xf32>) -> tensor<1x8x20x18xf32> {
  %none = graph.none : none
  %y = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 3, 0, 1, 2>, dilations = array<i64: 1, 1>} : (tensor<1x8x20x20xf32>, tensor<8x8x5x5xf32>, none) -> tensor<1x8x20x18xf32>
  return %y : tensor<1x8x20x18xf32>
}

// -----

// What the way back reads is channels-last too, however many read it: nothing is transposed but the
// image, and sizes of 1 as [samples, channels, 1, 1] have are no order.
// CHECK-LABEL: func @read_by_several
// CHECK-COUNT-1: graph.transpose %arg0
// CHECK-NOT: graph.transpose
// CHECK: graph.conv {{.*}} -> tensor<2x8x8x4xf32>
// CHECK-NOT: graph.transpose
// CHECK: graph.reduce_sum {{.*}} -> tensor<1x1x1x4xf32>
// CHECK-NOT: graph.transpose
// CHECK: graph.conv
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: return
func.func @read_by_several(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x1x1xf32>, %v: tensor<4x4x1x1xf32>, %s: tensor<2x4xf32>) -> tensor<2x4x4x8xf32> {
  %none = graph.none : none
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<2x3x8x8xf32>, tensor<4x3x1x1xf32>, none) -> tensor<2x4x8x8xf32>
  %1 = graph.reduce_sum %0 {axes = array<i64: 0, 2, 3>, keepdims = true} : (tensor<2x4x8x8xf32>) -> tensor<1x4x1x1xf32>
  %2 = graph.sub %0, %1 : (tensor<2x4x8x8xf32>, tensor<1x4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %3 = graph.reshape %s : (tensor<2x4xf32>) -> tensor<2x4x1x1xf32>
  %4 = graph.mul %2, %3 : (tensor<2x4x8x8xf32>, tensor<2x4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %5 = graph.mul %4, %2 : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %6 = graph.slice %5 {starts = array<i64: 0, 0, 1, 0>, steps = array<i64: 1, 1, 2, 1>} : (tensor<2x4x8x8xf32>) -> tensor<2x4x4x8xf32>
  %7 = graph.conv %6, %v, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<2x4x4x8xf32>, tensor<4x4x1x1xf32>, none) -> tensor<2x4x4x8xf32>
  return %7 : tensor<2x4x4x8xf32>
}

// -----

// Two transpositions would cost more than vectors of channels win over vectors of an image's line.
// CHECK-LABEL: func @lone_pool
// CHECK-NEXT: %[[Y:.*]] = graph.max_pool %arg0 {
// CHECK-NOT: layout = "channels_last"
// CHECK-NEXT: return %[[Y]]
func.func @lone_pool(%x: tensor<1x16x40x40xf32>) -> tensor<1x16x40x40xf32> {
  %0 = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x16x40x40xf32>) -> tensor<1x16x40x40xf32>
  return %0 : tensor<1x16x40x40xf32>
}

// -----

// Windows that overlap and take steps are gathered from an image's line.
// CHECK-LABEL: func @lone_pool_of_large_windows
// CHECK-NEXT: graph.transpose %arg0
// CHECK-NEXT: graph.max_pool {{.*}}layout = "channels_last"
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: return
func.func @lone_pool_of_large_windows(%x: tensor<1x16x40x40xf32>) -> tensor<1x16x18x18xf32> {
  %0 = graph.max_pool %x {kernel = array<i64: 5, 5>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x16x40x40xf32>) -> tensor<1x16x18x18xf32>
  return %0 : tensor<1x16x18x18xf32>
}

// -----

// Channels-last takes away the transpositions of a model that is so itself.
// CHECK-LABEL: func @pool_between_transpositions
// CHECK-NEXT: graph.max_pool %arg0 {{.*}}layout = "channels_last"
// CHECK-NEXT: return
func.func @pool_between_transpositions(%x: tensor<1x40x40x16xf32>) -> tensor<1x40x40x16xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x40x40x16xf32>) -> tensor<1x16x40x40xf32>
  %1 = graph.max_pool %0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x16x40x40xf32>) -> tensor<1x16x40x40xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x16x40x40xf32>) -> tensor<1x40x40x16xf32>
  return %2 : tensor<1x40x40x16xf32>
}

// -----

// A shape is no reader of elements, and what only the run broadcasts has no layout of its own: neither
// leaves a transposition between two convolutions of an image whose size is open.
!x = tensor<1x3x?x?xf32, #graph.dims<["h", "w"], ()[s0, s1] -> (1, 3, s0, s1)>>
!y = tensor<1x3x?x?xf32, #graph.dims<["m", "n"], ()[s0, s1] -> (1, 3, s0 * 2, s1 * 2)>>
// CHECK-LABEL: func @open_sizes
// CHECK: graph.transpose %arg0
// CHECK-NOT: graph.transpose
// CHECK: graph.conv {{.*}}layout = "channels_last"
// CHECK-DAG: graph.shape %{{.*}} {end = 2 : i64, start = 1 : i64}
// CHECK-DAG: graph.gather
// CHECK-NOT: graph.transpose
// CHECK: graph.broadcast {{.*}} -> tensor<1x?x?x3xf32
// CHECK-NOT: graph.transpose
// CHECK: graph.conv {{.*}}layout = "channels_last"
// CHECK: graph.transpose
// CHECK-NOT: graph.transpose
func.func @open_sizes(%x: !x, %w: tensor<3x3x1x1xf32>) -> (!y, tensor<1xi64>, tensor<2xi64>, tensor<i64>) {
  %none = graph.none : none
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (!x, tensor<3x3x1x1xf32>, none) -> !x
  %1 = graph.shape %0 {end = 3 : i64, start = 2 : i64} : (!x) -> tensor<1xi64>
  %2 = graph.shape %0 {start = 2 : i64} : (!x) -> tensor<2xi64>
  %5 = graph.size %0 : (!x) -> tensor<i64>
  %3 = graph.broadcast %0 : (!x) -> !y
  %4 = graph.conv %3, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (!y, tensor<3x3x1x1xf32>, none) -> !y
  return %4, %1, %2, %5 : !y, tensor<1xi64>, tensor<2xi64>, tensor<i64>
}
