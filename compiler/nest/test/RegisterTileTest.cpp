// Tiles, lanes, blocks and copies of sums as points of a kernel's space ask for them: whatever is
// asked, results are those of the evaluator. The order is drawn; the oracle runs points one by one.
#include "base/Factorisations.h"
#include "compiler/nest/test/Expectations.h"
#include "compiler/nest/test/Programs.h"

#include <random>

namespace tensmith::nest::test {
namespace {

RegisterTile drawnTile(std::mt19937 &random) {
  auto below = [&](uint32_t most) { return int64_t(random() % most); };
  RegisterTile tile;
  tile.rows = 1 + below(6);
  tile.vectors = 1 + below(4);
  tile.lanesAlong = size_t(below(5));
  tile.rowsAlong = size_t(below(5));
  tile.depth = below(3) * 8;
  tile.rowTiles = below(4);
  tile.laneTiles = below(4);
  tile.packing = {RegisterTile::Packing(below(3)), RegisterTile::Packing(below(3))};
  return tile;
}

std::string textOf(const RegisterTile &tile) {
  std::string text;
  for (int64_t each :
       {tile.rows, tile.vectors, int64_t(tile.lanesAlong), int64_t(tile.rowsAlong), tile.depth,
        tile.rowTiles, tile.laneTiles, int64_t(tile.packing[0]), int64_t(tile.packing[1])})
    text += std::to_string(each) + " ";
  return text;
}

// Fails where a cut, a copy or lanes of a sum touch what they should not, or leave points out.
TEST(RegisterTile, AnyTileOfAnyProgramKeepsItsResults) {
  std::mt19937 random(7);
  for (const Program &program : programs())
    for (int draw = 0; draw < 2; ++draw) {
      RegisterTile tile = drawnTile(random);
      auto schedule = Schedule::of(program.nest);
      ASSERT_TRUE(schedule.ok());
      ASSERT_TRUE(schedule->byEstimate(8, 32, tile).ok());
      auto kernel = RunnableNest::of(*schedule);
      ASSERT_TRUE(kernel.ok()) << kernel.status().message();
      for (const auto &sizes : program.sizes)
        EXPECT_EQ(difference(*kernel, program.nest, sizes, 1, 1), "")
            << program.nest.name << ", " << textOf(tile) << "\n"
            << *loopText(*schedule);
    }
}

/// A product of known sizes.
Nest knownProduct(const std::vector<int64_t> &sizes) {
  Nest nest = product();
  for (size_t number = 0; number < sizes.size(); ++number)
    nest.parameters[number].least = nest.parameters[number].most = sizes[number];
  return nest;
}

Factors drawn(int64_t size, size_t parts, std::mt19937 &random) {
  std::vector<Factors> all = factorisations(size, parts);
  return all[random() % all.size()];
}

// Fails where loops by factors leave points out, or touch some twice.
TEST(RegisterTile, AnyFactorsKeepResults) {
  std::mt19937 random(3);
  const std::vector<int64_t> sizes{24, 48, 10};
  for (int draw = 0; draw < 12; ++draw) {
    RegisterTile tile;
    tile.rowFactors = drawn(sizes[0], 4, random);
    tile.laneFactors = drawn(sizes[1], 4, random);
    tile.depthFactors = drawn(sizes[2], 2, random);
    auto schedule = Schedule::of(knownProduct(sizes));
    ASSERT_TRUE(schedule.ok() && schedule->byEstimate(8, 32, tile).ok());
    auto kernel = RunnableNest::of(*schedule);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    EXPECT_EQ(difference(*kernel, product(), sizes, 1), "") << *loopText(*schedule);
  }
}

/// How often the loop of that name runs.
int64_t iterationsOf(Schedule &schedule, const std::string &loop) {
  std::vector<Node *> path = loopsTo(schedule.state().tree, loop);
  EXPECT_FALSE(path.empty()) << "no loop " << loop << " in\n" << schedule.outline();
  return path.empty() ? 0
                      : extentOf(*path.back(), *schedule.state().relations).points().value_or(-1);
}

// Fails where the factors of a point are not how often the loops run, from outside in.
TEST(RegisterTile, LoopsRunAsOftenAsTheirFactorsSay) {
  RegisterTile tile;
  tile.rowFactors = {2, 3, 5, 4}, tile.laneFactors = {3, 2, 4, 16}, tile.depthFactors = {7, 3};
  auto schedule = Schedule::of(knownProduct({120, 384, 21}));
  ASSERT_TRUE(schedule.ok() && schedule->byEstimate(8, 32, tile).ok());
  std::vector<int64_t> counts;
  for (const char *loop : {"i0", "j0", "i_1", "j_1", "k0", "i__2", "j__2", "k_", "i___"})
    counts.push_back(iterationsOf(*schedule, loop));
  EXPECT_EQ(counts, (std::vector<int64_t>{2, 3, 3, 2, 7, 5, 4, 3, 4})) << schedule->outline();
  EXPECT_NE(schedule->outline().find("j___v: unrolled"), std::string::npos) << schedule->outline();
}

// Fails where a block's depth or its number of tiles is not what the point says.
TEST(RegisterTile, BlocksAreAsThePointSays) {
  RegisterTile tile;
  tile.rows = 4, tile.vectors = 2, tile.depth = 32, tile.rowTiles = 3, tile.laneTiles = 5;
  auto schedule = Schedule::of(knownProduct({48, 160, 128}));
  ASSERT_TRUE(schedule.ok() && schedule->byEstimate(8, 32, tile).ok());
  std::vector<int64_t> counts;
  for (const char *loop : {"j0b", "i0b", "kb", "j0t", "i0t", "kt", "i1"})
    counts.push_back(iterationsOf(*schedule, loop));
  EXPECT_EQ(counts, (std::vector<int64_t>{2, 4, 4, 5, 3, 32, 4})) << schedule->outline();
}

Nest transposedProduct() {
  Nest nest;
  nest.name = "transposed_product";
  nest.parameters = {{"M"}, {"N"}, {"K"}};
  nest.tensors = {{"A", DataType::F32, {"M", "K"}},
                  {"B", DataType::F32, {"N", "K"}},
                  {"C", DataType::F32, {"M", "N"}, Tensor::Role::Output}};
  auto domain = [](std::initializer_list<std::pair<const char *, const char *>> loops) {
    std::vector<Constraint> all;
    for (auto [name, size] : loops)
      for (const Constraint &each : within(name, 0, size))
        all.push_back(each);
    return all;
  };
  std::vector<Expr> at = {index("i"), index("j")};
  Expr sum = apply(Operation::Multiply, {load(nest.tensors[0], std::vector<Affine>{"i", "k"}),
                                         load(nest.tensors[1], std::vector<Affine>{"j", "k"})});
  nest.statements = {{"start",
                      {"i", "j"},
                      domain({{"i", "M"}, {"j", "N"}}),
                      "C",
                      at,
                      Reduction::None,
                      constant(DataType::F32, 0)},
                     {"add",
                      {"i", "j", "k"},
                      domain({{"i", "M"}, {"j", "N"}, {"k", "K"}}),
                      "C",
                      at,
                      Reduction::Add,
                      sum}};
  return nest;
}

std::string vectorLoopOf(const Nest &nest, RegisterTile tile) {
  auto schedule = Schedule::of(nest);
  EXPECT_TRUE(schedule.ok() && schedule->byEstimate(8, 32, tile).ok());
  return schedule->outline();
}

// Fails where lanes are the result's though each of them would read a place of its own.
TEST(RegisterTile, LanesGoAlongTheSumWhereOperandsDo) {
  EXPECT_NE(vectorLoopOf(transposedProduct(), {}).find("k1"), std::string::npos);
  EXPECT_EQ(vectorLoopOf(product(), {}).find("k1"), std::string::npos);
  RegisterTile asked;
  asked.lanesAlong = 2; // j
  EXPECT_EQ(vectorLoopOf(transposedProduct(), asked).find("k1"), std::string::npos);
}

// Fails where a diagonal, whose elements lie a row and one apart, is taken for neighbours in
// memory.
TEST(RegisterTile, DiagonalsAreNoNeighbours) {
  Nest nest = transposedProduct();
  nest.tensors[1].extents = {"K", "K"};
  nest.tensors[2].extents = {"M"};
  for (Statement &each : nest.statements) {
    std::erase(each.iterators, "j");
    std::erase_if(each.domain, [](const Constraint &c) { return c.value.coefficient("j") != 0; });
    each.indices = {index("i")};
  }
  nest.statements[1].value =
      apply(Operation::Multiply, {load(nest.tensors[0], std::vector<Affine>{"i", "k"}),
                                  load(nest.tensors[1], std::vector<Affine>{"k", "k"})});
  EXPECT_EQ(vectorLoopOf(nest, {}).find("k1"), std::string::npos) << vectorLoopOf(nest, {});
  nest.statements[1].value = load(nest.tensors[0], std::vector<Affine>{"i", "k"});
  EXPECT_NE(vectorLoopOf(nest, {}).find("k1"), std::string::npos) << vectorLoopOf(nest, {});
}

// Fails where a point asks for a copy and gets none.
TEST(RegisterTile, CopiesAreMadeThatAreAskedFor) {
  RegisterTile tile;
  tile.lanesAlong = 2;
  tile.packing = {RegisterTile::Packing::None, RegisterTile::Packing::Panel};
  EXPECT_NE(vectorLoopOf(transposedProduct(), tile).find("B_packed"), std::string::npos);
}

} // namespace
} // namespace tensmith::nest::test
