// RUN: random-graphs --replay %s
// The constant can be turned, %y can't: nothing may be built before that is known.
func.func @main(%y: tensor<2x1x1x1x2xf32> {random.kind = "small", random.seed = 1 : i64},
                %x: tensor<1x2x2x2x1xf32> {random.kind = "small", random.seed = 2 : i64}) -> tensor<2x2x1x1x2xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 3, 2, 0, 4, 1>} : (tensor<1x2x2x2x1xf32>) -> tensor<2x2x1x1x2xf32>
  %1 = graph.constant {value = dense<[[[[[true, false]]]], [[[[true, false]]]]]> : tensor<2x1x1x1x2xi1>} : () -> tensor<2x1x1x1x2xi1>
  %2 = graph.where %1, %0, %y : (tensor<2x1x1x1x2xi1>, tensor<2x2x1x1x2xf32>, tensor<2x1x1x1x2xf32>) -> tensor<2x2x1x1x2xf32>
  return %2 : tensor<2x2x1x1x2xf32>
}
