// RUN: tensmith-opt --graph-integer-products --split-input-file %s | FileCheck %s
// Breaks when products of codes are done in floats, or codes are taken for products that they aren't.

// CHECK-LABEL: func @scales_of_columns
// CHECK: %[[P:.*]] = graph.matmul {{.*}} {accumulate_i32 = true} : (tensor<3x5xi16>, tensor<5x2xi16>) -> tensor<3x2xi32>
// CHECK: graph.cast %[[P]] {to = f32}
// CHECK: graph.mul {{.*}} : (tensor<1x2xf32>, tensor<f32>)
func.func @scales_of_columns(%x: tensor<3x5xui8>, %w: tensor<5x2xi8>, %sx: tensor<f32>, %zx: tensor<ui8>, %sw: tensor<2xf32>) -> tensor<3x2xf32> {
  %none = graph.none : none
  %a = graph.dequantize %x, %sx, %zx {axis = 0 : i64, to = f32} : (tensor<3x5xui8>, tensor<f32>, tensor<ui8>) -> tensor<3x5xf32>
  %b = graph.dequantize %w, %sw, %none {axis = 1 : i64, to = f32} : (tensor<5x2xi8>, tensor<2xf32>, none) -> tensor<5x2xf32>
  %y = graph.matmul %a, %b : (tensor<3x5xf32>, tensor<5x2xf32>) -> tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}

// -----

// Scales of rows of the right operand are inside of the sums.
// CHECK-LABEL: func @scales_of_rows
// CHECK-NOT: accumulate_i32 = true
func.func @scales_of_rows(%x: tensor<3x5xui8>, %w: tensor<5x2xi8>, %sx: tensor<f32>, %sw: tensor<5xf32>) -> tensor<3x2xf32> {
  %none = graph.none : none
  %a = graph.dequantize %x, %sx, %none {axis = 0 : i64, to = f32} : (tensor<3x5xui8>, tensor<f32>, none) -> tensor<3x5xf32>
  %b = graph.dequantize %w, %sw, %none {axis = 0 : i64, to = f32} : (tensor<5x2xi8>, tensor<5xf32>, none) -> tensor<5x2xf32>
  %y = graph.matmul %a, %b : (tensor<3x5xf32>, tensor<5x2xf32>) -> tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}

// -----

// What a product doesn't read is never made an integer.
// CHECK-LABEL: func @there_and_back
// CHECK: graph.round
// CHECK-NOT: graph.cast
// CHECK: graph.min
// CHECK-NEXT: graph.mul
// CHECK-NEXT: return
func.func @there_and_back(%x: tensor<7xf32>) -> tensor<7xf32> {
  %s = graph.constant {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %none = graph.none : none
  %q = graph.quantize %x, %s, %none {axis = 0 : i64, to = ui8} : (tensor<7xf32>, tensor<f32>, none) -> tensor<7xui8>
  %y = graph.dequantize %q, %s, %none {axis = 0 : i64, to = f32} : (tensor<7xui8>, tensor<f32>, none) -> tensor<7xf32>
  return %y : tensor<7xf32>
}

// -----

// CHECK-LABEL: func @differences
// CHECK: graph.matmul {{.*}} {accumulate_i32 = true} : (tensor<3x5xi16>, tensor<5x2xi16>) -> tensor<3x2xi32>
func.func @differences(%x: tensor<3x5xui8>, %zx: tensor<ui8>, %w: tensor<5x2xi8>) -> tensor<3x2xi32> {
  %0 = graph.cast %x {to = i32} : (tensor<3x5xui8>) -> tensor<3x5xi32>
  %1 = graph.cast %zx {to = i32} : (tensor<ui8>) -> tensor<i32>
  %2 = graph.sub %0, %1 : (tensor<3x5xi32>, tensor<i32>) -> tensor<3x5xi32>
  %3 = graph.cast %w {to = i32} : (tensor<5x2xi8>) -> tensor<5x2xi32>
  %y = graph.matmul %2, %3 : (tensor<3x5xi32>, tensor<5x2xi32>) -> tensor<3x2xi32>
  return %y : tensor<3x2xi32>
}

// -----

// The product of the scales has one bit, those of the numbers have all.
// CHECK-LABEL: func @scales_that_vanish
// CHECK-NOT: accumulate_i32 = true
// CHECK: %[[W:.*]] = graph.constant {{.*}} -> tensor<5x2xf32>
// CHECK: graph.matmul %{{.*}}, %[[W]] {{.*}} : (tensor<3x5xf32>, tensor<5x2xf32>) -> tensor<3x2xf32>
func.func @scales_that_vanish(%x: tensor<3x5xui8>) -> tensor<3x2xf32> {
  %none = graph.none : none
  %sx = graph.constant {value = dense<1.0e-22> : tensor<f32>} : () -> tensor<f32>
  %sw = graph.constant {value = dense<1.0e-23> : tensor<f32>} : () -> tensor<f32>
  %w = graph.constant {value = dense<[[1, 2], [30, -4], [5, 6], [-7, 80], [9, 10]]> : tensor<5x2xi8>} : () -> tensor<5x2xi8>
  %a = graph.dequantize %x, %sx, %none {axis = 0 : i64, to = f32} : (tensor<3x5xui8>, tensor<f32>, none) -> tensor<3x5xf32>
  %b = graph.dequantize %w, %sw, %none {axis = 0 : i64, to = f32} : (tensor<5x2xi8>, tensor<f32>, none) -> tensor<5x2xf32>
  %y = graph.matmul %a, %b : (tensor<3x5xf32>, tensor<5x2xf32>) -> tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}
