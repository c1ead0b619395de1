// RUN: random-graphs --replay %s
// What is known of integers before the run wraps around at their width, as at run time, and does not stick at the largest.
func.func @main() -> (tensor<1xi64>, tensor<2xi32>, tensor<i64>, tensor<i64>, tensor<i32>) attributes {random.sizes = [{}]} {
  %odd = graph.constant {value = dense<[-3, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33]> : tensor<18xi64>} : () -> tensor<18xi64>
  %product = graph.reduce_prod %odd {axes = array<i64: 0>, keepdims = true} : (tensor<18xi64>) -> tensor<1xi64>
  %large = graph.constant {value = dense<[2147483647, -2147483648]> : tensor<2xi32>} : () -> tensor<2xi32>
  %ones = graph.constant {value = dense<[1, -1]> : tensor<2xi32>} : () -> tensor<2xi32>
  %sum = graph.add %large, %ones : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  %least = graph.constant {value = dense<-9223372036854775808> : tensor<i64>} : () -> tensor<i64>
  %minus = graph.constant {value = dense<-1> : tensor<i64>} : () -> tensor<i64>
  %negated = graph.neg %least : (tensor<i64>) -> tensor<i64>
  %quotient = graph.div %least, %minus : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %wide = graph.constant {value = dense<8589934597> : tensor<i64>} : () -> tensor<i64>
  %narrow = graph.cast %wide {to = i32} : (tensor<i64>) -> tensor<i32>
  return %product, %sum, %negated, %quotient, %narrow : tensor<1xi64>, tensor<2xi32>, tensor<i64>, tensor<i64>, tensor<i32>
}
