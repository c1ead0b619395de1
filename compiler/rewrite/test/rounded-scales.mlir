// RUN: tensmith-opt --graph-rounded-scales --cse --split-input-file %s | FileCheck %s
// Breaks when a scale stays that a constant before it could have, or one is moved where its product is not rounded or
// read by somebody else.

// CHECK-LABEL: func @biased
// CHECK: %[[SCALE:.*]] = graph.constant {{.*}}dense<[1.000000e+00, 2.000000e+00]>
// CHECK: %[[PRODUCT:.*]] = graph.mul %arg0, %[[SCALE]]
// CHECK: %[[BIAS:.*]] = graph.constant {{.*}}dense<4.000000e+00>
// CHECK: %[[SUM:.*]] = graph.add %[[PRODUCT]], %[[BIAS]]
// CHECK: graph.round %[[SUM]]
func.func @biased(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %a = graph.constant {value = dense<[0.5, 1.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %b = graph.constant {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %c = graph.constant {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.mul %x, %a : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %1 = graph.add %0, %b : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %2 = graph.mul %1, %c : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %3 = graph.round %2 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %3 : tensor<3x2xf32>
}

// -----

// CHECK-LABEL: func @two_branches
// CHECK-COUNT-2: graph.mul
// CHECK-NOT: graph.mul
// CHECK: graph.round
func.func @two_branches(%x: tensor<3x2xf32>, %y: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %a = graph.constant {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %b = graph.constant {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.mul %x, %a : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %1 = graph.mul %b, %y : (tensor<f32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %2 = graph.add %0, %1 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %3 = graph.mul %2, %a : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %4 = graph.round %3 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %4 : tensor<3x2xf32>
}

// -----

// CHECK-LABEL: func @read_by_others
// CHECK-COUNT-2: graph.mul
// CHECK: graph.round
func.func @read_by_others(%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %a = graph.constant {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.mul %x, %a : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %1 = graph.mul %0, %a : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %2 = graph.round %1 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %2, %0 : tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// The product of the constants is below the smallest normal number.
// CHECK-LABEL: func @too_small
// CHECK: graph.mul %arg0, %[[C:[0-9]+]]
// CHECK: graph.mul %{{[0-9]+}}, %[[C]] : (tensor<3x2xf32>
// CHECK: graph.round
func.func @too_small(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %a = graph.constant {value = dense<1.0e-30> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.mul %x, %a : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %1 = graph.mul %0, %a : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %2 = graph.round %1 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}

// -----

// Of a convolution both scales go into its weights, that of the result into its bias as well.
// CHECK-LABEL: func @convolution
// CHECK-NOT: graph.mul
// CHECK-DAG: %[[WEIGHTS:.*]] = graph.constant {{.*}}3.000000e+00{{.*}}6.000000e+00
// CHECK-DAG: %[[BIAS:.*]] = graph.constant {{.*}}dense<[2.000000e+00, 8.000000e+00]>
// CHECK: %[[Y:.*]] = graph.conv %arg0, %[[WEIGHTS]], %[[BIAS]]
// CHECK-NEXT: graph.round %[[Y]]
func.func @convolution(%x: tensor<1x5x2xf32>) -> tensor<1x5x2xf32> {
  %w = graph.constant {value = dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>} : () -> tensor<2x1x1xf32>
  %b = graph.constant {value = dense<[1.0, 4.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %a = graph.constant {value = dense<1.5> : tensor<f32>} : () -> tensor<f32>
  %c = graph.constant {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.mul %x, %a : (tensor<1x5x2xf32>, tensor<f32>) -> tensor<1x5x2xf32>
  %1 = graph.conv %0, %w, %b {dilations = array<i64: 1>, group = 2 : i64, layout = "channels_last", pads = array<i64: 0, 0>, strides = array<i64: 1>} : (tensor<1x5x2xf32>, tensor<2x1x1xf32>, tensor<2xf32>) -> tensor<1x5x2xf32>
  %2 = graph.mul %1, %c : (tensor<1x5x2xf32>, tensor<f32>) -> tensor<1x5x2xf32>
  %3 = graph.round %2 : (tensor<1x5x2xf32>) -> tensor<1x5x2xf32>
  return %3 : tensor<1x5x2xf32>
}

// -----

// What else reads the scaled image would have to scale it again.
// CHECK-LABEL: func @image_read_by_others
// CHECK: graph.mul %arg0
// CHECK: graph.conv
// CHECK-NOT: graph.mul
func.func @image_read_by_others(%x: tensor<1x5x2xf32>) -> (tensor<1x5x2xf32>, tensor<1x5x2xf32>) {
  %w = graph.constant {value = dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>} : () -> tensor<2x1x1xf32>
  %none = graph.none : none
  %a = graph.constant {value = dense<1.5> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.mul %x, %a : (tensor<1x5x2xf32>, tensor<f32>) -> tensor<1x5x2xf32>
  %1 = graph.conv %0, %w, %none {dilations = array<i64: 1>, group = 2 : i64, layout = "channels_last", pads = array<i64: 0, 0>, strides = array<i64: 1>} : (tensor<1x5x2xf32>, tensor<2x1x1xf32>, none) -> tensor<1x5x2xf32>
  %2 = graph.mul %1, %a : (tensor<1x5x2xf32>, tensor<f32>) -> tensor<1x5x2xf32>
  %3 = graph.round %2 : (tensor<1x5x2xf32>) -> tensor<1x5x2xf32>
  return %3, %0 : tensor<1x5x2xf32>, tensor<1x5x2xf32>
}

// -----

// A bias of whole steps is taken off with the zero point's part: 10 - 2 / 0.5, 20 + 3 / 0.25.
// CHECK-LABEL: func @whole_bias
// CHECK: %[[TAKEN:.*]] = graph.constant {{.*}}dense<[6, 32]> : tensor<2xi32>
// CHECK: %[[SUM:.*]] = graph.sub %{{.*}}, %[[TAKEN]]
// CHECK-NOT: graph.add
// CHECK: graph.round
func.func @whole_bias(%x: tensor<3x4xi8>, %w: tensor<4x2xi8>) -> tensor<3x2xf32> {
  %k = graph.constant {value = dense<[10, 20]> : tensor<2xi32>} : () -> tensor<2xi32>
  %a = graph.constant {value = dense<[0.5, 0.25]> : tensor<2xf32>} : () -> tensor<2xf32>
  %b = graph.constant {value = dense<[2.0, -3.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = graph.matmul %x, %w {accumulate_i32 = true} : (tensor<3x4xi8>, tensor<4x2xi8>) -> tensor<3x2xi32>
  %1 = graph.sub %0, %k : (tensor<3x2xi32>, tensor<2xi32>) -> tensor<3x2xi32>
  %2 = graph.cast %1 {to = f32} : (tensor<3x2xi32>) -> tensor<3x2xf32>
  %3 = graph.mul %2, %a : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %4 = graph.add %3, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %5 = graph.round %4 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %5 : tensor<3x2xf32>
}

// -----

// CHECK-LABEL: func @bias_between_steps
// CHECK: graph.add
// CHECK: graph.round
func.func @bias_between_steps(%x: tensor<3x4xi8>, %w: tensor<4x2xi8>) -> tensor<3x2xf32> {
  %k = graph.constant {value = dense<[10, 20]> : tensor<2xi32>} : () -> tensor<2xi32>
  %a = graph.constant {value = dense<[0.5, 0.25]> : tensor<2xf32>} : () -> tensor<2xf32>
  %b = graph.constant {value = dense<[2.0, -3.1]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = graph.matmul %x, %w {accumulate_i32 = true} : (tensor<3x4xi8>, tensor<4x2xi8>) -> tensor<3x2xi32>
  %1 = graph.sub %0, %k : (tensor<3x2xi32>, tensor<2xi32>) -> tensor<3x2xi32>
  %2 = graph.cast %1 {to = f32} : (tensor<3x2xi32>) -> tensor<3x2xf32>
  %3 = graph.mul %2, %a : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %4 = graph.add %3, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %5 = graph.round %4 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %5 : tensor<3x2xf32>
}

// -----

// Codes whose zero point is zero, biases of one scale.
// CHECK-LABEL: func @nothing_taken_off
// CHECK: %[[TAKEN:.*]] = graph.constant {{.*}}dense<[-4, 6]> : tensor<2xi32>
// CHECK: graph.sub %{{.*}}, %[[TAKEN]]
// CHECK-NOT: graph.add
// CHECK: graph.round
func.func @nothing_taken_off(%x: tensor<3x4xui8>, %w: tensor<4x2xi8>) -> tensor<3x2xf32> {
  %a = graph.constant {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %b = graph.constant {value = dense<[2.0, -3.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = graph.matmul %x, %w {accumulate_i32 = true} : (tensor<3x4xui8>, tensor<4x2xi8>) -> tensor<3x2xi32>
  %1 = graph.cast %0 {to = f32} : (tensor<3x2xi32>) -> tensor<3x2xf32>
  %2 = graph.mul %1, %a : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %3 = graph.add %2, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %4 = graph.round %3 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %4 : tensor<3x2xf32>
}

// -----

// Sums of 32 bits may be as large as they can: a bias would make them wrap.
// CHECK-LABEL: func @sums_of_words
// CHECK: graph.add
// CHECK: graph.round
func.func @sums_of_words(%x: tensor<3x4xi32>, %w: tensor<4x2xi32>) -> tensor<3x2xf32> {
  %a = graph.constant {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %b = graph.constant {value = dense<[2.0, -3.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = graph.matmul %x, %w : (tensor<3x4xi32>, tensor<4x2xi32>) -> tensor<3x2xi32>
  %1 = graph.cast %0 {to = f32} : (tensor<3x2xi32>) -> tensor<3x2xf32>
  %2 = graph.mul %1, %a : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %3 = graph.add %2, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %4 = graph.round %3 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %4 : tensor<3x2xf32>
}

// -----

// The same of bytes: 2147483000 and four products are more than 32 bits hold.
// CHECK-LABEL: func @bias_beyond_words
// CHECK: graph.add
// CHECK: graph.round
func.func @bias_beyond_words(%x: tensor<3x4xi8>, %w: tensor<4x2xi8>) -> tensor<3x2xf32> {
  %a = graph.constant {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %b = graph.constant {value = dense<[2.0, 2147483000.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = graph.matmul %x, %w {accumulate_i32 = true} : (tensor<3x4xi8>, tensor<4x2xi8>) -> tensor<3x2xi32>
  %1 = graph.cast %0 {to = f32} : (tensor<3x2xi32>) -> tensor<3x2xf32>
  %2 = graph.mul %1, %a : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %3 = graph.add %2, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %4 = graph.round %3 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %4 : tensor<3x2xf32>
}

// -----

// No scale, no steps.
// CHECK-LABEL: func @scale_of_zero
// CHECK: graph.add
// CHECK: graph.round
func.func @scale_of_zero(%x: tensor<3x4xi8>, %w: tensor<4x2xi8>) -> tensor<3x2xf32> {
  %a = graph.constant {value = dense<[0.5, 0.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %b = graph.constant {value = dense<[2.0, 0.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = graph.matmul %x, %w {accumulate_i32 = true} : (tensor<3x4xi8>, tensor<4x2xi8>) -> tensor<3x2xi32>
  %1 = graph.cast %0 {to = f32} : (tensor<3x2xi32>) -> tensor<3x2xf32>
  %2 = graph.mul %1, %a : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %3 = graph.add %2, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %4 = graph.round %3 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %4 : tensor<3x2xf32>
}
