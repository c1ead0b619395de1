// Breaks when a mean over processes is left to anybody but the library that has them, whoever does other operators, or is
// let stand where some processes may not come to.
// RUN: tensmith-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(func.func(graph-libraries))' | FileCheck %s
// RUN: tensmith-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(func.func(graph-libraries{by=onednn}))' | FileCheck %s

// CHECK-LABEL: func.func @means
// CHECK: graph.kernel %arg0 {kind = "call.mpi", label = "all_reduce_mean"}
// CHECK: graph.kernel %arg1 {kind = "call.mpi", label = "all_reduce_mean"}
func.func @means(%x: tensor<5xf32>, %y: tensor<2x3xf64>) -> (tensor<5xf32>, tensor<2x3xf64>) {
  %0 = graph.all_reduce_mean %x : (tensor<5xf32>) -> tensor<5xf32>
  %1 = graph.all_reduce_mean %y : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0, %1 : tensor<5xf32>, tensor<2x3xf64>
}

// -----

func.func @not_in_all(%c: tensor<i1>, %x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<5xf32> {
    // expected-error@+1 {{stands in a branch or a loop}}
    %1 = graph.all_reduce_mean %x : (tensor<5xf32>) -> tensor<5xf32>
    graph.yield %1 : tensor<5xf32>
  } else {
    graph.yield %x : tensor<5xf32>
  }
  return %0 : tensor<5xf32>
}
