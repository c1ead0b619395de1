// What the plan says of a graph: storage, lifetimes, buffers written over, constants, symbols and
// the signature. Every plan here also passes the runtime's verifier (PlannedFunction.h).
#include "base/Hash.h"
#include "compiler/vm/test/PlannedFunction.h"

namespace tensmith::vm {
namespace {

using plan::Opcode;
using plan::Storage;

/// %out = kernel(%in...) whose region computes `body`, which names its operands %a0, %a1, ... and
/// its result %r.
std::string kernel(const std::string &out, const std::vector<std::string> &in,
                   const std::vector<std::string> &types, const std::string &result,
                   const std::string &body) {
  std::string names, list, arguments;
  for (size_t i = 0; i < in.size(); ++i) {
    std::string comma = i ? ", " : "";
    names += comma + in[i];
    list += comma + types[i];
    arguments += comma + "%a" + std::to_string(i) + ": " + types[i];
  }
  return out + " = graph.kernel " + names + " {label = \"" + out + "\", kind = \"loops\"} : (" +
         list + ") -> " + result + " {\n^bb0(" + arguments + "):\n" + body +
         "\ngraph.yield %r : " + result + "\n}\n";
}

const std::string kRow = "tensor<4x4xf32>";

std::string relu(const std::string &out, const std::string &in, const std::string &type = kRow) {
  return kernel(out, {in}, {type}, type, "%r = graph.abs %a0 : (" + type + ") -> " + type);
}

std::string add(const std::string &out, const std::string &a, const std::string &b) {
  return kernel(out, {a, b}, {kRow, kRow}, kRow,
                "%r = graph.add %a0, %a1 : (" + kRow + ", " + kRow + ") -> " + kRow);
}

std::string unary(const std::string &body, const std::string &type = kRow) {
  return "func.func @main(%x: " + type + ") -> " + type + " {\n" + body + "}\n";
}

const std::string kReturnY = "return %y : " + kRow + "\n";

TEST(PlanBuilder, ResultMayOverwriteAnOperandThatEndsThere) {
  PlannedFunction planned(unary(relu("%0", "%x") + relu("%1", "%0") + relu("%y", "%1") + kReturnY));
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ(planned.result(0).storage, Storage::Arena);
  EXPECT_EQ(planned.result(1).storage, Storage::Arena);
  EXPECT_EQ(planned.result(2).storage, Storage::Result);
  EXPECT_EQ(planned.constant(planned.main().arena_bytes), 64);
  EXPECT_EQ(planned.metadata("arena_buffers"), 1);
  EXPECT_EQ(planned.metadata("arena_bytes_planned"), 64);
  EXPECT_EQ(planned.metadata("arena_bytes_without_sharing"), 128);
}

struct OverwriteCase {
  const char *name;
  std::string body; // %0 is computed first; the kernel in question is the second
};

class NotOverwritten : public testing::TestWithParam<OverwriteCase> {};

TEST_P(NotOverwritten, ResultHasABufferOfItsOwn) {
  PlannedFunction planned(
      unary(relu("%0", "%x") + GetParam().body + add("%y", "%1", "%x") + kReturnY));
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  EXPECT_EQ(planned.metadata("arena_buffers"), 2);
  EXPECT_EQ(planned.constant(planned.main().arena_bytes), 128);
}

/// A kernel of rows: what stands beside a softmax of the operand, and is added to it.
std::string besideSoftmax(const std::string &before, const std::string &behind) {
  std::string body = before + "%s = graph.softmax %a0 {axis = 1 : i64} : (" + kRow + ") -> " +
                     kRow + "\n" + behind + "%r = graph.add %s, %t : (" + kRow +
                     ", tensor<4x1xf32>) -> " + kRow;
  std::string text = kernel("%1", {"%0"}, {kRow}, kRow, body);
  return text.replace(text.find("\"loops\""), 7, "\"rows\", tensmith.storing = \"rows\"");
}

// Breaks if a row is written over while a sum over it is still to be taken, or never is.
TEST(PlanBuilder, RowsAreWrittenOverOnceAllOfThemWasRead) {
  auto buffers = [](const std::string &text) {
    PlannedFunction planned(unary(relu("%0", "%x") + text + add("%y", "%1", "%x") + kReturnY));
    EXPECT_TRUE(planned.ok()) << planned.status.message();
    return planned.ok() ? planned.metadata("arena_buffers") : 0;
  };
  std::string sum = "%t = graph.reduce_sum %a0 {axes = array<i64: 1>, keepdims = true} : (" + kRow +
                    ") -> tensor<4x1xf32>\n";
  EXPECT_EQ(buffers(besideSoftmax("", sum)), 1);
  EXPECT_EQ(buffers(besideSoftmax(sum, "")), 2); // is computed where it is read
}

const std::string kTransposed =
    "%t = graph.transpose %a0 {permutation = array<i64: 1, 0>} : (" + kRow + ") -> " + kRow + "\n";

INSTANTIATE_TEST_SUITE_P(
    Cases, NotOverwritten,
    testing::Values(
        // Element [i, j] of the result needs [j, i] of the operand, which would be gone.
        OverwriteCase{"ReadElsewhere",
                      kernel("%1", {"%0"}, {kRow}, kRow,
                             kTransposed + "%r = graph.abs %t : (" + kRow + ") -> " + kRow)},
        // The second operand ends in place, but is also the first one under another shape.
        OverwriteCase{"SameBufferUnderAnotherShape",
                      "%v = graph.reshape %0 : (" + kRow + ") -> " + kRow + "\n" +
                          kernel("%1", {"%v", "%0"}, {kRow, kRow}, kRow,
                                 kTransposed + "%r = graph.add %t, %a1 : (" + kRow + ", " + kRow +
                                     ") -> " + kRow)},
        // One row of the operand serves all rows of the result.
        OverwriteCase{"Broadcast",
                      kernel("%1", {"%0"}, {kRow}, kRow,
                             "%s = graph.slice %a0 {starts = array<i64: 0, 0>, steps = "
                             "array<i64: 1, 1>} : (" +
                                 kRow + ") -> tensor<1x4xf32>\n" + "%r = graph.add %a0, %s : (" +
                                 kRow + ", tensor<1x4xf32>) -> " + kRow)},
        // %0 is needed after the kernel, through a view of it.
        OverwriteCase{"UsedLaterThroughAView", "%v = graph.reshape %0 : (" + kRow + ") -> " + kRow +
                                                   "\n" + relu("%2", "%0") +
                                                   add("%1", "%2", "%v")}),
    [](const auto &info) { return info.param.name; });

// From the operand of this kernel to its result there are 2^60 paths.
TEST(PlanBuilder, OverwritesWhereValuesAreUsedTwice) {
  std::string body;
  for (int i = 0; i < 60; ++i) {
    std::string in = i ? "%s" + std::to_string(i) : "%a0";
    body += (i + 1 < 60 ? "%s" + std::to_string(i + 1) : "%r") + " = graph.mul " + in + ", " + in +
            " : (" + kRow + ", " + kRow + ") -> " + kRow + "\n";
  }
  PlannedFunction planned(unary(relu("%0", "%x") + kernel("%1", {"%0"}, {kRow}, kRow, body) +
                                relu("%y", "%1") + kReturnY));
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  EXPECT_EQ(planned.metadata("arena_buffers"), 1);
}

// The element's size counts, not its type: i32 may lie where f32 lay, f64 may not.
TEST(PlanBuilder, OverwritesByElementSize) {
  for (auto [type, buffers] : {std::pair("i32", 1), std::pair("f64", 2)}) {
    std::string to = std::string("tensor<4x4x") + type + ">";
    PlannedFunction planned(
        "func.func @main(%x: " + kRow + ") -> " + to + " {\n" + relu("%0", "%x") +
        kernel("%1", {"%0"}, {kRow}, to,
               std::string("%r = graph.cast %a0 {to = ") + type + "} : (" + kRow + ") -> " + to) +
        relu("%y", "%1", to) + "return %y : " + to + "\n}\n");
    ASSERT_TRUE(planned.ok()) << type;
    EXPECT_EQ(planned.metadata("arena_buffers"), buffers) << type;
  }
}

TEST(PlanBuilder, ViewSharesItsOperandsBufferAndKeepsItAlive) {
  PlannedFunction planned(unary(relu("%0", "%x") + "%v = graph.reshape %0 : (" + kRow +
                                ") -> tensor<16xf32>\n" + relu("%1", "%x") + relu("%2", "%1") +
                                "%w = graph.reshape %v : (tensor<16xf32>) -> " + kRow + "\n" +
                                add("%y", "%w", "%2") + kReturnY));
  ASSERT_TRUE(planned.ok());
  ASSERT_EQ(planned.instruction(1).opcode, Opcode::View);
  EXPECT_EQ(planned.result(1).storage, Storage::Arena);
  EXPECT_EQ(planned.result(1).offset, planned.result(0).offset);
  EXPECT_EQ(planned.result(4).offset, planned.result(0).offset);
  EXPECT_NE(planned.result(2).offset, planned.result(0).offset);
}

TEST(PlanBuilder, ViewOfAnInputOrAResultIsNoCopyInTheArena) {
  PlannedFunction planned("func.func @main(%x: " + kRow + ") -> (" + kRow +
                          ", tensor<16xf32>, tensor<16xf32>, " + kRow + ") {\n" + relu("%0", "%x") +
                          "%v = graph.reshape %0 : (" + kRow +
                          ") -> tensor<16xf32>\n%w = graph.reshape %x : (" + kRow +
                          ") -> tensor<16xf32>\nreturn %0, %v, %w, %0 : " + kRow +
                          ", tensor<16xf32>, tensor<16xf32>, " + kRow + "\n}\n");
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ(planned.result(0).storage, Storage::Result);
  EXPECT_EQ(planned.result(1).storage, Storage::Heap);
  EXPECT_EQ(planned.result(2).storage, Storage::Parameter);
  EXPECT_EQ(planned.metadata("arena_buffers"), 0);
}

/// Of two parts, computed in place.
std::string joinInPlace(const std::string &pitch, const std::string &axis,
                        const std::string &type) {
  auto part = [&](const std::string &out) {
    std::string text = relu(out, "%x");
    return text.replace(text.find("\"loops\""), 7, "\"loops\"" + pitch);
  };
  return "func.func @main(%x: " + kRow + ") -> " + type + " {\n" + part("%0") +
         relu("%other", "%x") + part("%1") + "%j = graph.concat %0, %1 {axis = " + axis +
         " : i64, in_place} : (" + kRow + ", " + kRow + ") -> " + type + "\n" +
         relu("%y", "%j", type) + "return %y : " + type + "\n}\n";
}

TEST(PlanBuilder, PartsLieWhereTheyAreJoined) {
  struct {
    std::string pitch, axis, type;
    int64_t offset;
    uint64_t bytes;
  } const forms[] = {{", pitch = 8 : i64", "1", "tensor<4x8xf32>", 16, 32},
                     {"", "0", "tensor<8x4xf32>", 64, 0}};
  for (const auto &form : forms) {
    SCOPED_TRACE(form.type);
    PlannedFunction planned(joinInPlace(form.pitch, form.axis, form.type));
    ASSERT_TRUE(planned.ok()) << planned.status.message();
    ASSERT_EQ(planned.instruction(3).opcode, Opcode::Join);
    int64_t begin = planned.constant(planned.result(3).offset);
    EXPECT_EQ(planned.constant(planned.result(0).offset), begin);
    EXPECT_EQ(planned.constant(planned.result(2).offset), begin + form.offset);
    EXPECT_EQ(planned.result(0).pitch, form.bytes);
    EXPECT_EQ(planned.result(2).pitch, form.bytes);
    EXPECT_EQ(planned.result(3).pitch, 0u);
    // The memory is taken from the first part on: what is computed in between has its own.
    int64_t other = planned.constant(planned.result(1).offset);
    EXPECT_TRUE(other >= begin + 128 || other + 64 <= begin);
  }
}

TEST(PlanBuilder, EqualConstantsAreStoredOnce) {
  auto constant = [](const char *name, const char *value, const char *type) {
    return std::string(name) + " = graph.constant {value = dense<" + value + "> : " + type +
           "} : () -> " + type + "\n";
  };
  PlannedFunction planned(
      "func.func @main() -> (tensor<3xf32>, tensor<3x1xf32>, tensor<3xf32>) {\n" +
      constant("%a", "[1.0, 2.0, 3.0]", "tensor<3xf32>") +
      constant("%b", "[[1.0], [2.0], [3.0]]", "tensor<3x1xf32>") +
      constant("%c", "[1.0, 2.0, 4.0]", "tensor<3xf32>") +
      "return %a, %b, %c : tensor<3xf32>, tensor<3x1xf32>, tensor<3xf32>\n}\n");
  ASSERT_TRUE(planned.ok());
  const auto &main = planned.main();
  auto offset = [&](size_t result) { return main.values[main.results[result]]->offset; };
  EXPECT_EQ(offset(0), offset(1));
  EXPECT_EQ(offset(2), 64u);
  ASSERT_EQ(planned.plan.constants.size(), 2u);
  EXPECT_EQ(planned.plan.weightsBytes, 128);
  EXPECT_EQ(planned.plan.constants[1].tensor.getDouble(2), 4.0);
}

// XXH3 mixes 16 bytes as a product, (a ^ first) * (b ^ second) for two fixed words, and adds a + b:
// where one factor is zero the other doesn't count. So there are different contents of one hash.
TEST(PlanBuilder, ConstantsOfOneHashAreKeptApart) {
  constexpr uint64_t first = 0xdb979083e96dd4de, second = 0x1f67b3b7a4a44072;
  const std::vector<std::vector<int64_t>> contents = {
      {1, 2, int64_t(first), 0}, {1, 2, int64_t(first - second), int64_t(second)}};
  auto text = [](const std::vector<int64_t> &values) {
    std::string list;
    for (int64_t value : values)
      list += (list.empty() ? "" : ", ") + std::to_string(value);
    return " = graph.constant {value = dense<[" + list +
           "]> : tensor<4xi64>} : () -> tensor<4xi64>\n";
  };
  ASSERT_EQ(hash128(std::as_bytes(std::span(contents[0]))),
            hash128(std::as_bytes(std::span(contents[1]))));
  PlannedFunction planned("func.func @main() -> (tensor<4xi64>, tensor<4xi64>) {\n%a" +
                          text(contents[0]) + "%b" + text(contents[1]) +
                          "return %a, %b : tensor<4xi64>, tensor<4xi64>\n}\n");
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  ASSERT_EQ(planned.plan.constants.size(), 2u);
  EXPECT_EQ(planned.plan.constants[1].tensor.getInt(3), int64_t(second));
}

std::string dims(const std::string &shape, const std::string &symbols, const std::string &map,
                 const char *element = "f32") {
  return "tensor<" + shape + "x" + element + ", #graph.dims<[" + symbols + "], ()" + map + ">>";
}

TEST(PlanBuilder, SignatureSaysSizesAsPeopleWriteThem) {
  std::string in = dims("?x3x?", "\"batch\", \"seq\"", "[s0, s1] -> (s0, 3, s1 * 2 + 1)");
  std::string seq = dims("?", "\"seq\"", "[s0] -> (s0)");
  PlannedFunction planned("func.func @main(%x: " + in + " {graph.name = \"pixels\"}, %s: " + seq +
                          ") -> (" + in + " {graph.name = \"scores\"}) {\n" + relu("%0", "%x", in) +
                          relu("%y", "%0", in) + "return %y : " + in + "\n}\n");
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  ASSERT_EQ(planned.unpacked.inputs.size(), 2u);
  EXPECT_EQ(planned.unpacked.inputs[1]->name, "input1");
  EXPECT_EQ(planned.unpacked.inputs[0]->name, "pixels");
  EXPECT_EQ(planned.unpacked.outputs[0]->name, "scores");
  EXPECT_EQ(planned.unpacked.inputs[0]->dims, (std::vector<std::string>{"batch", "3", "2*seq+1"}));
  EXPECT_EQ(planned.unpacked.model, "test.onnx");
  for (const std::string &location : planned.unpacked.locations)
    EXPECT_EQ(location.rfind("test.onnx: ", 0), 0u) << location;
}

// A kernel's sizes come in the order in which the kernel takes them.
TEST(PlanBuilder, SymbolicBuffersLieInTheArena) {
  std::string type = dims("?x?", "\"a\", \"b\"", "[s0, s1] -> (s1, s0)");
  PlannedFunction planned("func.func @main(%x: " + type + ") -> " + type + " {\n" +
                          relu("%0", "%x", type) + relu("%y", "%0", type) + "return %y : " + type +
                          "\n}\n");
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  EXPECT_EQ(planned.result(0).storage, Storage::Arena);
  EXPECT_EQ(planned.metadata("arena_bytes_planned"), 64 * 64 * 4);
  std::vector<std::string> sizes;
  for (uint32_t size : planned.instruction(0).sizes)
    sizes.push_back(planned.main().symbols[size_t(planned.main().exprs[size].a())]);
  EXPECT_EQ(sizes, (std::vector<std::string>{"a", "b"}));
}

// A symbol that no input has as a whole size has no value: said here, with the node, and not by a
// module that no runtime loads.
TEST(PlanBuilder, KernelOfASizeThatNothingTellsIsAnError) {
  std::string type = dims("?", "\"half\"", "[s0] -> (s0 * 2)");
  PlannedFunction planned("func.func @main(%x: " + type + ") -> " + type + " {\n" +
                          relu("%y", "%x", type) + "return %y : " + type + "\n}\n");
  EXPECT_EQ(planned.status.code(), StatusCode::Unsupported);
  EXPECT_NE(planned.status.message().find("test.onnx: "), std::string::npos);
  EXPECT_NE(planned.status.message().find("'half'"), std::string::npos) << planned.status.message();
}

// What the run alone tells, and nothing bounds, is allocated when it is known, and freed after its
// last use.
TEST(PlanBuilder, SizesThatNothingBoundsAreOnTheHeap) {
  std::string found = dims("?", "\"found\"", "[s0] -> (s0)", "f32");
  PlannedFunction planned(
      "func.func @main(%x: tensor<8xf32>, %n: tensor<1xi64>) -> " + found +
      " {\n%0 = graph.dynamic_tile %x, %n : (tensor<8xf32>, tensor<1xi64>) -> " + found + "\n" +
      relu("%1", "%0", found) + relu("%y", "%1", found) + "return %y : " + found + "\n}\n");
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  EXPECT_EQ(planned.instruction(0).opcode, Opcode::Routine);
  EXPECT_EQ(planned.result(0).storage, Storage::Heap);
  EXPECT_EQ(planned.result(1).storage, Storage::Heap);
  EXPECT_EQ(planned.instruction(1).releases, planned.instruction(0).results);
  EXPECT_EQ(planned.instruction(2).releases, planned.instruction(1).results);
  EXPECT_EQ(planned.metadata("arena_buffers"), 0);
}

// A size that nothing is known of must not become one that the model has a name for, even if the
// model's name is one that could have been made up.
TEST(PlanBuilder, UnknownSizesAreNeverTakenForNamedOnes) {
  for (int number = 0; number < 4; ++number) {
    std::string name = "unknown." + std::to_string(number);
    std::string named = dims("?", "\"" + name + "\"", "[s0] -> (s0)");
    PlannedFunction planned("func.func @main(%a: tensor<?xf32>, %x: " + named +
                            ", %b: tensor<?xf32>) -> " + named + " {\n" + "return %x : " + named +
                            "\n}\n");
    ASSERT_TRUE(planned.ok()) << planned.status.message();
    const auto &main = planned.main();
    std::set<uint32_t> sizes;
    for (uint32_t param : main.params)
      sizes.insert(main.values[param]->dims[0]);
    EXPECT_EQ(sizes.size(), 3u) << name;
  }
}

// A run that fails must leave its states as they were: what a check stands behind is no update in
// place.
TEST(PlanBuilder, NoStateIsWrittenOverBeforeACheck) {
  auto plannedWith = [](const std::string &before, const std::string &behind) {
    return PlannedFunction("func.func @main(%w: " + kRow + " {graph.state = 0 : i64}, %g: " + kRow +
                           ") -> " + kRow + " {\n" + before + add("%next", "%w", "%g") + behind +
                           "return %next : " + kRow + "\n}\n");
  };
  const std::string check = "%found = graph.nonzero %g : (" + kRow + ") -> " +
                            dims("2x?", "\"found\"", "[s0] -> (2, s0)", "i64") +
                            "\ngraph.check {message = \"{a} and {b}\", relation = 0 : i64, sizes = "
                            "#graph.dims<[\"found\"], "
                            "()[s0] -> (s0, 3)>}\n";
  for (auto [before, behind, inPlace] :
       {std::tuple("", "", true), std::tuple(check.c_str(), "", true),
        std::tuple("", check.c_str(), false)}) {
    PlannedFunction planned = plannedWith(before, behind);
    ASSERT_TRUE(planned.ok()) << planned.status.message();
    ASSERT_EQ(planned.unpacked.states.size(), 1u);
    EXPECT_EQ(planned.unpacked.states[0]->in_place, inPlace) << before << behind;
  }
}

// Nor, of one that successful runs alone update, before a kernel that may fail, or by one.
TEST(PlanBuilder, NoStateOfSuccessfulRunsIsWrittenOverBeforeAKernelThatMayFail) {
  auto planned = [](const std::string &attribute, const std::string &body) {
    return PlannedFunction("func.func @main(%w: " + kRow + " {graph.state = 0 : i64" + attribute +
                           "}, %g: " + kRow + ", %i: tensor<4xi64>) -> (" + kRow + ", " + kRow +
                           ") {\n" + body + "return %next, %found : " + kRow + ", " + kRow +
                           "\n}\n");
  };
  const std::string lookUp = "%found = graph.kernel %g, %i {kind = \"loops\", label = \"l\"} : (" +
                             kRow + ", tensor<4xi64>) -> " + kRow + " {\n^bb0(%a: " + kRow +
                             ", %b: tensor<4xi64>):\n" +
                             "%r = graph.gather %a, %b {axis = 0 : i64} : (" + kRow +
                             ", tensor<4xi64>) -> " + kRow + "\ngraph.yield %r : " + kRow + "\n}\n";
  const std::string update = add("%next", "%w", "%g");
  for (auto [attribute, body, inPlace] :
       {std::tuple("", update + lookUp, true), std::tuple("", lookUp + update, true),
        std::tuple(", graph.state_on_success", update + lookUp, false),
        std::tuple(", graph.state_on_success", lookUp + update, true)}) {
    PlannedFunction function = planned(attribute, body);
    ASSERT_TRUE(function.ok()) << function.status.message();
    EXPECT_EQ(function.unpacked.states[0]->in_place, inPlace) << attribute << body;
  }
}

TEST(PlanBuilder, SameGraphGivesSameBytes) {
  std::string text = unary(relu("%0", "%x") + relu("%1", "%x") + add("%2", "%0", "%1") +
                           add("%y", "%2", "%0") + kReturnY);
  PlannedFunction one(text), two(text);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one.plan.bytes, two.plan.bytes);
}

TEST(PlanBuilder, BranchesBecomeFunctionsThatTakeWhatTheyCapture) {
  std::string type = dims("?", "\"n\"", "[s0] -> (s0)");
  PlannedFunction planned(
      "func.func @main(%c: tensor<i1>, %x: " + type + ", %z: " + type + ") -> " + type + " {\n" +
      relu("%0", "%x", type) + "%y = graph.if %c : (tensor<i1>) -> " + type + " {\n" +
      relu("%1", "%0", type) + relu("%2", "%1", type) + "graph.yield %2 : " + type +
      "\n} else {\ngraph.yield %z : " + type + "\n}\nreturn %y : " + type + "\n}\n");
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  ASSERT_EQ(planned.unpacked.functions.size(), 3u);
  const auto &branch = planned.instruction(1);
  EXPECT_EQ(branch.opcode, Opcode::If);
  EXPECT_EQ(branch.operands.size(), 3u); // the condition, %0 and %z
  EXPECT_EQ(branch.sizes.size(), 1u);
  const auto &then = *planned.unpacked.functions[branch.functions[0]];
  EXPECT_EQ(then.params.size(), 2u);
  EXPECT_EQ(then.given_symbols, 1u);
  EXPECT_EQ(then.symbols[0], "n");
  EXPECT_EQ(then.values[then.instructions[0]->results[0]]->storage, Storage::Arena);
}

} // namespace
} // namespace tensmith::vm
