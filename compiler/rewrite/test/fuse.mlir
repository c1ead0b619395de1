// RUN: tensmith-opt --graph-fuse --split-input-file %s | FileCheck %s
// Breaks when work that belongs together is cut into several kernels, or a value is computed twice.

// The weights are packed now; bias and rectification join the contraction.
// CHECK-LABEL: func @matmul_bias_relu
// CHECK: graph.constant {{.*}} : () -> tensor<1x16x[[WIDTH:[0-9]+]]xf32>
// CHECK: graph.kernel {{.*}}kind = "contraction"
// CHECK: graph.unpack
// CHECK: graph.matmul
// CHECK: graph.add
// CHECK: graph.max
// CHECK: graph.yield
// CHECK-NOT: graph.kernel
// CHECK: return
func.func @matmul_bias_relu(%x: tensor<8x16xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %w = graph.constant {value = dense<1.0> : tensor<16x4xf32>} : () -> tensor<16x4xf32>
  %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = graph.matmul %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = graph.add %0, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %2 = graph.max %1, %zero : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// -----

// An activation between two products is applied to the first one's register tile, where each of its
// elements is computed once, also where a value in it has two uses.
// CHECK-LABEL: func @activation_between
// CHECK: graph.kernel {{.*}}label = "matmul+erf+mul"
// CHECK: graph.kernel {{.*}}label = "matmul"
func.func @activation_between(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %1 = graph.erf %0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = graph.mul %0, %1 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = graph.matmul %2, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}

// -----

// The product is used twice, so it is stored, by a kernel of its own.
// CHECK-LABEL: func @used_twice
// CHECK-COUNT-1: graph.matmul
// CHECK-NOT: graph.matmul
// CHECK: return
func.func @used_twice(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = graph.matmul %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = graph.exp %0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// CHECK-LABEL: func @elementwise_chain
// CHECK-COUNT-1: graph.kernel {{.*}}kind = "loops"
// CHECK-NOT: graph.kernel
// CHECK: return
func.func @elementwise_chain(%x: tensor<8x4xf32>, %y: tensor<4xf32>) -> tensor<8x4xf32> {
  %0 = graph.exp %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = graph.mul %0, %y : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %2 = graph.tanh %1 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// -----

// Two heavy operators never share a kernel.
// CHECK-LABEL: func @two_matmuls
// CHECK-COUNT-2: kind = "contraction"
func.func @two_matmuls(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %1 = graph.matmul %0, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// -----

// Each block of columns would compute the rows again.
// CHECK-LABEL: func @rows_of_many_columns
// CHECK: graph.kernel {{.*}}label = "tanh"
// CHECK: graph.kernel {{.*}}label = "matmul"
func.func @rows_of_many_columns(%x: tensor<8x16xf32>, %w: tensor<16x256xf32>) -> tensor<8x256xf32> {
  %0 = graph.tanh %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = graph.matmul %0, %w : (tensor<8x16xf32>, tensor<16x256xf32>) -> tensor<8x256xf32>
  return %1 : tensor<8x256xf32>
}

// -----

// CHECK-LABEL: func @rows_of_few_columns
// CHECK: graph.kernel {{.*}}label = "tanh+matmul"
func.func @rows_of_few_columns(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>) -> tensor<8x64xf32> {
  %0 = graph.tanh %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = graph.matmul %0, %w : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  return %1 : tensor<8x64xf32>
}

// -----

// Attention is one kernel, with keys packed before it; its queries are read where they lie, and its values, as wide as one panel, are packed as they lie.
// CHECK-LABEL: func @attention
// CHECK: graph.kernel %arg1 {{.*}}label = "pack"
// CHECK: graph.reshape %arg2
// CHECK-NEXT: graph.kernel %arg0, {{.*}}, %arg3, {{.*}} {kind = "contraction"
// CHECK: graph.transpose
// CHECK: graph.matmul
// CHECK: graph.softmax
// CHECK: graph.matmul
// CHECK-NOT: graph.kernel
func.func @attention(%q: tensor<1x20x4x16xf32>, %k: tensor<1x4x16x30xf32>, %v: tensor<1x4x30x16xf32>, %m: tensor<1x1x20x30xf32>) -> tensor<1x4x20x16xf32> {
  %0 = graph.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x20x4x16xf32>) -> tensor<1x4x20x16xf32>
  %1 = graph.matmul %0, %k : (tensor<1x4x20x16xf32>, tensor<1x4x16x30xf32>) -> tensor<1x4x20x30xf32>
  %2 = graph.add %1, %m : (tensor<1x4x20x30xf32>, tensor<1x1x20x30xf32>) -> tensor<1x4x20x30xf32>
  %3 = graph.softmax %2 {axis = 3 : i64} : (tensor<1x4x20x30xf32>) -> tensor<1x4x20x30xf32>
  %4 = graph.matmul %3, %v : (tensor<1x4x20x30xf32>, tensor<1x4x30x16xf32>) -> tensor<1x4x20x16xf32>
  return %4 : tensor<1x4x20x16xf32>
}

// -----

// Weights that are a result too are computed before.
// CHECK-LABEL: func @weights_are_seen
// CHECK: graph.kernel {{.*}}kind = "rows"
// CHECK: graph.kernel {{.*}}kind = "contraction"
func.func @weights_are_seen(%q: tensor<1x4x20x16xf32>, %k: tensor<1x4x16x30xf32>, %v: tensor<1x4x30x16xf32>) -> (tensor<1x4x20x16xf32>, tensor<1x4x20x30xf32>) {
  %1 = graph.matmul %q, %k : (tensor<1x4x20x16xf32>, tensor<1x4x16x30xf32>) -> tensor<1x4x20x30xf32>
  %3 = graph.softmax %1 {axis = 3 : i64} : (tensor<1x4x20x30xf32>) -> tensor<1x4x20x30xf32>
  %4 = graph.matmul %3, %v : (tensor<1x4x20x30xf32>, tensor<1x4x30x16xf32>) -> tensor<1x4x20x16xf32>
  return %4, %3 : tensor<1x4x20x16xf32>, tensor<1x4x20x30xf32>
}

// -----

// What is moved afterwards is computed on the product's register tile.
// CHECK-LABEL: func @moved_behind_a_product
// CHECK: graph.kernel {{.*}}label = "matmul+exp"
// CHECK: graph.kernel {{.*}}label = "transpose"
func.func @moved_behind_a_product(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>) -> tensor<64x8xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %1 = graph.exp %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = "graph.transpose"(%1) <{permutation = array<i64: 1, 0>}> : (tensor<8x64xf32>) -> tensor<64x8xf32>
  return %2 : tensor<64x8xf32>
}

// Of a sum of products each is added by its own kernel: none waits for the others.
// CHECK-LABEL: @sum_of_products
// CHECK: kind = "contraction", label = "matmul"
// CHECK: kind = "contraction", label = "matmul+add"
// CHECK: kind = "contraction", label = "matmul+add"
// CHECK-NOT: add+add
func.func @sum_of_products(%a: tensor<8x64xf32>, %b: tensor<8x64xf32>, %c: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64xf32> {
  %0 = graph.matmul %a, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %1 = graph.matmul %b, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %2 = graph.matmul %c, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %3 = graph.add %0, %1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %4 = graph.add %3, %2 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %4 : tensor<8x64xf32>
}

// -----

// What stands side by side of an image is packed out of it at once; another reader needs it whole.
// CHECK-LABEL: func @patches
// CHECK: graph.kernel %arg0 {{.*}}label = "slice+slice+reshape+reshape+concat+pack"
// CHECK: graph.kernel {{.*}}kind = "contraction"
// CHECK-LABEL: func @patches_read_by_two
// CHECK: graph.kernel {{.*}}kind = "concat"
// CHECK: graph.kernel {{.*}}label = "pack"
func.func @patches(%x: tensor<2x5x4x16xf32>, %g: tensor<8x30xf32>) -> tensor<8x32xf32> {
  %0 = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x5x4x16xf32>) -> tensor<2x5x3x16xf32>
  %1 = graph.slice %x {starts = array<i64: 0, 0, 1, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x5x4x16xf32>) -> tensor<2x5x3x16xf32>
  %2 = graph.reshape %0 : (tensor<2x5x3x16xf32>) -> tensor<30x16xf32>
  %3 = graph.reshape %1 : (tensor<2x5x3x16xf32>) -> tensor<30x16xf32>
  %4 = graph.concat %2, %3 {axis = 1 : i64} : (tensor<30x16xf32>, tensor<30x16xf32>) -> tensor<30x32xf32>
  %5 = graph.matmul %g, %4 : (tensor<8x30xf32>, tensor<30x32xf32>) -> tensor<8x32xf32>
  return %5 : tensor<8x32xf32>
}
func.func @patches_read_by_two(%x: tensor<2x5x4x16xf32>, %g: tensor<8x30xf32>) -> (tensor<8x32xf32>, tensor<30x32xf32>) {
  %0 = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x5x4x16xf32>) -> tensor<2x5x3x16xf32>
  %1 = graph.slice %x {starts = array<i64: 0, 0, 1, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x5x4x16xf32>) -> tensor<2x5x3x16xf32>
  %2 = graph.reshape %0 : (tensor<2x5x3x16xf32>) -> tensor<30x16xf32>
  %3 = graph.reshape %1 : (tensor<2x5x3x16xf32>) -> tensor<30x16xf32>
  %4 = graph.concat %2, %3 {axis = 1 : i64} : (tensor<30x16xf32>, tensor<30x16xf32>) -> tensor<30x32xf32>
  %5 = graph.matmul %g, %4 : (tensor<8x30xf32>, tensor<30x32xf32>) -> tensor<8x32xf32>
  return %5, %4 : tensor<8x32xf32>, tensor<30x32xf32>
}

// -----

// The image between is computed a few lines at a time.
// CHECK-LABEL: func @chain_of_many_parts
// CHECK-COUNT-1: graph.kernel
// CHECK-NOT: graph.kernel
// CHECK: return
func.func @chain_of_many_parts(%x: tensor<1x480x300x32xf32>) -> tensor<1x480x300x32xf32> {
  %none = graph.none : none
  %v = graph.constant {value = dense<0.5> : tensor<32x32x1x1xf32>} : () -> tensor<32x32x1x1xf32>
  %w = graph.constant {value = dense<0.5> : tensor<32x1x5x5xf32>} : () -> tensor<32x1x5x5xf32>
  %0 = graph.conv %x, %v, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x480x300x32xf32>, tensor<32x32x1x1xf32>, none) -> tensor<1x480x300x32xf32>
  %1 = graph.conv %0, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>, group = 32, layout = "channels_last"}
    : (tensor<1x480x300x32xf32>, tensor<32x1x5x5xf32>, none) -> tensor<1x480x300x32xf32>
  return %1 : tensor<1x480x300x32xf32>
}

