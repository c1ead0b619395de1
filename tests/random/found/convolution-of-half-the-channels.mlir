// RUN: random-graphs --replay %s --no-fuse --exact
// The weights say that the second convolution has 2 channels; half of %x's is all that its type says.
func.func @main(%x: tensor<1x?x?x?xf32, #graph.dims<["channels", "columns", "rows"], ()[s0, s1, s2] -> (1, s2, s1, s0)>> {random.kind = "small", random.seed = 1 : i64}) -> tensor<1x2x?x3xf32, #graph.dims<["columns"], ()[s0] -> (1, 2, (s0 + 1) floordiv 2 - 1, 3)>> attributes {random.sizes = [{rows = 4 : i64, columns = 8 : i64, channels = 8 : i64}, {rows = 5 : i64, columns = 9 : i64, channels = 8 : i64}, {rows = 3 : i64, columns = 8 : i64, channels = 8 : i64}]} {
  %w = graph.constant {value = dense<0.5> : tensor<2x8x2x2xf32>} : () -> tensor<2x8x2x2xf32>
  %none = graph.none : none
  %0 = graph.conv %x, %w, %none {layout = "channels_last", dilations = array<i64: 1, 2>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x?x?x?xf32, #graph.dims<["channels", "columns", "rows"], ()[s0, s1, s2] -> (1, s2, s1, s0)>>, tensor<2x8x2x2xf32>, none) -> tensor<1x?x?x2xf32, #graph.dims<["columns", "rows"], ()[s0, s1] -> (1, s1 floordiv 2, (s0 + 1) floordiv 2 - 1, 2)>>
  %v = graph.constant {value = dense<0.25> : tensor<2x1x3x2xf32>} : () -> tensor<2x1x3x2xf32>
  %1 = graph.conv %0, %v, %none {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x?x?x2xf32, #graph.dims<["columns", "rows"], ()[s0, s1] -> (1, s1 floordiv 2, (s0 + 1) floordiv 2 - 1, 2)>>, tensor<2x1x3x2xf32>, none) -> tensor<1x2x?x3xf32, #graph.dims<["columns"], ()[s0] -> (1, 2, (s0 + 1) floordiv 2 - 1, 3)>>
  return %1 : tensor<1x2x?x3xf32, #graph.dims<["columns"], ()[s0] -> (1, 2, (s0 + 1) floordiv 2 - 1, 3)>>
}
