// RUN: tensmith-opt --graph-fourier --split-input-file %s | FileCheck %s
// Breaks when a convolution that Fourier transforms compute faster stays as it is, or one that they can't compute, or
// not faster, is taken.

// CHECK-LABEL: func @large
// CHECK-NOT: graph.conv
// CHECK: %[[IN:.*]] = graph.fourier_input %arg0 {pads = array<i64: 4, 4, 4, 4>, tile = array<i64: [[T:[0-9]+]], [[T]]>, window = array<i64: 9, 9>}
// CHECK: %[[PRODUCT:.*]] = graph.matmul %[[IN]], %{{.*}}
// CHECK: graph.fourier_output %[[PRODUCT]], %arg1 {image = array<i64: 64, 64>
func.func @large(%x: tensor<1x64x64x64xf32>, %b: tensor<64xf32>) -> tensor<1x64x64x64xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<64x64x9x9xf32>} : () -> tensor<64x64x9x9xf32>
  %0 = graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 4, 4, 4, 4>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x64x64x64xf32>, tensor<64x64x9x9xf32>, tensor<64xf32>) -> tensor<1x64x64x64xf32>
  return %0 : tensor<1x64x64x64xf32>
}

// -----

// CHECK-LABEL: func @depthwise
// CHECK-NOT: graph.conv
// CHECK: graph.fourier_conv %arg0, %{{.*}}, %{{.*}}
func.func @depthwise(%x: tensor<?x56x56x64xf32, #graph.dims<["n"], ()[s0] -> (s0, 56, 56, 64)>>) -> tensor<?x56x56x64xf32, #graph.dims<["n"], ()[s0] -> (s0, 56, 56, 64)>> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x1x31x31xf32>} : () -> tensor<64x1x31x31xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 15, 15, 15, 15>, dilations = array<i64: 1, 1>, group = 64, layout = "channels_last"}
    : (tensor<?x56x56x64xf32, #graph.dims<["n"], ()[s0] -> (s0, 56, 56, 64)>>, tensor<64x1x31x31xf32>, none) -> tensor<?x56x56x64xf32, #graph.dims<["n"], ()[s0] -> (s0, 56, 56, 64)>>
  return %0 : tensor<?x56x56x64xf32, #graph.dims<["n"], ()[s0] -> (s0, 56, 56, 64)>>
}

// -----

// A line by residues: rows are odd, columns a power of two.
// CHECK-LABEL: func @line
// CHECK-NOT: graph.conv
// CHECK: graph.fourier_conv {{.*}}pads = array<i64: 1999, 0>, tile = array<i64: {{[0-9]*[13579]}}, {{16|32|64|128}}>, window = array<i64: 2000>
func.func @line(%x: tensor<1x6000x32xf32>) -> tensor<1x6000x32xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<32x1x2000xf32>} : () -> tensor<32x1x2000xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1>, pads = array<i64: 1999, 0>, dilations = array<i64: 1>, group = 32, layout = "channels_last"}
    : (tensor<1x6000x32xf32>, tensor<32x1x2000xf32>, none) -> tensor<1x6000x32xf32>
  return %0 : tensor<1x6000x32xf32>
}

// -----

// Minimal filtering needs as few products.
// CHECK-LABEL: func @small_window
// CHECK-NOT: fourier
func.func @small_window(%x: tensor<1x64x64x64xf32>) -> tensor<1x64x64x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x64x3x3xf32>} : () -> tensor<64x64x3x3xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x64x64x64xf32>, tensor<64x64x3x3xf32>, none) -> tensor<1x64x64x64xf32>
  return %0 : tensor<1x64x64x64xf32>
}

// -----

// CHECK-LABEL: func @strided
// CHECK-NOT: fourier
func.func @strided(%x: tensor<1x64x64x64xf32>) -> tensor<1x28x28x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x64x9x9xf32>} : () -> tensor<64x64x9x9xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x64x64x64xf32>, tensor<64x64x9x9xf32>, none) -> tensor<1x28x28x64xf32>
  return %0 : tensor<1x28x28x64xf32>
}

// -----

