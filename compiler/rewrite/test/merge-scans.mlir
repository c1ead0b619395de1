// RUN: tensmith-opt --graph-merge-scans --split-input-file %s | FileCheck %s
// Breaks when a loop stacks the same twice, or what nobody reads, carries what nobody needs, or a value is lost with it.

// CHECK-LABEL: func @twice
// CHECK: %[[L:.*]]:2 = graph.loop
// CHECK: graph.yield %{{.*}}, %[[Y:.*]], %[[Y]] : tensor<i1>, tensor<3xf32>, tensor<3xf32>
// CHECK: return %[[L]]#0, %[[L]]#1, %[[L]]#1
func.func @twice(%n: tensor<i64>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<?x3xf32>, tensor<?x3xf32>) {
  %none = graph.none : none
  %0:3 = graph.loop %n, %none, %x : (tensor<i64>, none, tensor<3xf32>) -> (tensor<3xf32>, tensor<?x3xf32>, tensor<?x3xf32>) {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %a: tensor<3xf32>):
    %1 = graph.neg %a : (tensor<3xf32>) -> tensor<3xf32>
    graph.yield %c, %1, %1, %1 : tensor<i1>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
  return %0#0, %0#1, %0#2 : tensor<3xf32>, tensor<?x3xf32>, tensor<?x3xf32>
}

// -----

// CHECK-LABEL: func @unread
// CHECK: %[[L:.*]]:2 = graph.loop
// CHECK: graph.yield %{{.*}}, %{{.*}}, %[[E:.*]] :
// CHECK: return %[[L]]#1
func.func @unread(%n: tensor<i64>, %x: tensor<3xf32>) -> tensor<?x3xf32> {
  %none = graph.none : none
  %0:3 = graph.loop %n, %none, %x : (tensor<i64>, none, tensor<3xf32>) -> (tensor<3xf32>, tensor<?x3xf32>, tensor<?x3xf32>) {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %a: tensor<3xf32>):
    %1 = graph.neg %a : (tensor<3xf32>) -> tensor<3xf32>
    %2 = graph.exp %a : (tensor<3xf32>) -> tensor<3xf32>
    graph.yield %c, %1, %1, %2 : tensor<i1>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
  return %0#2 : tensor<?x3xf32>
}

// -----

// A sum that nobody reads isn't carried, nor is what only it needed; one that the condition needs is.
// CHECK-LABEL: func @sums
// CHECK: %[[L:.*]]:2 = graph.loop %arg0, %{{.*}}, %arg1, %arg2 :
// CHECK-NOT: graph.exp
// CHECK: graph.yield %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<3xf32>, tensor<f32>
// CHECK: return %[[L]]#0
func.func @sums(%n: tensor<i64>, %x: tensor<3xf32>, %zero: tensor<f32>) -> tensor<3xf32> {
  %none = graph.none : none
  %0:3 = graph.loop %n, %none, %x, %x, %zero : (tensor<i64>, none, tensor<3xf32>, tensor<3xf32>, tensor<f32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<f32>) {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %a: tensor<3xf32>, %s: tensor<3xf32>, %t: tensor<f32>):
    %1 = graph.neg %a : (tensor<3xf32>) -> tensor<3xf32>
    %2 = graph.exp %a : (tensor<3xf32>) -> tensor<3xf32>
    %3 = graph.add %s, %2 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %4 = graph.reduce_sum %1 {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
    %5 = graph.add %t, %4 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %6 = graph.less %5, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
    graph.yield %6, %1, %3, %5 : tensor<i1>, tensor<3xf32>, tensor<3xf32>, tensor<f32>
  }
  return %0#0 : tensor<3xf32>
}

// -----

// Nobody reads the sum but itself, but the size that it tells is that of others, by its name.
// CHECK-LABEL: func @tells_a_size
// CHECK: graph.loop %arg0, %{{.*}}, %arg1 :
// CHECK: graph.range %{{.*}}, %[[S:arg[0-9]+]], %{{.*}}
// CHECK: graph.add %{{.*}}, %[[S]]
func.func @tells_a_size(%n: tensor<i64>, %s0: tensor<i64>, %zero: tensor<i64>, %one: tensor<i64>, %c1: tensor<f32>) -> tensor<?xf32> {
  %none = graph.none : none
  %0:2 = graph.loop %n, %none, %s0 : (tensor<i64>, none, tensor<i64>) -> (tensor<i64>, tensor<?xf32>) {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %s: tensor<i64>):
    %t = graph.range %zero, %s, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #graph.dims<["k"], ()[s0] -> (s0)>>
    %u = graph.reduce_sum %t {axes = array<i64: 0>} : (tensor<?xi64, #graph.dims<["k"], ()[s0] -> (s0)>>) -> tensor<i64>
    %s1 = graph.add %u, %s : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %z = graph.broadcast %c1 : (tensor<f32>) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
    %r = graph.reduce_sum %z {axes = array<i64: 0>} : (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>) -> tensor<f32>
    graph.yield %c, %s1, %r : tensor<i1>, tensor<i64>, tensor<f32>
  }
  return %0#1 : tensor<?xf32>
}
