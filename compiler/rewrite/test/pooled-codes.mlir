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
  %5 = graph.max_pool %4 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
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
  %5 = graph.max_pool %4 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
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
  %5 = graph.max_pool %4 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  return %5 : tensor<1x2x2x2xf32>
}

// -----

// Stored as bytes; the last windows hang over, but begin in the image.
// CHECK-LABEL: func @bytes
// CHECK: %[[CODES:.*]] = graph.cast %{{.*}} {to = i16}
// CHECK: graph.max_pool %[[CODES]] {{.*}} -> tensor<1x2x2x2xi16>
func.func @bytes(%x: tensor<1x4x4x2xui8>) -> tensor<1x2x2x2xf32> {
  %scale = graph.constant {value = dense<0.02> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.cast %x {to = f32} : (tensor<1x4x4x2xui8>) -> tensor<1x4x4x2xf32>
  %1 = graph.mul %0, %scale : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x4x4x2xf32>
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = true, layout = "channels_last"}
    : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  return %2 : tensor<1x2x2x2xf32>
}

// -----

// Whether the last windows do, only the run knows.
// CHECK-LABEL: func @any_size
// CHECK: graph.max_pool {{.*}}xf32
func.func @any_size(%x: tensor<1x?x4x2xui8, #graph.dims<["h"], ()[s0] -> (1, s0, 4, 2)>>) -> tensor<1x?x2x2xf32, #graph.dims<["o"], ()[s0] -> (1, s0, 2, 2)>> {
  %scale = graph.constant {value = dense<0.02> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.cast %x {to = f32} : (tensor<1x?x4x2xui8, #graph.dims<["h"], ()[s0] -> (1, s0, 4, 2)>>) -> tensor<1x?x4x2xf32, #graph.dims<["h"], ()[s0] -> (1, s0, 4, 2)>>
  %1 = graph.mul %0, %scale : (tensor<1x?x4x2xf32, #graph.dims<["h"], ()[s0] -> (1, s0, 4, 2)>>, tensor<f32>) -> tensor<1x?x4x2xf32, #graph.dims<["h"], ()[s0] -> (1, s0, 4, 2)>>
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = true, layout = "channels_last"}
    : (tensor<1x?x4x2xf32, #graph.dims<["h"], ()[s0] -> (1, s0, 4, 2)>>) -> tensor<1x?x2x2xf32, #graph.dims<["o"], ()[s0] -> (1, s0, 2, 2)>>
  return %2 : tensor<1x?x2x2xf32, #graph.dims<["o"], ()[s0] -> (1, s0, 2, 2)>>
}

// -----

// What is joined of codes is bounded as each is.
// CHECK-LABEL: func @joined
// CHECK: graph.max_pool {{.*}}xi16>
func.func @joined(%x: tensor<1x4x4x2xui8>) -> tensor<1x2x2x4xf32> {
  %scale = graph.constant {value = dense<0.02> : tensor<f32>} : () -> tensor<f32>
  %inverse = graph.constant {value = dense<50.0> : tensor<f32>} : () -> tensor<f32>
  %high = graph.constant {value = dense<255.0> : tensor<f32>} : () -> tensor<f32>
  %low = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.cast %x {to = f32} : (tensor<1x4x4x2xui8>) -> tensor<1x4x4x2xf32>
  %1 = graph.concat %0, %0 {axis = 3 : i64} : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> tensor<1x4x4x4xf32>
  %2 = graph.mul %1, %inverse : (tensor<1x4x4x4xf32>, tensor<f32>) -> tensor<1x4x4x4xf32>
  %3 = graph.round %2 : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  %4 = graph.max %3, %low : (tensor<1x4x4x4xf32>, tensor<f32>) -> tensor<1x4x4x4xf32>
  %5 = graph.min %4, %high : (tensor<1x4x4x4xf32>, tensor<f32>) -> tensor<1x4x4x4xf32>
  %6 = graph.mul %5, %scale : (tensor<1x4x4x4xf32>, tensor<f32>) -> tensor<1x4x4x4xf32>
  %7 = graph.max_pool %6 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x4x4x4xf32>) -> tensor<1x2x2x4xf32>
  return %7 : tensor<1x2x2x4xf32>
}
