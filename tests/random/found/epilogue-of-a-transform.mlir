// RUN: random-graphs --replay %s
// What follows a transform of an image in its kernel was left out.
module {
  func.func @main(%arg0: tensor<3x8x5x3xf32> {random.kind = "integers", random.seed = 792199016870 : i64}) -> tensor<64x6x3xf32> attributes {random.sizes = [{}]} {
    %0 = graph.winograd_input %arg0 {outputs = 6 : i64, pads = array<i64: 0, 1, 1, 0>, taps = 3 : i64} : (tensor<3x8x5x3xf32>) -> tensor<64x6x3xf32>
    %1 = graph.neg %0 : (tensor<64x6x3xf32>) -> tensor<64x6x3xf32>
    return %1 : tensor<64x6x3xf32>
  }
}
