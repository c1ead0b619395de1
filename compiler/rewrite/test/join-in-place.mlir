// RUN: tensmith-opt --graph-fuse --graph-join-in-place --split-input-file %s | FileCheck %s
// Breaks when what is joined is copied though it could be computed in its place, or when it is computed in place where somebody
// else reads it.

// Products and an element-wise operator store rows at the pitch of what they are joined to.
// CHECK-LABEL: func @columns
// CHECK: %[[A:.*]] = graph.kernel {{.*}}label = "matmul+max", pitch = 13 : i64
// CHECK: %[[B:.*]] = graph.kernel {{.*}}label = "exp", pitch = 13 : i64
// CHECK: %[[JOINED:.*]] = graph.concat %[[A]], %[[B]] {axis = 1 : i64, in_place}
// CHECK: graph.kernel %[[JOINED]]
func.func @columns(%x: tensor<6x16xf32>, %y: tensor<6x5xf32>) -> tensor<6x13xf32> {
  %w = graph.constant {value = dense<1.0> : tensor<16x8xf32>} : () -> tensor<16x8xf32>
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %p = graph.matmul %x, %w : (tensor<6x16xf32>, tensor<16x8xf32>) -> tensor<6x8xf32>
  %a = graph.max %p, %zero : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
  %b = graph.exp %y : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %j = graph.concat %a, %b {axis = 1 : i64} : (tensor<6x8xf32>, tensor<6x5xf32>) -> tensor<6x13xf32>
  %s = graph.softmax %j {axis = 1 : i64} : (tensor<6x13xf32>) -> tensor<6x13xf32>
  return %s : tensor<6x13xf32>
}

// -----

// Parts along the first dimension are stored as ever, though they be seen under another shape.
// CHECK-LABEL: func @planes
// CHECK-NOT: pitch
// CHECK: graph.concat {{.*}} {axis = 1 : i64, in_place}
func.func @planes(%x: tensor<2x3x4xf32>, %y: tensor<1x5x4xf32>) -> tensor<1x11x4xf32> {
  %e = graph.exp %x : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %a = graph.reshape %e : (tensor<2x3x4xf32>) -> tensor<1x6x4xf32>
  %b = graph.exp %y : (tensor<1x5x4xf32>) -> tensor<1x5x4xf32>
  %j = graph.concat %a, %b {axis = 1 : i64} : (tensor<1x6x4xf32>, tensor<1x5x4xf32>) -> tensor<1x11x4xf32>
  %s = graph.softmax %j {axis = 2 : i64} : (tensor<1x11x4xf32>) -> tensor<1x11x4xf32>
  return %s : tensor<1x11x4xf32>
}

// -----

// What another one reads, and what comes from outside, is copied: neighbours by one kernel.
// CHECK-LABEL: func @copied
// CHECK: %[[A:.*]] = graph.kernel %arg0 {{.*}}label = "exp"{{.*}}}
// CHECK: %[[B:.*]] = graph.kernel %arg1 {{.*}}label = "exp", pitch = 32 : i64
// CHECK: %[[COPY:.*]] = graph.kernel %arg2, %[[A]] {{.*}}pitch = 32 : i64} : {{.*}} -> tensor<6x12xf32>
// CHECK: graph.concat %[[COPY]], %[[B]] {axis = 1 : i64, in_place}
func.func @copied(%x: tensor<6x4xf32>, %y: tensor<6x20xf32>, %z: tensor<6x8xf32>) -> (tensor<6x32xf32>, tensor<6x4xf32>) {
  %a = graph.exp %x : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %b = graph.exp %y : (tensor<6x20xf32>) -> tensor<6x20xf32>
  %j = graph.concat %z, %a, %b {axis = 1 : i64} : (tensor<6x8xf32>, tensor<6x4xf32>, tensor<6x20xf32>) -> tensor<6x32xf32>
  %s = graph.softmax %j {axis = 1 : i64} : (tensor<6x32xf32>) -> tensor<6x32xf32>
  %t = graph.softmax %a {axis = 1 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  return %s, %t : tensor<6x32xf32>, tensor<6x4xf32>
}

// -----

// The caller's memory is not the function's to lay out; nor is there any place in the middle of planes.
// CHECK-LABEL: func @outside
// CHECK-NOT: in_place
// CHECK: return
func.func @outside(%x: tensor<3x4x5xf32>, %y: tensor<3x2x5xf32>) -> (tensor<3x6x5xf32>, tensor<3x4x10xf32>) {
  %a = graph.exp %x : (tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
  %b = graph.exp %y : (tensor<3x2x5xf32>) -> tensor<3x2x5xf32>
  %j = graph.concat %a, %b {axis = 1 : i64} : (tensor<3x4x5xf32>, tensor<3x2x5xf32>) -> tensor<3x6x5xf32>
  %s = graph.softmax %j {axis = 2 : i64} : (tensor<3x6x5xf32>) -> tensor<3x6x5xf32>
  %c = graph.sqrt %x : (tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
  %d = graph.neg %x : (tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
  %k = graph.concat %c, %d {axis = 2 : i64} : (tensor<3x4x5xf32>, tensor<3x4x5xf32>) -> tensor<3x4x10xf32>
  return %s, %k : tensor<3x6x5xf32>, tensor<3x4x10xf32>
}

// -----

// Where half of it has to be copied, all of it is.
// CHECK-LABEL: func @half
// CHECK-NOT: in_place
// CHECK: return
func.func @half(%x: tensor<6x8xf32>, %y: tensor<6x8xf32>) -> tensor<6x16xf32> {
  %a = graph.exp %x : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %j = graph.concat %a, %y {axis = 1 : i64} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x16xf32>
  %s = graph.softmax %j {axis = 1 : i64} : (tensor<6x16xf32>) -> tensor<6x16xf32>
  return %s : tensor<6x16xf32>
}
