// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-narrow-results{precision=bf16}))' | FileCheck %s
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-narrow-results{precision=bf16},cse,graph-fuse{precision=bf16}))' | FileCheck %s --check-prefix=FUSED
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-narrow-results))' | FileCheck %s --check-prefix=FAST
// Breaks when what products read rounded is kept unrounded beside it for element-wise readers, when
// of two products that are added the one that waits is kept unrounded, or when other readers,
// results of the function or other policies see what is rounded.

// A block's sum is the next one's operand and its shortcut: one form of it is stored.
// FAST-LABEL: func @shortcut
// FAST: %[[X:.*]] = graph.exp
// FAST: graph.add %{{.*}}, %[[X]]
// CHECK-LABEL: func @shortcut
// CHECK: %[[X:.*]] = graph.exp
// CHECK: %[[NARROW:.*]] = graph.cast %[[X]] {to = bf16}
// CHECK: %[[WIDE:.*]] = graph.cast %[[NARROW]] {to = f32}
// CHECK: %[[LEFT:.*]] = graph.cast %[[NARROW]] {to = f32}
// CHECK: %[[Y:.*]] = graph.matmul %[[LEFT]],
// CHECK: graph.add %[[Y]], %[[WIDE]]
// FUSED-LABEL: func @shortcut
// FUSED: graph.kernel {{.*}} -> tensor<4x8xbf16>
// FUSED: graph.kernel {{.*}} -> tensor<4x8xf32>
// FUSED-NOT: graph.kernel
// FUSED: return
func.func @shortcut(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<8x8xbf16>} : () -> tensor<8x8xbf16>
  %wide = graph.cast %w {to = f32} : (tensor<8x8xbf16>) -> tensor<8x8xf32>
  %0 = graph.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.cast %0 {to = bf16} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %2 = graph.cast %1 {to = f32} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %3 = graph.matmul %2, %wide : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %4 = graph.add %3, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// What is no element-wise reader sees the value as it is, and keeps it.
// CHECK-LABEL: func @kept
// CHECK: %[[X:.*]] = graph.exp
// CHECK: graph.add %{{.*}}, %[[X]]
func.func @kept(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %w = graph.constant {value = dense<0.5> : tensor<8x8xf32>} : () -> tensor<8x8xf32>
  %0 = graph.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.cast %0 {to = bf16} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %2 = graph.cast %1 {to = f32} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %3 = graph.matmul %2, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %4 = graph.add %3, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4, %0 : tensor<4x8xf32>, tensor<4x8xf32>
}

// One of two products waits for the other, with its own factor applied.
// CHECK-LABEL: func @two
// CHECK: %[[A:.*]] = graph.matmul
// CHECK: %[[B:.*]] = graph.matmul
// CHECK: %[[HALF:.*]] = graph.mul %[[B]]
// CHECK: %[[NARROW:.*]] = graph.cast %[[HALF]] {to = bf16}
// CHECK: %[[WIDE:.*]] = graph.cast %[[NARROW]] {to = f32}
// CHECK: graph.add %{{.*}}, %[[WIDE]]
// FUSED-LABEL: func @two
// FUSED: graph.kernel {{.*}} -> tensor<4x8xbf16>
// FUSED: graph.kernel {{.*}} -> tensor<4x8xf32>
// FUSED-NOT: graph.kernel
// FUSED: return
func.func @two(%x: tensor<4x8xbf16>, %y: tensor<4x8xbf16>, %half: tensor<8xf32>) -> tensor<4x8xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<8x8xbf16>} : () -> tensor<8x8xbf16>
  %wide = graph.cast %w {to = f32} : (tensor<8x8xbf16>) -> tensor<8x8xf32>
  %0 = graph.cast %x {to = f32} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %1 = graph.cast %y {to = f32} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %2 = graph.matmul %0, %wide : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = graph.matmul %1, %wide : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %4 = graph.mul %2, %half : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %5 = graph.mul %3, %half : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %6 = graph.exp %4 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = graph.add %6, %5 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}

// Products of numbers that nobody rounded aren't rounded for each other.
// CHECK-LABEL: func @unrounded
// CHECK-NOT: graph.cast
// CHECK: return
func.func @unrounded(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<8x8xf32>} : () -> tensor<8x8xf32>
  %0 = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = graph.matmul %y, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = graph.add %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
