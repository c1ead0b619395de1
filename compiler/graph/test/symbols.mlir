// RUN: tensmith-opt %s | tensmith-opt | FileCheck %s
// Breaks when symbolic dimensions don't survive being printed and read.

// CHECK-LABEL: func @symbolic
// CHECK: graph.add %{{.*}} : (tensor<?x3xf32, #graph.dims<["batch"], ()[s0] -> (s0, 3)>>
!row = tensor<?x3xf32, #graph.dims<["batch"], ()[s0] -> (s0, 3)>>
func.func @symbolic(%x: !row, %y: !row) -> !row {
  %0 = graph.add %x, %y : (!row, !row) -> !row
  return %0 : !row
}
