// RUN: tensmith-opt --graph-fuse --graph-share-kernels --split-input-file %s | FileCheck %s
// Breaks when kernels that differ by numbers stay apart, or when numbers become arguments that code depends on.

// CHECK-LABEL: func @scales
// CHECK-DAG: %[[A:.*]] = graph.constant {value = dense<2.500000e-01>
// CHECK-DAG: %[[B:.*]] = graph.constant {value = dense<7.500000e-01>
// CHECK-DAG: graph.kernel %arg0, %[[A]]
// CHECK-DAG: graph.kernel %arg1, %[[B]]
// The one that both have stays.
// CHECK: graph.constant {value = dense<0.000000e+00>
func.func @scales(%x: tensor<4x5xf32>, %y: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
  %a = graph.constant {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %b = graph.constant {value = dense<0.75> : tensor<f32>} : () -> tensor<f32>
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %p = graph.mul %x, %a : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  %q = graph.mul %y, %b : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  %r = graph.max %p, %zero : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  %s = graph.max %q, %zero : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  return %r, %s : tensor<4x5xf32>, tensor<4x5xf32>
}

// -----

// Exponents, and divisors that are powers of two.
// CHECK-LABEL: func @stay
// CHECK: graph.kernel %arg0 {
// CHECK: graph.kernel %arg0 {
// CHECK: graph.kernel %arg0 {
// CHECK: graph.kernel %arg0 {
// CHECK: return
func.func @stay(%x: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>) {
  %a = graph.constant {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %b = graph.constant {value = dense<4.0> : tensor<f32>} : () -> tensor<f32>
  %p = graph.pow %x, %a : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  %q = graph.pow %x, %b : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  %r = graph.div %x, %a : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  %s = graph.div %x, %b : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  return %p, %q, %r, %s : tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>
}

// -----

// A number that becomes a code is known to be in its range, though its bounds become arguments.
// CHECK-LABEL: func @codes
// CHECK-COUNT-2: graph.cast {{.*}}graph.bounded
func.func @codes(%x: tensor<4x5xf32>) -> (tensor<4x5xui8>, tensor<4x5xui8>) {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %a = graph.constant {value = dense<200.0> : tensor<f32>} : () -> tensor<f32>
  %b = graph.constant {value = dense<255.0> : tensor<f32>} : () -> tensor<f32>
  %p = graph.max %x, %zero : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  %q = graph.min %p, %a : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  %r = graph.cast %q {to = ui8} : (tensor<4x5xf32>) -> tensor<4x5xui8>
  %s = graph.max %x, %zero : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  %t = graph.min %s, %b : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  %u = graph.cast %t {to = ui8} : (tensor<4x5xf32>) -> tensor<4x5xui8>
  return %r, %u : tensor<4x5xui8>, tensor<4x5xui8>
}

// -----

// Eight parts of one tensor, as of a layer that was unrolled; the first of each is an argument.
// CHECK-LABEL: func @parts
// CHECK-DAG: %[[FIRST:.*]] = graph.constant {value = dense<0> : tensor<1xi64>}
// CHECK-DAG: %[[LAST:.*]] = graph.constant {value = dense<7> : tensor<1xi64>}
// CHECK-DAG: graph.kernel %arg0, %[[FIRST]]
// CHECK-DAG: graph.kernel %arg0, %[[LAST]]
// CHECK-NOT: graph.slice
// CHECK: graph.gather {{.*}} {axis = 1 : i64, graph.in_range}
// CHECK-NOT: graph.slice
// CHECK: return
func.func @parts(%x: tensor<3x9x4xf32>) -> (tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>) {
  %s0 = graph.slice %x {starts = array<i64: 0, 0, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x9x4xf32>) -> tensor<3x2x4xf32>
  %y0 = graph.exp %s0 : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %s1 = graph.slice %x {starts = array<i64: 0, 1, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x9x4xf32>) -> tensor<3x2x4xf32>
  %y1 = graph.exp %s1 : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %s2 = graph.slice %x {starts = array<i64: 0, 2, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x9x4xf32>) -> tensor<3x2x4xf32>
  %y2 = graph.exp %s2 : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %s3 = graph.slice %x {starts = array<i64: 0, 3, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x9x4xf32>) -> tensor<3x2x4xf32>
  %y3 = graph.exp %s3 : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %s4 = graph.slice %x {starts = array<i64: 0, 4, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x9x4xf32>) -> tensor<3x2x4xf32>
  %y4 = graph.exp %s4 : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %s5 = graph.slice %x {starts = array<i64: 0, 5, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x9x4xf32>) -> tensor<3x2x4xf32>
  %y5 = graph.exp %s5 : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %s6 = graph.slice %x {starts = array<i64: 0, 6, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x9x4xf32>) -> tensor<3x2x4xf32>
  %y6 = graph.exp %s6 : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %s7 = graph.slice %x {starts = array<i64: 0, 7, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x9x4xf32>) -> tensor<3x2x4xf32>
  %y7 = graph.exp %s7 : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  return %y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7 : tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>
}

// -----

// Of fewer each is read as it is.
// CHECK-LABEL: func @few_parts
// CHECK-COUNT-2: graph.slice
// CHECK-NOT: graph.gather
// CHECK: return
func.func @few_parts(%x: tensor<3x9x4xf32>) -> (tensor<3x2x4xf32>, tensor<3x2x4xf32>) {
  %s0 = graph.slice %x {starts = array<i64: 0, 0, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x9x4xf32>) -> tensor<3x2x4xf32>
  %y0 = graph.exp %s0 : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %s1 = graph.slice %x {starts = array<i64: 0, 1, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x9x4xf32>) -> tensor<3x2x4xf32>
  %y1 = graph.exp %s1 : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  return %y0, %y1 : tensor<3x2x4xf32>, tensor<3x2x4xf32>
}
