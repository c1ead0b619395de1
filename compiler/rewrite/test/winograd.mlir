// RUN: tensmith-opt --graph-winograd --split-input-file %s | FileCheck %s
// Breaks when a convolution that minimal filtering computes faster stays as it is, or one that it can't compute, or
// not faster, is taken.

// CHECK-LABEL: func @large
// CHECK-NOT: graph.conv
// CHECK: %[[IN:.*]] = graph.winograd_input %arg0 {{.*}}outputs = 4 : i64{{.*}}pads = array<i64: 1, 1, 1, 1>{{.*}} -> tensor<36x64x64xf32>
// CHECK: %[[PRODUCT:.*]] = graph.matmul %[[IN]], %{{.*}} : (tensor<36x64x64xf32>, tensor<36x64x64xf32>) -> tensor<36x64x64xf32>
// CHECK: graph.winograd_output %[[PRODUCT]], %arg1 {image = array<i64: 32, 32>
func.func @large(%x: tensor<1x32x32x64xf32>, %b: tensor<64xf32>) -> tensor<1x32x32x64xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<64x64x3x3xf32>} : () -> tensor<64x64x3x3xf32>
  %0 = graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x32x32x64xf32>, tensor<64x64x3x3xf32>, tensor<64xf32>) -> tensor<1x32x32x64xf32>
  return %0 : tensor<1x32x32x64xf32>
}

// -----

// CHECK-LABEL: func @batch
// CHECK: graph.winograd_output {{.*}} -> tensor<?x32x32x64xf32
func.func @batch(%x: tensor<?x32x32x64xf32, #graph.dims<["n"], ()[s0] -> (s0, 32, 32, 64)>>) -> tensor<?x32x32x64xf32, #graph.dims<["n"], ()[s0] -> (s0, 32, 32, 64)>> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x64x3x3xf32>} : () -> tensor<64x64x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<?x32x32x64xf32, #graph.dims<["n"], ()[s0] -> (s0, 32, 32, 64)>>, tensor<64x64x3x3xf32>, none) -> tensor<?x32x32x64xf32, #graph.dims<["n"], ()[s0] -> (s0, 32, 32, 64)>>
  return %0 : tensor<?x32x32x64xf32, #graph.dims<["n"], ()[s0] -> (s0, 32, 32, 64)>>
}

// -----

// CHECK-LABEL: func @strided
// CHECK-NOT: winograd
func.func @strided(%x: tensor<1x32x32x64xf32>) -> tensor<1x16x16x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x64x3x3xf32>} : () -> tensor<64x64x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x32x32x64xf32>, tensor<64x64x3x3xf32>, none) -> tensor<1x16x16x64xf32>
  return %0 : tensor<1x16x16x64xf32>
}

// -----

// Four phases, with the padding that their windows reach into.
// CHECK-LABEL: func @dilated
// CHECK: %[[PADDED:.*]] = graph.pad %arg0{{.*}} -> tensor<1x36x36x64xf32>
// CHECK: %[[PHASES:.*]] = graph.reshape %{{.*}} : (tensor<1x2x2x18x18x64xf32>) -> tensor<4x18x18x64xf32>
// CHECK: graph.winograd_input %[[PHASES]] {{.*}}pads = array<i64: 0, 0, 0, 0>
// CHECK: graph.winograd_output {{.*}}image = array<i64: 16, 16>{{.*}} -> tensor<4x16x16x64xf32>
func.func @dilated(%x: tensor<1x32x32x64xf32>) -> tensor<1x32x32x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x64x3x3xf32>} : () -> tensor<64x64x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 2, 2>, layout = "channels_last"}
    : (tensor<1x32x32x64xf32>, tensor<64x64x3x3xf32>, none) -> tensor<1x32x32x64xf32>
  return %0 : tensor<1x32x32x64xf32>
}

// -----