// -----

// Where two threads' parts meet, both compute four lines: of parts that are so long that this counts little, there
// would be too few for many cores.
// CHECK-LABEL: func @chain_of_few_parts
// CHECK-COUNT-2: graph.kernel
// CHECK: return
func.func @chain_of_few_parts(%x: tensor<1x200x300x32xf32>) -> tensor<1x200x300x32xf32> {
  %none = graph.none : none
  %v = graph.constant {value = dense<0.5> : tensor<32x32x1x1xf32>} : () -> tensor<32x32x1x1xf32>
  %w = graph.constant {value = dense<0.5> : tensor<32x1x5x5xf32>} : () -> tensor<32x1x5x5xf32>
  %0 = graph.conv %x, %v, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x200x300x32xf32>, tensor<32x32x1x1xf32>, none) -> tensor<1x200x300x32xf32>
  %1 = graph.conv %0, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>, group = 32, layout = "channels_last"}
    : (tensor<1x200x300x32xf32>, tensor<32x1x5x5xf32>, none) -> tensor<1x200x300x32xf32>
  return %1 : tensor<1x200x300x32xf32>
}

// -----

// A pool reads vectors of channels: what is turned for it is turned before, not gathered for each window.
// CHECK-LABEL: func @turned_for_a_pool
// CHECK: graph.kernel
// CHECK: graph.transpose
// CHECK: graph.kernel
// CHECK-NOT: graph.transpose
// CHECK: graph.max_pool
func.func @turned_for_a_pool(%x: tensor<1x16x40x40xf32>) -> tensor<1x18x18x16xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x16x40x40xf32>) -> tensor<1x40x40x16xf32>
  %1 = graph.max_pool %0 {kernel = array<i64: 5, 5>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x40x40x16xf32>) -> tensor<1x18x18x16xf32>
  return %1 : tensor<1x18x18x16xf32>
}

