// RUN: tensmith-opt --graph-turn-products --split-input-file %s | FileCheck %s
// RUN: tensmith-opt --graph-turn-products=precision=exact --split-input-file %s | FileCheck --check-prefix=EXACT %s
// Breaks when weights that a run is given are packed, though its samples take less, or when a product is turned that gains nothing.

// CHECK-LABEL: func @layer
// CHECK: %[[X:.*]] = graph.transpose %arg0 {permutation = array<i64: 1, 0>} : (tensor<32x784xf32>) -> tensor<784x32xf32>
// CHECK: %[[Y:.*]] = graph.matmul %arg1, %[[X]] : (tensor<256x784xf32>, tensor<784x32xf32>) -> tensor<256x32xf32>
// CHECK: graph.transpose %[[Y]] {permutation = array<i64: 1, 0>} : (tensor<256x32xf32>) -> tensor<32x256xf32>
// EXACT-LABEL: func @layer
// EXACT: graph.matmul %arg0,
func.func @layer(%x: tensor<32x784xf32>, %w: tensor<256x784xf32>) -> tensor<32x256xf32> {
  %0 = graph.transpose %w {permutation = array<i64: 1, 0>} : (tensor<256x784xf32>) -> tensor<784x256xf32>
  %1 = graph.matmul %x, %0 : (tensor<32x784xf32>, tensor<784x256xf32>) -> tensor<32x256xf32>
  return %1 : tensor<32x256xf32>
}

// -----

// As many samples as outputs: as much is packed either way.
// CHECK-LABEL: func @many_samples
// CHECK: graph.matmul %arg0, %{{.*}} : (tensor<256x784xf32>, tensor<784x256xf32>)
func.func @many_samples(%x: tensor<256x784xf32>, %w: tensor<256x784xf32>) -> tensor<256x256xf32> {
  %0 = graph.transpose %w {permutation = array<i64: 1, 0>} : (tensor<256x784xf32>) -> tensor<784x256xf32>
  %1 = graph.matmul %x, %0 : (tensor<256x784xf32>, tensor<784x256xf32>) -> tensor<256x256xf32>
  return %1 : tensor<256x256xf32>
}

// -----

// A vector of samples would be one of columns.
// CHECK-LABEL: func @few_samples
// CHECK: graph.matmul %arg0, %{{.*}} : (tensor<8x784xf32>
func.func @few_samples(%x: tensor<8x784xf32>, %w: tensor<256x784xf32>) -> tensor<8x256xf32> {
  %0 = graph.transpose %w {permutation = array<i64: 1, 0>} : (tensor<256x784xf32>) -> tensor<784x256xf32>
  %1 = graph.matmul %x, %0 : (tensor<8x784xf32>, tensor<784x256xf32>) -> tensor<8x256xf32>
  return %1 : tensor<8x256xf32>
}

// -----

// What two products read is packed once for both; constants are packed before any run; a computed matrix may be written as it is wanted; and
// sizes that are open say nothing of what is less.
!open = tensor<?x784xf32, #graph.dims<["n"], ()[s0] -> (s0, 784)>>
!results = tensor<?x256xf32, #graph.dims<["n"], ()[s0] -> (s0, 256)>>
// CHECK-LABEL: func @packed_otherwise
// CHECK-NOT: -> tensor<256x32xf32>
// CHECK: return
func.func @packed_otherwise(%x: tensor<32x784xf32>, %z: tensor<32x784xf32>, %w: tensor<256x784xf32>, %v: tensor<256x784xf32>, %o: !open) -> (tensor<32x256xf32>, tensor<32x256xf32>, tensor<32x256xf32>, !results) {
  %0 = graph.transpose %w {permutation = array<i64: 1, 0>} : (tensor<256x784xf32>) -> tensor<784x256xf32>
  %1 = graph.matmul %x, %0 : (tensor<32x784xf32>, tensor<784x256xf32>) -> tensor<32x256xf32>
  %2 = graph.matmul %z, %0 : (tensor<32x784xf32>, tensor<784x256xf32>) -> tensor<32x256xf32>
  %3 = graph.exp %v : (tensor<256x784xf32>) -> tensor<256x784xf32>
  %4 = graph.transpose %3 {permutation = array<i64: 1, 0>} : (tensor<256x784xf32>) -> tensor<784x256xf32>
  %5 = graph.matmul %x, %4 : (tensor<32x784xf32>, tensor<784x256xf32>) -> tensor<32x256xf32>
  %6 = graph.transpose %v {permutation = array<i64: 1, 0>} : (tensor<256x784xf32>) -> tensor<784x256xf32>
  %7 = graph.matmul %o, %6 : (!open, tensor<784x256xf32>) -> !results
  return %1, %2, %5, %7 : tensor<32x256xf32>, tensor<32x256xf32>, tensor<32x256xf32>, !results
}
