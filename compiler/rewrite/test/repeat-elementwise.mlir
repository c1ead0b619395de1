// RUN: tensmith-opt --graph-repeat-elementwise --split-input-file %s | FileCheck %s
// Breaks when the way back keeps what it could compute from what is kept anyway, or computes again what is dear to compute.

// What lies between a product and the next is computed from the product; the product itself crosses.
// CHECK-LABEL: @chain
// CHECK: %[[P:.*]] = graph.matmul
// CHECK: %[[E:.*]] = graph.exp %[[P]]
// CHECK: %[[M:.*]] = graph.mul %[[E]], %[[E]]
// CHECK: graph.reduce_sum %[[M]]
// CHECK: %[[E2:.*]] = graph.exp %[[P]]
// CHECK: %[[M2:.*]] = graph.mul %[[E2]], %[[E2]]
// CHECK: graph.add %[[P]], %[[M2]]
func.func @chain(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<f32>, tensor<64x64xf32>) attributes {graph.differentiated} {
  %0 = graph.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.exp %0 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = graph.mul %1, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = graph.reduce_sum %2 {axes = array<i64: 0, 1>, keepdims = false} : (tensor<64x64xf32>) -> tensor<f32>
  %4 = graph.add %0, %2 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %3, %4 : tensor<f32>, tensor<64x64xf32>
}

// -----

// The product is not read by the way back: the exponential alone would be kept, and is.
// CHECK-LABEL: @alone
// CHECK-COUNT-1: graph.exp
// CHECK-NOT: graph.exp
func.func @alone(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<f32>, tensor<64x64xf32>) attributes {graph.differentiated} {
  %0 = graph.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.exp %0 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = graph.reduce_sum %1 {axes = array<i64: 0, 1>, keepdims = false} : (tensor<64x64xf32>) -> tensor<f32>
  %3 = graph.neg %1 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %2, %3 : tensor<f32>, tensor<64x64xf32>
}

// -----

// Without a way back nothing is computed twice, unless it is made of next to nothing.
// CHECK-LABEL: @forward
// CHECK-COUNT-1: graph.exp
// CHECK-NOT: graph.exp
// CHECK-COUNT-2: graph.equal
func.func @forward(%x: tensor<64x64xf32>, %y: tensor<64x1xi64>, %z: tensor<1x64xi64>) -> (tensor<f32>, tensor<64x64xf32>, tensor<64x64xi1>, tensor<64x64xi1>) {
  %1 = graph.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = graph.reduce_sum %1 {axes = array<i64: 0, 1>, keepdims = false} : (tensor<64x64xf32>) -> tensor<f32>
  %3 = graph.neg %1 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = graph.mul %y, %y : (tensor<64x1xi64>, tensor<64x1xi64>) -> tensor<64x1xi64>
  %5 = graph.equal %y, %z : (tensor<64x1xi64>, tensor<1x64xi64>) -> tensor<64x64xi1>
  %6 = graph.not %5 : (tensor<64x64xi1>) -> tensor<64x64xi1>
  %7 = graph.not %6 : (tensor<64x64xi1>) -> tensor<64x64xi1>
  %8 = graph.equal %4, %z : (tensor<64x1xi64>, tensor<1x64xi64>) -> tensor<64x64xi1>
  return %2, %3, %7, %8 : tensor<f32>, tensor<64x64xf32>, tensor<64x64xi1>, tensor<64x64xi1>
}

// -----

// What is given is in memory: its readers scale it themselves, and read no more. A product isn't, which is the one to scale it.
// CHECK-LABEL: @scaled
// CHECK: graph.mul %arg0, %arg2
// CHECK-NEXT: %[[A:.*]] = graph.mul %arg0, %arg2
// CHECK-NEXT: graph.add %[[A]], %arg1
// CHECK-NEXT: %[[B:.*]] = graph.mul %arg0, %arg2
// CHECK-NEXT: graph.sub %[[B]], %arg1
// CHECK: %[[P:.*]] = graph.matmul
// CHECK: %[[S:.*]] = graph.mul %[[P]], %arg2
// CHECK-NOT: graph.mul
// CHECK: graph.sub %[[S]], %arg1
func.func @scaled(%g: tensor<64x64xf32>, %m: tensor<64x64xf32>, %scale: tensor<f32>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = graph.mul %g, %scale : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %1 = graph.add %0, %m : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = graph.sub %0, %m : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = graph.matmul %g, %m : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = graph.mul %3, %scale : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %5 = graph.add %4, %m : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %6 = graph.sub %4, %m : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1, %2, %5, %6 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// The difference is made for each of its readers of what is in memory for the mean, too.
// CHECK-LABEL: @centred
// CHECK: %[[P:.*]] = graph.matmul
// CHECK-COUNT-2: graph.sub %[[P]]
func.func @centred(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64x64xf32>) {
  %0 = graph.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.reduce_sum %0 {axes = array<i64: 0>, keepdims = false} : (tensor<64x64xf32>) -> tensor<64xf32>
  %2 = graph.sub %0, %1 : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %3 = graph.reduce_sum %2 {axes = array<i64: 0>, keepdims = false} : (tensor<64x64xf32>) -> tensor<64xf32>
  %4 = graph.mul %2, %3 : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  return %3, %4 : tensor<64xf32>, tensor<64x64xf32>
}

// -----

// Both readers of the product are on the way to the value: it is not in memory for others.
// CHECK-LABEL: @both_on_the_way
// CHECK-COUNT-1: graph.sub
// CHECK-NOT: graph.sub
func.func @both_on_the_way(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64x64xf32>) {
  %0 = graph.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.neg %0 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = graph.sub %0, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = graph.reduce_sum %2 {axes = array<i64: 0>, keepdims = false} : (tensor<64x64xf32>) -> tensor<64xf32>
  %4 = graph.mul %2, %3 : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  return %3, %4 : tensor<64xf32>, tensor<64x64xf32>
}
