// RUN: tensmith-opt --graph-fuse-updates --split-input-file %s | FileCheck %s
// Results that are made of the same elements are one kernel's.

// As an optimiser's: p' is made of m' and v', and all of g, which is stored by who computes it.
// CHECK-LABEL: func @optimiser
// CHECK: %[[k:.*]]:3 = graph.kernel
// CHECK-SAME: -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-NOT: graph.kernel
// CHECK: return %[[k]]#{{[0-2]}}, %[[k]]#{{[0-2]}}, %[[k]]#{{[0-2]}}, %{{.*}}
func.func @optimiser(%m: tensor<4x8xf32> {graph.state = 0 : i64}, %v: tensor<4x8xf32>, %p: tensor<4x8xf32>, %g: tensor<4x8xf32>, %rate: tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = graph.add %m, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.mul %g, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = graph.add %v, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = graph.sqrt %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = graph.div %0, %3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = graph.mul %4, %rate : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %6 = graph.sub %p, %5 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %2, %6, %g : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// What a product gives to one reader is the product's to apply: p' alone is left.
// CHECK-LABEL: func @of_a_product
// CHECK-NOT: graph.kernel
func.func @of_a_product(%m: tensor<8x8xf32> {graph.state = 0 : i64}, %p: tensor<8x8xf32>, %x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %g = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %0 = graph.add %m, %g : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = graph.sub %p, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// So is what a transposition gives.
// CHECK-LABEL: func @of_a_transposition
// CHECK-NOT: graph.kernel
func.func @of_a_transposition(%m: tensor<4x8xf32> {graph.state = 0 : i64}, %p: tensor<4x8xf32>, %x: tensor<8x4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %g = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %0 = graph.add %m, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.sub %p, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Results of nothing in common, of other shapes, or that are read before the last of them is there, are kernels of their own.
// CHECK-LABEL: func @apart
// CHECK-NOT: graph.kernel
func.func @apart(%a: tensor<8xf32> {graph.state = 0 : i64}, %b: tensor<8xf32>, %c: tensor<4x8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<4x8xf32>, tensor<8xf32>) {
  %0 = graph.exp %a : (tensor<8xf32>) -> tensor<8xf32>
  %1 = graph.exp %b : (tensor<8xf32>) -> tensor<8xf32>
  %2 = graph.add %c, %a : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %3 = graph.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<8xf32>) -> tensor<1xf32>
  %4 = graph.add %a, %3 : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xf32>
  return %0, %1, %2, %4 : tensor<8xf32>, tensor<8xf32>, tensor<4x8xf32>, tensor<8xf32>
}

// -----

// Nor are results of a function without states joined.
// CHECK-LABEL: func @without_states
// CHECK-NOT: graph.kernel
func.func @without_states(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = graph.exp %a : (tensor<8xf32>) -> tensor<8xf32>
  %1 = graph.tanh %a : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
