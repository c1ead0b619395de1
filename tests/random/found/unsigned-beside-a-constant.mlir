// RUN: random-graphs --target nests:host --replay %s
// Code has no signs: a constant beside an unsigned element is unsigned, or no nest is made.
func.func @main(%arg0: tensor<1x1x1x1xui64> {random.kind = "small", random.seed = 0 : i64}) -> tensor<1x1x1x1x4xui64> attributes {random.sizes = [{}]} {
  %0 = graph.pack %arg0 {width = 4 : i64} : (tensor<1x1x1x1xui64>) -> tensor<1x1x1x1x4xui64>
  return %0 : tensor<1x1x1x1x4xui64>
}
