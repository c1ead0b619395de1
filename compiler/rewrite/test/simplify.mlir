// RUN: tensmith-opt --graph-simplify --split-input-file %s | FileCheck %s
// Breaks when a pattern of simplification stays away, or fires where it would change the result.

// CHECK-LABEL: func @transpositions_cancel
// CHECK-NEXT: return %arg0
func.func @transpositions_cancel(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = graph.transpose %0 {permutation = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// -----

// The order matters: the dimension that comes first is dimension 2 of x, not 1.
// CHECK-LABEL: func @transpositions_compose
// CHECK-NEXT: graph.transpose %arg0 {permutation = array<i64: 2, 0, 1>}
// CHECK-NEXT: return
func.func @transpositions_compose(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = graph.transpose %0 {permutation = array<i64: 1, 2, 0>} : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  return %1 : tensor<4x2x3xf32>
}

// -----

// CHECK-LABEL: func @moved_unit_is_a_reshape
// CHECK-NEXT: graph.reshape %arg0 : (tensor<1x3x4xf32>) -> tensor<3x1x4xf32>
func.func @moved_unit_is_a_reshape(%x: tensor<1x3x4xf32>) -> tensor<3x1x4xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0, 2>} : (tensor<1x3x4xf32>) -> tensor<3x1x4xf32>
  return %0 : tensor<3x1x4xf32>
}

// -----

