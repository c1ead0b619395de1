// Loops: a second one runs backward over what the first has scanned out.
// RUN: split-file %s %t
// RUN: random-gradients --check %t/recurrence.mlir --second
// RUN: random-gradients --check %t/unknown_trips.mlir --second
// RUN: random-gradients --check %t/no_trips.mlir --second
// RUN: random-gradients --check %t/rows.mlir --second
// RUN: random-gradients --check %t/inner.mlir --second
// RUN: random-gradients --check %t/branch.mlir --second
// RUN: random-gradients --check %t/symbolic.mlir --second

//--- recurrence.mlir
// A state, a matrix from outside, and a sum of what is scanned out.
func.func @main(%h: tensor<2x3xf64> {random.seed = 1 : i64, random.kind = "small"}, %w: tensor<3x3xf64> {random.seed = 2 : i64, random.kind = "small"}, %b: tensor<3xf64> {random.seed = 3 : i64, random.kind = "small"}) -> (tensor<2x3xf64>, tensor<4x2x3xf64>) {
  %trips = graph.constant {value = dense<4> : tensor<i64>} : () -> tensor<i64>
  %none = graph.none : none
  %r:2 = graph.loop %trips, %none, %h : (tensor<i64>, none, tensor<2x3xf64>) -> (tensor<2x3xf64>, tensor<4x2x3xf64>) {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2x3xf64>):
    %p = graph.matmul %v, %w : (tensor<2x3xf64>, tensor<3x3xf64>) -> tensor<2x3xf64>
    %s = graph.add %p, %b : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
    %q = graph.tanh %s : (tensor<2x3xf64>) -> tensor<2x3xf64>
    %o = graph.mul %q, %v : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
    graph.yield %go, %q, %o : tensor<i1>, tensor<2x3xf64>, tensor<2x3xf64>
  }
  return %r#0, %r#1 : tensor<2x3xf64>, tensor<4x2x3xf64>
}

//--- unknown_trips.mlir
// It runs until the sum is large enough; two states, of which one depends on the other.
func.func @main(%x: tensor<3xf64> {random.seed = 11 : i64, random.kind = "positive"}, %y: tensor<3xf64> {random.seed = 12 : i64, random.kind = "small"}) -> (tensor<3xf64>, tensor<3xf64>) {
  %none = graph.none : none
  %limit = graph.constant {value = dense<40.0> : tensor<f64>} : () -> tensor<f64>
  %r:2 = graph.loop %none, %none, %x, %y : (none, none, tensor<3xf64>, tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<3xf64>, %u: tensor<3xf64>):
    %k = graph.constant {value = dense<1.5> : tensor<f64>} : () -> tensor<f64>
    %n = graph.mul %v, %k : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
    %m = graph.sin %u : (tensor<3xf64>) -> tensor<3xf64>
    %o = graph.mul %m, %n : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    %t = graph.reduce_sum %n {axes = array<i64: 0>, keepdims = false} : (tensor<3xf64>) -> tensor<f64>
    %more = graph.less %t, %limit : (tensor<f64>, tensor<f64>) -> tensor<i1>
    graph.yield %more, %n, %o : tensor<i1>, tensor<3xf64>, tensor<3xf64>
  }
  return %r#0, %r#1 : tensor<3xf64>, tensor<3xf64>
}

//--- no_trips.mlir
func.func @main(%x: tensor<3xf64> {random.seed = 11 : i64, random.kind = "positive"}, %w: tensor<3xf64> {random.seed = 12 : i64, random.kind = "small"}) -> tensor<3xf64> {
  %trips = graph.constant {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  %none = graph.none : none
  %r = graph.loop %trips, %none, %x : (tensor<i64>, none, tensor<3xf64>) -> tensor<3xf64> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<3xf64>):
    %n = graph.mul %v, %w : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    graph.yield %go, %n : tensor<i1>, tensor<3xf64>
  }
  %y = graph.mul %r, %r : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %y : tensor<3xf64>
}

