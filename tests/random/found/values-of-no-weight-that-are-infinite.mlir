// RUN: random-graphs --replay %s
// Once failed: the reference passed over values whose weight is zero, and infinity times zero is no
// number.
func.func @main(%q: tensor<1x1x3x2xf32> {random.kind = "small", random.seed = 1 : i64}, %k: tensor<1x1x3x2xf32> {random.kind = "small", random.seed = 2 : i64}) -> tensor<1x1x3x1xf32> attributes {random.sizes = [{}]} {
  %v = graph.constant {value = dense<[[[[1.0], [0x7F800000], [2.0]]]]> : tensor<1x1x3x1xf32>} : () -> tensor<1x1x3x1xf32>
  %none = graph.none : none
  %y:4 = graph.attention %q, %k, %v, %none, %none, %none, %none {is_causal = true} : (tensor<1x1x3x2xf32>, tensor<1x1x3x2xf32>, tensor<1x1x3x1xf32>, none, none, none, none) -> (tensor<1x1x3x1xf32>, tensor<1x1x3x2xf32>, tensor<1x1x3x1xf32>, tensor<1x1x3x3xf32>)
  return %y#0 : tensor<1x1x3x1xf32>
}
