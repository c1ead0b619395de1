// RUN: tensmith-opt --graph-strassen --split-input-file %s | FileCheck %s
// Breaks when a large product with constant weights is not made of seven, or a smaller one, for which the sums cost more
// than they save, is.

// CHECK-LABEL: func @large
// CHECK-COUNT-7: graph.matmul {{.*}} : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
// CHECK-NOT: graph.matmul
func.func @large(%x: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<4096x4096xf32>} : () -> tensor<4096x4096xf32>
  %0 = graph.matmul %x, %w : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %0 : tensor<4096x4096xf32>
}

// -----

// CHECK-LABEL: func @few_rows
// CHECK-COUNT-1: graph.matmul
// CHECK-NOT: graph.matmul
func.func @few_rows(%x: tensor<128x4096xf32>) -> tensor<128x4096xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<4096x4096xf32>} : () -> tensor<4096x4096xf32>
  %0 = graph.matmul %x, %w : (tensor<128x4096xf32>, tensor<4096x4096xf32>) -> tensor<128x4096xf32>
  return %0 : tensor<128x4096xf32>
}

// -----

// CHECK-LABEL: func @of_two_inputs
// CHECK-COUNT-1: graph.matmul
// CHECK-NOT: graph.matmul
func.func @of_two_inputs(%x: tensor<4096x4096xf32>, %w: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %0 = graph.matmul %x, %w : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %0 : tensor<4096x4096xf32>
}

// -----

// One core alone would gain, two would wait for memory.
// CHECK-LABEL: func @shared_memory
// CHECK: graph.matmul {{.*}} : (tensor<2048x2048xf32>, tensor<2048x2048xf32>)
// CHECK-NOT: graph.matmul
func.func @shared_memory(%x: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<2048x2048xf32>} : () -> tensor<2048x2048xf32>
  %0 = graph.matmul %x, %w : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %0 : tensor<2048x2048xf32>
}

// -----

// Numbers so small that products of them lose digits. Breaks if an error that is finite is passed over.
// CHECK-LABEL: func @beyond_the_bound
// CHECK-COUNT-1: graph.matmul
// CHECK-NOT: graph.matmul
func.func @beyond_the_bound(%x: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %w = graph.constant {value = dense<1.0e-42> : tensor<4096x4096xf32>} : () -> tensor<4096x4096xf32>
  %0 = graph.matmul %x, %w : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %0 : tensor<4096x4096xf32>
}
