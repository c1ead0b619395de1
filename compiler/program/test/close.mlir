// What a step has of calls and branches becomes a procedure; its updates stay tensor code in main.
// RUN: split-file %s %t
// RUN: tensmith-opt %t/one.mlir --program-close | FileCheck %t/one.mlir
// RUN: tensmith-opt %t/several.mlir --program-close | FileCheck %t/several.mlir
// RUN: tensmith-opt %t/none.mlir --program-close | FileCheck %t/none.mlir
// RUN: tensmith-opt %t/one.mlir --program-close --program-open | FileCheck %t/one.mlir --check-prefix=AGAIN

//--- one.mlir
// The branch needs the product, and not the difference; the constant is of both.
// CHECK-LABEL: func.func @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>, %arg2: tensor<i1>)
// CHECK-NEXT: %[[LOSS:.*]] = program.enter %arg0, %arg2 {procedure = @main.step} : (tensor<3xf32>, tensor<i1>) -> tensor<3xf32>
// CHECK-NEXT: %[[RATE:.*]] = graph.constant
// CHECK-NEXT: %[[CHANGE:.*]] = graph.mul %[[LOSS]], %[[RATE]]
// CHECK-NEXT: %[[NEW:.*]] = graph.sub %arg1, %[[CHANGE]]
// CHECK-NEXT: return %[[LOSS]], %[[NEW]]
// CHECK: func.func @main.step(%[[X:.*]]: tensor<3xf32>, %[[IS:.*]]: tensor<i1>) -> tensor<3xf32> attributes {program.procedure}
// CHECK-NEXT: %[[C:.*]] = graph.constant
// CHECK-NEXT: %[[P:.*]] = graph.mul %[[X]], %[[C]]
// CHECK-NEXT: %[[R:.*]] = program.if %[[IS]]
// CHECK: program.yield %[[P]]
// CHECK: program.yield %[[X]]
// CHECK: return %[[R]]

// And back: main has its operators, and no procedure is left.
// AGAIN-LABEL: func.func @main(
// AGAIN-NOT: program.enter
// AGAIN: program.if
// AGAIN: graph.sub
// AGAIN-NOT: func.func
func.func @main(%x: tensor<3xf32>, %w: tensor<3xf32>, %is: tensor<i1>) -> (tensor<3xf32>, tensor<3xf32>) {
  %c = graph.constant {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %p = graph.mul %x, %c : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %loss = program.if %is : (tensor<i1>) -> tensor<3xf32> {
    program.yield %p : tensor<3xf32>
  } else {
    program.yield %x : tensor<3xf32>
  }
  %change = graph.mul %loss, %c : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %new = graph.sub %w, %change : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %loss, %new : tensor<3xf32>, tensor<3xf32>
}

//--- several.mlir
// Two results are the fields of a tuple, whose structure is noted.
// CHECK: module attributes {{.*}}program.object<"main.step">
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[BOTH:.*]]:2 = program.enter %arg0 {procedure = @main.step} : (tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: %[[SUM:.*]] = graph.add %[[BOTH]]#0, %[[BOTH]]#1
// CHECK-NEXT: return %[[SUM]]
// CHECK: func.func @main.step(%[[X:.*]]: tensor<3xf32>) -> !program.object<"main.step">
// CHECK-NEXT: %[[S:.*]] = graph.sin %[[X]]
// CHECK-NEXT: %[[R:.*]] = program.call %[[S]] {procedure = @f}
// CHECK-NEXT: %[[T:.*]] = program.construct %[[S]], %[[R]] {tag = 0 : i64}
// CHECK-NEXT: return %[[T]]
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %s = graph.sin %x : (tensor<3xf32>) -> tensor<3xf32>
  %r = program.call %s {procedure = @f} : (tensor<3xf32>) -> tensor<3xf32>
  %sum = graph.add %s, %r : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %sum : tensor<3xf32>
}
func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> attributes {program.procedure} {
  return %x : tensor<3xf32>
}

//--- none.mlir
// Tensor code alone stays where it is.
// CHECK-NOT: program.enter
// CHECK: graph.sin
// CHECK-NOT: func.func @main.step
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %s = graph.sin %x : (tensor<3xf32>) -> tensor<3xf32>
  return %s : tensor<3xf32>
}