// Most of the taps lie beyond the image, and are left out of the plain product.
// CHECK-LABEL: func @far
// CHECK-NOT: winograd
func.func @far(%x: tensor<1x28x28x64xf32>) -> tensor<1x28x28x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x64x3x3xf32>} : () -> tensor<64x64x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 24, 24, 24, 24>, dilations = array<i64: 24, 24>, layout = "channels_last"}
    : (tensor<1x28x28x64xf32>, tensor<64x64x3x3xf32>, none) -> tensor<1x28x28x64xf32>
  return %0 : tensor<1x28x28x64xf32>
}

// -----

// Three frames side by side, and an empty one behind the others.
// CHECK-LABEL: func @video
// CHECK: graph.winograd_input {{.*}} : (tensor<9x32x32x64xf32>)
// CHECK: graph.gather {{.*}} -> tensor<{{[0-9]+}}x1x8x3x{{[0-9]+}}x64xf32>
// CHECK: graph.matmul {{.*}} : (tensor<{{[0-9]+}}x{{[0-9]+}}x192xf32>{{.*}}
// CHECK: graph.reshape {{.*}} : (tensor<8x32x32x64xf32>) -> tensor<1x8x32x32x64xf32>
func.func @video(%x: tensor<1x8x32x32x64xf32>) -> tensor<1x8x32x32x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x64x3x3x3xf32>} : () -> tensor<64x64x3x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1, 1>, pads = array<i64: 1, 1, 1, 1, 1, 1>, dilations = array<i64: 1, 1, 1>, layout = "channels_last"}
    : (tensor<1x8x32x32x64xf32>, tensor<64x64x3x3x3xf32>, none) -> tensor<1x8x32x32x64xf32>
  return %0 : tensor<1x8x32x32x64xf32>
}

// -----

// Hardly anything but weights.
// CHECK-LABEL: func @small
// CHECK-NOT: winograd
func.func @small(%x: tensor<1x2x2x64xf32>) -> tensor<1x2x2x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x64x3x3xf32>} : () -> tensor<64x64x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x2x2x64xf32>, tensor<64x64x3x3xf32>, none) -> tensor<1x2x2x64xf32>
  return %0 : tensor<1x2x2x64xf32>
}

// -----

// Its weights, which the last cache does not hold from run to run, would be four times as many bytes in larger tiles.
// CHECK-LABEL: func @weights_from_memory
// CHECK: graph.winograd_input {{.*}}outputs = 2 : i64
func.func @weights_from_memory(%x: tensor<1x7x7x512xf32>) -> tensor<1x7x7x512xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<512x512x3x3xf32>} : () -> tensor<512x512x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x7x7x512xf32>, tensor<512x512x3x3xf32>, none) -> tensor<1x7x7x512xf32>
  return %0 : tensor<1x7x7x512xf32>
}

// -----

// CHECK-LABEL: func @weights_from_a_cache
// CHECK: graph.winograd_input {{.*}}outputs = 4 : i64
func.func @weights_from_a_cache(%x: tensor<1x16x16x256xf32>) -> tensor<1x16x16x256xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<256x256x3x3xf32>} : () -> tensor<256x256x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x16x16x256xf32>, tensor<256x256x3x3xf32>, none) -> tensor<1x16x16x256xf32>
  return %0 : tensor<1x16x16x256xf32>
}

// -----

// Sums of 115 channels of 127 * 255 are just below 2^25.
// CHECK-LABEL: func @codes
// CHECK: graph.winograd_input {{.*}}outputs = 4 : i64{{.*}}xi16>
// CHECK: graph.winograd_output {{.*}}xi32>
func.func @codes(%x: tensor<1x32x32x115xui8>) -> tensor<1x32x32x64xi32> {
  %none = graph.none : none
  %codes = graph.cast %x {to = i16} : (tensor<1x32x32x115xui8>) -> tensor<1x32x32x115xi16>
  %w = graph.constant {value = dense<127> : tensor<64x115x3x3xi16>} : () -> tensor<64x115x3x3xi16>
  %0 = graph.conv %codes, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last", accumulate_i32 = true}
    : (tensor<1x32x32x115xi16>, tensor<64x115x3x3xi16>, none) -> tensor<1x32x32x64xi32>
  return %0 : tensor<1x32x32x64xi32>
}

