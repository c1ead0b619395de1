// RUN: tensmith-opt --graph-fold-constants --split-input-file %s | FileCheck %s
// RUN: tensmith-opt --pass-pipeline='builtin.module(func.func(graph-fold-constants{folded-bytes=64}))' \
// RUN:   --split-input-file %s | FileCheck %s --check-prefix=SMALL
// Breaks when operators on constants are left to run time, or folding bloats the module.

// CHECK-LABEL: func @sum_of_constants
// CHECK: [[SUM:%.*]] = graph.constant {{.*}}dense<[1.100000e+01, 2.200000e+01]>
// CHECK-NEXT: return [[SUM]]
func.func @sum_of_constants() -> tensor<2xf32> {
  %0 = graph.constant {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = graph.constant {value = dense<[10.0, 20.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %2 = graph.add %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// CHECK-LABEL: func @argument_stays
// CHECK: graph.add %arg0
func.func @argument_stays(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = graph.constant {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = graph.add %x, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// 4 bytes made into 4 KiB: within the usual bound, beyond one of 64 bytes.
// CHECK-LABEL: func @broadcast
// CHECK-NOT: graph.broadcast
// SMALL-LABEL: func @broadcast
// SMALL: graph.broadcast
func.func @broadcast() -> tensor<1024xf32> {
  %0 = graph.constant {value = dense<[7.0]> : tensor<1xf32>} : () -> tensor<1xf32>
  %1 = graph.broadcast %0 : (tensor<1xf32>) -> tensor<1024xf32>
  return %1 : tensor<1024xf32>
}

// -----

// Breaks when the numbers of classes that labels are compared with become a constant of rows.
// CHECK-LABEL: func @places
// CHECK: graph.iota
// CHECK-NEXT: graph.equal
func.func @places(%t: tensor<16x1xi64>) -> tensor<16x10xi1> {
  %i = graph.iota {axis = 1 : i64} : () -> tensor<16x10xi64>
  %0 = graph.equal %i, %t : (tensor<16x10xi64>, tensor<16x1xi64>) -> tensor<16x10xi1>
  return %0 : tensor<16x10xi1>
}

// -----

// Breaks when a mask that is made of places alone is made in each run.
// CHECK-LABEL: func @triangle
// CHECK-NOT: graph.less
// CHECK: [[MASK:%.*]] = graph.constant {{.*}}dense<{{\[\[}}false, true, true], [false, false, true]]>
// CHECK: return [[MASK]]
func.func @triangle() -> tensor<2x3xi1> {
  %row = graph.iota {axis = 0 : i64} : () -> tensor<2x3xi64>
  %column = graph.iota {axis = 1 : i64} : () -> tensor<2x3xi64>
  %0 = graph.less %row, %column : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// -----

// Breaks when the sums of weights in 8 bits are taken in each run, since these are too large to be
// stored as i32.
// SMALL-LABEL: func @sums_of_bytes
// SMALL-NOT: graph.reduce_sum
// SMALL: [[SUMS:%.*]] = graph.constant {{.*}}dense<768> : tensor<1x16xi32>
// SMALL: return [[SUMS]]
func.func @sums_of_bytes() -> tensor<1x16xi32> {
  %w = graph.constant {value = dense<3> : tensor<256x16xi8>} : () -> tensor<256x16xi8>
  %wide = graph.cast %w {to = i32} : (tensor<256x16xi8>) -> tensor<256x16xi32>
  %0 = graph.reduce_sum %wide {axes = array<i64: 0>, keepdims = true} : (tensor<256x16xi32>) -> tensor<1x16xi32>
  return %0 : tensor<1x16xi32>
}

// -----

// Breaks when what is wider than the module's bytes becomes one of its constants.
// SMALL-LABEL: func @wide_bytes
// SMALL: graph.cast
func.func @wide_bytes() -> tensor<256x16xi32> {
  %w = graph.constant {value = dense<3> : tensor<256x16xi8>} : () -> tensor<256x16xi8>
  %wide = graph.cast %w {to = i32} : (tensor<256x16xi8>) -> tensor<256x16xi32>
  return %wide : tensor<256x16xi32>
}

// -----

// However large, equal elements are one: rules see the zeros, and common-subexpression elimination finds
// that both are the same.
// CHECK-LABEL: func @equal_elements
// CHECK: graph.constant {{.*}}dense<0.000000e+00> : tensor<4x256xf32>
// CHECK: graph.constant {{.*}}dense<0.000000e+00> : tensor<4x256xf32>
// CHECK-NOT: dense_resource
// CHECK: return
func.func @equal_elements(%x: tensor<4x256xf32>) -> (tensor<4x256xf32>, tensor<4x256xf32>) {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.broadcast %zero : (tensor<f32>) -> tensor<4x256xf32>
  %1 = graph.broadcast %zero : (tensor<f32>) -> tensor<4x256xf32>
  %2 = graph.add %x, %0 : (tensor<4x256xf32>, tensor<4x256xf32>) -> tensor<4x256xf32>
  %3 = graph.mul %x, %1 : (tensor<4x256xf32>, tensor<4x256xf32>) -> tensor<4x256xf32>
  return %2, %3 : tensor<4x256xf32>, tensor<4x256xf32>
}