//--- rows.mlir
// It reads one row of five in each of three iterations, and another tensor's in no order.
func.func @main(%xs: tensor<5x2xf64> {random.seed = 1 : i64, random.kind = "small"}, %ys: tensor<3x2xf64> {random.seed = 4 : i64, random.kind = "small"}, %h: tensor<2xf64> {random.seed = 2 : i64, random.kind = "small"}) -> (tensor<2xf64>, tensor<3x2xf64>) {
  %trips = graph.constant {value = dense<3> : tensor<i64>} : () -> tensor<i64>
  %order = graph.constant {value = dense<[2, 0, 2]> : tensor<3xi64>} : () -> tensor<3xi64>
  %none = graph.none : none
  %r:2 = graph.loop %trips, %none, %h : (tensor<i64>, none, tensor<2xf64>) -> (tensor<2xf64>, tensor<3x2xf64>) {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2xf64>):
    %x = graph.gather %xs, %i {axis = 0 : i64} : (tensor<5x2xf64>, tensor<i64>) -> tensor<2xf64>
    %j = graph.gather %order, %i {axis = 0 : i64} : (tensor<3xi64>, tensor<i64>) -> tensor<i64>
    %y = graph.gather %ys, %j {axis = 0 : i64} : (tensor<3x2xf64>, tensor<i64>) -> tensor<2xf64>
    %p = graph.mul %v, %x : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
    %q = graph.cos %p : (tensor<2xf64>) -> tensor<2xf64>
    %s = graph.mul %q, %y : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
    graph.yield %go, %q, %s : tensor<i1>, tensor<2xf64>, tensor<2xf64>
  }
  return %r#0, %r#1 : tensor<2xf64>, tensor<3x2xf64>
}

//--- inner.mlir
// A loop in a loop; the inner one's trips change, and are zero first.
func.func @main(%x: tensor<3xf64> {random.seed = 1 : i64, random.kind = "small"}, %w: tensor<3xf64> {random.seed = 2 : i64, random.kind = "small"}) -> tensor<3xf64> {
  %trips = graph.constant {value = dense<3> : tensor<i64>} : () -> tensor<i64>
  %none = graph.none : none
  %r = graph.loop %trips, %none, %x : (tensor<i64>, none, tensor<3xf64>) -> tensor<3xf64> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<3xf64>):
    %two = graph.constant {value = dense<2> : tensor<i64>} : () -> tensor<i64>
    %in = graph.loop %two, %none, %v : (tensor<i64>, none, tensor<3xf64>) -> tensor<3xf64> {
    ^bb0(%j: tensor<i64>, %also: tensor<i1>, %u: tensor<3xf64>):
      %p = graph.mul %u, %w : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %q = graph.sin %p : (tensor<3xf64>) -> tensor<3xf64>
      graph.yield %also, %q : tensor<i1>, tensor<3xf64>
    }
    %s = graph.add %in, %v : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    graph.yield %go, %s : tensor<i1>, tensor<3xf64>
  }
  return %r : tensor<3xf64>
}

//--- branch.mlir
func.func @main(%x: tensor<3xf64> {random.seed = 1 : i64, random.kind = "small"}, %w: tensor<3xf64> {random.seed = 2 : i64, random.kind = "small"}) -> tensor<3xf64> {
  %trips = graph.constant {value = dense<4> : tensor<i64>} : () -> tensor<i64>
  %two = graph.constant {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  %none = graph.none : none
  %r = graph.loop %trips, %none, %x : (tensor<i64>, none, tensor<3xf64>) -> tensor<3xf64> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<3xf64>):
    %early = graph.less %i, %two : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %in = graph.if %early : (tensor<i1>) -> tensor<3xf64> {
      %p = graph.mul %v, %w : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      graph.yield %p : tensor<3xf64>
    } else {
      %p = graph.sin %v : (tensor<3xf64>) -> tensor<3xf64>
      graph.yield %p : tensor<3xf64>
    }
    %s = graph.mul %in, %v : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    graph.yield %go, %s : tensor<i1>, tensor<3xf64>
  }
  return %r : tensor<3xf64>
}

//--- symbolic.mlir
// Sizes and trips that only the run knows; the sum over a dimension that may have been broadcast.
!xs = tensor<?x?xf64, #graph.dims<["n", "t"], ()[s0, s1] -> (s1, s0)>>
!row = tensor<?xf64, #graph.dims<["n"], ()[s0] -> (s0)>>
!other = tensor<?xf64, #graph.dims<["m"], ()[s0] -> (s0)>>
func.func @main(%xs: !xs {random.seed = 1 : i64, random.kind = "small"}, %h: !row {random.seed = 2 : i64, random.kind = "small"}, %b: !other {random.seed = 3 : i64, random.kind = "small"}) -> (!row, tensor<?xf64>) attributes {random.sizes = [{n = 3 : i64, t = 4 : i64, m = 1 : i64}]} {
  %trips = graph.shape %xs {start = 0 : i64, end = 1 : i64} : (!xs) -> tensor<1xi64>
  %none = graph.none : none
  %r = graph.loop %trips, %none, %h : (tensor<1xi64>, none, !row) -> !row {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: !row):
    %x = graph.gather %xs, %i {axis = 0 : i64} : (!xs, tensor<i64>) -> !row
    %p = graph.mul %v, %x : (!row, !row) -> !row
    %q = graph.cos %p : (!row) -> !row
    graph.yield %go, %q : tensor<i1>, !row
  }
  %y = graph.mul %r, %b : (!row, !other) -> tensor<?xf64>
  return %r, %y : !row, tensor<?xf64>
}
