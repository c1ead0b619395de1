// RUN: tensmith-opt --graph-round-early %s | FileCheck %s
// Breaks when numbers that are rounded behind a pool or a concatenation are moved unrounded, or when
// what somebody else reads is rounded, too.

// CHECK-LABEL: func @pool
// CHECK: %[[X:.*]] = graph.exp
// CHECK: %[[NARROW:.*]] = graph.cast %[[X]] {to = bf16}
// CHECK: %[[Y:.*]] = graph.max_pool %[[NARROW]] {{.*}} -> tensor<1x2x2x2xbf16>
// CHECK: return %[[Y]]
func.func @pool(%x: tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xbf16> {
  %0 = graph.exp %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %1 = graph.max_pool %0 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>, dilations = array<i64: 1, 1>, channels_last = true}
    : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.cast %1 {to = bf16} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xbf16>
  return %2 : tensor<1x2x2x2xbf16>
}

// Through one after the other, where the first is read by a rounding as well.
// CHECK-LABEL: func @joined
// CHECK-NOT: to = f32
// CHECK: %[[POOL:.*]] = graph.max_pool {{.*}} -> tensor<1x4x4x2xbf16>
// CHECK: %[[ALL:.*]] = graph.concat %[[POOL]], %{{.*}} -> tensor<1x4x4x4xbf16>
// CHECK: return %[[POOL]], %[[ALL]]
func.func @joined(%x: tensor<1x4x4x2xf32>) -> (tensor<1x4x4x2xbf16>, tensor<1x4x4x4xbf16>) {
  %0 = graph.exp %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %1 = graph.neg %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %2 = graph.max_pool %0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, channels_last = true}
    : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %3 = graph.concat %2, %1 {axis = 3 : i64} : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> tensor<1x4x4x4xf32>
  %4 = graph.cast %2 {to = bf16} : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xbf16>
  %5 = graph.cast %3 {to = bf16} : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xbf16>
  return %4, %5 : tensor<1x4x4x2xbf16>, tensor<1x4x4x4xbf16>
}

// The concatenation's other reader keeps it, and it keeps the pool.
// CHECK-LABEL: func @read_unrounded
// CHECK: graph.max_pool {{.*}} -> tensor<1x4x4x2xf32>
// CHECK: graph.concat {{.*}} -> tensor<1x4x4x4xf32>
func.func @read_unrounded(%x: tensor<1x4x4x2xf32>) -> (tensor<1x4x4x4xbf16>, tensor<1x4x4x4xf32>) {
  %0 = graph.exp %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %1 = graph.neg %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %2 = graph.max_pool %0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, channels_last = true}
    : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %3 = graph.concat %2, %1 {axis = 3 : i64} : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> tensor<1x4x4x4xf32>
  %4 = graph.cast %3 {to = bf16} : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xbf16>
  return %4, %3 : tensor<1x4x4x4xbf16>, tensor<1x4x4x4xf32>
}

// An operand that is read as it is would be stored twice.
// CHECK-LABEL: func @operand_read_unrounded
// CHECK: graph.max_pool {{.*}} -> tensor<1x2x2x2xf32>
func.func @operand_read_unrounded(%x: tensor<1x4x4x2xf32>) -> (tensor<1x2x2x2xf16>, tensor<1x4x4x2xf32>) {
  %0 = graph.exp %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %1 = graph.max_pool %0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, channels_last = true}
    : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.cast %1 {to = f16} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf16>
  return %2, %0 : tensor<1x2x2x2xf16>, tensor<1x4x4x2xf32>
}
