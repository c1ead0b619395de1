// RUN: tensmith-opt --graph-fuse-rows --split-input-file %s | FileCheck %s
// Breaks when what is made of a row needs the row in memory, or reads rows of others.

// The loss, its gradient and how many are right: what depends on the loss moves behind.
// CHECK-LABEL: func @cross_entropy
// CHECK: %[[K:.*]]:3 = graph.kernel %arg0, %arg1, %arg2 {kind = "rows"
// CHECK: graph.log_softmax
// CHECK: graph.iota
// CHECK: graph.yield {{.*}} : tensor<5x7xf32>, tensor<5x1xf32>, tensor<5xi64>
// CHECK: graph.reduce_sum %[[K]]#1
// CHECK: return %{{.*}}, %[[K]]#0, %[[K]]#2
func.func @cross_entropy(%x: tensor<5x7xf32>, %t: tensor<5x1xi64>, %c: tensor<1x1xf32>) -> (tensor<f32>, tensor<5x7xf32>, tensor<5xi64>) {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %l = graph.log_softmax %x {axis = 1 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %p = graph.gather_elements %l, %t {axis = 1 : i64} : (tensor<5x7xf32>, tensor<5x1xi64>) -> tensor<5x1xf32>
  %loss = graph.reduce_sum %p {axes = array<i64: 0, 1>} : (tensor<5x1xf32>) -> tensor<f32>
  %best = graph.arg_max %x {axis = 1 : i64} : (tensor<5x7xf32>) -> tensor<5xi64>
  %e = graph.exp %l : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %i = graph.iota {axis = 1 : i64} : () -> tensor<5x7xi64>
  %h = graph.equal %i, %t : (tensor<5x7xi64>, tensor<5x1xi64>) -> tensor<5x7xi1>
  %w = graph.where %h, %c, %zero : (tensor<5x7xi1>, tensor<1x1xf32>, tensor<f32>) -> tensor<5x7xf32>
  %g = graph.sub %w, %e : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  return %loss, %g, %best : tensor<f32>, tensor<5x7xf32>, tensor<5xi64>
}

// -----

// A product reads the rows of a softmax: they are in memory anyway.
// CHECK-LABEL: func @read_by_product
// CHECK-NOT: graph.kernel
func.func @read_by_product(%x: tensor<5x7xf32>, %v: tensor<7x3xf32>) -> (tensor<5x3xf32>, tensor<5xf32>) {
  %s = graph.softmax %x {axis = 1 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %0 = graph.matmul %s, %v : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
  %1 = graph.reduce_max %s {axes = array<i64: 1>} : (tensor<5x7xf32>) -> tensor<5xf32>
  return %0, %1 : tensor<5x3xf32>, tensor<5xf32>
}

// -----

// Sums of rows that are as many as columns are added to columns: those of all rows.
// CHECK-LABEL: func @square
// CHECK-NOT: graph.kernel
func.func @square(%x: tensor<7x7xf32>) -> (tensor<7x7xf32>, tensor<7xf32>) {
  %l = graph.log_softmax %x {axis = 1 : i64} : (tensor<7x7xf32>) -> tensor<7x7xf32>
  %s = graph.reduce_sum %l {axes = array<i64: 1>} : (tensor<7x7xf32>) -> tensor<7xf32>
  %0 = graph.add %l, %s : (tensor<7x7xf32>, tensor<7xf32>) -> tensor<7x7xf32>
  return %0, %s : tensor<7x7xf32>, tensor<7xf32>
}

// -----

// A sum over weights that are made of a row's label is a row's own: neither they nor the sum wait in
// memory.
// CHECK-LABEL: func @smoothed
// CHECK: %[[K:.*]]:2 = graph.kernel {{.*}} {kind = "rows"
// CHECK: graph.log_softmax
// CHECK: graph.equal
// CHECK: graph.reduce_sum
// CHECK: graph.yield {{.*}} : tensor<5x7xf32>, tensor<5x1xf32>
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @smoothed(%x: tensor<5x7xf32>, %t: tensor<5x1xi64>, %a: tensor<5x1xf32>, %b: tensor<5x1xf32>) -> (tensor<5x7xf32>, tensor<5x1xf32>) {
  %l = graph.log_softmax %x {axis = 1 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %i = graph.iota {axis = 1 : i64} : () -> tensor<5x7xi64>
  %h = graph.equal %i, %t : (tensor<5x7xi64>, tensor<5x1xi64>) -> tensor<5x7xi1>
  %w = graph.where %h, %a, %b : (tensor<5x7xi1>, tensor<5x1xf32>, tensor<5x1xf32>) -> tensor<5x7xf32>
  %s = graph.reduce_sum %w {axes = array<i64: 1>, keepdims = true} : (tensor<5x7xf32>) -> tensor<5x1xf32>
  %e = graph.exp %l : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %m = graph.mul %e, %s : (tensor<5x7xf32>, tensor<5x1xf32>) -> tensor<5x7xf32>
  %g = graph.sub %m, %w : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  %p = graph.gather_elements %l, %t {axis = 1 : i64} : (tensor<5x7xf32>, tensor<5x1xi64>) -> tensor<5x1xf32>
  return %g, %p : tensor<5x7xf32>, tensor<5x1xf32>
}