// -----

// Breaks where panels of the right operand are wider than its columns need: the module, and every
// run, would hold the difference.
// CHECK-LABEL: func @few_columns
// CHECK: graph.pack {{.*}} -> tensor<1x64x16xf32>
// CHECK: graph.unpack {{.*}}columns = 10
func.func @few_columns(%x: tensor<8x64xf32>, %w: tensor<64x10xf32>) -> tensor<8x10xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x10xf32>) -> tensor<8x10xf32>
  return %0 : tensor<8x10xf32>
}
// Breaks, by a division by none, where there are no columns at all.
// CHECK-LABEL: func @no_columns
// CHECK: return {{.*}} : tensor<8x0xf32>
func.func @no_columns(%x: tensor<8x64xf32>, %w: tensor<64x0xf32>) -> tensor<8x0xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x0xf32>) -> tensor<8x0xf32>
  return %0 : tensor<8x0xf32>
}
// CHECK-LABEL: func @no_channels
// CHECK: return {{.*}} : tensor<1x3x3x0xf32>
func.func @no_channels(%x: tensor<1x5x5x16xf32>, %w: tensor<0x16x3x3xf32>) -> tensor<1x3x3x0xf32> {
  %none = graph.none : none
  %0 = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"} : (tensor<1x5x5x16xf32>, tensor<0x16x3x3xf32>, none) -> tensor<1x3x3x0xf32>
  return %0 : tensor<1x3x3x0xf32>
}

