// RUN: tensmith-opt --graph-check-sizes --split-input-file %s | FileCheck %s
// Breaks when a requirement that only the run can decide leaves no check, or one that is proved does.

!a = tensor<?x?xf32, #graph.dims<["k", "n"], ()[s0, s1] -> (s1, s0)>>
!b = tensor<?x?xf32, #graph.dims<["m", "p"], ()[s0, s1] -> (s0, s1)>>
!c = tensor<?x?xf32, #graph.dims<["n", "p"], ()[s0, s1] -> (s0, s1)>>
// CHECK-LABEL: func @depths_of_two_names
// CHECK: graph.reshape %arg1 {{.*}} -> tensor<?x?xf32, #graph.dims<["k", "p"]
// CHECK-NEXT: graph.check {message = "(C1) {{.*}}", relation = 0 : i64, sizes = #graph.dims<["k", "m"], ()[s0, s1] -> (s0, s1)>}
// CHECK-NEXT: graph.matmul
// The second product needs no check of its own.
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.add
func.func @depths_of_two_names(%a: !a, %b: !b) -> !c {
  %0 = graph.matmul %a, %b : (!a, !b) -> !c
  %1 = graph.matmul %a, %b : (!a, !b) -> !c
  %2 = graph.add %0, %1 : (!c, !c) -> !c
  return %2 : !c
}

// -----

!x = tensor<1x3x?xf32, #graph.dims<["h"], ()[s0] -> (1, 3, s0)>>
!half = tensor<1x3x?xf32, #graph.dims<["h"], ()[s0] -> (1, 3, (s0 - 1) floordiv 2 + 1)>>
!quarter = tensor<1x3x?xf32, #graph.dims<["h"], ()[s0] -> (1, 3, ((s0 - 1) floordiv 2) floordiv 2 + 1)>>
// An image that has a pixel has one after each pool.
// CHECK-LABEL: func @windows_over_an_image
// CHECK: graph.check {message = "(V4) {{.*}}", relation = 1
// CHECK-NOT: graph.check
func.func @windows_over_an_image(%x: !x) -> !quarter {
  %0 = graph.max_pool %x {dilations = array<i64: 1>, kernel = array<i64: 3>, pads = array<i64: 1, 1>, strides = array<i64: 2>} : (!x) -> !half
  %1 = graph.max_pool %0 {dilations = array<i64: 1>, kernel = array<i64: 3>, pads = array<i64: 1, 1>, strides = array<i64: 2>} : (!half) -> !quarter
  return %1 : !quarter
}

// -----

!x = tensor<?x64xf32, #graph.dims<["n"], ()[s0] -> (s0, 64)>>
!y = tensor<?x4x16xf32, #graph.dims<["n"], ()[s0] -> (s0, 4, 16)>>
// CHECK-LABEL: func @what_is_proved
// CHECK-NOT: graph.check
func.func @what_is_proved(%x: !x) -> !y {
  %0 = graph.reshape %x : (!x) -> !y
  return %0 : !y
}

// -----

