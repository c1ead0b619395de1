// RUN: random-graphs --replay %s --check-bounds
// The bias is 1 or as long as what is joined, and the scale says that this is 115 elements: so the bias is 1 or 115.
func.func @main(%arg0: tensor<1x?xf16, #graph.dims<["a"], ()[s0] -> (1, s0)>> {random.kind = "small", random.seed = 11 : i64}, %arg1: tensor<1x?xf16, #graph.dims<["c"], ()[s0] -> (1, s0)>> {random.kind = "small", random.seed = 12 : i64}, %arg2: tensor<?xf16, #graph.dims<["b"], ()[s0] -> (s0)>> {random.kind = "small", random.seed = 13 : i64}) -> (tensor<1x?xf16, #graph.dims<["a", "c"], ()[s0, s1] -> (1, s0 + s1)>>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x115xf16>) attributes {random.sizes = [{a = 100 : i64, c = 15 : i64, b = 115 : i64}, {a = 15 : i64, c = 100 : i64, b = 1 : i64}, {a = 100 : i64, c = 15 : i64, b = 100 : i64}, {a = 100 : i64, c = 16 : i64, b = 116 : i64}]} {
  %0 = graph.concat %arg0, %arg1 {axis = 1 : i64} : (tensor<1x?xf16, #graph.dims<["a"], ()[s0] -> (1, s0)>>, tensor<1x?xf16, #graph.dims<["c"], ()[s0] -> (1, s0)>>) -> tensor<1x?xf16, #graph.dims<["a", "c"], ()[s0, s1] -> (1, s0 + s1)>>
  %1 = graph.constant {value = dense<1.5> : tensor<115xf16>} : () -> tensor<115xf16>
  %y, %mean, %inverse_deviation = graph.layer_norm %0, %1, %arg2 {axis = 1 : i64} : (tensor<1x?xf16, #graph.dims<["a", "c"], ()[s0, s1] -> (1, s0 + s1)>>, tensor<115xf16>, tensor<?xf16, #graph.dims<["b"], ()[s0] -> (s0)>>) -> (tensor<1x?xf16, #graph.dims<["a", "c"], ()[s0, s1] -> (1, s0 + s1)>>, tensor<1x1xf32>, tensor<1x1xf32>)
  %2 = graph.reshape %0 : (tensor<1x?xf16, #graph.dims<["a", "c"], ()[s0, s1] -> (1, s0 + s1)>>) -> tensor<1x115xf16>
  return %y, %mean, %inverse_deviation, %2 : tensor<1x?xf16, #graph.dims<["a", "c"], ()[s0, s1] -> (1, s0 + s1)>>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x115xf16>
}
