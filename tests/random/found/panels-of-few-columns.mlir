// RUN: random-graphs --replay %s
// Panels of so few columns that these could be an iteration, and so many rows that those are made together.
func.func @main(%arg0: tensor<16x1xf32> {random.kind = "small", random.seed = 0 : i64}) -> tensor<1x2x7xf32> attributes {random.sizes = [{}]} {
  %0 = graph.pack %arg0 {width = 4 : i64} : (tensor<16x1xf32>) -> tensor<1x16x4xf32>
  %1 = graph.none : none
  %2 = graph.constant  {value = dense<[[[-1.19946289, 1.59033203, -1.50146484]], [[1.98754883, 0.000000e+00, -0.188720703]], [[-0.955078125, -1.25439453, 0.103515625]], [[-0.243652344, 1.66772461, -0.895751953]], [[0.000000e+00, -0.999023437, -0.331542969]], [[-1.94433594, -0.0583496094, -0.281494141]], [[-1.41308594, 1.66040039, 1.62109375]], [[0.646972656, 1.18945313, 1.37255859]], [[0.450195313, -0.544921875, 1.98071289]], [[-0.569580078, 0.000000e+00, 1.00415039]], [[-1.375000e+00, 1.02197266, 1.63525391]], [[1.78857422, 0.970703125, 0.906982421]], [[-0.680419921, 0.87133789, 1.46850586]], [[-1.86401367, -0.529052734, 1.27832031]], [[0.798095703, -0.0744628906, -1.87182617]], [[-1.78173828, 1.56689453, 1.55688477]]]> : tensor<16x1x3xf32>} : () -> tensor<16x1x3xf32>
  %3 = graph.conv_transpose %0, %2, %1 {dilations = array<i64: 1>, group = 2 : i64, output_padding = array<i64: 0>, pads = array<i64: 1, 1>, strides = array<i64: 2>} : (tensor<1x16x4xf32>, tensor<16x1x3xf32>, none) -> tensor<1x2x7xf32>
  return %3 : tensor<1x2x7xf32>
}
