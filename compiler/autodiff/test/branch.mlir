// Branches: each is taken again on the way back, with what it uses from outside.
// RUN: split-file %s %t
// RUN: random-gradients --check %t/captured.mlir --second
// RUN: random-gradients --check %t/one_side.mlir --second
// RUN: random-gradients --check %t/nested.mlir --second

//--- captured.mlir
func.func @main(%x: tensor<3xf64> {random.seed = 1 : i64, random.kind = "small"}, %y: tensor<3xf64> {random.seed = 2 : i64, random.kind = "positive"}) -> (tensor<3xf64>, tensor<3xf64>) {
  %axis = graph.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (tensor<3xf64>) -> tensor<f64>
  %limit = graph.constant {value = dense<0.0> : tensor<f64>} : () -> tensor<f64>
  %is = graph.less %axis, %limit : (tensor<f64>, tensor<f64>) -> tensor<i1>
  %s = graph.sin %x : (tensor<3xf64>) -> tensor<3xf64>
  %r:2 = graph.if %is : (tensor<i1>) -> (tensor<3xf64>, tensor<3xf64>) {
    %a = graph.mul %s, %y : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    %b = graph.exp %a : (tensor<3xf64>) -> tensor<3xf64>
    graph.yield %b, %a : tensor<3xf64>, tensor<3xf64>
  } else {
    %a = graph.div %s, %y : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    graph.yield %a, %x : tensor<3xf64>, tensor<3xf64>
  }
  %out = graph.mul %r#0, %r#1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %out, %r#0 : tensor<3xf64>, tensor<3xf64>
}

//--- one_side.mlir
// One branch depends on nothing that is wanted.
func.func @main(%c: tensor<i1> {random.seed = 1 : i64, random.kind = "small"}, %x: tensor<2x3xf32> {random.seed = 2 : i64, random.kind = "small"}) -> tensor<2x3xf32> {
  %r = graph.if %c : (tensor<i1>) -> tensor<2x3xf32> {
    %y = graph.tanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
    graph.yield %y : tensor<2x3xf32>
  } else {
    %k = graph.constant {value = dense<2.0> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
    graph.yield %k : tensor<2x3xf32>
  }
  %y = graph.mul %r, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

//--- nested.mlir
func.func @main(%c: tensor<i1> {random.seed = 1 : i64, random.kind = "small"}, %d: tensor<i1> {random.seed = 5 : i64, random.kind = "small"}, %x: tensor<4xf32> {random.seed = 2 : i64, random.kind = "small"}, %w: tensor<4xf32> {random.seed = 3 : i64, random.kind = "small"}) -> tensor<4xf32> {
  %trips = graph.constant {value = dense<3> : tensor<i64>} : () -> tensor<i64>
  %none = graph.none : none
  %r = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %inner = graph.if %d : (tensor<i1>) -> tensor<4xf32> {
      %y = graph.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      graph.yield %y : tensor<4xf32>
    } else {
      graph.yield %w : tensor<4xf32>
    }
    %z = graph.cos %inner : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %z : tensor<4xf32>
  } else {
    %l = graph.loop %trips, %none, %x : (tensor<i64>, none, tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
      %p = graph.mul %v, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %q = graph.sin %p : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %go, %q : tensor<i1>, tensor<4xf32>
    }
    graph.yield %l : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
