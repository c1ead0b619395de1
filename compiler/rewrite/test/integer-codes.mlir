// RUN: tensmith-opt --graph-integer-codes --split-input-file %s | FileCheck %s
// Breaks when a number that may be NaN, too large or wider than the codes is converted without a check, or codes of
// known sums are not.

// CHECK-LABEL: func @sums
// CHECK: %[[SUM:.*]] = graph.add {{.*}}graph.contract
// CHECK: %[[ROUND:.*]] = graph.round %[[SUM]]
// CHECK: %[[WHOLE:.*]] = graph.cast %[[ROUND]] {graph.in_range, to = i32}
// CHECK: %[[LOW:.*]] = graph.max %[[WHOLE]], %{{.*}} : (tensor<3x2xi32>, tensor<i32>)
// CHECK: %[[HIGH:.*]] = graph.min %[[LOW]], %{{.*}} : (tensor<3x2xi32>, tensor<i32>)
// CHECK: graph.cast %[[HIGH]] {to = i16}
func.func @sums(%x: tensor<3x2xi32>) -> tensor<3x2xi16> {
  %scale = graph.constant {value = dense<[0.01, 0.02]> : tensor<2xf32>} : () -> tensor<2xf32>
  %bias = graph.constant {value = dense<1.5> : tensor<f32>} : () -> tensor<f32>
  %low = graph.constant {value = dense<-132.0> : tensor<f32>} : () -> tensor<f32>
  %high = graph.constant {value = dense<123.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.cast %x {to = f32} : (tensor<3x2xi32>) -> tensor<3x2xf32>
  %1 = graph.mul %0, %scale : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %2 = graph.add %1, %bias : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %3 = graph.round %2 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %4 = graph.max %3, %low : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %5 = graph.min %4, %high : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %6 = graph.cast %5 {to = i16} : (tensor<3x2xf32>) -> tensor<3x2xi16>
  return %6 : tensor<3x2xi16>
}

// -----

// CHECK-LABEL: func @floats
// CHECK-NOT: in_range
func.func @floats(%x: tensor<3x2xf32>) -> tensor<3x2xi16> {
  %low = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %high = graph.constant {value = dense<255.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.max %x, %low : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %1 = graph.min %0, %high : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %2 = graph.round %1 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %3 = graph.max %2, %low : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %4 = graph.cast %3 {to = i16} : (tensor<3x2xf32>) -> tensor<3x2xi16>
  return %4 : tensor<3x2xi16>
}

// -----

// The scale is not a number for one column.
// CHECK-LABEL: func @not_a_number
// CHECK-NOT: in_range
func.func @not_a_number(%x: tensor<3x2xi16>) -> tensor<3x2xi16> {
  %scale = graph.constant {value = dense<[0.01, 0x7FC00000]> : tensor<2xf32>} : () -> tensor<2xf32>
  %high = graph.constant {value = dense<255.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.cast %x {to = f32} : (tensor<3x2xi16>) -> tensor<3x2xf32>
  %1 = graph.mul %0, %scale : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %2 = graph.round %1 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %3 = graph.min %2, %high : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %4 = graph.cast %3 {to = i16} : (tensor<3x2xf32>) -> tensor<3x2xi16>
  return %4 : tensor<3x2xi16>
}

// -----

// 2^31 times a scale of one does not fit.
// CHECK-LABEL: func @too_large
// CHECK-NOT: in_range
func.func @too_large(%x: tensor<3x2xi32>) -> tensor<3x2xi16> {
  %low = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %high = graph.constant {value = dense<255.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.cast %x {to = f32} : (tensor<3x2xi32>) -> tensor<3x2xf32>
  %1 = graph.round %0 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %2 = graph.max %1, %low : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %3 = graph.min %2, %high : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %4 = graph.cast %3 {to = i16} : (tensor<3x2xf32>) -> tensor<3x2xi16>
  return %4 : tensor<3x2xi16>
}

// -----

// A cast from a float saturates, which one from an integer would not.
// CHECK-LABEL: func @one_limit
// CHECK-NOT: in_range
func.func @one_limit(%x: tensor<3x2xi32>) -> tensor<3x2xi16> {
  %scale = graph.constant {value = dense<0.01> : tensor<f32>} : () -> tensor<f32>
  %low = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.cast %x {to = f32} : (tensor<3x2xi32>) -> tensor<3x2xf32>
  %1 = graph.mul %0, %scale : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %2 = graph.round %1 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %3 = graph.max %2, %low : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %4 = graph.cast %3 {to = i16} : (tensor<3x2xf32>) -> tensor<3x2xi16>
  return %4 : tensor<3x2xi16>
}