// Hardly anything but weights, whose spectra would be many times as many bytes.
// CHECK-LABEL: func @small_image
// CHECK-NOT: fourier
func.func @small_image(%x: tensor<1x4x4x256xf32>) -> tensor<1x4x4x256xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<256x256x5x5xf32>} : () -> tensor<256x256x5x5xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x4x4x256xf32>, tensor<256x256x5x5xf32>, none) -> tensor<1x4x4x256xf32>
  return %0 : tensor<1x4x4x256xf32>
}

// -----

// Weights that are no constant.
// CHECK-LABEL: func @weights
// CHECK-NOT: fourier
func.func @weights(%x: tensor<1x64x64x64xf32>, %w: tensor<64x64x9x9xf32>) -> tensor<1x56x56x64xf32> {
  %none = graph.none : none
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x64x64x64xf32>, tensor<64x64x9x9xf32>, none) -> tensor<1x56x56x64xf32>
  return %0 : tensor<1x56x56x64xf32>
}

// -----

// A window that doesn't reach the image's first pixels.
// CHECK-LABEL: func @cropped
// CHECK-NOT: fourier
func.func @cropped(%x: tensor<1x64x64x64xf32>) -> tensor<1x64x63x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<64x1x31x31xf32>} : () -> tensor<64x1x31x31xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 15, -1, 15, 30>, dilations = array<i64: 1, 1>, group = 64, layout = "channels_last"}
    : (tensor<1x64x64x64xf32>, tensor<64x1x31x31xf32>, none) -> tensor<1x64x63x64xf32>
  return %0 : tensor<1x64x63x64xf32>
}

// -----

// Numbers so small that transforms lose digits of them. Breaks if an error that is finite is passed over.
// CHECK-LABEL: func @beyond_the_bound
// CHECK-NOT: fourier
func.func @beyond_the_bound(%x: tensor<1x64x64x64xf32>) -> tensor<1x64x64x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<1.0e-40> : tensor<64x64x9x9xf32>} : () -> tensor<64x64x9x9xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 4, 4, 4, 4>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x64x64x64xf32>, tensor<64x64x9x9xf32>, none) -> tensor<1x64x64x64xf32>
  return %0 : tensor<1x64x64x64xf32>
}

// -----

// CHECK-LABEL: func @depthwise_beyond_the_bound
// CHECK-NOT: fourier
func.func @depthwise_beyond_the_bound(%x: tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<1.0e-40> : tensor<64x1x31x31xf32>} : () -> tensor<64x1x31x31xf32>
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 15, 15, 15, 15>, dilations = array<i64: 1, 1>, group = 64, layout = "channels_last"}
    : (tensor<1x56x56x64xf32>, tensor<64x1x31x31xf32>, none) -> tensor<1x56x56x64xf32>
  return %0 : tensor<1x56x56x64xf32>
}

// -----

// Each layer's spectra are within a layer's bound, but not all of them within that of all layers.
// CHECK-LABEL: func @many_large_spectra
// CHECK-COUNT-3: graph.fourier_input
// CHECK-NOT: graph.fourier_input
// CHECK: graph.conv
func.func @many_large_spectra(%x: tensor<1x56x56x256xf32>) -> tensor<1x56x56x256xf32> {
  %none = graph.none : none
  %w = graph.constant {value = dense<0.5> : tensor<256x256x9x9xf32>} : () -> tensor<256x256x9x9xf32>
  %1 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 4, 4, 4, 4>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x56x56x256xf32>, tensor<256x256x9x9xf32>, none) -> tensor<1x56x56x256xf32>
  %2 = graph.conv %1, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 4, 4, 4, 4>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x56x56x256xf32>, tensor<256x256x9x9xf32>, none) -> tensor<1x56x56x256xf32>
  %3 = graph.conv %2, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 4, 4, 4, 4>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x56x56x256xf32>, tensor<256x256x9x9xf32>, none) -> tensor<1x56x56x256xf32>
  %4 = graph.conv %3, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 4, 4, 4, 4>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x56x56x256xf32>, tensor<256x256x9x9xf32>, none) -> tensor<1x56x56x256xf32>
  return %4 : tensor<1x56x56x256xf32>
}
