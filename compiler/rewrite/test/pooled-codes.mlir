// RUN: tensmith-opt --graph-pooled-codes --split-input-file %s | FileCheck %s
// Breaks when the largest of codes is taken as floats, or the order of other numbers is taken for theirs.

// CHECK-LABEL: func @codes
// CHECK: %[[CODES:.*]] = graph.cast %{{.*}} {to = i16} : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xi16>
// CHECK: %[[LARGEST:.*]] = graph.max_pool %[[CODES]] {{.*}} -> tensor<1x2x2x2xi16>
// CHECK: %[[FLOAT:.*]] = graph.cast %[[LARGEST]] {to = f32}
// CHECK: %[[Y:.*]] = graph.mul %[[FLOAT]]
// CHECK: return %[[Y]]
func.func @codes(%x: tensor<1x4x4x2xi16>) -> tensor<1x2x2x2xf32> {
  %scale = graph.constant {value = dense<0.02> : tensor<f32>} : () -> tensor<f32>
  %high = graph.constant {value = dense<255.0> : tensor<f32>} : () -> tensor<f32>
  %low = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.cast %x {to = f32} : (tensor<1x4x4x2xi16>) -> tensor<1x4x4x2xf32>
  %1 = graph.round %0 : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %2 = graph.max %1, %low : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x4x4x2xf32>
  %3 = graph.min %2, %high : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x4x4x2xf32>
  %4 = graph.mul %3, %scale : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x4x4x2xf32>
  %5 = graph.max_pool %4 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>, dilations = array<i64: 1, 1>, channels_last = true}
    : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  return %5 : tensor<1x2x2x2xf32>
}

// -----

// CHECK-LABEL: func @negative_scale
// CHECK: graph.max_pool {{.*}}xf32>
func.func @negative_scale(%x: tensor<1x4x4x2xi16>) -> tensor<1x2x2x2xf32> {
  %scale = graph.constant {value = dense<-0.02> : tensor<f32>} : () -> tensor<f32>
  %high = graph.constant {value = dense<255.0> : tensor<f32>} : () -> tensor<f32>
  %low = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.cast %x {to = f32} : (tensor<1x4x4x2xi16>) -> tensor<1x4x4x2xf32>
  %1 = graph.round %0 : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %2 = graph.max %1, %low : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x4x4x2xf32>
  %3 = graph.min %2, %high : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x4x4x2xf32>
  %4 = graph.mul %3, %scale : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x4x4x2xf32>
  %5 = graph.max_pool %4 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, channels_last = true}
    : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  return %5 : tensor<1x2x2x2xf32>
}

// -----

// NaN has no code.
// CHECK-LABEL: func @floats
// CHECK: graph.max_pool {{.*}}xf32>
func.func @floats(%x: tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32> {
  %scale = graph.constant {value = dense<0.02> : tensor<f32>} : () -> tensor<f32>
  %high = graph.constant {value = dense<255.0> : tensor<f32>} : () -> tensor<f32>
  %low = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %1 = graph.round %x : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %2 = graph.max %1, %low : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x4x4x2xf32>
  %3 = graph.min %2, %high : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x4x4x2xf32>
  %4 = graph.mul %3, %scale : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x4x4x2xf32>
  %5 = graph.max_pool %4 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, channels_last = true}
    : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  return %5 : tensor<1x2x2x2xf32>
}
