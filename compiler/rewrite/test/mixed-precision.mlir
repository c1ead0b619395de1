// Breaks when a factor of a product stays f32 in a step of training, or a gradient that is only used to update is rounded;
// when something else than a step is rounded.
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-mixed-precision{precision=bf16}))' | FileCheck %s
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-mixed-precision))' | FileCheck %s --check-prefix=FAST
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-mixed-precision{precision=f16}))' | FileCheck %s --check-prefix=HALF

// Both factors once; the first product is a factor's, the second is a gradient.
// CHECK-LABEL: func @step
// CHECK-DAG: %[[W:.*]] = graph.cast %arg1 {to = bf16}
// CHECK-DAG: %[[X:.*]] = graph.cast %arg0 {to = bf16}
// CHECK: %[[Y:.*]] = graph.matmul {{.*}} : (tensor<5x4xf32>, tensor<4x3xf32>)
// CHECK-NEXT: %[[YN:.*]] = graph.cast %[[Y]] {to = bf16}
// CHECK-NEXT: %[[YW:.*]] = graph.cast %[[YN]] {to = f32}
// CHECK-NEXT: %[[R:.*]] = graph.max %[[YW]]
// CHECK-NEXT: %[[RN:.*]] = graph.cast %[[R]] {to = bf16}
// CHECK-NEXT: %[[RW:.*]] = graph.cast %[[RN]] {to = f32}
// CHECK: %[[T:.*]] = graph.transpose %[[X]] {{.*}} : (tensor<5x4xbf16>)
// CHECK: %[[TW:.*]] = graph.cast %[[T]] {to = f32}
// CHECK: %[[G:.*]] = graph.matmul %[[TW]], %[[RW]]
// CHECK-NEXT: %[[N:.*]] = graph.sub %arg1, %[[G]]
// CHECK-NEXT: graph.reduce_sum %[[RW]]
// HALF-LABEL: func @step
// HALF-COUNT-4: {to = f16}
// FAST-LABEL: func @step
// FAST-NOT: graph.cast
func.func @step(%x: tensor<5x4xf32>, %w: tensor<4x3xf32> {graph.state = 1 : i64}) -> (tensor<3xf32>, tensor<4x3xf32>) {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %y = graph.matmul %x, %w : (tensor<5x4xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  %r = graph.max %y, %zero : (tensor<5x3xf32>, tensor<f32>) -> tensor<5x3xf32>
  %t = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<5x4xf32>) -> tensor<4x5xf32>
  %g = graph.matmul %t, %r : (tensor<4x5xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
  %n = graph.sub %w, %g : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %s = graph.reduce_sum %r {axes = array<i64: 0>, keepdims = false} : (tensor<5x3xf32>) -> tensor<3xf32>
  return %s, %n : tensor<3xf32>, tensor<4x3xf32>
}

// What spreads over orders of magnitude, or is a sum, stays f32 for others than the product.
// CHECK-LABEL: func @wide
// CHECK: %[[E:.*]] = graph.exp %arg0
// CHECK-NEXT: graph.cast %[[E]] {to = bf16}
// CHECK: graph.reduce_sum %[[E]]
func.func @wide(%x: tensor<5x4xf32>, %w: tensor<4x3xf32> {graph.state = 1 : i64}) -> (tensor<4xf32>, tensor<4x3xf32>) {
  %e = graph.exp %x : (tensor<5x4xf32>) -> tensor<5x4xf32>
  %y = graph.matmul %e, %w : (tensor<5x4xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  %t = graph.transpose %e {permutation = array<i64: 1, 0>} : (tensor<5x4xf32>) -> tensor<4x5xf32>
  %g = graph.matmul %t, %y : (tensor<4x5xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
  %s = graph.reduce_sum %e {axes = array<i64: 0>, keepdims = false} : (tensor<5x4xf32>) -> tensor<4xf32>
  return %s, %g : tensor<4xf32>, tensor<4x3xf32>
}

// No step of training: the policy of inference rounds what it may.
// CHECK-LABEL: func @inference
// CHECK-NOT: graph.cast
func.func @inference(%x: tensor<5x4xf32>, %w: tensor<4x3xf32>) -> tensor<5x3xf32> {
  %y = graph.matmul %x, %w : (tensor<5x4xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}
