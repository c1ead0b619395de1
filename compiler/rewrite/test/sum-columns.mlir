// RUN: tensmith-opt --graph-sum-columns --split-input-file %s | FileCheck %s
// Breaks when a matrix is packed only to be multiplied by ones, or a sum is made of a product that
// shares its packed operand.

// CHECK-LABEL: func @bias
// CHECK-NOT: graph.matmul
// CHECK: graph.reduce_sum %arg0 {axes = array<i64: 0>, keepdims = true}
func.func @bias(%g: tensor<7x5xf32>) -> tensor<1x5xf32> {
  %ones = graph.constant {value = dense<1.0> : tensor<1x7xf32>} : () -> tensor<1x7xf32>
  %0 = graph.matmul %ones, %g : (tensor<1x7xf32>, tensor<7x5xf32>) -> tensor<1x5xf32>
  return %0 : tensor<1x5xf32>
}

// -----

// Samples and positions are summed where they lie.
// CHECK-LABEL: func @through_reshape
// CHECK: graph.reduce_sum %arg0 {axes = array<i64: 0, 1>, keepdims = true}
// CHECK: graph.reshape {{.*}} -> tensor<1x5xf32>
func.func @through_reshape(%g: tensor<2x3x5xf32>) -> tensor<1x5xf32> {
  %ones = graph.constant {value = dense<1.0> : tensor<1x6xf32>} : () -> tensor<1x6xf32>
  %0 = graph.reshape %g : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
  %1 = graph.matmul %ones, %0 : (tensor<1x6xf32>, tensor<6x5xf32>) -> tensor<1x5xf32>
  return %1 : tensor<1x5xf32>
}

// -----

// Columns that the reshape cuts are none of the operand's.
// CHECK-LABEL: func @other_columns
// CHECK: graph.reduce_sum {{.*}} {axes = array<i64: 0>, keepdims = true} : (tensor<6x5xf32>)
func.func @other_columns(%g: tensor<2x15xf32>) -> tensor<1x5xf32> {
  %ones = graph.constant {value = dense<1.0> : tensor<1x6xf32>} : () -> tensor<1x6xf32>
  %0 = graph.reshape %g : (tensor<2x15xf32>) -> tensor<6x5xf32>
  %1 = graph.matmul %ones, %0 : (tensor<1x6xf32>, tensor<6x5xf32>) -> tensor<1x5xf32>
  return %1 : tensor<1x5xf32>
}

// -----

// CHECK-LABEL: func @packed_anyway
// CHECK-COUNT-2: graph.matmul
func.func @packed_anyway(%x: tensor<3x7xf32>, %g: tensor<7x5xf32>) -> (tensor<1x5xf32>, tensor<3x5xf32>) {
  %ones = graph.constant {value = dense<1.0> : tensor<1x7xf32>} : () -> tensor<1x7xf32>
  %0 = graph.matmul %ones, %g : (tensor<1x7xf32>, tensor<7x5xf32>) -> tensor<1x5xf32>
  %1 = graph.matmul %x, %g : (tensor<3x7xf32>, tensor<7x5xf32>) -> tensor<3x5xf32>
  return %0, %1 : tensor<1x5xf32>, tensor<3x5xf32>
}

// -----

// CHECK-LABEL: func @not_ones
// CHECK: graph.matmul
func.func @not_ones(%g: tensor<2x5xf32>) -> tensor<1x5xf32> {
  %c = graph.constant {value = dense<[[1.0, 2.0]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32>
  %0 = graph.matmul %c, %g : (tensor<1x2xf32>, tensor<2x5xf32>) -> tensor<1x5xf32>
  return %0 : tensor<1x5xf32>
}