// -----

// What a pointwise convolution reads is joined and normalised into the rows that it multiplies,
// unless it is needed as such, or there are so few pixels that each core would rather read its own
// part of the weights.
// CHECK-LABEL: func @joined_rows
// CHECK: graph.kernel {{.*}}kind = "contraction", label = "concat+mul+max+conv"
// CHECK-LABEL: func @joined_rows_read_by_two
// CHECK: graph.kernel {{.*}}kind = "concat", label = "concat+mul+max"
// CHECK: graph.kernel {{.*}}label = "conv"
// CHECK-LABEL: func @few_joined_rows
// CHECK: graph.kernel {{.*}}kind = "concat", label = "concat+mul+max"
// CHECK: graph.kernel {{.*}}label = "conv"
func.func @joined_rows(%a: tensor<1x14x14x24xf32>, %b: tensor<1x14x14x40xf32>, %s: tensor<64xf32>, %w: tensor<48x64x1x1xf32>) -> tensor<1x14x14x48xf32> {
  %none = graph.none : none
  %0 = graph.concat %a, %b {axis = 3 : i64} : (tensor<1x14x14x24xf32>, tensor<1x14x14x40xf32>) -> tensor<1x14x14x64xf32>
  %1 = graph.mul %0, %s : (tensor<1x14x14x64xf32>, tensor<64xf32>) -> tensor<1x14x14x64xf32>
  %2 = graph.max %1, %s : (tensor<1x14x14x64xf32>, tensor<64xf32>) -> tensor<1x14x14x64xf32>
  %3 = graph.conv %2, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"} : (tensor<1x14x14x64xf32>, tensor<48x64x1x1xf32>, none) -> tensor<1x14x14x48xf32>
  return %3 : tensor<1x14x14x48xf32>
}
func.func @joined_rows_read_by_two(%a: tensor<1x14x14x24xf32>, %b: tensor<1x14x14x40xf32>, %s: tensor<64xf32>, %w: tensor<48x64x1x1xf32>) -> (tensor<1x14x14x48xf32>, tensor<1x14x14x64xf32>) {
  %none = graph.none : none
  %0 = graph.concat %a, %b {axis = 3 : i64} : (tensor<1x14x14x24xf32>, tensor<1x14x14x40xf32>) -> tensor<1x14x14x64xf32>
  %1 = graph.mul %0, %s : (tensor<1x14x14x64xf32>, tensor<64xf32>) -> tensor<1x14x14x64xf32>
  %2 = graph.max %1, %s : (tensor<1x14x14x64xf32>, tensor<64xf32>) -> tensor<1x14x14x64xf32>
  %3 = graph.conv %2, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"} : (tensor<1x14x14x64xf32>, tensor<48x64x1x1xf32>, none) -> tensor<1x14x14x48xf32>
  return %3, %2 : tensor<1x14x14x48xf32>, tensor<1x14x14x64xf32>
}
func.func @few_joined_rows(%a: tensor<1x5x5x24xf32>, %b: tensor<1x5x5x40xf32>, %s: tensor<64xf32>, %w: tensor<48x64x1x1xf32>) -> tensor<1x5x5x48xf32> {
  %none = graph.none : none
  %0 = graph.concat %a, %b {axis = 3 : i64} : (tensor<1x5x5x24xf32>, tensor<1x5x5x40xf32>) -> tensor<1x5x5x64xf32>
  %1 = graph.mul %0, %s : (tensor<1x5x5x64xf32>, tensor<64xf32>) -> tensor<1x5x5x64xf32>
  %2 = graph.max %1, %s : (tensor<1x5x5x64xf32>, tensor<64xf32>) -> tensor<1x5x5x64xf32>
  %3 = graph.conv %2, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"} : (tensor<1x5x5x64xf32>, tensor<48x64x1x1xf32>, none) -> tensor<1x5x5x48xf32>
  return %3 : tensor<1x5x5x48xf32>
}

