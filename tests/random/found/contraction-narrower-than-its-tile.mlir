// RUN: random-graphs --replay %s
// Symbolic columns, fewer than one vector: the tile's second vector must store nothing.
func.func @main(%a: tensor<2x1xf32> {random.kind = "small", random.seed = 1 : i64},
                %b: tensor<1x?xf32, #graph.dims<["n"], ()[s0] -> (1, s0)>> {random.kind = "small", random.seed = 2 : i64})
    -> tensor<2x?xf32, #graph.dims<["n"], ()[s0] -> (2, s0)>> attributes {random.sizes = [{n = 3 : i64}, {n = 1 : i64}, {n = 65 : i64}]} {
  %0 = graph.matmul %a, %b : (tensor<2x1xf32>, tensor<1x?xf32, #graph.dims<["n"], ()[s0] -> (1, s0)>>)
    -> tensor<2x?xf32, #graph.dims<["n"], ()[s0] -> (2, s0)>>
  return %0 : tensor<2x?xf32, #graph.dims<["n"], ()[s0] -> (2, s0)>>
}
