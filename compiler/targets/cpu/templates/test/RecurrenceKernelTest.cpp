// Loops of the model as one kernel, against the reference evaluation of the same loop.
#include "compiler/targets/cpu/templates/RecurrenceKernel.h"
#include "compiler/targets/cpu/templates/test/KernelRunner.h"

namespace tensmith::kernel {
namespace {

/// A kernel around a loop with a given trip count that carries %x [5] and %y [5], captures
/// %w [5x5], and gives both; `next` names whether to go on and the next ones, which `body`
/// computes.
std::string loopOver(const std::string &body, const std::string &next) {
  return R"(
func.func @main(%n: tensor<i64>, %x: tensor<5xf32>, %y: tensor<5xf32>, %w: tensor<5x5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %k:2 = "graph.kernel"(%n, %x, %y, %w) <{label = "k", kind = "recurrence"}> ({
  ^bb0(%trips: tensor<i64>, %a: tensor<5xf32>, %b: tensor<5xf32>, %m: tensor<5x5xf32>):
    %none = graph.none : none
    %l:2 = graph.loop %trips, %none, %a, %b : (tensor<i64>, none, tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
    ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<5xf32>, %t: tensor<5xf32>):
)" + body +
         R"(
      graph.yield )" +
         next + R"( : tensor<i1>, tensor<5xf32>, tensor<5xf32>
    }
    graph.yield %l#0, %l#1 : tensor<5xf32>, tensor<5xf32>
  }) : (tensor<i64>, tensor<5xf32>, tensor<5xf32>, tensor<5x5xf32>) -> (tensor<5xf32>, tensor<5xf32>)
  return %k#0, %k#1 : tensor<5xf32>, tensor<5xf32>
})";
}

void expectSame(const std::string &text, std::initializer_list<int64_t> tripCounts,
                int64_t together) {
  SizedPoint point;
  point.point.set(*kRecurrence.choices[0], together);
  KernelRunner runner(text, hostKernelMachine(), point);
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ(runner.summary(), "recurrence");
  for (int64_t trips : tripCounts) {
    auto inputs = runner.operands({});
    inputs[0].setInt(0, trips);
    auto got = runner.compiled(inputs), wanted = runner.byReference(inputs);
    EXPECT_EQ(runner.failure(), 0);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t r = 0; r < got.size(); ++r)
      for (int64_t i = 0; i < got[r].size(); ++i)
        ASSERT_NEAR(got[r].getDouble(i), wanted[r].getDouble(i), 2e-5)
            << "result " << r << " element " << i << " after " << trips << " trips";
  }
}

/// With as many elements as straight code.
void expectSame(const std::string &text, std::initializer_list<int64_t> tripCounts) {
  for (int64_t together : {1, 4})
    expectSame(text, tripCounts, together);
}

// Breaks if an element of one is written before the other has read it, or where nothing runs.
TEST(RecurrenceKernel, CarriedValuesChangePlaces) {
  expectSame(loopOver("", "%go, %t, %s"), {-3, 0, 1, 2, 7});
}

// Breaks if a value that several operators use is computed from what is already the next state, or
// a reduction or product reads a buffer that isn't filled yet.
TEST(RecurrenceKernel, SumsAndProductsOfTheState) {
  expectSame(loopOver(R"(
      %u = graph.tanh %s : (tensor<5xf32>) -> tensor<5xf32>
      %r = graph.reshape %u : (tensor<5xf32>) -> tensor<1x5xf32>
      %v = graph.matmul %r, %m : (tensor<1x5xf32>, tensor<5x5xf32>) -> tensor<1x5xf32>
      %z = graph.reshape %v : (tensor<1x5xf32>) -> tensor<5xf32>
      %h = graph.reduce_sum %z {axes = array<i64: 0>} : (tensor<5xf32>) -> tensor<f32>
      %p = graph.sub %z, %h : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
      %q = graph.add %u, %t : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>)",
                      "%go, %p, %q"),
             {0, 1, 2, 9});
}

