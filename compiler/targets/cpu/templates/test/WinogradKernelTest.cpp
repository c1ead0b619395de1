// The steps of Winograd's algorithm around their products, against the reference evaluation.
#include "compiler/targets/cpu/templates/test/KernelRunner.h"
#include "compiler/targets/cpu/templates/test/KernelText.h"

namespace tensmith::kernel {
namespace {

// Breaks where a tile reaches out of the image, channels leave a rest, or batches are mixed up.
TEST(WinogradKernel, Input) {
  for (auto [n, h, w, c, outputs, taps] : {std::tuple{1, 8, 8, 8, 4, 3},
                                           {2, 7, 5, 11, 4, 3},
                                           {1, 6, 9, 3, 2, 3},
                                           {3, 5, 5, 17, 2, 5},
                                           {1, 13, 7, 19, 6, 3}}) {
    int64_t down = (h + 3 - taps + outputs) / outputs, across = (w + 2 - taps + outputs) / outputs;
    int64_t size = outputs + taps - 1;
    std::string x = tensor({n, h, w, c}), y = tensor({size * size, n * down * across, c});
    expectAgreement(kernel("%x: " + x, "%x", y,
                           "%a: " + x + "):\n      %0 = graph.winograd_input %a {outputs = " +
                               std::to_string(outputs) + " : i64, taps = " + std::to_string(taps) +
                               " : i64, pads = array<i64: 1, 0, 2, 2>} : (" + x + ") -> " + y +
                               "\n      graph.yield %0 : " + y + "\n    }) : (" + x + ") -> " + y),
                    {}, "winograd input");
  }
}

// Breaks where rows or columns beyond the image are written, or the epilogue's indices are off.
TEST(WinogradKernel, OutputWithBiasAndEpilogue) {
  for (auto [n, h, w, c, outputs] : {std::tuple{1, 8, 8, 8, 4},
                                     {2, 7, 5, 11, 4},
                                     {1, 6, 9, 3, 2},
                                     {2, 3, 3, 20, 2},
                                     {1, 13, 7, 19, 6}}) {
    int64_t tiles = (h + outputs - 1) / outputs * ((w + outputs - 1) / outputs);
    int64_t size = outputs + 2;
    std::string x = tensor({size * size, n * tiles, c}), b = tensor({c}), y = tensor({n, h, w, c});
    expectAgreement(kernel("%x: " + x + ", %b: " + b + ", %r: " + y, "%x, %b, %r", y,
                           "%a: " + x + ", %c: " + b + ", %d: " + y +
                               "):\n      %0 = graph.winograd_output %a, %c {outputs = " +
                               std::to_string(outputs) +
                               " : i64, taps = 3 : i64, image = array<i64: " + std::to_string(h) +
                               ", " + std::to_string(w) + ">} : (" + x + ", " + b + ") -> " + y +
                               "\n      %1 = graph.add %0, %d : (" + y + ", " + y + ") -> " + y +
                               "\n      graph.yield %1 : " + y + "\n    }) : (" + x + ", " + b +
                               ", " + y + ") -> " + y),
                    {}, "winograd output");
  }
}

// Breaks if integers are halved on the way, or the factor of sums that wrapped is not taken off.
TEST(WinogradKernel, Integers) {
  for (auto [h, w, c, outputs] : {std::tuple{8, 8, 16, 4}, {7, 5, 11, 4}, {6, 9, 37, 2}}) {
    int64_t tiles = (h + outputs - 1) / outputs * ((w + outputs - 1) / outputs);
    int64_t size = outputs + 2;
    auto tensor = [](std::initializer_list<int64_t> dims, const char *type) {
      std::string text = "tensor<";
      for (int64_t dim : dims)
        text += std::to_string(dim) + "x";
      return text + type + ">";
    };
    std::string tile = "outputs = " + std::to_string(outputs) + " : i64, taps = 3 : i64, ";
    std::string image = tensor({2, h, w, c}, "i16"),
                planes = tensor({size * size, 2 * tiles, c}, "i16");
    expectAgreement(kernel("%x: " + image, "%x", planes,
                           "%a: " + image + "):\n      %0 = graph.winograd_input %a {" + tile +
                               "pads = array<i64: 1, 1, 1, 1>} : (" + image + ") -> " + planes +
                               "\n      graph.yield %0 : " + planes + "\n    }) : (" + image +
                               ") -> " + planes),
                    {}, "winograd input");
    std::string sums = tensor({size * size, 2 * tiles, c}, "i32"), y = tensor({2, h, w, c}, "i32");
    expectAgreement(
        kernel("%x: " + sums, "%x", y,
               "%a: " + sums +
                   "):\n      %n = graph.none : none\n      %0 = graph.winograd_output %a, %n {" +
                   tile + "image = array<i64: " + std::to_string(h) + ", " + std::to_string(w) +
                   ">} : (" + sums + ", none) -> " + y + "\n      graph.yield %0 : " + y +
                   "\n    }) : (" + sums + ") -> " + y),
        {}, "winograd output");
  }
}

} // namespace
} // namespace tensmith::kernel
