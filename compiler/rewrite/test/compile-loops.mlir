// RUN: tensmith-opt --graph-compile-loops --split-input-file %s | FileCheck %s
// Breaks when a small loop is called by the virtual machine, or a kernel is asked for what it can't do.

// A constant that is no scalar is an operand of the kernel, as is what comes from outside.
// CHECK-LABEL: func @small
// CHECK: %[[C:.*]] = graph.constant {{.*}}tensor<4xf32>
// CHECK: graph.kernel %arg0, %arg1, %arg2, %[[C]] {kind = "recurrence"
// CHECK: graph.loop
func.func @small(%n: tensor<i64>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %none = graph.none : none
  %0 = graph.loop %n, %none, %x : (tensor<i64>, none, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<4xf32>):
    %c = graph.constant {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : () -> tensor<4xf32>
    %1 = graph.mul %s, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = graph.add %1, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %2 : tensor<i1>, tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// Kernels of their own, in vectors and on several threads, do better.
// CHECK-LABEL: func @large
// CHECK-NOT: graph.kernel
func.func @large(%n: tensor<i64>, %x: tensor<100x100xf32>) -> tensor<100x100xf32> {
  %none = graph.none : none
  %0 = graph.loop %n, %none, %x : (tensor<i64>, none, tensor<100x100xf32>) -> tensor<100x100xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<100x100xf32>):
    %1 = graph.tanh %s : (tensor<100x100xf32>) -> tensor<100x100xf32>
    graph.yield %go, %1 : tensor<i1>, tensor<100x100xf32>
  }
  return %0 : tensor<100x100xf32>
}

// -----

// How many rows there are is only known when it has run.
// CHECK-LABEL: func @rows_that_nobody_counts
// CHECK-NOT: graph.kernel
func.func @rows_that_nobody_counts(%n: tensor<i64>, %x: tensor<f32>) -> tensor<?xf32, #graph.dims<["t"], ()[s0] -> (s0)>> {
  %none = graph.none : none
  %0:2 = graph.loop %n, %none, %x : (tensor<i64>, none, tensor<f32>) -> (tensor<f32>, tensor<?xf32, #graph.dims<["t"], ()[s0] -> (s0)>>) {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<f32>):
    %1 = graph.tanh %s : (tensor<f32>) -> tensor<f32>
    graph.yield %go, %1, %s : tensor<i1>, tensor<f32>, tensor<f32>
  }
  return %0#1 : tensor<?xf32, #graph.dims<["t"], ()[s0] -> (s0)>>
}

// -----

// CHECK-LABEL: func @carried_value_grows
// CHECK-NOT: graph.kernel
func.func @carried_value_grows(%n: tensor<i64>, %x: tensor<?xf32, #graph.dims<["a"], ()[s0] -> (s0)>>) -> tensor<?xf32, #graph.dims<["b"], ()[s0] -> (s0)>> {
  %none = graph.none : none
  %0 = graph.loop %n, %none, %x : (tensor<i64>, none, tensor<?xf32, #graph.dims<["a"], ()[s0] -> (s0)>>) -> tensor<?xf32, #graph.dims<["b"], ()[s0] -> (s0)>> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<?xf32, #graph.dims<["c"], ()[s0] -> (s0)>>):
    %1 = graph.concat %s, %s {axis = 0 : i64} : (tensor<?xf32, #graph.dims<["c"], ()[s0] -> (s0)>>, tensor<?xf32, #graph.dims<["c"], ()[s0] -> (s0)>>) -> tensor<?xf32, #graph.dims<["c"], ()[s0] -> (s0 * 2)>>
    graph.yield %go, %1 : tensor<i1>, tensor<?xf32, #graph.dims<["c"], ()[s0] -> (s0 * 2)>>
  }
  return %0 : tensor<?xf32, #graph.dims<["b"], ()[s0] -> (s0)>>
}