!x = tensor<?xf32, #graph.dims<["n"], ()[s0] -> (s0)>>
// CHECK-LABEL: func @slice_from_the_fourth
// CHECK-NEXT: graph.check {message = "(M2) {{.*}}", relation = 1 : i64, sizes = #graph.dims<["n"], ()[s0] -> (7, s0)>}
func.func @slice_from_the_fourth(%x: !x) -> tensor<3xf32> {
  %0 = graph.slice %x {starts = array<i64: 4>, steps = array<i64: 1>} : (!x) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

!x = tensor<?x?xf32, #graph.dims<["m", "n"], ()[s0, s1] -> (s0, s1)>>
// A dimension of 8 is not 1, so that the other one is 8, which all types then say.
// CHECK-LABEL: func @what_can_not_be_one_is_equal
// CHECK: graph.reshape %arg0 {{.*}} -> tensor<?x8xf32
// CHECK-NEXT: graph.check {{.*}} relation = 0 : i64
// CHECK-NEXT: graph.layer_norm {{.*}}(tensor<?x8xf32
func.func @what_can_not_be_one_is_equal(%x: !x, %s: tensor<8xf32>, %b: tensor<8xf32>) -> !x {
  %y, %mean, %deviation = graph.layer_norm %x, %s, %b {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (!x, tensor<8xf32>, tensor<8xf32>) -> (!x, tensor<?x1xf32, #graph.dims<["m"], ()[s0] -> (s0, 1)>>, tensor<?x1xf32, #graph.dims<["m"], ()[s0] -> (s0, 1)>>)
  return %y : !x
}

// -----

!own = tensor<?xf32, #graph.dims<["broadcast.0"], ()[s0] -> (s0)>>
// Sizes of which nothing is known get names, and what is computed from them says so: nothing
// defines broadcast.0.
// CHECK-LABEL: func @sizes_without_names
// CHECK-NOT: broadcast.0
// CHECK: graph.check {{.*}} sizes = #graph.dims<["unknown.0", "unknown.1"]
// CHECK: graph.add {{.*}} -> tensor<?xf32, #graph.dims<["unknown.0", "unknown.1"]
// CHECK: graph.abs {{.*}} -> tensor<?xf32, #graph.dims<["unknown.0", "unknown.1"]
func.func @sizes_without_names(%x: tensor<?xf32>, %y: tensor<?xf32>) -> !own {
  %0 = graph.add %x, %y : (tensor<?xf32>, tensor<?xf32>) -> !own
  %1 = graph.abs %0 : (!own) -> !own
  return %1 : !own
}

// -----

!x = tensor<?x?xf32, #graph.dims<["k", "m"], ()[s0, s1] -> (s1, s0)>>
!at = tensor<?x?xi64, #graph.dims<["k", "u"], ()[s0, s1] -> (s1, s0)>>
!updates = tensor<4x?xf32, #graph.dims<["w"], ()[s0] -> (4, s0)>>
// Index tuples have one element only by the product's check, so that what scatter_nd requires of the
// updates is known only after it.
// CHECK-LABEL: func @what_an_equal_size_tells
// CHECK: graph.check {message = "(C1)
// CHECK: graph.check {message = "(G1) {{.*}} sizes = #graph.dims<["u"], ()[s0] -> (4, s0)>
// CHECK: graph.check {message = "(G1) {{.*}} sizes = #graph.dims<["w"], ()[s0] -> (s0, 1)>
func.func @what_an_equal_size_tells(%x: !x, %w: tensor<1x1xf32>, %at: !at, %updates: !updates) -> tensor<?x1xf32, #graph.dims<["m"], ()[s0] -> (s0, 1)>> {
  %0 = graph.matmul %x, %w : (!x, tensor<1x1xf32>) -> tensor<?x1xf32, #graph.dims<["m"], ()[s0] -> (s0, 1)>>
  %1 = graph.scatter_nd %0, %at, %updates {reduction = "add"} : (tensor<?x1xf32, #graph.dims<["m"], ()[s0] -> (s0, 1)>>, !at, !updates) -> tensor<?x1xf32, #graph.dims<["m"], ()[s0] -> (s0, 1)>>
  return %1 : tensor<?x1xf32, #graph.dims<["m"], ()[s0] -> (s0, 1)>>
}

// -----

!a = tensor<?x?xf32, #graph.dims<["k", "n"], ()[s0, s1] -> (s0, s1)>>
!b = tensor<?x?xf32, #graph.dims<["m", "p"], ()[s0, s1] -> (s0, s1)>>
!c = tensor<?x?xf32, #graph.dims<["n", "p"], ()[s0, s1] -> (s0 + 1, s1)>>
!d = tensor<?x?xf32, #graph.dims<["k", "p"], ()[s0, s1] -> (s0, s1)>>
// Breaks where what can't hold beside another requirement is asked for again and again.
// CHECK-LABEL: func @one_of_two_can_not_hold
// CHECK: graph.check
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.check
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: return
func.func @one_of_two_can_not_hold(%a: !a, %b: !b, %c: !c) -> (!d, !d) {
  %0 = graph.matmul %a, %b : (!a, !b) -> !d
  %1 = graph.matmul %a, %c : (!a, !c) -> !d
  return %0, %1 : !d, !d
}
