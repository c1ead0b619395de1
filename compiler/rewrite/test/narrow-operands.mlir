// Breaks when the policy rounds operands where it is not allowed or does not pay, or rounds one of two;
// when codes lose bits.
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-narrow-operands{precision=bf16 pairs-of-halves=true}))' | FileCheck %s
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-narrow-operands{precision=bf16}))' | FileCheck %s --check-prefix=NOPAIRS
// RUN: tensmith-opt %s --pass-pipeline='builtin.module(func.func(graph-narrow-operands{pairs-of-halves=true}))' | FileCheck %s --check-prefix=FAST

// Both operands where the machine multiplies pairs; elsewhere weights that the caches hold stay.
// CHECK-LABEL: func @product
// CHECK: %[[XN:.*]] = graph.cast %arg0 {to = bf16}
// CHECK: %[[X:.*]] = graph.cast %[[XN]] {to = f32}
// CHECK: graph.cast {{.*}} {to = bf16} : (tensor<4x3xf32>)
// CHECK: %[[W:.*]] = graph.cast {{.*}} {to = f32} : (tensor<4x3xbf16>)
// CHECK: graph.matmul %[[X]], %[[W]]
// NOPAIRS-LABEL: func @product
// NOPAIRS-NOT: graph.cast
// FAST-LABEL: func @product
// FAST-NOT: graph.cast
func.func @product(%x: tensor<5x4xf32>) -> tensor<5x3xf32> {
  %w = graph.constant {value = dense<1.5> : tensor<4x3xf32>} : () -> tensor<4x3xf32>
  %y = graph.matmul %x, %w : (tensor<5x4xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}

// A product of two values, neither of which is weights.
// CHECK-LABEL: func @values
// CHECK-NOT: graph.cast
func.func @values(%x: tensor<5x4xf32>, %w: tensor<4x3xf32>) -> tensor<5x3xf32> {
  %y = graph.matmul %x, %w : (tensor<5x4xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}

// What the error of a layer is can't be told where sums are not finite.
// CHECK-LABEL: func @infinite
// CHECK-NOT: graph.cast
func.func @infinite(%x: tensor<5x1xf32>) -> tensor<5x1xf32> {
  %w = graph.constant {value = dense<0x7F800000> : tensor<1x1xf32>} : () -> tensor<1x1xf32>
  %y = graph.matmul %x, %w : (tensor<5x1xf32>, tensor<1x1xf32>) -> tensor<5x1xf32>
  return %y : tensor<5x1xf32>
}

// Nothing is left of numbers that small in 8 bits. Breaks if an error that is finite is passed over.
// CHECK-LABEL: func @beyond_the_bound
// CHECK-NOT: graph.cast
func.func @beyond_the_bound(%x: tensor<5x4xf32>) -> tensor<5x3xf32> {
  %w = graph.constant {value = dense<1.0e-42> : tensor<4x3xf32>} : () -> tensor<4x3xf32>
  %y = graph.matmul %x, %w : (tensor<5x4xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}

// One row waits for weights that come from memory.
// CHECK-LABEL: func @streamed
// NOPAIRS-LABEL: func @streamed
// NOPAIRS: graph.cast {{.*}} : (tensor<2048x2048xf32>) -> tensor<2048x2048xbf16>
// NOPAIRS: %[[V:.*]] = graph.cast {{.*}} {to = f32} : (tensor<2048x2048xbf16>)
// NOPAIRS: graph.matmul %arg0, %[[V]]
func.func @streamed(%x: tensor<1x2048xf32>) -> tensor<1x2048xf32> {
  %w = graph.constant {value = dense<0.25> : tensor<2048x2048xf32>} : () -> tensor<2048x2048xf32>
  %y = graph.matmul %x, %w : (tensor<1x2048xf32>, tensor<2048x2048xf32>) -> tensor<1x2048xf32>
  return %y : tensor<1x2048xf32>
}

// Codes of 8 bits, of any policy.
// FAST-LABEL: func @codes
// FAST: graph.cast {{.*}} {to = i8} : (tensor<20x30xi16>) -> tensor<20x30xi8>
// FAST: %[[B:.*]] = graph.cast {{.*}} {to = i16} : (tensor<20x30xi8>)
// FAST: graph.matmul %arg0, %[[B]] {accumulate_i32 = true}
func.func @codes(%x: tensor<10x20xi16>) -> tensor<10x30xi32> {
  %w = graph.constant {value = dense<-128> : tensor<20x30xi16>} : () -> tensor<20x30xi16>
  %y = graph.matmul %x, %w {accumulate_i32 = true} : (tensor<10x20xi16>, tensor<20x30xi16>) -> tensor<10x30xi32>
  return %y : tensor<10x30xi32>
}

// FAST-LABEL: func @codes_of_nine_bits
// FAST-NOT: graph.cast
func.func @codes_of_nine_bits(%x: tensor<10x20xi16>) -> tensor<10x30xi32> {
  %w = graph.constant {value = dense<128> : tensor<20x30xi16>} : () -> tensor<20x30xi16>
  %y = graph.matmul %x, %w {accumulate_i32 = true} : (tensor<10x20xi16>, tensor<20x30xi16>) -> tensor<10x30xi32>
  return %y : tensor<10x30xi32>
}

// A depthwise convolution waits for its image; its weights are few. Where nothing converts to bf16, it stays.
// CHECK-LABEL: func @depthwise
// CHECK: %[[N:.*]] = graph.cast %arg0 {to = bf16}
// CHECK: %[[W:.*]] = graph.cast %[[N]] {to = f32}
// CHECK-NOT: graph.cast
// CHECK: graph.conv %[[W]]
// NOPAIRS-LABEL: func @depthwise
// NOPAIRS-NOT: graph.cast
func.func @depthwise(%x: tensor<1x6x6x4xf32>) -> tensor<1x4x4x4xf32> {
  %w = graph.constant {value = dense<0.25> : tensor<4x1x3x3xf32>} : () -> tensor<4x1x3x3xf32>
  %none = graph.none : none
  %y = graph.conv %x, %w, %none {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 4, layout = "channels_last"} : (tensor<1x6x6x4xf32>, tensor<4x1x3x3xf32>, none) -> tensor<1x4x4x4xf32>
  return %y : tensor<1x4x4x4xf32>
}

// The last product, of few of the weights and of the work, stays: what it errs by is the result's
// error.
// CHECK-LABEL: func @last
// CHECK: %[[H:.*]] = graph.matmul {{.*}} -> tensor<400x64xf32>
// CHECK: %[[R:.*]] = graph.reduce_max %[[H]]
// CHECK-NEXT: %[[Y:.*]] = graph.matmul %[[R]], %{{.*}} : (tensor<1x64xf32>, tensor<64x2xf32>)
// CHECK-NEXT: graph.neg %[[Y]]
func.func @last(%x: tensor<400x256xf32>) -> tensor<1x2xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<256x64xf32>} : () -> tensor<256x64xf32>
  %v = graph.constant {value = dense<0.5> : tensor<64x2xf32>} : () -> tensor<64x2xf32>
  %h = graph.matmul %x, %w : (tensor<400x256xf32>, tensor<256x64xf32>) -> tensor<400x64xf32>
  %r = graph.reduce_max %h {axes = array<i64: 0>, keepdims = true} : (tensor<400x64xf32>) -> tensor<1x64xf32>
  %y = graph.matmul %r, %v : (tensor<1x64xf32>, tensor<64x2xf32>) -> tensor<1x2xf32>
  %n = graph.neg %y : (tensor<1x2xf32>) -> tensor<1x2xf32>
  return %n : tensor<1x2xf32>
}

// One of as many rows, whose columns fill a vector as any do, takes too long for that.
// CHECK-LABEL: func @last_of_many_rows
// CHECK: %[[H:.*]] = graph.matmul {{.*}} -> tensor<5x64xf32>
// CHECK: %[[R:.*]] = graph.abs %[[H]]
// CHECK: graph.cast %[[R]] {to = bf16}
func.func @last_of_many_rows(%x: tensor<5x64xf32>) -> tensor<5x2xf32> {
  %w = graph.constant {value = dense<0.5> : tensor<64x64xf32>} : () -> tensor<64x64xf32>
  %v = graph.constant {value = dense<0.5> : tensor<64x2xf32>} : () -> tensor<64x2xf32>
  %h = graph.matmul %x, %w : (tensor<5x64xf32>, tensor<64x64xf32>) -> tensor<5x64xf32>
  %r = graph.abs %h : (tensor<5x64xf32>) -> tensor<5x64xf32>
  %y = graph.matmul %r, %v : (tensor<5x64xf32>, tensor<64x2xf32>) -> tensor<5x2xf32>
  %n = graph.neg %y : (tensor<5x2xf32>) -> tensor<5x2xf32>
  return %n : tensor<5x2xf32>
}
