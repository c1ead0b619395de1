// RUN: tensmith-opt --graph-one-hot-sums --split-input-file %s | FileCheck %s
// Breaks when a sum over a row of zeros but one goes through all of it, or another sum is taken for
// one.

// CHECK-LABEL: func @loss
// CHECK: %[[G:.*]] = graph.gather_elements %arg0, %{{.*}} {axis = 1 : i64}
// CHECK: %[[P:.*]] = graph.where %{{.*}}, %[[G]]
// CHECK: graph.reduce_sum %[[P]] {axes = array<i64: 0, 1>
func.func @loss(%x: tensor<5x7xf32>, %t: tensor<5x1xi64>) -> tensor<f32> {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %i = graph.iota {axis = 1 : i64} : () -> tensor<5x7xi64>
  %h = graph.equal %i, %t : (tensor<5x7xi64>, tensor<5x1xi64>) -> tensor<5x7xi1>
  %w = graph.where %h, %x, %zero : (tensor<5x7xi1>, tensor<5x7xf32>, tensor<f32>) -> tensor<5x7xf32>
  %0 = graph.reduce_sum %w {axes = array<i64: 0, 1>} : (tensor<5x7xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// What is one number for all classes is not looked up.
// CHECK-LABEL: func @one_number
// CHECK-NOT: graph.gather_elements
// CHECK: %[[P:.*]] = graph.where %{{.*}}, %arg0, %{{.*}} : (tensor<5x1xi1>
// CHECK-NEXT: return %[[P]]
func.func @one_number(%c: tensor<1x1xf32>, %t: tensor<5x1xi64>) -> tensor<5x1xf32> {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %i = graph.iota {axis = 1 : i64} : () -> tensor<5x7xi64>
  %h = graph.equal %i, %t : (tensor<5x7xi64>, tensor<5x1xi64>) -> tensor<5x7xi1>
  %w = graph.where %h, %c, %zero : (tensor<5x7xi1>, tensor<1x1xf32>, tensor<f32>) -> tensor<5x7xf32>
  %0 = graph.reduce_sum %w {axes = array<i64: 1>, keepdims = true} : (tensor<5x7xf32>) -> tensor<5x1xf32>
  return %0 : tensor<5x1xf32>
}

// -----

// CHECK-LABEL: func @over_samples
// CHECK: graph.iota
// CHECK: graph.reduce_sum {{.*}} {axes = array<i64: 0>
func.func @over_samples(%x: tensor<5x7xf32>, %t: tensor<5x1xi64>) -> tensor<7xf32> {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %i = graph.iota {axis = 1 : i64} : () -> tensor<5x7xi64>
  %h = graph.equal %i, %t : (tensor<5x7xi64>, tensor<5x1xi64>) -> tensor<5x7xi1>
  %w = graph.where %h, %x, %zero : (tensor<5x7xi1>, tensor<5x7xf32>, tensor<f32>) -> tensor<5x7xf32>
  %0 = graph.reduce_sum %w {axes = array<i64: 0>} : (tensor<5x7xf32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// CHECK-LABEL: func @not_zero_elsewhere
// CHECK-NOT: graph.gather_elements
// CHECK: graph.iota
func.func @not_zero_elsewhere(%x: tensor<5x7xf32>, %t: tensor<5x1xi64>) -> tensor<5xf32> {
  %one = graph.constant {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %i = graph.iota {axis = 1 : i64} : () -> tensor<5x7xi64>
  %h = graph.equal %i, %t : (tensor<5x7xi64>, tensor<5x1xi64>) -> tensor<5x7xi1>
  %w = graph.where %h, %x, %one : (tensor<5x7xi1>, tensor<5x7xf32>, tensor<f32>) -> tensor<5x7xf32>
  %0 = graph.reduce_sum %w {axes = array<i64: 1>} : (tensor<5x7xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

// Between two classes lies no class, though a number of type f32 may; nor is it an index.
// CHECK-LABEL: func @real_numbers
// CHECK-NOT: graph.gather_elements
// CHECK: graph.reduce_sum
func.func @real_numbers(%x: tensor<400x300xf32>, %t: tensor<400x1xf32>) -> tensor<400x1xf32> {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %i = graph.iota {axis = 1 : i64} : () -> tensor<400x300xf32>
  %h = graph.equal %i, %t : (tensor<400x300xf32>, tensor<400x1xf32>) -> tensor<400x300xi1>
  %w = graph.where %h, %x, %zero : (tensor<400x300xi1>, tensor<400x300xf32>, tensor<f32>) -> tensor<400x300xf32>
  %0 = graph.reduce_sum %w {axes = array<i64: 1>, keepdims = true} : (tensor<400x300xf32>) -> tensor<400x1xf32>
  return %0 : tensor<400x1xf32>
}

// -----

// CHECK-LABEL: func @real_number_of_one_class
// CHECK-NOT: graph.greater_or_equal
// CHECK: graph.reduce_sum
func.func @real_number_of_one_class(%x: tensor<1x1xf32>, %t: tensor<1x1xf32>) -> tensor<1x1xf32> {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %i = graph.iota {axis = 1 : i64} : () -> tensor<1x1xf32>
  %h = graph.equal %i, %t : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
  %w = graph.where %h, %x, %zero : (tensor<1x1xi1>, tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
  %0 = graph.reduce_sum %w {axes = array<i64: 1>, keepdims = true} : (tensor<1x1xf32>) -> tensor<1x1xf32>
  return %0 : tensor<1x1xf32>
}

// -----

// A byte is the number of two classes where there are 300.
// CHECK-LABEL: func @bytes
// CHECK-NOT: graph.gather_elements
// CHECK: graph.reduce_sum
func.func @bytes(%x: tensor<5x300xf32>, %t: tensor<5x1xui8>) -> tensor<5xf32> {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %i = graph.iota {axis = 1 : i64} : () -> tensor<5x300xui8>
  %h = graph.equal %i, %t : (tensor<5x300xui8>, tensor<5x1xui8>) -> tensor<5x300xi1>
  %w = graph.where %h, %x, %zero : (tensor<5x300xi1>, tensor<5x300xf32>, tensor<f32>) -> tensor<5x300xf32>
  %0 = graph.reduce_sum %w {axes = array<i64: 1>} : (tensor<5x300xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
