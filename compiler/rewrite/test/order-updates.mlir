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
