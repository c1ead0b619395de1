// RUN: tensmith-opt --graph-attention-gradients --split-input-file %s | FileCheck %s
// Breaks when attention's gradient reads scores from memory, or takes what it depends on into itself.

// The scores are made twice; the gradient of the keys is turned, and its reader moves behind.
// CHECK-LABEL: func @gradient
// CHECK: graph.softmax
// CHECK: %[[Y:.*]] = graph.matmul
// CHECK: %[[DY:.*]] = graph.add %[[Y]]
// CHECK-NOT: graph.matmul
// CHECK: %[[K:.*]]:3 = graph.kernel
// CHECK-SAME: kind = "attention gradient"
// CHECK: graph.softmax
// CHECK: graph.reduce_sum
// CHECK: graph.yield {{.*}} : tensor<2x40x8xf32>, tensor<2x48x8xf32>, tensor<2x48x8xf32>
// CHECK: %[[T:.*]] = graph.transpose %[[K]]#1
// CHECK: %[[N:.*]] = graph.neg %[[T]]
// CHECK: return %[[Y]], %[[K]]#0, %[[N]], %[[K]]#2
func.func @gradient(%q: tensor<2x40x8xf32>, %kt: tensor<2x8x48xf32>, %v: tensor<2x48x8xf32>, %e: tensor<2x40x8xf32>)
    -> (tensor<2x40x8xf32>, tensor<2x40x8xf32>, tensor<2x8x48xf32>, tensor<2x48x8xf32>) {
  %s = graph.matmul %q, %kt : (tensor<2x40x8xf32>, tensor<2x8x48xf32>) -> tensor<2x40x48xf32>
  %p = graph.softmax %s {axis = 2 : i64} : (tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %y = graph.matmul %p, %v : (tensor<2x40x48xf32>, tensor<2x48x8xf32>) -> tensor<2x40x8xf32>
  %dy = graph.add %y, %e : (tensor<2x40x8xf32>, tensor<2x40x8xf32>) -> tensor<2x40x8xf32>
  %vt = graph.transpose %v {permutation = array<i64: 0, 2, 1>} : (tensor<2x48x8xf32>) -> tensor<2x8x48xf32>
  %g = graph.matmul %dy, %vt : (tensor<2x40x8xf32>, tensor<2x8x48xf32>) -> tensor<2x40x48xf32>
  %gp = graph.mul %g, %p : (tensor<2x40x48xf32>, tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %r = graph.reduce_sum %gp {axes = array<i64: 2>, keepdims = true} : (tensor<2x40x48xf32>) -> tensor<2x40x1xf32>
  %pr = graph.mul %p, %r : (tensor<2x40x48xf32>, tensor<2x40x1xf32>) -> tensor<2x40x48xf32>
  %d = graph.sub %gp, %pr : (tensor<2x40x48xf32>, tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %k = graph.transpose %kt {permutation = array<i64: 0, 2, 1>} : (tensor<2x8x48xf32>) -> tensor<2x48x8xf32>
  %dq = graph.matmul %d, %k : (tensor<2x40x48xf32>, tensor<2x48x8xf32>) -> tensor<2x40x8xf32>
  %qt = graph.transpose %q {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x8xf32>) -> tensor<2x8x40xf32>
  %dkt = graph.matmul %qt, %d : (tensor<2x8x40xf32>, tensor<2x40x48xf32>) -> tensor<2x8x48xf32>
  %n = graph.neg %dkt : (tensor<2x8x48xf32>) -> tensor<2x8x48xf32>
  %pt = graph.transpose %p {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x48xf32>) -> tensor<2x48x40xf32>
  %dv = graph.matmul %pt, %dy : (tensor<2x48x40xf32>, tensor<2x40x8xf32>) -> tensor<2x48x8xf32>
  return %y, %dq, %n, %dv : tensor<2x40x8xf32>, tensor<2x40x8xf32>, tensor<2x8x48xf32>, tensor<2x48x8xf32>
}

// -----

// The sum of the rows' gradients over the stack is the kernel's, too, but for the last of its dimensions, which is
// left to work items; that over queries is a product with ones.
// CHECK-LABEL: func @bias
// CHECK: %[[K:.*]]:3 = graph.kernel
// CHECK-SAME: kind = "attention gradient"
// CHECK: graph.yield {{.*}} : tensor<5x2x48x8xf32>, tensor<5x2x48x8xf32>, tensor<1x2x40x48xf32>
// CHECK: graph.reduce_sum %[[K]]#2 {axes = array<i64: 1>
func.func @bias(%q: tensor<5x2x40x8xf32>, %kt: tensor<5x2x8x48xf32>, %vt: tensor<5x2x8x48xf32>, %dy: tensor<5x2x40x8xf32>)
    -> (tensor<5x2x48x8xf32>, tensor<5x2x48x8xf32>, tensor<40x48xf32>) {
  %s = graph.matmul %q, %kt : (tensor<5x2x40x8xf32>, tensor<5x2x8x48xf32>) -> tensor<5x2x40x48xf32>
  %p = graph.softmax %s {axis = 3 : i64} : (tensor<5x2x40x48xf32>) -> tensor<5x2x40x48xf32>
  %g = graph.matmul %dy, %vt : (tensor<5x2x40x8xf32>, tensor<5x2x8x48xf32>) -> tensor<5x2x40x48xf32>
  %d = graph.mul %g, %p : (tensor<5x2x40x48xf32>, tensor<5x2x40x48xf32>) -> tensor<5x2x40x48xf32>
  %t = graph.transpose %d {permutation = array<i64: 0, 1, 3, 2>} : (tensor<5x2x40x48xf32>) -> tensor<5x2x48x40xf32>
  %dk = graph.matmul %t, %q : (tensor<5x2x48x40xf32>, tensor<5x2x40x8xf32>) -> tensor<5x2x48x8xf32>
  %pt = graph.transpose %p {permutation = array<i64: 0, 1, 3, 2>} : (tensor<5x2x40x48xf32>) -> tensor<5x2x48x40xf32>
  %dv = graph.matmul %pt, %dy : (tensor<5x2x48x40xf32>, tensor<5x2x40x8xf32>) -> tensor<5x2x48x8xf32>
  %b = graph.reduce_sum %d {axes = array<i64: 0, 1>} : (tensor<5x2x40x48xf32>) -> tensor<40x48xf32>
  return %dk, %dv, %b : tensor<5x2x48x8xf32>, tensor<5x2x48x8xf32>, tensor<40x48xf32>
}

// -----

// Where no dimension would be left, the sum has a kernel of its own.
// CHECK-LABEL: func @bias_of_all
// CHECK: %[[K:.*]]:2 = graph.kernel
// CHECK-SAME: kind = "attention gradient"
// CHECK: graph.yield {{.*}} : tensor<2x48x8xf32>, tensor<2x48x8xf32>
// CHECK: graph.kernel
// CHECK-SAME: kind = "attention gradient"
// CHECK: graph.yield {{.*}} : tensor<1x40x48xf32>
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @bias_of_all(%q: tensor<2x40x8xf32>, %kt: tensor<2x8x48xf32>, %vt: tensor<2x8x48xf32>, %dy: tensor<2x40x8xf32>)
    -> (tensor<2x48x8xf32>, tensor<2x48x8xf32>, tensor<40x48xf32>) {
  %s = graph.matmul %q, %kt : (tensor<2x40x8xf32>, tensor<2x8x48xf32>) -> tensor<2x40x48xf32>
  %p = graph.softmax %s {axis = 2 : i64} : (tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %g = graph.matmul %dy, %vt : (tensor<2x40x8xf32>, tensor<2x8x48xf32>) -> tensor<2x40x48xf32>
  %d = graph.mul %g, %p : (tensor<2x40x48xf32>, tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %t = graph.transpose %d {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x48xf32>) -> tensor<2x48x40xf32>
  %dk = graph.matmul %t, %q : (tensor<2x48x40xf32>, tensor<2x40x8xf32>) -> tensor<2x48x8xf32>
  %pt = graph.transpose %p {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x48xf32>) -> tensor<2x48x40xf32>
  %dv = graph.matmul %pt, %dy : (tensor<2x48x40xf32>, tensor<2x40x8xf32>) -> tensor<2x48x8xf32>
  %b = graph.reduce_sum %d {axes = array<i64: 0>} : (tensor<2x40x48xf32>) -> tensor<40x48xf32>
  return %dk, %dv, %b : tensor<2x48x8xf32>, tensor<2x48x8xf32>, tensor<40x48xf32>
}

// -----

// Sums over different dimensions can't be one work item's.
// CHECK-LABEL: func @biases
// CHECK: graph.kernel
// CHECK-SAME: kind = "attention gradient"
// CHECK: graph.yield {{.*}} : tensor<1x2x40x48xf32>
// CHECK: graph.kernel
// CHECK-SAME: kind = "attention gradient"
// CHECK: graph.yield {{.*}} : tensor<5x2x48x8xf32>, tensor<5x2x48x8xf32>, tensor<5x1x40x48xf32>
func.func @biases(%q: tensor<5x2x40x8xf32>, %kt: tensor<5x2x8x48xf32>, %vt: tensor<5x2x8x48xf32>, %dy: tensor<5x2x40x8xf32>)
    -> (tensor<5x2x48x8xf32>, tensor<5x2x48x8xf32>, tensor<2x40x48xf32>, tensor<5x40x48xf32>) {
  %s = graph.matmul %q, %kt : (tensor<5x2x40x8xf32>, tensor<5x2x8x48xf32>) -> tensor<5x2x40x48xf32>
  %p = graph.softmax %s {axis = 3 : i64} : (tensor<5x2x40x48xf32>) -> tensor<5x2x40x48xf32>
  %g = graph.matmul %dy, %vt : (tensor<5x2x40x8xf32>, tensor<5x2x8x48xf32>) -> tensor<5x2x40x48xf32>
  %d = graph.mul %g, %p : (tensor<5x2x40x48xf32>, tensor<5x2x40x48xf32>) -> tensor<5x2x40x48xf32>
  %t = graph.transpose %d {permutation = array<i64: 0, 1, 3, 2>} : (tensor<5x2x40x48xf32>) -> tensor<5x2x48x40xf32>
  %dk = graph.matmul %t, %q : (tensor<5x2x48x40xf32>, tensor<5x2x40x8xf32>) -> tensor<5x2x48x8xf32>
  %pt = graph.transpose %p {permutation = array<i64: 0, 1, 3, 2>} : (tensor<5x2x40x48xf32>) -> tensor<5x2x48x40xf32>
  %dv = graph.matmul %pt, %dy : (tensor<5x2x48x40xf32>, tensor<5x2x40x8xf32>) -> tensor<5x2x48x8xf32>
  %a = graph.reduce_sum %d {axes = array<i64: 0>} : (tensor<5x2x40x48xf32>) -> tensor<2x40x48xf32>
  %b = graph.reduce_sum %d {axes = array<i64: 1>} : (tensor<5x2x40x48xf32>) -> tensor<5x40x48xf32>
  return %dk, %dv, %a, %b : tensor<5x2x48x8xf32>, tensor<5x2x48x8xf32>, tensor<2x40x48xf32>, tensor<5x40x48xf32>
}

// -----

// CHECK-LABEL: func @bias_of_keys
// CHECK: %[[K:.*]]:3 = graph.kernel
// CHECK-SAME: kind = "attention gradient"
// CHECK: graph.yield {{.*}} : tensor<2x48x8xf32>, tensor<2x48x8xf32>, tensor<2x48x1xf32>
func.func @bias_of_keys(%q: tensor<2x40x8xf32>, %kt: tensor<2x8x48xf32>, %vt: tensor<2x8x48xf32>, %dy: tensor<2x40x8xf32>)
    -> (tensor<2x48x8xf32>, tensor<2x48x8xf32>, tensor<48xf32>) {
  %s = graph.matmul %q, %kt : (tensor<2x40x8xf32>, tensor<2x8x48xf32>) -> tensor<2x40x48xf32>
  %p = graph.softmax %s {axis = 2 : i64} : (tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %g = graph.matmul %dy, %vt : (tensor<2x40x8xf32>, tensor<2x8x48xf32>) -> tensor<2x40x48xf32>
  %d = graph.mul %g, %p : (tensor<2x40x48xf32>, tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %t = graph.transpose %d {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x48xf32>) -> tensor<2x48x40xf32>
  %dk = graph.matmul %t, %q : (tensor<2x48x40xf32>, tensor<2x40x8xf32>) -> tensor<2x48x8xf32>
  %pt = graph.transpose %p {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x48xf32>) -> tensor<2x48x40xf32>
  %dv = graph.matmul %pt, %dy : (tensor<2x48x40xf32>, tensor<2x40x8xf32>) -> tensor<2x48x8xf32>
  %b = graph.reduce_sum %d {axes = array<i64: 0, 1>} : (tensor<2x40x48xf32>) -> tensor<48xf32>
  return %dk, %dv, %b : tensor<2x48x8xf32>, tensor<2x48x8xf32>, tensor<48xf32>
}

// -----

// Rows' gradients that are results themselves are the kernel's.
// CHECK-LABEL: func @bias_of_each
// CHECK: %[[K:.*]]:3 = graph.kernel
// CHECK-SAME: kind = "attention gradient"
// CHECK: graph.yield {{.*}} : tensor<2x40x48xf32>, tensor<2x48x8xf32>, tensor<2x48x8xf32>
// CHECK: return %[[K]]#1, %[[K]]#2, %[[K]]#0
func.func @bias_of_each(%q: tensor<2x40x8xf32>, %kt: tensor<2x8x48xf32>, %vt: tensor<2x8x48xf32>, %dy: tensor<2x40x8xf32>)
    -> (tensor<2x48x8xf32>, tensor<2x48x8xf32>, tensor<2x40x48xf32>) {
  %s = graph.matmul %q, %kt : (tensor<2x40x8xf32>, tensor<2x8x48xf32>) -> tensor<2x40x48xf32>
  %p = graph.softmax %s {axis = 2 : i64} : (tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %g = graph.matmul %dy, %vt : (tensor<2x40x8xf32>, tensor<2x8x48xf32>) -> tensor<2x40x48xf32>
  %d = graph.mul %g, %p : (tensor<2x40x48xf32>, tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %t = graph.transpose %d {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x48xf32>) -> tensor<2x48x40xf32>
  %dk = graph.matmul %t, %q : (tensor<2x48x40xf32>, tensor<2x40x8xf32>) -> tensor<2x48x8xf32>
  %pt = graph.transpose %p {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x48xf32>) -> tensor<2x48x40xf32>
  %dv = graph.matmul %pt, %dy : (tensor<2x48x40xf32>, tensor<2x40x8xf32>) -> tensor<2x48x8xf32>
  return %dk, %dv, %d : tensor<2x48x8xf32>, tensor<2x48x8xf32>, tensor<2x40x48xf32>
}

// -----

// A product of the softmax's own rows can't be one that the rows are made of.
// CHECK-LABEL: func @own_rows
// CHECK-NOT: graph.kernel
func.func @own_rows(%q: tensor<2x40x8xf32>, %kt: tensor<2x8x48xf32>, %k: tensor<2x48x8xf32>, %v: tensor<2x48x48xf32>)
    -> (tensor<2x40x8xf32>, tensor<2x48x8xf32>) {
  %s = graph.matmul %q, %kt : (tensor<2x40x8xf32>, tensor<2x8x48xf32>) -> tensor<2x40x48xf32>
  %p = graph.softmax %s {axis = 2 : i64} : (tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %g = graph.matmul %p, %v : (tensor<2x40x48xf32>, tensor<2x48x48xf32>) -> tensor<2x40x48xf32>
  %d = graph.mul %g, %p : (tensor<2x40x48xf32>, tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %dq = graph.matmul %d, %k : (tensor<2x40x48xf32>, tensor<2x48x8xf32>) -> tensor<2x40x8xf32>
  %t = graph.transpose %d {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x48xf32>) -> tensor<2x48x40xf32>
  %dk = graph.matmul %t, %q : (tensor<2x48x40xf32>, tensor<2x40x8xf32>) -> tensor<2x48x8xf32>
  return %dq, %dk : tensor<2x40x8xf32>, tensor<2x48x8xf32>
}

// -----

// What is added to the scores by the numbers of queries and keys is made with them, and a soft cap's
// derivative from the scores that are there: no matrix is read.
// CHECK-LABEL: func @capped_and_causal
// CHECK: %[[K:.*]]:3 = graph.kernel
// CHECK-SAME: kind = "attention gradient"
// CHECK-NOT: ^bb0({{.*}}40x48
// CHECK: graph.less_or_equal
// CHECK: graph.tanh
// CHECK: graph.softmax
func.func @capped_and_causal(%q: tensor<2x40x8xf32>, %kt: tensor<2x8x48xf32>, %v: tensor<2x48x8xf32>, %dy: tensor<2x40x8xf32>)
    -> (tensor<2x40x8xf32>, tensor<2x8x48xf32>, tensor<2x48x8xf32>) {
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %one = graph.constant {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %hidden = graph.constant {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %i = graph.iota {axis = 0 : i64} : () -> tensor<40x1xi64>
  %j = graph.iota {axis = 1 : i64} : () -> tensor<1x48xi64>
  %sees = graph.less_or_equal %j, %i : (tensor<1x48xi64>, tensor<40x1xi64>) -> tensor<40x48xi1>
  %bias = graph.where %sees, %zero, %hidden : (tensor<40x48xi1>, tensor<f32>, tensor<f32>) -> tensor<40x48xf32>
  %s = graph.matmul %q, %kt : (tensor<2x40x8xf32>, tensor<2x8x48xf32>) -> tensor<2x40x48xf32>
  %c = graph.tanh %s : (tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %b = graph.add %c, %bias : (tensor<2x40x48xf32>, tensor<40x48xf32>) -> tensor<2x40x48xf32>
  %p = graph.softmax %b {axis = 2 : i64} : (tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %vt = graph.transpose %v {permutation = array<i64: 0, 2, 1>} : (tensor<2x48x8xf32>) -> tensor<2x8x48xf32>
  %g = graph.matmul %dy, %vt : (tensor<2x40x8xf32>, tensor<2x8x48xf32>) -> tensor<2x40x48xf32>
  %gp = graph.mul %g, %p : (tensor<2x40x48xf32>, tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %r = graph.reduce_sum %gp {axes = array<i64: 2>, keepdims = true} : (tensor<2x40x48xf32>) -> tensor<2x40x1xf32>
  %pr = graph.mul %p, %r : (tensor<2x40x48xf32>, tensor<2x40x1xf32>) -> tensor<2x40x48xf32>
  %dx = graph.sub %gp, %pr : (tensor<2x40x48xf32>, tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %cc = graph.mul %c, %c : (tensor<2x40x48xf32>, tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %slope = graph.sub %one, %cc : (tensor<f32>, tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %d = graph.mul %dx, %slope : (tensor<2x40x48xf32>, tensor<2x40x48xf32>) -> tensor<2x40x48xf32>
  %k = graph.transpose %kt {permutation = array<i64: 0, 2, 1>} : (tensor<2x8x48xf32>) -> tensor<2x48x8xf32>
  %dq = graph.matmul %d, %k : (tensor<2x40x48xf32>, tensor<2x48x8xf32>) -> tensor<2x40x8xf32>
  %qt = graph.transpose %q {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x8xf32>) -> tensor<2x8x40xf32>
  %dkt = graph.matmul %qt, %d : (tensor<2x8x40xf32>, tensor<2x40x48xf32>) -> tensor<2x8x48xf32>
  %pt = graph.transpose %p {permutation = array<i64: 0, 2, 1>} : (tensor<2x40x48xf32>) -> tensor<2x48x40xf32>
  %dv = graph.matmul %pt, %dy : (tensor<2x48x40xf32>, tensor<2x40x8xf32>) -> tensor<2x48x8xf32>
  return %dq, %dkt, %dv : tensor<2x40x8xf32>, tensor<2x8x48xf32>, tensor<2x48x8xf32>
}
