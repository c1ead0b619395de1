// RUN: tensmith-opt --graph-order-products --split-input-file %s | FileCheck %s
// Breaks when a chain of products is not multiplied in the best order, or one that is, is changed.

// CHECK-LABEL: func @before_a_vector
// CHECK: %[[V:.*]] = graph.matmul %arg1, %{{.*}} : (tensor<60x70xf32>, tensor<70x1xf32>) -> tensor<60x1xf32>
// CHECK-NEXT: graph.matmul %arg0, %[[V]]
// CHECK-NOT: graph.matmul
func.func @before_a_vector(%a: tensor<50x60xf32>, %b: tensor<60x70xf32>, %v: tensor<70xf32>) -> tensor<50xf32> {
  %0 = graph.matmul %a, %b : (tensor<50x60xf32>, tensor<60x70xf32>) -> tensor<50x70xf32>
  %1 = graph.matmul %0, %v : (tensor<50x70xf32>, tensor<70xf32>) -> tensor<50xf32>
  return %1 : tensor<50xf32>
}

// -----

// The chain of the textbook: ((M1 (M2 M3)) ((M4 M5) M6)).
// CHECK-LABEL: func @textbook
// CHECK: %[[A:.*]] = graph.matmul %arg1, %arg2
// CHECK-NEXT: %[[B:.*]] = graph.matmul %arg0, %[[A]]
// CHECK-NEXT: %[[C:.*]] = graph.matmul %arg3, %arg4
// CHECK-NEXT: %[[D:.*]] = graph.matmul %[[C]], %arg5
// CHECK-NEXT: graph.matmul %[[B]], %[[D]]
// CHECK-NEXT: return
func.func @textbook(%a: tensor<30x35xf32>, %b: tensor<35x15xf32>, %c: tensor<15x5xf32>, %d: tensor<5x10xf32>, %e: tensor<10x20xf32>, %f: tensor<20x25xf32>) -> tensor<30x25xf32> {
  %0 = graph.matmul %a, %b : (tensor<30x35xf32>, tensor<35x15xf32>) -> tensor<30x15xf32>
  %1 = graph.matmul %0, %c : (tensor<30x15xf32>, tensor<15x5xf32>) -> tensor<30x5xf32>
  %2 = graph.matmul %1, %d : (tensor<30x5xf32>, tensor<5x10xf32>) -> tensor<30x10xf32>
  %3 = graph.matmul %2, %e : (tensor<30x10xf32>, tensor<10x20xf32>) -> tensor<30x20xf32>
  %4 = graph.matmul %3, %f : (tensor<30x20xf32>, tensor<20x25xf32>) -> tensor<30x25xf32>
  return %4 : tensor<30x25xf32>
}

// -----

// An attention without softmax: the scale moves to the result.
// CHECK-LABEL: func @scaled_scores
// CHECK: %[[T:.*]] = graph.transpose %arg1
// CHECK: %[[S:.*]] = graph.matmul %[[T]], %arg2 : (tensor<4x8x512xf32>, tensor<4x512x8xf32>) -> tensor<4x8x8xf32>
// CHECK: %[[P:.*]] = graph.matmul %arg0, %[[S]]
// CHECK: graph.mul %[[P]]
// CHECK-NEXT: return
func.func @scaled_scores(%q: tensor<4x512x8xf32>, %k: tensor<4x512x8xf32>, %v: tensor<4x512x8xf32>) -> tensor<4x512x8xf32> {
  %s = graph.constant {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.transpose %k {permutation = array<i64: 0, 2, 1>} : (tensor<4x512x8xf32>) -> tensor<4x8x512xf32>
  %1 = graph.matmul %q, %0 : (tensor<4x512x8xf32>, tensor<4x8x512xf32>) -> tensor<4x512x512xf32>
  %2 = graph.mul %1, %s : (tensor<4x512x512xf32>, tensor<f32>) -> tensor<4x512x512xf32>
  %3 = graph.matmul %2, %v : (tensor<4x512x512xf32>, tensor<4x512x8xf32>) -> tensor<4x512x8xf32>
  return %3 : tensor<4x512x8xf32>
}

// -----

// (a b)' v = b' (a' v)
// CHECK-LABEL: func @turned_product
// CHECK: %[[A:.*]] = graph.transpose %arg0
// CHECK: %[[V:.*]] = graph.matmul %[[A]], %{{.*}} : (tensor<60x50xf32>, tensor<50x1xf32>) -> tensor<60x1xf32>
// CHECK: graph.matmul %{{.*}}, %[[V]] : (tensor<70x60xf32>, tensor<60x1xf32>) -> tensor<70x1xf32>
// CHECK-NOT: graph.matmul
func.func @turned_product(%a: tensor<50x60xf32>, %b: tensor<60x70xf32>, %v: tensor<50xf32>) -> tensor<70xf32> {
  %0 = graph.matmul %a, %b : (tensor<50x60xf32>, tensor<60x70xf32>) -> tensor<50x70xf32>
  %1 = graph.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<50x70xf32>) -> tensor<70x50xf32>
  %2 = graph.matmul %1, %v : (tensor<70x50xf32>, tensor<50xf32>) -> tensor<70xf32>
  return %2 : tensor<70xf32>
}

// -----

// The result is there anyway: of it and v the product is one more, but less than two others.
// CHECK-LABEL: func @given_product
// CHECK: %[[A:.*]] = graph.matmul %arg0, %arg1
// CHECK-NEXT: graph.matmul %[[A]], %arg2
// CHECK-NEXT: return
func.func @given_product(%a: tensor<50x60xf32>, %b: tensor<60x50xf32>, %v: tensor<50xf32>) -> (tensor<50x50xf32>, tensor<50xf32>) {
  %0 = graph.matmul %a, %b : (tensor<50x60xf32>, tensor<60x50xf32>) -> tensor<50x50xf32>
  %1 = graph.matmul %0, %v : (tensor<50x50xf32>, tensor<50xf32>) -> tensor<50xf32>
  return %0, %1 : tensor<50x50xf32>, tensor<50xf32>
}

