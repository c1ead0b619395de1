// RUN: tensmith-opt --graph-prove-sizes --split-input-file --verify-diagnostics %s
// Breaks when a kernel may read what nobody checked, or a check before it isn't seen.

!row = tensor<?x?xf32, #graph.dims<["k", "m"], ()[s0, s1] -> (s1, s0)>>
!column = tensor<?x4xf32, #graph.dims<["n"], ()[s0] -> (s0, 4)>>
!y = tensor<?x4xf32, #graph.dims<["m"], ()[s0] -> (s0, 4)>>
func.func @nothing_checks_the_depth(%a: !row, %b: !column) -> !y {
  %0 = graph.kernel %a, %b {kind = "contraction", label = "product"} : (!row, !column) -> !y {
  ^bb0(%x: !row, %w: !column):
    // expected-error @+1 {{its kernel relies on sizes of which nothing is checked: (C1)}}
    %1 = graph.matmul %x, %w : (!row, !column) -> !y
    graph.yield %1 : !y
  }
  return %0 : !y
}

// -----

!row = tensor<?x?xf32, #graph.dims<["k", "m"], ()[s0, s1] -> (s1, s0)>>
!column = tensor<?x4xf32, #graph.dims<["n"], ()[s0] -> (s0, 4)>>
!y = tensor<?x4xf32, #graph.dims<["m"], ()[s0] -> (s0, 4)>>
func.func @a_check_does(%a: !row, %b: !column) -> !y {
  graph.check {message = "", relation = 0 : i64, sizes = #graph.dims<["k", "n"], ()[s0, s1] -> (s0, s1)>}
  %0 = graph.kernel %a, %b {kind = "contraction", label = "product"} : (!row, !column) -> !y {
  ^bb0(%x: !row, %w: !column):
    %1 = graph.matmul %x, %w : (!row, !column) -> !y
    graph.yield %1 : !y
  }
  return %0 : !y
}

// -----

// What isn't in a kernel is looked at by its reference evaluation.
!row = tensor<?x?xf32, #graph.dims<["k", "m"], ()[s0, s1] -> (s1, s0)>>
!column = tensor<?x4xf32, #graph.dims<["n"], ()[s0] -> (s0, 4)>>
!y = tensor<?x4xf32, #graph.dims<["m"], ()[s0] -> (s0, 4)>>
func.func @not_of_a_kernel(%a: !row, %b: !column) -> !y {
  %0 = graph.matmul %a, %b : (!row, !column) -> !y
  return %0 : !y
}

// -----

// A transposed convolution of no rows has none; the convolution that does it has no window then.
!x = tensor<1x?x5x3xf32, #graph.dims<["h"], ()[s0] -> (1, s0, 5, 3)>>
!y = tensor<1x?x5x12xf32, #graph.dims<["h"], ()[s0] -> (1, s0, 5, 12)>>
func.func @no_rows(%a: !x, %w: tensor<12x3x1x1xf32>) -> !y {
  %0 = graph.kernel %a, %w {kind = "loops", label = "conv"} : (!x, tensor<12x3x1x1xf32>) -> !y {
  ^bb0(%x: !x, %k: tensor<12x3x1x1xf32>):
    %none = graph.none : none
    %1 = graph.conv %x, %k, %none {layout = "channels_last", dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (!x, tensor<12x3x1x1xf32>, none) -> !y
    graph.yield %1 : !y
  }
  return %0 : !y
}
