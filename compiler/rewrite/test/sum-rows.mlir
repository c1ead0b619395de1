// RUN: tensmith-opt --graph-sum-rows --split-input-file %s | FileCheck %s
// Breaks when a matrix is packed for a single row, or a sum is made of what is in panels already.

// CHECK-LABEL: func @one_row
// CHECK: graph.reshape %arg0 : (tensor<1x7xf32>) -> tensor<7x1xf32>
// CHECK-NEXT: graph.mul %{{.*}}, %arg1
// CHECK-NEXT: graph.reduce_sum {{.*}}axes = array<i64: 0>
func.func @one_row(%x: tensor<1x7xf32>, %w: tensor<7x5xf32>) -> tensor<1x5xf32> {
  %0 = graph.matmul %x, %w : (tensor<1x7xf32>, tensor<7x5xf32>) -> tensor<1x5xf32>
  return %0 : tensor<1x5xf32>
}

// -----

// CHECK-LABEL: func @two_rows
// CHECK: graph.matmul
func.func @two_rows(%x: tensor<2x7xf32>, %w: tensor<7x5xf32>) -> tensor<2x5xf32> {
  %0 = graph.matmul %x, %w : (tensor<2x7xf32>, tensor<7x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

// Weights that are constants, or turned, or outside of a loop are laid out once, whatever reads them.
// CHECK-LABEL: func @laid_out_before
// CHECK: graph.matmul
// CHECK: graph.matmul
// CHECK: graph.loop
// CHECK: graph.matmul
func.func @laid_out_before(%n: tensor<i64>, %x: tensor<1x2xf32>, %w: tensor<2x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>) {
  %none = graph.none : none
  %c = graph.constant {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %0 = graph.matmul %x, %c : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %t = graph.transpose %w {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = graph.matmul %x, %t : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %2 = graph.loop %n, %none, %x : (tensor<i64>, none, tensor<1x2xf32>) -> tensor<1x2xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<1x2xf32>):
    %3 = graph.matmul %s, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    graph.yield %go, %3 : tensor<i1>, tensor<1x2xf32>
  }
  return %0, %1, %2 : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>
}

// -----

// CHECK-LABEL: func @attention
// CHECK: graph.matmul
// CHECK: graph.matmul
func.func @attention(%q: tensor<1x7xf32>, %k: tensor<7x5xf32>, %v: tensor<5x3xf32>, %scale: tensor<f32>) -> tensor<1x3xf32> {
  %0 = graph.matmul %q, %k : (tensor<1x7xf32>, tensor<7x5xf32>) -> tensor<1x5xf32>
  %1 = graph.mul %0, %scale : (tensor<1x5xf32>, tensor<f32>) -> tensor<1x5xf32>
  %2 = graph.softmax %1 {axis = 1 : i64} : (tensor<1x5xf32>) -> tensor<1x5xf32>
  %3 = graph.matmul %2, %v : (tensor<1x5xf32>, tensor<5x3xf32>) -> tensor<1x3xf32>
  return %3 : tensor<1x3xf32>
}
