// Operands that contradict an operator: refused with a message that names what is wrong, never a
// crash. Run under AddressSanitizer as well, the second test breaks where a size is trusted before
// it is checked.
#include "reference/test/Expectations.h"

#include <random>

namespace tensmith::reference {
namespace {

constexpr StatusCode kInvalid = StatusCode::InvalidArgument;

std::vector<Entry> allEntries() {
  std::vector<Entry> all;
  for (auto entries :
       {arithmeticEntries, functionEntries, comparisonEntries, castEntries, reductionEntries,
        movementEntries, dynamicMovementEntries, gatherEntries, scatterEntries, selectionEntries,
        creationEntries, quantizationEntries, contractionEntries, convolutionEntries,
        resamplingEntries, normalizationEntries, recurrentEntries, signalEntries})
    all.insert(all.end(), entries().begin(), entries().end());
  return all;
}

TEST(HostileOperands, MissingOperandIsNamed) {
  const ResultTypes types{{DataType::F32, Shape{1}}};
  auto takesNone = [](std::string_view name) {
    return name == "iota" || name.starts_with("random_");
  };
  for (const Entry &entry : allEntries())
    if (entry.name != "einsum" && !takesNone(entry.name)) // einsum has any number of them
      expectFailure(std::string(entry.name), {}, {}, kInvalid, "is missing", types);
  expectFailure("einsum", {}, {{"equation", std::string("i->i")}}, kInvalid, "'equation'");
}

TEST(HostileOperands, ContradictionIsNamed) {
  const HostTensor image = ramp({1, 2, 3, 4}, 1);
  expectFailure("matmul", {ramp({2, 3}, 1), ramp({2, 3}, 2)}, {}, kInvalid, "'b'");
  expectFailure("matmul", {ramp({}, 1), ramp({2, 3}, 2)}, {}, kInvalid, "'a' is a scalar");
  expectFailure("einsum", {ramp({2, 3}, 1)}, {{"equation", std::string("ij->k")}}, kInvalid,
                "'equation'");
  expectFailure("det", {ramp({2, 3}, 1)}, {}, kInvalid, "'x'");
  expectFailure("conv", {image, ramp({2, 3, 1, 1}, 2)}, {}, kInvalid, "'w'");
  expectFailure("conv", {image, ramp({2, 2, 5, 1}, 2)}, {}, kInvalid, "smaller, padded");
  expectFailure("conv", {image, ramp({2, 2, 1, 1}, 2)}, {{"strides", Integers{0, 1}}}, kInvalid,
                "'strides'");
  expectFailure("conv", {image, ramp({2, 2, 1, 1}, 2), ramp({3}, 1)}, {}, kInvalid, "'bias'");
  expectFailure("max_pool", {image}, {{"kernel", Integers{2}}}, kInvalid, "'x'");
  expectFailure("max_unpool", {ramp({1, 1, 1, 1}, 1), integers(DataType::I64, {1, 1, 1, 1}, {4})},
                {{"kernel", Integers{2, 2}}}, kInvalid, "'indices' has 4");
  expectFailure("resize", {image, HostTensor(), floats({4}, {1, 1, -2, 1})}, {}, kInvalid,
                "'scales'");
  expectFailure("grid_sample", {image, ramp({1, 2, 2, 3}, 1)}, {}, kInvalid, "'grid'");
  expectFailure("roi_align", {image, ramp({1, 4}, 1), integers(DataType::I64, {1}, {1})}, {},
                kInvalid, "'batch_indices'");
  expectFailure("softmax", {image}, {{"axis", int64_t(4)}}, kInvalid, "'axis'");
  expectFailure("layer_norm", {image, ramp({3}, 1)}, {{"axis", int64_t(3)}}, kInvalid, "'scale'");
  expectFailure("dft", {ramp({1, 4, 3}, 1)}, {}, kInvalid, "'x'");
  expectFailure("stft", {ramp({1, 9, 1}, 1), integers(DataType::I64, {}, {0})}, {}, kInvalid,
                "'frame_step'");
}

TEST(HostileOperands, TypesAreNotMistaken) {
  expectFailure("softmax", {integers(DataType::I32, {2}, {1, 2})}, {{"axis", int64_t(0)}},
                StatusCode::Unsupported, "only floats");
  expectFailure("matmul", {HostTensor::ofStrings({1}, {"a"}), ramp({1}, 1)}, {},
                StatusCode::Unsupported, "'a'");
}

TEST(HostileOperands, WantOfMemoryIsReported) {
  expectFailure("window", {integers(DataType::I64, {}, {int64_t(1) << 62})},
                {{"kind", std::string("hann")}, {"to", int64_t(1)}}, StatusCode::ResourceExhausted,
                "no memory");
  expectFailure("resize",
                {ramp({1, 1, 2, 2}, 1), HostTensor(), HostTensor(),
                 integers(DataType::I64, {4}, {2000000, 2000000, 2000000, 2000000})},
                {{"mode", std::string("linear")}}, StatusCode::ResourceExhausted, "no memory");
}

HostTensor anyOperand(std::mt19937 &random) {
  constexpr DataType kTypes[] = {
      DataType::F32, DataType::F32,      DataType::F32,       DataType::F16,    DataType::I64,
      DataType::I8,  DataType::Bool,     DataType::Undefined, DataType::String, DataType::C64,
      DataType::U64, DataType::F8E4M3FN, DataType::I4};
  const DataType type = kTypes[random() % std::size(kTypes)];
  if (type == DataType::Undefined)
    return HostTensor();
  Shape shape(random() % 6);
  for (int64_t &size : shape)
    size = int64_t(random() % 4);
  HostTensor tensor(type, shape);
  constexpr double kOdd[] = {0, 1, 2, -1, 0.5, 3, -1e30, 1e30, NAN, INFINITY};
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (type == DataType::String)
      tensor.setString(i, std::to_string(random() % 3));
    else if (isFloat(type) || type == DataType::C64)
      tensor.setDouble(i, kOdd[random() % std::size(kOdd)]);
    else
      tensor.setInt(i, int64_t(random() % 6) - 2);
  return tensor;
}

AttributeList anyAttributes(std::mt19937 &random) {
  AttributeList list;
  for (const char *name :
       {"axis",          "groups",      "group",        "size",      "p",          "ceil_mode",
        "is_causal",     "q_num_heads", "kv_num_heads", "inverse",   "onesided",   "batch_first",
        "align_corners", "antialias",   "offset_group", "to",        "batch_dims", "width",
        "transposed",    "columns",     "upper",        "time_axis", "batch_axis", "block_size",
        "sample_size",   "keepdims",    "last",         "reverse",   "exclusive",  "largest",
        "sorted",        "start",       "end",          "fmod",      "left",       "allowzero",
        "training_mode"})
    if (random() % 2)
      list.emplace_back(name, int64_t(random() % 4) - (random() % 8 == 0));
  for (const char *name : {"kernel", "strides", "pads", "dilations", "axes", "pooled_shape", "low",
                           "high", "starts", "steps", "permutation"})
    if (random() % 2) {
      Integers values(random() % 5);
      for (int64_t &value : values)
        value = random() % 16 == 0 ? int64_t(1) << 40 : int64_t(random() % 4) - (random() % 8 == 0);
      list.emplace_back(name, values);
    }
  const char *modes[] = {"nearest",  "linear",  "cubic", "avg",  "max",
                         "constant", "reflect", "edge",  "wrap", "circular"};
  list.emplace_back("mode", std::string(modes[random() % std::size(modes)]));
  const char *reductions[] = {"none", "add", "mul", "min", "max"};
  list.emplace_back("reduction", std::string(reductions[random() % std::size(reductions)]));
  const char *paddings[] = {"zeros", "border", "reflection"};
  list.emplace_back("padding_mode", std::string(paddings[random() % std::size(paddings)]));
  const char *equations[] = {"ij,jk->ik", "...i,...i->...", "ii->i", "i,,->", "->", "i...j->ji"};
  list.emplace_back("equation", std::string(equations[random() % std::size(equations)]));
  return list;
}

ResultTypes anyResult(std::mt19937 &random) {
  Shape shape(random() % 4);
  for (int64_t &size : shape)
    size = int64_t(random() % 5) - (random() % 16 == 0);
  return {{DataType(random() % kDataTypeCount), shape}};
}

/// What is returned is either a failure or whole tensors.
TEST(HostileOperands, AnyOperandsAreSurvived) {
  std::mt19937 random(7);
  int successes = 0;
  for (const Entry &entry : allEntries())
    for (int trial = 0; trial < 300; ++trial) {
      std::vector<HostTensor> operands(random() % 9);
      for (HostTensor &operand : operands)
        operand = anyOperand(random);
      auto results =
          outcome(std::string(entry.name), operands, anyAttributes(random), anyResult(random));
      if (!results)
        continue;
      ++successes;
      for (const HostTensor &result : *results)
        EXPECT_TRUE(result.valid()) << entry.name;
    }
  EXPECT_GT(successes, 100) << "the operands are too wild to reach the evaluators";
}

} // namespace
} // namespace tensmith::reference
