// RUN: random-graphs --replay %s
// A difference of equal values is 0, but how many zeros there are the value alone tells.
func.func @main(%arg0: tensor<1x1x4xf32> {random.kind = "positive", random.seed = 521846475643 : i64}, %arg1: tensor<1x2x1xf32> {random.kind = "positive", random.seed = 848046276950 : i64}) -> tensor<?x3xi64, #graph.dims<["selected.0"], ()[s0] -> (s0, 3)>> attributes {random.sizes = [{}]} {
  %0 = graph.constant  {value = dense<3> : tensor<1xi64>} : () -> tensor<1xi64>
  %1 = graph.constant  {value = dense<5.000000e-01> : tensor<1xf32>} : () -> tensor<1xf32>
  %2 = graph.constant  {value = dense<1.000000e-01> : tensor<1xf32>} : () -> tensor<1xf32>
  %3 = graph.non_max_suppression %arg0, %arg1, %0, %1, %2 : (tensor<1x1x4xf32>, tensor<1x2x1xf32>, tensor<1xi64>, tensor<1xf32>, tensor<1xf32>) -> tensor<?x3xi64, #graph.dims<["selected.0"], ()[s0] -> (s0, 3)>>
  %4 = graph.sub %3, %3 : (tensor<?x3xi64, #graph.dims<["selected.0"], ()[s0] -> (s0, 3)>>, tensor<?x3xi64, #graph.dims<["selected.0"], ()[s0] -> (s0, 3)>>) -> tensor<?x3xi64, #graph.dims<["selected.0"], ()[s0] -> (s0, 3)>>
  return %4 : tensor<?x3xi64, #graph.dims<["selected.0"], ()[s0] -> (s0, 3)>>
}
