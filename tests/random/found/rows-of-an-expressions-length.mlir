// RUN: random-graphs --replay %s
// The rows' length is an expression, and the matrix says it as a number: a matrix unit needs it as one.
func.func @main(%x: tensor<1x?x?x?xbf16, #graph.dims<["c", "h", "w"], ()[s0, s1, s2] -> (1, s0, s1, s2)>> {random.kind = "small", random.seed = 2 : i64})
    -> tensor<1x?x?x5xbf16, #graph.dims<["c", "h"], ()[s0, s1] -> (1, s0, s1 floordiv 2 - 3, 5)>> attributes {random.sizes = [{c = 8 : i64, h = 16 : i64, w = 16 : i64}, {c = 3 : i64, h = 24 : i64, w = 16 : i64}]} {
  %0 = graph.max_pool %x {ceil_mode = true, dilations = array<i64: 2, 1>, kernel = array<i64: 7, 7>, pads = array<i64: 2, 0, 2, 0>, strides = array<i64: 2, 2>} : (tensor<1x?x?x?xbf16, #graph.dims<["c", "h", "w"], ()[s0, s1, s2] -> (1, s0, s1, s2)>>) -> tensor<1x?x?x?xbf16, #graph.dims<["c", "h", "w"], ()[s0, s1, s2] -> (1, s0, s1 floordiv 2 - 3, s2 floordiv 2 - 2)>>
  %1 = graph.constant {value = dense<1.500000e+00> : tensor<6x5xbf16>} : () -> tensor<6x5xbf16>
  %2 = graph.matmul %0, %1 : (tensor<1x?x?x?xbf16, #graph.dims<["c", "h", "w"], ()[s0, s1, s2] -> (1, s0, s1 floordiv 2 - 3, s2 floordiv 2 - 2)>>, tensor<6x5xbf16>) -> tensor<1x?x?x5xbf16, #graph.dims<["c", "h"], ()[s0, s1] -> (1, s0, s1 floordiv 2 - 3, 5)>>
  return %2 : tensor<1x?x?x5xbf16, #graph.dims<["c", "h"], ()[s0, s1] -> (1, s0, s1 floordiv 2 - 3, 5)>>
}
