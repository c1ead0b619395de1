// Breaks when a library is given less than it has a pattern for, or what it has none for.
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-libraries{by=openblas}))' | FileCheck %s --check-prefix=BLAS
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-libraries{by=onednn}))' | FileCheck %s --check-prefix=DNN
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-libraries))' | FileCheck %s --check-prefix=NONE
// RUN: not tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-libraries{by=blas}))' 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: no library is called 'blas'; there are
// NONE-NOT: graph.kernel

// A library takes what it has a pattern for, with the transposition before it, and leaves the rest.
// BLAS-LABEL: func.func @dense
// BLAS: %[[S:.*]] = graph.kernel %arg0, %arg1, %arg2 {kind = "call.openblas", label = "transpose+matmul+add"}
// BLAS: graph.transpose
// BLAS: graph.matmul
// BLAS: graph.add
// BLAS-NEXT: graph.yield
// BLAS: graph.max %[[S]]
// DNN-LABEL: func.func @dense
// DNN: graph.kernel %arg0, %arg1, %arg2 {kind = "call.onednn", label = "transpose+matmul+add+max"}
// DNN: graph.max
// DNN-NEXT: graph.yield
func.func @dense(%x: tensor<4x3xf32>, %w: tensor<5x3xf32>, %b: tensor<5xf32>) -> tensor<4x5xf32> {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %t = graph.transpose %w {permutation = array<i64: 1, 0>} : (tensor<5x3xf32>) -> tensor<3x5xf32>
  %p = graph.matmul %x, %t : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %s = graph.add %p, %b : (tensor<4x5xf32>, tensor<5xf32>) -> tensor<4x5xf32>
  %r = graph.max %s, %zero : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}

// What is used by others too stays outside; a value that is both operands is two.
// DNN-LABEL: func.func @square
// DNN: %[[P:.*]] = graph.kernel %arg0, %arg0 {kind = "call.onednn", label = "matmul"}
// DNN: graph.tanh %[[P]]
// DNN: graph.add
func.func @square(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %p = graph.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = graph.tanh %p : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = graph.add %t, %p : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}

// Other types, and sizes that need not agree, are nobody's.
// DNN-LABEL: func.func @others
// DNN-NOT: graph.kernel
// DNN: return
func.func @others(%x: tensor<4x4xf64>, %y: tensor<4x?xf32, #graph.dims<["n"], ()[s0] -> (4, s0)>>, %z: tensor<?x4xf32, #graph.dims<["m"], ()[s0] -> (s0, 4)>>)
    -> (tensor<4x4xf64>, tensor<4x4xf32>) {
  %p = graph.matmul %x, %x : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %q = graph.matmul %y, %z : (tensor<4x?xf32, #graph.dims<["n"], ()[s0] -> (4, s0)>>, tensor<?x4xf32, #graph.dims<["m"], ()[s0] -> (s0, 4)>>) -> tensor<4x4xf32>
  return %p, %q : tensor<4x4xf64>, tensor<4x4xf32>
}
