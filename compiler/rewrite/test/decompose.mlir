// RUN: tensmith-opt --graph-decompose --split-input-file %s | FileCheck %s
// Breaks when an operator reaches fusion that no kernel takes, or one is taken apart that a kernel takes whole.

// CHECK-LABEL: func @softmax_down_the_columns
// CHECK-NOT: graph.softmax
// CHECK: graph.reduce_max %arg0 {axes = array<i64: 0>
// CHECK: graph.exp
// CHECK: graph.div
func.func @softmax_down_the_columns(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = graph.softmax %x {axis = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func @softmax_along_rows
// CHECK-NEXT: graph.softmax
func.func @softmax_along_rows(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = graph.softmax %x {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func @vector_times_matrix
// CHECK: graph.reshape %arg0 : (tensor<4xf32>) -> tensor<1x4xf32>
// CHECK: graph.matmul {{.*}} : (tensor<1x4xf32>, tensor<4x5xf32>) -> tensor<1x5xf32>
// CHECK: graph.reshape
func.func @vector_times_matrix(%x: tensor<4xf32>, %w: tensor<4x5xf32>) -> tensor<5xf32> {
  %0 = graph.matmul %x, %w : (tensor<4xf32>, tensor<4x5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
