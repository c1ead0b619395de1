// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-order-updates))' | FileCheck %s
// A state is updated behind the last kernel that reads its old value; one that needs the new value stays behind the update.

// CHECK-LABEL: @update_after_reader
// CHECK: graph.kernel %arg0 {kind = "loops", label = "read"}
// CHECK: graph.kernel %arg0, %arg1 {kind = "loops", label = "update"}
func.func @update_after_reader(%w: tensor<4xf32> {graph.state = 0 : i64}, %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.kernel %w, %g {kind = "loops", label = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %2 = graph.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %2 : tensor<4xf32>
  }
  %1 = graph.kernel %w {kind = "loops", label = "read"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %2 = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %2 : tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: @reader_of_both
// CHECK: graph.kernel %arg0, %arg1 {kind = "loops", label = "update"}
// CHECK: label = "both"
func.func @reader_of_both(%w: tensor<4xf32> {graph.state = 0 : i64}, %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.kernel %w, %g {kind = "loops", label = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %2 = graph.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %2 : tensor<4xf32>
  }
  %1 = graph.kernel %w, %0 {kind = "loops", label = "both"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %2 = graph.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %2 : tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// One that is updated by successful runs alone comes behind the kernel that may find an index out of range; another stays.
// CHECK-LABEL: @update_on_success
// CHECK: label = "always"
// CHECK: label = "look up"
// CHECK: label = "on success"
// CHECK: return
func.func @update_on_success(%w: tensor<4xf32> {graph.state = 0 : i64, graph.state_on_success}, %v: tensor<4xf32> {graph.state = 1 : i64}, %c: tensor<4xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.kernel %w {kind = "loops", label = "on success"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %3 = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %3 : tensor<4xf32>
  }
  %1 = graph.kernel %v {kind = "loops", label = "always"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %3 = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %3 : tensor<4xf32>
  }
  %2 = graph.kernel %c, %i {kind = "loops", label = "look up"} : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xi64>):
    %3 = graph.gather %a, %b {axis = 0 : i64} : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>
    graph.yield %3 : tensor<4xf32>
  }
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
