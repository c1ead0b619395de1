// RUN: random-graphs --replay %s
// What -1 stands for is told by the sizes that aren't copied, also where a copied one is 0; and where those do not come out even,
// the reshape is refused.
module {
  func.func @main(%arg0: tensor<?x?x?x?xf32, #graph.dims<["a", "b", "c", "d"], ()[s0, s1, s2, s3] -> (s0, s1, s2, s3)>> {random.kind = "small", random.seed = 147082059967 : i64}) -> tensor<4x?x?xf32, #graph.dims<["a", "b", "c", "d"], ()[s0, s1, s2, s3] -> (4, s1, ((s0 * s2) * s3) floordiv 4)>> attributes {random.sizes = [{a = 4 : i64, b = 0 : i64, c = 1 : i64, d = 17 : i64}, {a = 4 : i64, b = 6 : i64, c = 1 : i64, d = 17 : i64}, {a = 3 : i64, b = 0 : i64, c = 1 : i64, d = 17 : i64}, {a = 4 : i64, b = 0 : i64, c = 1 : i64, d = 0 : i64}]} {
    %0 = graph.constant  {value = dense<[4, 0, -1]> : tensor<3xi64>} : () -> tensor<3xi64>
    %1 = graph.dynamic_reshape %arg0, %0 : (tensor<?x?x?x?xf32, #graph.dims<["a", "b", "c", "d"], ()[s0, s1, s2, s3] -> (s0, s1, s2, s3)>>, tensor<3xi64>) -> tensor<4x?x?xf32, #graph.dims<["a", "b", "c", "d"], ()[s0, s1, s2, s3] -> (4, s1, ((s0 * s2) * s3) floordiv 4)>>
    return %1 : tensor<4x?x?xf32, #graph.dims<["a", "b", "c", "d"], ()[s0, s1, s2, s3] -> (4, s1, ((s0 * s2) * s3) floordiv 4)>>
  }
}
