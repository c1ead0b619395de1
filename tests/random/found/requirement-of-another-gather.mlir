// RUN: random-graphs --replay %s
// The second gather's requirement is broken where s is 4. The first, whose record states the same, is what the reference refuses
// there, for an index and not for its sizes: that is no record that lacks a requirement.
func.func @main(%arg0: tensor<?x?xf32, #graph.dims<["a", "s"], ()[s0, s1] -> (s1, s0)>> {random.kind = "integers", random.seed = 11 : i64}, %arg1: tensor<?x?xf32, #graph.dims<["b", "s"], ()[s0, s1] -> (s1, s0)>> {random.kind = "integers", random.seed = 12 : i64}) -> (tensor<5x1xf32>, tensor<5x2xf32>) attributes {random.sizes = [{a = 2 : i64, b = 3 : i64, s = 5 : i64}, {a = 2 : i64, b = 3 : i64, s = 4 : i64, random.breaks = "(G1) there are {a} indices along a dimension of {b}"}]} {
  %0 = graph.constant {value = dense<[[3], [2], [4], [2], [3]]> : tensor<5x1xi64>} : () -> tensor<5x1xi64>
  %1 = graph.gather_elements %arg0, %0 {axis = 0 : i64} : (tensor<?x?xf32, #graph.dims<["a", "s"], ()[s0, s1] -> (s1, s0)>>, tensor<5x1xi64>) -> tensor<5x1xf32>
  %2 = graph.constant {value = dense<0> : tensor<5x2xi64>} : () -> tensor<5x2xi64>
  %3 = graph.gather_elements %arg1, %2 {axis = 1 : i64} : (tensor<?x?xf32, #graph.dims<["b", "s"], ()[s0, s1] -> (s1, s0)>>, tensor<5x2xi64>) -> tensor<5x2xf32>
  return %1, %3 : tensor<5x1xf32>, tensor<5x2xf32>
}