// -----

// What two chains read is taken apart, since all that they make of it are vectors.
// CHECK-LABEL: func @shared_product
// CHECK-NOT: tensor<50x70xf32>
// CHECK: return
func.func @shared_product(%a: tensor<50x60xf32>, %b: tensor<60x70xf32>, %v: tensor<70xf32>, %w: tensor<70xf32>) -> (tensor<50xf32>, tensor<50xf32>) {
  %0 = graph.matmul %a, %b : (tensor<50x60xf32>, tensor<60x70xf32>) -> tensor<50x70xf32>
  %1 = graph.matmul %0, %v : (tensor<50x70xf32>, tensor<70xf32>) -> tensor<50xf32>
  %2 = graph.matmul %0, %w : (tensor<50x70xf32>, tensor<70xf32>) -> tensor<50xf32>
  return %1, %2 : tensor<50xf32>, tensor<50xf32>
}

// -----

// The fourth power takes two products, and not three.
// CHECK-LABEL: func @power
// CHECK-COUNT-2: graph.matmul
// CHECK-NOT: graph.matmul
func.func @power(%a: tensor<50x50xf32>) -> tensor<50x50xf32> {
  %0 = graph.matmul %a, %a : (tensor<50x50xf32>, tensor<50x50xf32>) -> tensor<50x50xf32>
  %1 = graph.matmul %0, %0 : (tensor<50x50xf32>, tensor<50x50xf32>) -> tensor<50x50xf32>
  return %1 : tensor<50x50xf32>
}

// -----

// A layer that widens, without an activation: the rows are many, so that the weights are multiplied.
// CHECK-LABEL: func @across_a_bias
// CHECK-NOT: tensor<1000x400xf32>
// CHECK: graph.add
// CHECK-NEXT: return
func.func @across_a_bias(%x: tensor<1000x10xf32>, %a: tensor<10x400xf32>, %c: tensor<400xf32>, %b: tensor<400x10xf32>) -> tensor<1000x10xf32> {
  %0 = graph.matmul %x, %a : (tensor<1000x10xf32>, tensor<10x400xf32>) -> tensor<1000x400xf32>
  %1 = graph.add %0, %c : (tensor<1000x400xf32>, tensor<400xf32>) -> tensor<1000x400xf32>
  %2 = graph.matmul %1, %b : (tensor<1000x400xf32>, tensor<400x10xf32>) -> tensor<1000x10xf32>
  return %2 : tensor<1000x10xf32>
}

// -----

// A low-rank adapter beside its weights: for few rows, both are multiplied by the rows.
// CHECK-LABEL: func @adapter
// CHECK-NOT: (tensor<512x4xf32>, tensor<4x512xf32>)
// CHECK: return
func.func @adapter(%x: tensor<8x512xf32>, %w: tensor<512x512xf32>, %a: tensor<512x4xf32>, %b: tensor<4x512xf32>) -> tensor<8x512xf32> {
  %0 = graph.matmul %a, %b : (tensor<512x4xf32>, tensor<4x512xf32>) -> tensor<512x512xf32>
  %1 = graph.add %w, %0 : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.matmul %x, %1 : (tensor<8x512xf32>, tensor<512x512xf32>) -> tensor<8x512xf32>
  return %2 : tensor<8x512xf32>
}

// -----

// The run knows how many rows there are.
// CHECK-LABEL: func @of_open_rows
// CHECK: graph.less_or_equal
// CHECK: graph.if
// CHECK-COUNT-4: graph.matmul
// CHECK-NOT: graph.matmul
func.func @of_open_rows(%x: tensor<?x100xf32, #graph.dims<["n"], ()[s0] -> (s0, 100)>>, %a: tensor<100x400xf32>, %b: tensor<400x100xf32>) -> tensor<?x100xf32, #graph.dims<["n"], ()[s0] -> (s0, 100)>> {
  %0 = graph.matmul %x, %a : (tensor<?x100xf32, #graph.dims<["n"], ()[s0] -> (s0, 100)>>, tensor<100x400xf32>) -> tensor<?x400xf32, #graph.dims<["n"], ()[s0] -> (s0, 400)>>
  %1 = graph.matmul %0, %b : (tensor<?x400xf32, #graph.dims<["n"], ()[s0] -> (s0, 400)>>, tensor<400x100xf32>) -> tensor<?x100xf32, #graph.dims<["n"], ()[s0] -> (s0, 100)>>
  return %1 : tensor<?x100xf32, #graph.dims<["n"], ()[s0] -> (s0, 100)>>
}

// -----

// Integers wrap alike in each order; sums of bytes in 32 bits are no product of i32.
// CHECK-LABEL: func @integers
// CHECK: graph.matmul %arg1, %{{.*}} : (tensor<60x70xi32>, tensor<70x1xi32>)
func.func @integers(%a: tensor<50x60xi32>, %b: tensor<60x70xi32>, %v: tensor<70xi32>) -> tensor<50xi32> {
  %0 = graph.matmul %a, %b : (tensor<50x60xi32>, tensor<60x70xi32>) -> tensor<50x70xi32>
  %1 = graph.matmul %0, %v : (tensor<50x70xi32>, tensor<70xi32>) -> tensor<50xi32>
  return %1 : tensor<50xi32>
}
