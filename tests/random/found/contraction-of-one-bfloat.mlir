// RUN: random-graphs --replay %s
// One bf16: its rounding must not become a call.
func.func @main(%a: tensor<1x1xbf16> {random.kind = "positive", random.seed = 1 : i64},
                %b: tensor<bf16> {random.kind = "positive", random.seed = 2 : i64}) -> (tensor<1x1xbf16>, tensor<bf16>) {
  %0 = graph.matmul %a, %a : (tensor<1x1xbf16>, tensor<1x1xbf16>) -> tensor<1x1xbf16>
  %1 = graph.sqrt %b : (tensor<bf16>) -> tensor<bf16>
  return %0, %1 : tensor<1x1xbf16>, tensor<bf16>
}
