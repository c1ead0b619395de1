// RUN: random-graphs --replay %s
// No rows: a tile of height 0 has no sums to divide the chains among.
module {
  func.func @main(%arg0: tensor<0xf32> {random.kind = "small", random.seed = 209999978249 : i64}, %arg1: tensor<1xf32> {random.kind = "small", random.seed = 1090745832224 : i64}) -> tensor<0x1xf32> attributes {random.sizes = [{}]} {
    %0 = graph.einsum %arg0, %arg1 {equation = "i,j->ij"} : (tensor<0xf32>, tensor<1xf32>) -> tensor<0x1xf32>
    return %0 : tensor<0x1xf32>
  }
}
