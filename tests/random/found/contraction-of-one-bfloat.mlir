// RUN: random-graphs --replay %s
// A bf16 alone, and one that is left over beside a panel: its rounding, and its masked load, must not become calls.
func.func @main(%a: tensor<1x1xbf16> {random.kind = "positive", random.seed = 1 : i64},
                %b: tensor<bf16> {random.kind = "positive", random.seed = 2 : i64},
                %c: tensor<4x64xbf16> {random.kind = "small", random.seed = 3 : i64},
                %d: tensor<64x17xbf16> {random.kind = "small", random.seed = 4 : i64})
    -> (tensor<1x1xbf16>, tensor<bf16>, tensor<4x17xbf16>, tensor<4x17xbf16>) {
  %0 = graph.matmul %a, %a : (tensor<1x1xbf16>, tensor<1x1xbf16>) -> tensor<1x1xbf16>
  %1 = graph.sqrt %b : (tensor<bf16>) -> tensor<bf16>
  %2 = graph.matmul %c, %d : (tensor<4x64xbf16>, tensor<64x17xbf16>) -> tensor<4x17xbf16>
  %3 = graph.slice %c {starts = array<i64: 0, 3>, steps = array<i64: 1, 1>} : (tensor<4x64xbf16>) -> tensor<4x17xbf16>
  %4 = graph.add %2, %3 : (tensor<4x17xbf16>, tensor<4x17xbf16>) -> tensor<4x17xbf16>
  return %0, %1, %2, %4 : tensor<1x1xbf16>, tensor<bf16>, tensor<4x17xbf16>, tensor<4x17xbf16>
}
