// RUN: tensmith-opt --graph-straighten --split-input-file %s | FileCheck %s
// Breaks when control flow that is known stays, or one that isn't goes.

// CHECK-LABEL: func @known_branch
// CHECK-NEXT: graph.constant
// CHECK-NEXT: graph.neg
// CHECK-NEXT: return
func.func @known_branch(%x: tensor<1000xf32>) -> tensor<1000xf32> {
  %c = graph.constant {value = dense<false> : tensor<i1>} : () -> tensor<i1>
  %0 = graph.if %c : (tensor<i1>) -> tensor<1000xf32> {
    graph.yield %x : tensor<1000xf32>
  } else {
    %1 = graph.neg %x : (tensor<1000xf32>) -> tensor<1000xf32>
    graph.yield %1 : tensor<1000xf32>
  }
  return %0 : tensor<1000xf32>
}

// -----

// CHECK-LABEL: func @small_branches
// CHECK-NOT: graph.if
// CHECK: graph.where %arg0
func.func @small_branches(%c: tensor<i1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<3xf32> {
    graph.yield %x : tensor<3xf32>
  } else {
    %1 = graph.neg %x : (tensor<3xf32>) -> tensor<3xf32>
    graph.yield %1 : tensor<3xf32>
  }
  return %0 : tensor<3xf32>
}

// -----

// An index out of range must only end the run where it is asked for.
// CHECK-LABEL: func @branch_that_may_fail
// CHECK: graph.if
func.func @branch_that_may_fail(%c: tensor<i1>, %x: tensor<3xf32>, %i: tensor<i64>) -> tensor<f32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<f32> {
    %1 = graph.gather %x, %i {axis = 0 : i64} : (tensor<3xf32>, tensor<i64>) -> tensor<f32>
    graph.yield %1 : tensor<f32>
  } else {
    %1 = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
    graph.yield %1 : tensor<f32>
  }
  return %0 : tensor<f32>
}

// -----

// CHECK-LABEL: func @few_trips
// CHECK-NOT: graph.loop
// CHECK-COUNT-3: graph.tanh
// CHECK: graph.concat
func.func @few_trips(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>) {
  %n = graph.constant {value = dense<3> : tensor<i64>} : () -> tensor<i64>
  %none = graph.none : none
  %0:2 = graph.loop %n, %none, %x : (tensor<i64>, none, tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>) {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<2xf32>):
    %1 = graph.tanh %s : (tensor<2xf32>) -> tensor<2xf32>
    graph.yield %go, %1, %s : tensor<i1>, tensor<2xf32>, tensor<2xf32>
  }
  return %0#0, %0#1 : tensor<2xf32>, tensor<3x2xf32>
}

// -----

// CHECK-LABEL: func @may_end_early
// CHECK: graph.loop
func.func @may_end_early(%x: tensor<f32>) -> tensor<f32> {
  %n = graph.constant {value = dense<3> : tensor<i64>} : () -> tensor<i64>
  %none = graph.none : none
  %0 = graph.loop %n, %none, %x : (tensor<i64>, none, tensor<f32>) -> tensor<f32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<f32>):
    %1 = graph.tanh %s : (tensor<f32>) -> tensor<f32>
    %2 = graph.less %1, %s : (tensor<f32>, tensor<f32>) -> tensor<i1>
    graph.yield %2, %1 : tensor<i1>, tensor<f32>
  }
  return %0 : tensor<f32>
}

// -----

// What a loop hands on unchanged is read from outside; what it changes is carried.
// CHECK-LABEL: func @invariant
// CHECK: graph.loop %arg0, %{{.*}}, %arg1 :
// CHECK: graph.mul %{{.*}}, %arg2
// CHECK: return %{{.*}}#0, %arg2, %{{.*}}#1
func.func @invariant(%n: tensor<i64>, %x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>) {
  %none = graph.none : none
  %0:3 = graph.loop %n, %none, %w, %x : (tensor<i64>, none, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>) {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %v: tensor<4xf32>, %s: tensor<4xf32>):
    %1 = graph.mul %s, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %c, %v, %1, %1 : tensor<i1>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %0#1, %0#0, %0#2 : tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>
}
