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
  %1 = graph.max_pool %0 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
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
  %2 = graph.max_pool %0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
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
  %2 = graph.max_pool %0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
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
  %1 = graph.max_pool %0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.cast %1 {to = f16} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf16>
  return %2, %0 : tensor<1x2x2x2xf16>, tensor<1x4x4x2xf32>
}

// Codes are made of what is joined, as far as they get narrower.
// CHECK-LABEL: func @joined_codes
// CHECK-COUNT-2: graph.cast {{.*}} {to = ui8}
// CHECK: %[[CODES:.*]] = graph.concat {{.*}} -> tensor<1x4x4x5xui8>
// CHECK: %[[WIDE:.*]] = graph.cast %[[CODES]] {to = f32}
// CHECK: return %[[WIDE]]
func.func @joined_codes(%x: tensor<1x4x4x2xf32>, %y: tensor<1x4x4x3xf32>) -> tensor<1x4x4x5xf32> {
  %scale = graph.constant {value = dense<50.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.exp %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %1 = graph.tanh %y : (tensor<1x4x4x3xf32>) -> tensor<1x4x4x3xf32>
  %2 = graph.concat %0, %1 {axis = 3 : i64} : (tensor<1x4x4x2xf32>, tensor<1x4x4x3xf32>) -> tensor<1x4x4x5xf32>
  %3 = graph.mul %2, %scale : (tensor<1x4x4x5xf32>, tensor<f32>) -> tensor<1x4x4x5xf32>
  %4 = graph.cast %3 {to = ui8} : (tensor<1x4x4x5xf32>) -> tensor<1x4x4x5xui8>
  %5 = graph.cast %4 {to = f32} : (tensor<1x4x4x5xui8>) -> tensor<1x4x4x5xf32>
  return %5 : tensor<1x4x4x5xf32>
}

// Nothing gets narrower; a channel's own scale isn't every operand's; and who reads the numbers needs them.
// CHECK-LABEL: func @joined_numbers
// CHECK-COUNT-3: graph.concat {{.*}} -> tensor<1x4x4x4xf32>
func.func @joined_numbers(%x: tensor<1x4x4x2xf32>, %scales: tensor<4xf32>) -> (tensor<1x4x4x4xf32>, tensor<1x4x4x4xui8>, tensor<1x4x4x4xui8>, tensor<1x4x4x4xf32>) {
  %scale = graph.constant {value = dense<50.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.exp %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %1 = graph.neg %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %2 = graph.concat %0, %1 {axis = 3 : i64} : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> tensor<1x4x4x4xf32>
  %3 = graph.mul %2, %scale : (tensor<1x4x4x4xf32>, tensor<f32>) -> tensor<1x4x4x4xf32>
  %4 = graph.abs %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %5 = graph.sqrt %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %6 = graph.concat %4, %5 {axis = 3 : i64} : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> tensor<1x4x4x4xf32>
  %7 = graph.mul %6, %scales : (tensor<1x4x4x4xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  %8 = graph.cast %7 {to = ui8} : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xui8>
  %9 = graph.sin %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %10 = graph.cos %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %11 = graph.concat %9, %10 {axis = 3 : i64} : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> tensor<1x4x4x4xf32>
  %12 = graph.cast %11 {to = ui8} : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xui8>
  return %3, %8, %12, %11 : tensor<1x4x4x4xf32>, tensor<1x4x4x4xui8>, tensor<1x4x4x4xui8>, tensor<1x4x4x4xf32>
}
