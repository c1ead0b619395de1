// An LSTM over a list whose length the run tells, written in C++ and staged to a program of the
// language: a function of the program, and a fold that stands in it.
//
//     c++ -std=c++20 -I include lstm.cpp -o lstm -ltensmith_compiler
//     ./lstm > lstm.tsm
#include <tensmith/dsl.hpp>

#include <iostream>

using namespace tensmith::dsl;

namespace {
constexpr int kInput = 24, kHidden = 32;
using Row = Tensor<float, 1, kInput>;
using Hidden = Tensor<float, 1, kHidden>;
using State = std::tuple<Hidden, Hidden>; // hidden, cell
} // namespace

int main() {
  Program program;
  auto w = program.drawn<float, kInput + kHidden, 4 * kHidden>("w", 0.1);
  auto bias = program.drawn<float, 4 * kHidden>("bias", 0.1);
  auto cell = program.function("cell", [&](State state, Row x) {
    auto [hidden, cell] = state;
    auto gates = matmul(concat<1>(x, hidden), w) + bias; // i, f, g, o
    auto i = sigmoid(slice<1, 0, kHidden>(gates)), f = sigmoid(slice<1, kHidden, kHidden>(gates));
    auto g = tanh(slice<1, 2 * kHidden, kHidden>(gates));
    auto o = sigmoid(slice<1, 3 * kHidden, kHidden>(gates));
    auto next = f * cell + i * g;
    return State(o * tanh(next), next);
  });
  program.main([&](Hidden hidden, Hidden first,
                   List<Row> items) { return fold(items, State(hidden, first), cell); },
               {"hidden", "memory", "items"});
  std::cout << program.text();
}
