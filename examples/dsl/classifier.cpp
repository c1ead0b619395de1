// A classifier of pictures, written in C++ and staged to a program of the language: a host function
// for a layer, a host loop over layers, and a program that is printed.
//
//     c++ -std=c++20 -I include classifier.cpp -o classifier -ltensmith_compiler
//     ./classifier > classifier.tsm
//     tensmith train classifier.tsm --data pictures.npz --shape batch=64
#include <tensmith/dsl.hpp>

#include <iostream>

using namespace tensmith::dsl;

/// x W + b; C++ inlines it wherever it is called.
template <class X, class W, class B> auto dense(const X &x, const W &w, const B &b) {
  return matmul(x, w) + b;
}

int main() {
  Program program;
  auto first = program.drawn<float, 784, 64>("first", 0.05);
  auto firstBias = program.drawn<float, 64>("first_bias", 0.05);
  auto middle = program.drawn<float, 64, 64>("middle", 0.1);
  auto middleBias = program.drawn<float, 64>("middle_bias", 0.1);
  auto last = program.drawn<float, 64, 10>("last", 0.1);
  auto lastBias = program.drawn<float, 10>("last_bias", 0.1);
  program.main(
      [&](Tensor<float, "batch", 784> picture) {
        auto x = relu(dense(picture, first, firstBias));
        for (int layer = 0; layer < 2; ++layer) // unrolled, with weights that both share
          x = relu(dense(x, middle, middleBias)) + x;
        return dense(x, last, lastBias);
      },
      {"picture"});
  std::cout << program.text();
}
