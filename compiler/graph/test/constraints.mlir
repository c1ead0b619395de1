// RUN: tensmith-opt --split-input-file --verify-diagnostics %s
// Breaks when the verifier lets through what an operator's labelled constraints forbid.

func.func @inner_sizes_differ(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) -> tensor<2x5xf32> {
  // expected-error@+1 {{C1}}
  %0 = graph.matmul %a, %b : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @wrong_result(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>) -> tensor<2x6xf32> {
  // expected-error@+1 {{}}
  %0 = graph.matmul %a, %b : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @not_the_same_count(%x: tensor<2x3xf32>) -> tensor<7xf32> {
  // expected-error@+1 {{M1}}
  %0 = graph.reshape %x : (tensor<2x3xf32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

func.func @no_mean_of_integers(%x: tensor<2xi64>) -> tensor<2xi64> {
  // expected-error@+1 {{R2}}
  %0 = graph.all_reduce_mean %x : (tensor<2xi64>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

// -----

func.func @keys_that_are_no_keys(%keys: tensor<2xf32>, %x: tensor<3x2xf32>) -> !graph.sequence<!graph.map<f32, f32>> {
  // expected-error@+1 {{Z1}}
  %0 = graph.zip_map %keys, %x : (tensor<2xf32>, tensor<3x2xf32>) -> !graph.sequence<!graph.map<f32, f32>>
  return %0 : !graph.sequence<!graph.map<f32, f32>>
}

// -----

func.func @too_few_keys(%keys: tensor<2xi64>, %x: tensor<3x4xf32>) -> !graph.sequence<!graph.map<i64, f32>> {
  // expected-error@+1 {{Z2}}
  %0 = graph.zip_map %keys, %x : (tensor<2xi64>, tensor<3x4xf32>) -> !graph.sequence<!graph.map<i64, f32>>
  return %0 : !graph.sequence<!graph.map<i64, f32>>
}

// -----

func.func @no_map(%x: tensor<3xf32>) -> tensor<?xf32> {
  // expected-error@+1 {{Z3}}
  %0 = graph.map_values %x : (tensor<3xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

func.func @keys_of_another_kind(%x: !graph.map<i64, f32>) -> tensor<?xi64> {
  // expected-error@+1 {{Z4}}
  %0 = graph.map_keys %x {strings = true} : (!graph.map<i64, f32>) -> tensor<?xi64>
  return %0 : tensor<?xi64>
}

// -----

func.func @trees_of_integers(%x: tensor<3x4xi32>, %c: tensor<2xi32>, %n: tensor<3x2xi32>, %t: tensor<1x2xi32>) -> tensor<3x1xi32> {
  %none = graph.none : none
  // expected-error@+1 {{E1}}
  %0 = graph.tree_ensemble %x, %c, %n, %t, %none {targets = 1 : i64, column_bits = 2 : i64, depth = 1 : i64} : (tensor<3x4xi32>, tensor<2xi32>, tensor<3x2xi32>, tensor<1x2xi32>, none) -> tensor<3x1xi32>
  return %0 : tensor<3x1xi32>
}

// -----

func.func @narrow_nodes(%x: tensor<3x4xf64>, %c: tensor<2xi32>, %n: tensor<3x2xi32>, %t: tensor<1x2xi32>) -> tensor<3x1xf64> {
  %none = graph.none : none
  // expected-error@+1 {{E2}}
  %0 = graph.tree_ensemble %x, %c, %n, %t, %none {targets = 1 : i64, column_bits = 2 : i64, depth = 1 : i64} : (tensor<3x4xf64>, tensor<2xi32>, tensor<3x2xi32>, tensor<1x2xi32>, none) -> tensor<3x1xf64>
  return %0 : tensor<3x1xf64>
}

// -----

func.func @weights_of_other_targets(%x: tensor<3x4xf32>, %c: tensor<2xi32>, %n: tensor<3x2xi32>, %t: tensor<1x2xi32>, %w: tensor<2x3xf32>) -> tensor<3x2xf32> {
  // expected-error@+1 {{E4}}
  %0 = graph.tree_ensemble %x, %c, %n, %t, %w {targets = 2 : i64, column_bits = 2 : i64, depth = 1 : i64} : (tensor<3x4xf32>, tensor<2xi32>, tensor<3x2xi32>, tensor<1x2xi32>, tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

func.func @words_without_room(%x: tensor<3x4xf32>, %c: tensor<2xi32>, %n: tensor<3x2xi32>, %t: tensor<1x2xi32>) -> tensor<3x1xf32> {
  %none = graph.none : none
  // expected-error@+1 {{E5}}
  %0 = graph.tree_ensemble %x, %c, %n, %t, %none {targets = 1 : i64, column_bits = 30 : i64, depth = 1 : i64} : (tensor<3x4xf32>, tensor<2xi32>, tensor<3x2xi32>, tensor<1x2xi32>, none) -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}

// -----

func.func @layout_of_no_kind(%x: tensor<1x5x5x2xf32>, %w: tensor<3x2x1x1xf32>) -> tensor<1x5x5x3xf32> {
  %none = graph.none : none
  // expected-error@+1 {{V5}}
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels"} : (tensor<1x5x5x2xf32>, tensor<3x2x1x1xf32>, none) -> tensor<1x5x5x3xf32>
  return %0 : tensor<1x5x5x3xf32>
}

// -----

func.func @layout_as_a_flag(%x: tensor<1x5x5x5xf32>, %w: tensor<3x5x1x1xf32>) -> tensor<1x3x5x5xf32> {
  %none = graph.none : none
  // expected-error@+1 {{V5}}
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, channels_last = true} : (tensor<1x5x5x5xf32>, tensor<3x5x1x1xf32>, none) -> tensor<1x3x5x5xf32>
  return %0 : tensor<1x3x5x5xf32>
}

// -----

func.func @planes_of_floats(%x: tensor<2x3xf32>) -> tensor<2x1x1xui64> {
  // expected-error@+1 {{A1}}
  %0 = graph.bit_pack %x {axis = 1, planes = 1, bits = 1} : (tensor<2x3xf32>) -> tensor<2x1x1xui64>
  return %0 : tensor<2x1x1xui64>
}

// -----

func.func @words_of_nine_bits(%x: tensor<2x3xui8>) -> tensor<2x1x1xui64> {
  // expected-error@+1 {{A2}}
  %0 = graph.bit_pack %x {axis = 1, planes = 1, bits = 1, word = 9} : (tensor<2x3xui8>) -> tensor<2x1x1xui64>
  return %0 : tensor<2x1x1xui64>
}

// -----

func.func @planes_beyond_the_rank(%x: tensor<2x3xui8>) -> tensor<2x1x1xui64> {
  // expected-error@+1 {{A3}}
  %0 = graph.bit_pack %x {axis = 1, planes = 3, bits = 1} : (tensor<2x3xui8>) -> tensor<2x1x1xui64>
  return %0 : tensor<2x1x1xui64>
}

// -----

func.func @words_that_differ(%x: tensor<2x1x1x1xui64>, %w: tensor<1x1x1x2x16xui64>) -> tensor<2x16xi32> {
  // expected-error@+1 {{A4}}
  %0 = graph.bit_conv %x, %w {channels = 64, filters = 16, strides = array<i64>, pads = array<i64>, dilations = array<i64>} : (tensor<2x1x1x1xui64>, tensor<1x1x1x2x16xui64>) -> tensor<2x16xi32>
  return %0 : tensor<2x16xi32>
}

// -----

func.func @no_stride(%x: tensor<2x9x1x1x1xui64>, %w: tensor<1x1x1x3x1x16xui64>) -> tensor<2x7x16xi32> {
  // expected-error@+1 {{A5}}
  %0 = graph.bit_conv %x, %w {channels = 64, filters = 16, strides = array<i64: 0>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<2x9x1x1x1xui64>, tensor<1x1x1x3x1x16xui64>) -> tensor<2x7x16xi32>
  return %0 : tensor<2x7x16xi32>
}

// -----

func.func @window_beyond_the_image(%x: tensor<2x2x1x1x1xui64>, %w: tensor<1x1x1x3x1x16xui64>) -> tensor<2x1x16xi32> {
  // expected-error@+1 {{A6}}
  %0 = graph.bit_conv %x, %w {channels = 64, filters = 16, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<2x2x1x1x1xui64>, tensor<1x1x1x3x1x16xui64>) -> tensor<2x1x16xi32>
  return %0 : tensor<2x1x16xi32>
}

// -----

func.func @sums_beyond_i32(%x: tensor<2x1x8x600xui64>, %w: tensor<1x1x8x600x16xui64>) -> tensor<2x16xi32> {
  // expected-error@+1 {{A7}}
  %0 = graph.bit_conv %x, %w {channels = 38400, filters = 16, strides = array<i64>, pads = array<i64>, dilations = array<i64>} : (tensor<2x1x8x600xui64>, tensor<1x1x8x600x16xui64>) -> tensor<2x16xi32>
  return %0 : tensor<2x16xi32>
}