// -----

// Those of 116 are not.
// CHECK-LABEL: func @codes_of_large_sums
// CHECK: graph.winograd_input {{.*}}outputs = 2 : i64
func.func @codes_of_large_sums(%x: tensor<1x32x32x116xui8>) -> tensor<1x32x32x64xi32> {
  %none = graph.none : none
  %codes = graph.cast %x {to = i16} : (tensor<1x32x32x116xui8>) -> tensor<1x32x32x116xi16>
  %w = graph.constant {value = dense<127> : tensor<64x116x3x3xi16>} : () -> tensor<64x116x3x3xi16>
  %0 = graph.conv %codes, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last", accumulate_i32 = true}
    : (tensor<1x32x32x116xi16>, tensor<64x116x3x3xi16>, none) -> tensor<1x32x32x64xi32>
  return %0 : tensor<1x32x32x64xi32>
}

// -----

// Of 228, 144 times as large, does not fit 16 bits.
// CHECK-LABEL: func @codes_of_large_weights
// CHECK: graph.winograd_input {{.*}}outputs = 2 : i64
func.func @codes_of_large_weights(%x: tensor<1x32x32x60xui8>) -> tensor<1x32x32x64xi32> {
  %none = graph.none : none
  %codes = graph.cast %x {to = i16} : (tensor<1x32x32x60xui8>) -> tensor<1x32x32x60xi16>
  %w = graph.constant {value = dense<-228> : tensor<64x60x3x3xi16>} : () -> tensor<64x60x3x3xi16>
  %0 = graph.conv %codes, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last", accumulate_i32 = true}
    : (tensor<1x32x32x60xi16>, tensor<64x60x3x3xi16>, none) -> tensor<1x32x32x64xi32>
  return %0 : tensor<1x32x32x64xi32>
}

// -----

// Weights themselves of 16 bits have no room for any transform.
// CHECK-LABEL: func @numbers_of_sixteen_bits
// CHECK-NOT: winograd
func.func @numbers_of_sixteen_bits(%x: tensor<1x32x32x32xui8>) -> tensor<1x32x32x64xi32> {
  %none = graph.none : none
  %codes = graph.cast %x {to = i16} : (tensor<1x32x32x32xui8>) -> tensor<1x32x32x32xi16>
  %w = graph.constant {value = dense<4000> : tensor<64x32x3x3xi16>} : () -> tensor<64x32x3x3xi16>
  %0 = graph.conv %codes, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last", accumulate_i32 = true}
    : (tensor<1x32x32x32xi16>, tensor<64x32x3x3xi16>, none) -> tensor<1x32x32x64xi32>
  return %0 : tensor<1x32x32x64xi32>
}

// -----

// Numbers so small that transforms lose digits of them: the largest tile that errs by less than the bound. Breaks if an
// error that is finite is passed over.
// CHECK-LABEL: func @smaller_tile
// CHECK: graph.winograd_input {{.*}}outputs = 2 : i64
func.func @smaller_tile(%x: tensor<1x32x32x64xf32>) -> tensor<1x32x32x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<1.0e-40> : tensor<64x64x3x3xf32>} : () -> tensor<64x64x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x32x32x64xf32>, tensor<64x64x3x3xf32>, none) -> tensor<1x32x32x64xf32>
  return %0 : tensor<1x32x32x64xf32>
}

// -----

// CHECK-LABEL: func @no_tile
// CHECK-NOT: winograd
func.func @no_tile(%x: tensor<1x32x32x64xf32>) -> tensor<1x32x32x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<1.0e-42> : tensor<64x64x3x3xf32>} : () -> tensor<64x64x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x32x32x64xf32>, tensor<64x64x3x3xf32>, none) -> tensor<1x32x32x64xf32>
  return %0 : tensor<1x32x32x64xf32>
}
