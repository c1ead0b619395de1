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
