// The engine against serial execution: random programs over variables with views of them, in-place
// updates and failures, on 1 to 8 threads. An engine that lets a reader overtake a writer, forgets
// a variable, or loses a wake-up differs from the serial run, or never ends.
#include "eager/Engine.h"
#include "eager/Array.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace tensmith::eager {
namespace {

/// One step: cell[to] = a mix of its own value and that of what it reads.
struct Step {
  int to;
  std::vector<int> from;
};

/// Variables of which each has some cells; a view shares its variable's.
struct Machine {
  std::vector<VariableRef> variables;
  std::vector<int> variableOf; // of each cell
  std::vector<uint64_t> cells;

  Machine(int variableCount, int cellCount) : cells(size_t(cellCount)) {
    for (int i = 0; i < variableCount; ++i)
      variables.push_back(std::make_shared<Variable>());
    for (int i = 0; i < cellCount; ++i) {
      variableOf.push_back(i % variableCount);
      cells[size_t(i)] = uint64_t(i);
    }
  }
  VariableRef variable(int cell) const { return variables[size_t(variableOf[size_t(cell)])]; }
};

void run(const Step &step, std::vector<uint64_t> &cells) {
  uint64_t value = cells[size_t(step.to)];
  for (int from : step.from)
    value = (value ^ cells[size_t(from)]) * 0x9e3779b97f4a7c15 + 1;
  cells[size_t(step.to)] = value;
}

std::vector<Step> drawProgram(std::mt19937 &draw, int steps, int cells) {
  std::vector<Step> program;
  for (int i = 0; i < steps; ++i) {
    Step step{int(draw() % uint32_t(cells)), {}};
    for (uint32_t k = draw() % 4; k > 0; --k)
      step.from.push_back(int(draw() % uint32_t(cells)));
    program.push_back(step);
  }
  return program;
}

std::vector<uint64_t> runByEngine(const std::vector<Step> &program, EngineOptions options,
                                  std::mt19937 &draw) {
  Machine machine(300, 700);
  Engine engine(options);
  for (const Step &step : program) {
    Task task;
    task.writes.push_back(machine.variable(step.to));
    for (int from : step.from)
      task.reads.push_back(machine.variable(from));
    task.size = draw() % 2 ? Size::Small : Size::Large;
    task.body = [&step, &machine] {
      run(step, machine.cells);
      return Status();
    };
    engine.push(std::move(task));
    if (draw() % 997 == 0)
      EXPECT_TRUE(engine.wait(*machine.variable(step.to)).ok());
  }
  engine.waitForAll();
  return machine.cells;
}

/// TENSMITH_ENGINE_PROGRAMS=200 is the long form.
int programCount() {
  const char *given = std::getenv("TENSMITH_ENGINE_PROGRAMS");
  return given ? std::atoi(given) : 6;
}

TEST(Engine, EqualsSerialExecution) {
  for (int seed = 0; seed < programCount(); ++seed) {
    std::mt19937 draw{uint32_t(seed)};
    std::vector<Step> program = drawProgram(draw, seed % 3 ? 2000 : 10000, 700);
    std::vector<uint64_t> expected = Machine(300, 700).cells;
    for (const Step &step : program)
      run(step, expected);
    EngineOptions options{.naive = seed % 10 == 9, .threads = 1 + seed % 8};
    EXPECT_EQ(runByEngine(program, options, draw), expected)
        << "seed " << seed << ", " << options.threads << " threads";
  }
}

/// A failure reaches what depends on it, with the place that issued it, and nothing else.
TEST(Engine, HandsFailuresOn) {
  Engine engine({.threads = 4});
  auto a = std::make_shared<Variable>(), b = std::make_shared<Variable>();
  auto c = std::make_shared<Variable>(), d = std::make_shared<Variable>();
  bool ran = false;
  engine.push({.body = [] { return invalidArgument("no such thing"); },
               .reads = {},
               .writes = {a},
               .place = "model.py:7"});
  engine.push({.body =
                   [&] {
                     ran = true;
                     return Status();
                   },
               .reads = {a},
               .writes = {b}});
  engine.push({.body = [] { return Status(); }, .reads = {b}, .writes = {c}});
  engine.push({.body = [] { return Status(); }, .reads = {}, .writes = {d}});
  Status status = engine.wait(*c);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.message(), "model.py:7: no such thing");
  EXPECT_FALSE(ran);
  EXPECT_TRUE(engine.wait(*d).ok());
}