// Breaks if the condition is asked too late, or of the wrong state.
TEST(RecurrenceKernel, EndsWhenAsked) {
  expectSame(loopOver(R"(
      %three = graph.constant {value = dense<3> : tensor<i64>} : () -> tensor<i64>
      %f = graph.cast %i {to = f32} : (tensor<i64>) -> tensor<f32>
      %c = graph.less %i, %three : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %p = graph.add %s, %f : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
      %q = graph.add %t, %p : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>)",
                      "%c, %p, %q"),
             {2, 4, 1000});
}

// Breaks if a value from outside the loop is taken for a buffer of it.
TEST(RecurrenceKernel, YieldsWhatItCaptures) {
  expectSame(loopOver(R"(
      %p = graph.add %s, %a : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>)",
                      "%go, %p, %b"),
             {0, 1, 3});
}

// Breaks if a row lands elsewhere, a half isn't rounded as it is in memory, or single elements
// lose their type in registers.
TEST(RecurrenceKernel, ScansRows) {
  KernelRunner runner(R"(
func.func @main(%x: tensor<7x3xf16>, %k: tensor<i8>) -> (tensor<i8>, tensor<7x3xf16>, tensor<7xi8>) {
  %0:3 = "graph.kernel"(%x, %k) <{label = "k", kind = "recurrence"}> ({
  ^bb0(%rows: tensor<7x3xf16>, %first: tensor<i8>):
    %trips = graph.constant {value = dense<7> : tensor<i64>} : () -> tensor<i64>
    %none = graph.none : none
    %l:3 = graph.loop %trips, %none, %first : (tensor<i64>, none, tensor<i8>) -> (tensor<i8>, tensor<7x3xf16>, tensor<7xi8>) {
    ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<i8>):
      %row = graph.gather %rows, %i {axis = 0 : i64} : (tensor<7x3xf16>, tensor<i64>) -> tensor<3xf16>
      %f = graph.cast %s {to = f16} : (tensor<i8>) -> tensor<f16>
      %y = graph.mul %row, %f : (tensor<3xf16>, tensor<f16>) -> tensor<3xf16>
      %n = graph.add %s, %s : (tensor<i8>, tensor<i8>) -> tensor<i8>
      graph.yield %go, %n, %y, %s : tensor<i1>, tensor<i8>, tensor<3xf16>, tensor<i8>
    }
    graph.yield %l#0, %l#1, %l#2 : tensor<i8>, tensor<7x3xf16>, tensor<7xi8>
  }) : (tensor<7x3xf16>, tensor<i8>) -> (tensor<i8>, tensor<7x3xf16>, tensor<7xi8>)
  return %0#0, %0#1, %0#2 : tensor<i8>, tensor<7x3xf16>, tensor<7xi8>
})");
  ASSERT_TRUE(runner.ok());
  auto inputs = runner.operands({});
  inputs[1].setInt(0, 3);
  auto got = runner.compiled(inputs), wanted = runner.byReference(inputs);
  for (size_t r = 0; r < got.size(); ++r)
    for (int64_t i = 0; i < got[r].size(); ++i)
      EXPECT_EQ(got[r].getDouble(i), wanted[r].getDouble(i)) << "result " << r << " element " << i;
}

// Breaks if a loop without end goes on after an error in it.
TEST(RecurrenceKernel, EndsAfterAnError) {
  KernelRunner runner(R"(
func.func @main(%x: tensor<3xf32>) -> tensor<f32> {
  %0 = "graph.kernel"(%x) <{label = "k", kind = "recurrence"}> ({
  ^bb0(%row: tensor<3xf32>):
    %none = graph.none : none
    %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
    %l = graph.loop %none, %none, %zero : (none, none, tensor<f32>) -> tensor<f32> {
    ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<f32>):
      %e = graph.gather %row, %i {axis = 0 : i64} : (tensor<3xf32>, tensor<i64>) -> tensor<f32>
      %n = graph.add %s, %e : (tensor<f32>, tensor<f32>) -> tensor<f32>
      graph.yield %go, %n : tensor<i1>, tensor<f32>
    }
    graph.yield %l : tensor<f32>
  }) : (tensor<3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
})");
  ASSERT_TRUE(runner.ok());
  auto inputs = runner.operands({});
  runner.compiled(inputs);
  EXPECT_NE(runner.failure(), 0);
}

} // namespace
} // namespace tensmith::kernel
