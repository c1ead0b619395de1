// What a derivative is made of: only what is wanted, over values that are there already.
// RUN: split-file %s %t
// RUN: tensmith-opt %t/product.mlir --pass-pipeline='builtin.module(func.func(graph-differentiate{of=loss by=w}))' | FileCheck %t/product.mlir
// RUN: tensmith-opt %t/tangent.mlir --pass-pipeline='builtin.module(func.func(graph-differentiate{by=x forward}))' | FileCheck %t/tangent.mlir
// RUN: tensmith-opt %t/loop.mlir --pass-pipeline='builtin.module(func.func(graph-differentiate{of=output0 by=input0}))' | FileCheck %t/loop.mlir
// RUN: not tensmith-opt %t/none.mlir --pass-pipeline='builtin.module(func.func(graph-differentiate{of=output0 by=input0}))' 2>&1 | FileCheck %t/none.mlir
// RUN: not tensmith-opt %t/none.mlir --pass-pipeline='builtin.module(func.func(graph-differentiate{of=output0 by=input0 forward}))' 2>&1 | FileCheck %t/none.mlir
// RUN: tensmith-opt %t/none.mlir --pass-pipeline='builtin.module(func.func(graph-differentiate{of=output1 by=input0}))' | FileCheck %t/none.mlir --check-prefix=OTHER
// RUN: not tensmith-opt %t/none.mlir --pass-pipeline='builtin.module(func.func(graph-differentiate{of=output0 by=nothing}))' 2>&1 | FileCheck %t/none.mlir --check-prefix=NAMES
// RUN: not tensmith-opt %t/unranked.mlir --pass-pipeline='builtin.module(func.func(graph-differentiate{of=output0 by=input0 cotangent}))' 2>&1 | FileCheck %t/unranked.mlir
// RUN: tensmith-opt %t/unranked.mlir --pass-pipeline='builtin.module(func.func(graph-differentiate{of=output1 by=input0 cotangent}))' | FileCheck %t/unranked.mlir --check-prefix=ELEMENTS
// RUN: tensmith-opt %t/value.mlir --pass-pipeline='builtin.module(func.func(graph-differentiate{of=loss by=x}))' | FileCheck %t/value.mlir

//--- value.mlir
// A resize gives its value itself; the products that its gradient goes by are not computed for that.
// CHECK: %[[R:.*]] = graph.resize %arg0
// CHECK-NOT: graph.matmul
// CHECK: %[[S:.*]] = graph.sin %[[R]]
// CHECK-NOT: unrealized
// CHECK: graph.matmul
// CHECK-NOT: graph.matmul
func.func @main(%x: tensor<1x1x1x3xf32> {graph.name = "x"}) -> (tensor<f32> {graph.name = "loss"}) {
  %none = graph.none : none
  %scales = graph.constant {value = dense<[1.0, 1.0, 1.0, 2.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  %r = graph.resize %x, %none, %scales, %none {mode = "nearest", nearest_mode = "floor"} : (tensor<1x1x1x3xf32>, none, tensor<4xf32>, none) -> tensor<1x1x1x6xf32>
  %s = graph.sin %r : (tensor<1x1x1x6xf32>) -> tensor<1x1x1x6xf32>
  %l = graph.reduce_sum %s {axes = array<i64: 0, 1, 2, 3>, keepdims = false} : (tensor<1x1x1x6xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

//--- product.mlir
// The gradient by w takes no product with w: nobody asks what x gets.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf32> {graph.name = "x"}, %[[W:.*]]: tensor<3x2xf32> {graph.name = "w"})
// CHECK-SAME: tensor<3x2xf32> {graph.name = "gradient.w"}
// CHECK: graph.matmul %[[X]], %[[W]]
// CHECK: %[[T:.*]] = graph.transpose %[[X]]
// CHECK: %[[G:.*]] = graph.matmul %[[T]],
// CHECK-NOT: graph.matmul
// CHECK: return %{{.*}}, %[[G]]
func.func @main(%x: tensor<4x3xf32> {graph.name = "x"}, %w: tensor<3x2xf32> {graph.name = "w"}) -> (tensor<f32> {graph.name = "loss"}) {
  %y = graph.matmul %x, %w : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %s = graph.mul %y, %y : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %l = graph.reduce_sum %s {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x2xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

//--- tangent.mlir
// CHECK: %[[X:.*]]: tensor<3xf32> {graph.name = "x"}, %[[DX:.*]]: tensor<3xf32> {graph.name = "tangent.x"}
// CHECK-SAME: {graph.name = "tangent.y"}
// CHECK: %[[Y:.*]] = graph.exp %[[X]]
// CHECK: %[[DY:.*]] = graph.mul %[[DX]], %[[Y]]
// CHECK: return %[[Y]], %[[DY]]
func.func @main(%x: tensor<3xf32> {graph.name = "x"}) -> (tensor<3xf32> {graph.name = "y"}) {
  %y = graph.exp %x : (tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}

//--- loop.mlir
// The forward loop scans out the state that the way back needs, and nothing else.
// CHECK: %[[F:.*]]:2 = graph.loop
// CHECK-SAME: -> (tensor<f32>, tensor<5xf32>)
// CHECK: graph.loop %{{.*}}, %{{.*}}, %{{.*}} : (tensor<i64>, none, tensor<f32>) -> tensor<f32>
// CHECK: graph.gather %[[F]]#1
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %trips = graph.constant {value = dense<5> : tensor<i64>} : () -> tensor<i64>
  %none = graph.none : none
  %r = graph.loop %trips, %none, %x : (tensor<i64>, none, tensor<f32>) -> tensor<f32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<f32>):
    %n = graph.sin %v : (tensor<f32>) -> tensor<f32>
    graph.yield %go, %n : tensor<i1>, tensor<f32>
  }
  return %r : tensor<f32>
}

//--- none.mlir
// Each region has as many samples as it is large, which only the run knows.
// CHECK: node 'regions': 'roi_align' has no derivative, and one is asked for that goes through it
// OTHER: {graph.name = "gradient.input0"}
// NAMES: there is no input 'nothing' to differentiate by; there is 'input0'
func.func @main(%x: tensor<1x1x3x3xf32>) -> (tensor<f32>, tensor<f32>) {
  %rois = graph.constant {value = dense<1.0> : tensor<1x4xf32>} : () -> tensor<1x4xf32>
  %images = graph.constant {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %d = graph.roi_align %x, %rois, %images : (tensor<1x1x3x3xf32>, tensor<1x4xf32>, tensor<1xi64>) -> tensor<1x1x1x1xf32> loc("regions")
  %r = graph.reduce_sum %d {axes = array<i64: 0, 1, 2, 3>, keepdims = false} : (tensor<1x1x1x1xf32>) -> tensor<f32>
  %s = graph.reduce_sum %x {axes = array<i64: 0, 1, 2, 3>, keepdims = false} : (tensor<1x1x3x3xf32>) -> tensor<f32>
  return %r, %s : tensor<f32>, tensor<f32>
}

//--- unranked.mlir
// Rules ask for the dimensions, but for those of elements.
// CHECK: node 'sums': 'reduce_sum' has no derivative where its operands' number of dimensions is not known
// ELEMENTS: graph.cos %arg0
func.func @main(%x: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %s = graph.reduce_sum %x {axes = array<i64: 0>, keepdims = true} : (tensor<*xf32>) -> tensor<*xf32> loc("sums")
  %y = graph.sin %x : (tensor<*xf32>) -> tensor<*xf32>
  return %s, %y : tensor<*xf32>, tensor<*xf32>
}