// -----

// The image is needed for its gate, too, so that the product with this is the next one's; a
// product that follows a convolution at once is that one's.
// CHECK-LABEL: func @gated_rows
// CHECK: graph.kernel {{.*}}label = "mul+conv"
// CHECK-LABEL: func @gated_behind_convolution
// CHECK: graph.kernel {{.*}}label = "conv+mul"
// CHECK: graph.kernel {{.*}}label = "conv"
func.func @gated_rows(%x: tensor<2x14x14x64xf32>, %g: tensor<2x1x1x64xf32>, %w: tensor<32x64x1x1xf32>) -> tensor<2x14x14x32xf32> {
  %none = graph.none : none
  %0 = graph.mul %x, %g : (tensor<2x14x14x64xf32>, tensor<2x1x1x64xf32>) -> tensor<2x14x14x64xf32>
  %1 = graph.conv %0, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"} : (tensor<2x14x14x64xf32>, tensor<32x64x1x1xf32>, none) -> tensor<2x14x14x32xf32>
  return %1 : tensor<2x14x14x32xf32>
}
func.func @gated_behind_convolution(%x: tensor<2x14x14x64xf32>, %g: tensor<2x1x1x64xf32>, %v: tensor<64x64x3x3xf32>, %w: tensor<32x64x1x1xf32>) -> tensor<2x14x14x32xf32> {
  %none = graph.none : none
  %0 = graph.conv %x, %v, %none {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"} : (tensor<2x14x14x64xf32>, tensor<64x64x3x3xf32>, none) -> tensor<2x14x14x64xf32>
  %1 = graph.mul %0, %g : (tensor<2x14x14x64xf32>, tensor<2x1x1x64xf32>) -> tensor<2x14x14x64xf32>
  %2 = graph.conv %1, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"} : (tensor<2x14x14x64xf32>, tensor<32x64x1x1xf32>, none) -> tensor<2x14x14x32xf32>
  return %2 : tensor<2x14x14x32xf32>
}

// -----

// A factor of each channel is computed once, and not for each element of the image; one of each
// line, which stays in a register, in passing.
// CHECK-LABEL: func @factors
// CHECK: graph.kernel %arg1 {kind = "loops", label = "rsqrt", tensmith.storing = "elements"} : (tensor<64xf32>) -> tensor<64xf32>
// CHECK: graph.kernel {{.*}}label = "rsqrt+mul+mul"
func.func @factors(%x: tensor<512x64xf32>, %c: tensor<64xf32>, %l: tensor<512x1xf32>) -> tensor<512x64xf32> {
  %0 = graph.rsqrt %c : (tensor<64xf32>) -> tensor<64xf32>
  %1 = graph.rsqrt %l : (tensor<512x1xf32>) -> tensor<512x1xf32>
  %2 = graph.mul %x, %0 : (tensor<512x64xf32>, tensor<64xf32>) -> tensor<512x64xf32>
  %3 = graph.mul %2, %1 : (tensor<512x64xf32>, tensor<512x1xf32>) -> tensor<512x64xf32>
  return %3 : tensor<512x64xf32>
}