/// Who reads and writes one variable does not wait for itself.
TEST(Engine, TakesAVariableOnce) {
  Engine engine({.threads = 2});
  auto a = std::make_shared<Variable>();
  int count = 0;
  for (int i = 0; i < 10; ++i)
    engine.push({.body =
                     [&] {
                       ++count;
                       return Status();
                     },
                 .reads = {a, a},
                 .writes = {a, a}});
  EXPECT_TRUE(engine.wait(*a, true).ok());
  EXPECT_EQ(count, 10);
}

/// What an operation keeps alive is let go when it is done, and before a wait for all ends: memory
/// that is waited for is there then.
TEST(Engine, LetsGo) {
  auto kept = std::make_shared<int>(1);
  {
    Engine engine({.threads = 3});
    auto a = std::make_shared<Variable>();
    for (int i = 0; i < 100; ++i)
      engine.push({.body = [kept] { return Status(); }, .reads = {}, .writes = {a}});
    engine.waitForAll();
    EXPECT_EQ(kept.use_count(), 1);
  }
}

/// A fork while operations are out: they are done once, by the parent, and the child's engine
/// works.
TEST(Engine, ForksWhenAllIsDone) {
  Engine engine({.threads = 4});
  auto a = std::make_shared<Variable>();
  std::atomic<int> count = 0;
  auto push = [&] {
    engine.push({.body =
                     [&] {
                       ++count;
                       return Status();
                     },
                 .reads = {},
                 .writes = {a}});
  };
  for (int i = 0; i < 1000; ++i)
    push();
  engine.beforeFork();
  pid_t child = fork();
  engine.afterFork(child == 0);
  push();
  bool isRight = engine.wait(*a, true).ok() && count == 1001;
  if (child == 0)
    _exit(isRight ? 0 : 1);
  EXPECT_TRUE(isRight);
  int result = -1;
  waitpid(child, &result, 0);
  EXPECT_EQ(result, 0);
}

TEST(Engine, TracesWhatRan) {
  Engine engine({.threads = 2});
  auto a = std::make_shared<Variable>();
  engine.beginTrace();
  engine.push({.body = [] { return Status(); },
               .reads = {},
               .writes = {a},
               .name = "matmul",
               .place = "model.py:3"});
  std::string trace = engine.endTrace();
  EXPECT_NE(trace.find("\"name\":\"matmul\""), std::string::npos) << trace;
  EXPECT_NE(trace.find("model.py:3"), std::string::npos) << trace;
}

/// A reshape that strides can say shares memory; one that they can't says so.
TEST(Array, ReshapesByStrides) {
  Array x = *Array::allocate(DataType::F32, {4, 6});
  Array columns = x.view({4, 3}, {6, 2}, 0); // every other column
  std::optional<Array> pairs = columns.reshaped({2, 2, 3});
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->strides(), (Strides{12, 6, 2}));
  std::optional<Array> flat = columns.reshaped({12});
  ASSERT_TRUE(flat); // 6 = 3 * 2: rows go on where the last one ended
  EXPECT_EQ(flat->strides(), Strides{2});
  const int64_t axes[] = {1, 0};
  EXPECT_FALSE(x.permuted(axes).reshaped({24}));
}

/// A copy onto an overlapping view reads before it writes.
TEST(Array, CopiesOverlappingViews) {
  Array x = *Array::allocate(DataType::I32, {6});
  for (int i = 0; i < 6; ++i)
    reinterpret_cast<int32_t *>(x.data())[i] = i;
  EXPECT_TRUE(copyElements(x.view({5}, {1}, 1), x.view({5}, {1}, 0)).ok());
  for (int i = 1; i < 6; ++i)
    EXPECT_EQ(reinterpret_cast<int32_t *>(x.data())[i], i - 1);
}

} // namespace
} // namespace tensmith::eager
