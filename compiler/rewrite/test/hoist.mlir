// What a loop computes from values outside of it alone is computed before it.
// RUN: tensmith-opt --graph-fuse --graph-hoist %s | FileCheck %s

// The matrix is packed once; what depends on the iteration stays, and so does what checks an index.
// CHECK-LABEL: func.func @weights
// CHECK: %[[PACKED:.*]] = graph.kernel %arg1
// CHECK-NEXT: ^bb
// CHECK-NEXT: graph.pack
// CHECK: graph.loop
// CHECK: graph.gather %
// CHECK: graph.kernel %[[PACKED]], %arg6
func.func @weights(%h: tensor<4x64xf32>, %w: tensor<64x64xf32>, %xs: tensor<3x64xf32>, %k: tensor<i64>) -> tensor<4x64xf32> {
  %trips = graph.constant {value = dense<100> : tensor<i64>} : () -> tensor<i64>
  %none = graph.none : none
  %r = graph.loop %trips, %none, %h : (tensor<i64>, none, tensor<4x64xf32>) -> tensor<4x64xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4x64xf32>):
    %p = graph.matmul %v, %w : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %x = graph.gather %xs, %k {axis = 0 : i64} : (tensor<3x64xf32>, tensor<i64>) -> tensor<64xf32>
    %s = graph.add %p, %x : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
    graph.yield %go, %s : tensor<i1>, tensor<4x64xf32>
  }
  return %r : tensor<4x64xf32>
}
