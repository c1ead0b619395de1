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

// -----

// CHECK-LABEL: func @stack_that_may_be_one
// CHECK: %[[ALL:.*]] = graph.broadcast %arg0
// CHECK: graph.matmul %[[ALL]], %arg1 : (tensor<3x4x5xf32>, tensor<3x5x6xf32>) -> tensor<3x4x6xf32>
func.func @stack_that_may_be_one(%x: tensor<?x4x5xf32, #graph.dims<["n"], ()[s0] -> (s0, 4, 5)>>, %w: tensor<3x5x6xf32>) -> tensor<3x4x6xf32> {
  %0 = graph.matmul %x, %w : (tensor<?x4x5xf32, #graph.dims<["n"], ()[s0] -> (s0, 4, 5)>>, tensor<3x5x6xf32>) -> tensor<3x4x6xf32>
  return %0 : tensor<3x4x6xf32>
}

// -----

// Nobody knows the number of matrices before the product.
// CHECK-LABEL: func @stacks_that_may_be_one
// CHECK-NOT: graph.broadcast
func.func @stacks_that_may_be_one(%x: tensor<?x4x5xf32, #graph.dims<["n"], ()[s0] -> (s0, 4, 5)>>, %w: tensor<?x5x6xf32, #graph.dims<["m"], ()[s0] -> (s0, 5, 6)>>) -> tensor<?x4x6xf32, #graph.dims<["o"], ()[s0] -> (s0, 4, 6)>> {
  %0 = graph.matmul %x, %w : (tensor<?x4x5xf32, #graph.dims<["n"], ()[s0] -> (s0, 4, 5)>>, tensor<?x5x6xf32, #graph.dims<["m"], ()[s0] -> (s0, 5, 6)>>) -> tensor<?x4x6xf32, #graph.dims<["o"], ()[s0] -> (s0, 4, 6)>>
  return %0 : tensor<?x4x6xf32, #graph.dims<["o"], ()[s0] -> (s0, 4, 6)>>
}

// -----

// Groups of channels, as exported for opsets without the operator: moments are made of the channels'
// own, and the image keeps its shape.
// CHECK-LABEL: func @groups_of_channels
// CHECK: graph.reduce_sum %arg0 {axes = array<i64: 3>
// CHECK: graph.reshape {{.*}} -> tensor<2x3x4xf32>
// CHECK: graph.sub %arg0
// CHECK: return {{.*}} : tensor<2x3x140xf32>
func.func @groups_of_channels(%x: tensor<2x12x5x7xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<2x3x140xf32> {
  %0 = graph.reshape %x : (tensor<2x12x5x7xf32>) -> tensor<2x3x140xf32>
  %1 = graph.instance_norm %0, %s, %b : (tensor<2x3x140xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x140xf32>
  return %1 : tensor<2x3x140xf32>
}

// -----

// Of what isn't so grouped, it is another normalisation.
// CHECK-LABEL: func @no_groups_of_channels
// CHECK: %[[X:.*]] = graph.reshape %arg0
// CHECK: graph.sub %[[X]]
func.func @no_groups_of_channels(%x: tensor<2x12x4x7xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x8x42xf32> {
  %0 = graph.reshape %x : (tensor<2x12x4x7xf32>) -> tensor<2x8x42xf32>
  %1 = graph.instance_norm %0, %s, %b : (tensor<2x8x42xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x42xf32>
  return %1 : tensor<2x8x42xf32>
}

// -----

// Indices in any order are the product's own; the first operand's rows are turned for it.
// CHECK-LABEL: func @statement_of_a_product
// CHECK-NOT: graph.comprehension
// CHECK: %[[T:.*]] = graph.transpose %arg0 {permutation = array<i64: 1, 0>} : (tensor<5x3xf32>) -> tensor<3x5xf32>
// CHECK: graph.matmul %[[T]], %arg1 : (tensor<3x5xf32>, tensor<5x4xf32>) -> tensor<3x4xf32>
func.func @statement_of_a_product(%a: tensor<5x3xf32>, %b: tensor<5x4xf32>) -> tensor<3x4xf32> {
  %0 = graph.comprehension %a, %b {text = "def f(float(K, M) A, float(K, N) B) -> (C) { C(m, n) +=! A(k, m) * B(k, n) }"} : (tensor<5x3xf32>, tensor<5x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func @statement_of_a_convolution
// CHECK-NOT: graph.comprehension
// CHECK: graph.conv {{.*}}group = 2 : i64{{.*}}strides = array<i64: 2>
func.func @statement_of_a_convolution(%a: tensor<2x3x9xf32>, %b: tensor<2x5x3x3xf32>) -> tensor<2x5x4xf32> {
  %0 = graph.comprehension %a, %b {text = "def f(float(G, C, H) I, float(G, F, C, K) W) -> (O) { O(g, o, h) +=! I(g, c, 2 * h + k) * W(g, o, c, k) }"} : (tensor<2x3x9xf32>, tensor<2x5x3x3xf32>) -> tensor<2x5x4xf32>
  return %0 : tensor<2x5x4xf32>
}

// -----

// A triangle is no product of matrices.
// CHECK-LABEL: func @statement_of_a_triangle
// CHECK: graph.comprehension
func.func @statement_of_a_triangle(%a: tensor<3x3xf32>) -> tensor<3xf32> {
  %0 = graph.comprehension %a {text = "def f(float(N, N) A) -> (S) { S(i) +=! A(i, j) where j in 0:i + 1 }"} : (tensor<3x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