// CHECK-LABEL: func @turned_matrix_stays
// CHECK-NEXT: graph.transpose
func.func @turned_matrix_stays(%x: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// CHECK-LABEL: func @reshapes_merge
// CHECK-NEXT: graph.reshape %arg0 : (tensor<2x6xf32>) -> tensor<4x3xf32>
// CHECK-NEXT: return
func.func @reshapes_merge(%x: tensor<2x6xf32>) -> tensor<4x3xf32> {
  %0 = graph.reshape %x : (tensor<2x6xf32>) -> tensor<12xf32>
  %1 = graph.reshape %0 : (tensor<12xf32>) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}

// -----

// CHECK-LABEL: func @broadcast_that_the_user_does
// CHECK-NEXT: graph.add %arg0, %arg1 : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @broadcast_that_the_user_does(%x: tensor<3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = graph.broadcast %x : (tensor<3xf32>) -> tensor<2x3xf32>
  %1 = graph.add %0, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Without the broadcast the sum would be of one row.
// CHECK-LABEL: func @broadcast_that_gives_the_shape
// CHECK: graph.broadcast
func.func @broadcast_that_gives_the_shape(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<2x3xf32> {
  %0 = graph.broadcast %x : (tensor<3xf32>) -> tensor<2x3xf32>
  %1 = graph.add %0, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func @reshape_behind_elementwise
// CHECK: graph.add %arg0, %arg1 : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
// CHECK: graph.reshape {{.*}} -> tensor<2x3x4xf32>
func.func @reshape_behind_elementwise(%x: tensor<6x4xf32>, %c: tensor<4xf32>) -> tensor<2x3x4xf32> {
  %0 = graph.reshape %x : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %1 = graph.add %0, %c : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// -----

// The vector lies along another dimension before.
// CHECK-LABEL: func @reshape_of_the_last_dimension
// CHECK: graph.reshape
// CHECK-NEXT: graph.add
func.func @reshape_of_the_last_dimension(%x: tensor<2x6xf32>, %c: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = graph.reshape %x : (tensor<2x6xf32>) -> tensor<3x4xf32>
  %1 = graph.add %0, %c : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// -----

// What a weight that is used transposed gets is multiplied the other way round.
// CHECK-LABEL: @transposed_product
// CHECK: %[[T:.*]] = graph.transpose %arg1
// CHECK: graph.matmul %[[T]], %arg0
// CHECK-NOT: graph.transpose
func.func @transposed_product(%x: tensor<6x4xf32>, %y: tensor<6x5xf32>) -> tensor<5x4xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %1 = graph.matmul %0, %y : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
  return %2 : tensor<5x4xf32>
}

// -----

// So is a sum of such products, as of a weight that the steps of a recurrence use.
// CHECK-LABEL: @transposed_sum
// CHECK-DAG: %[[T:.*]] = graph.transpose %arg1
// CHECK-DAG: %[[U:.*]] = graph.transpose %arg3
// CHECK-DAG: %[[P:.*]] = graph.matmul %[[T]], %arg0
// CHECK-DAG: %[[Q:.*]] = graph.matmul %[[U]], %arg2
// CHECK: graph.add %[[P]], %[[Q]]
// CHECK-NOT: graph.transpose
// CHECK: return
func.func @transposed_sum(%x: tensor<6x4xf32>, %y: tensor<6x5xf32>, %v: tensor<6x4xf32>, %w: tensor<6x5xf32>) -> tensor<5x4xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %1 = graph.matmul %0, %y : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %2 = graph.transpose %v {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %3 = graph.matmul %2, %w : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %4 = graph.add %1, %3 : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %5 = graph.transpose %4 {permutation = array<i64: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
  return %5 : tensor<5x4xf32>
}

// -----

// One transposition of a sum is less than one of each part that no product takes in.
// CHECK-LABEL: @sum_with_another_part
// CHECK: %[[S:.*]] = graph.add
// CHECK: graph.transpose %[[S]]
func.func @sum_with_another_part(%x: tensor<6x4xf32>, %y: tensor<6x5xf32>, %z: tensor<4x5xf32>) -> tensor<5x4xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %1 = graph.matmul %0, %y : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %2 = graph.add %1, %z : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %3 = graph.transpose %2 {permutation = array<i64: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
  return %3 : tensor<5x4xf32>
}

// -----

// Nor is a sum turned that something else reads as it is.
// CHECK-LABEL: @sum_that_is_read
// CHECK: %[[S:.*]] = graph.add
// CHECK: graph.transpose %[[S]]
func.func @sum_that_is_read(%x: tensor<6x4xf32>, %y: tensor<6x5xf32>, %v: tensor<6x4xf32>, %w: tensor<6x5xf32>) -> (tensor<5x4xf32>, tensor<4x5xf32>) {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %1 = graph.matmul %0, %y : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %2 = graph.transpose %v {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %3 = graph.matmul %2, %w : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %4 = graph.add %1, %3 : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %5 = graph.transpose %4 {permutation = array<i64: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
  return %5, %4 : tensor<5x4xf32>, tensor<4x5xf32>
}

// -----

// CHECK-LABEL: @scatter_into_table
// CHECK: %[[U:.*]] = graph.mul
// CHECK: graph.scatter_nd %arg0, %arg1, %[[U]]
// CHECK-NOT: graph.sub
func.func @scatter_into_table(%table: tensor<9x3xf32>, %i: tensor<4x1xi64>, %u: tensor<4x3xf32>) -> tensor<9x3xf32> {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %rate = graph.constant {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.broadcast %zero : (tensor<f32>) -> tensor<9x3xf32>
  %1 = graph.scatter_nd %0, %i, %u {reduction = "add"} : (tensor<9x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>) -> tensor<9x3xf32>
  %2 = graph.mul %rate, %1 : (tensor<f32>, tensor<9x3xf32>) -> tensor<9x3xf32>
  %3 = graph.sub %table, %2 : (tensor<9x3xf32>, tensor<9x3xf32>) -> tensor<9x3xf32>
  return %3 : tensor<9x3xf32>
}

// -----

// CHECK-LABEL: @scatter_of_rows
// CHECK-NOT: graph.broadcast
// CHECK: graph.scatter_nd %arg0, %{{.*}}, %arg2 {reduction = "max"}
func.func @scatter_of_rows(%x: tensor<9x3xf32>, %i: tensor<4x1xi64>, %u: tensor<4x3xf32>) -> tensor<9x3xf32> {
  %0 = graph.broadcast %i : (tensor<4x1xi64>) -> tensor<4x3xi64>
  %1 = graph.scatter_elements %x, %0, %u {axis = 0 : i64, reduction = "max"} : (tensor<9x3xf32>, tensor<4x3xi64>, tensor<4x3xf32>) -> tensor<9x3xf32>
  return %1 : tensor<9x3xf32>
}

// -----

// Of a window dilated by 6 on 5 rows only the middle one meets them; of the columns all three do.
// CHECK-LABEL: func @weights_that_see_padding_alone
// CHECK: %[[W:.*]] = graph.slice %arg1 {starts = array<i64: 0, 0, 1, 0>
// CHECK: graph.conv %arg0, %[[W]], {{.*}}dilations = array<i64: 1, 2>, pads = array<i64: 0, 2, 0, 2>
func.func @weights_that_see_padding_alone(%x: tensor<1x3x5x9xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x5x9xf32> {
  %n = graph.none : none
  %0 = graph.conv %x, %w, %n {strides = array<i64: 1, 1>, pads = array<i64: 6, 2, 6, 2>, dilations = array<i64: 6, 2>} : (tensor<1x3x5x9xf32>, tensor<4x3x3x3xf32>, none) -> tensor<1x4x5x9xf32>
  return %0 : tensor<1x4x5x9xf32>
}

// -----

// What would leave negative padding stays, as does what the last position sees an element with.
// CHECK-LABEL: func @weights_that_see_something
// CHECK-NOT: graph.slice
func.func @weights_that_see_something(%x: tensor<1x3x5xf32>, %w: tensor<4x3x3xf32>) -> (tensor<1x4x3xf32>, tensor<1x4x5xf32>) {
  %n = graph.none : none
  %0 = graph.conv %x, %w, %n {strides = array<i64: 1>, pads = array<i64: 5, 5>, dilations = array<i64: 6>} : (tensor<1x3x5xf32>, tensor<4x3x3xf32>, none) -> tensor<1x4x3xf32>
  %1 = graph.conv %x, %w, %n {strides = array<i64: 1>, pads = array<i64: 4, 4>, dilations = array<i64: 4>} : (tensor<1x3x5xf32>, tensor<4x3x3xf32>, none) -> tensor<1x4x5xf32>
  return %0, %1 : tensor<1x4x3xf32>, tensor<1x4x5xf32>
}
