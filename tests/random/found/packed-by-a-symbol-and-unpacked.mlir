// RUN: random-graphs --replay %s
// No kernel takes the padded vector, and what was packed for one is unpacked to a width that only the run knows.
func.func @main(%a: tensor<?x?xf32, #graph.dims<["n"], ()[s0] -> (s0 + 3, s0)>> {random.kind = "small", random.seed = 1 : i64},
                %x: tensor<?xf32, #graph.dims<["n"], ()[s0] -> (s0)>> {random.kind = "small", random.seed = 2 : i64})
    -> tensor<?xf32, #graph.dims<["n"], ()[s0] -> (s0)>> attributes {random.sizes = [{n = 47 : i64}, {n = 15 : i64}]} {
  %0 = graph.none : none
  %1 = graph.pad %x, %0 {high = array<i64: 0>, low = array<i64: 3>, mode = "edge"} : (tensor<?xf32, #graph.dims<["n"], ()[s0] -> (s0)>>, none) -> tensor<?xf32, #graph.dims<["n"], ()[s0] -> (s0 + 3)>>
  %2 = graph.matmul %1, %a : (tensor<?xf32, #graph.dims<["n"], ()[s0] -> (s0 + 3)>>, tensor<?x?xf32, #graph.dims<["n"], ()[s0] -> (s0 + 3, s0)>>) -> tensor<?xf32, #graph.dims<["n"], ()[s0] -> (s0)>>
  return %2 : tensor<?xf32, #graph.dims<["n"], ()[s0] -> (s0)>>
}
