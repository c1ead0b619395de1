// Tiles, lanes, blocks and copies of sums as points of a kernel's space ask for them: whatever is
// asked, results are those of the evaluator. The order is drawn; the oracle runs points one by one.
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

// Fails where a point asks for a copy and gets none.
TEST(RegisterTile, CopiesAreMadeThatAreAskedFor) {
  RegisterTile tile;
  tile.lanesAlong = 2;
  tile.packing = {RegisterTile::Packing::None, RegisterTile::Packing::Panel};
  EXPECT_NE(vectorLoopOf(transposedProduct(), tile).find("B_packed"), std::string::npos);
}

} // namespace
} // namespace tensmith::nest::test
