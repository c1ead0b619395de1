// Runs of a small trainee: a run that was stopped anywhere and goes on is the uninterrupted one,
// bit for bit, and what goes wrong leaves the last good checkpoint.
#include "TestFiles.h"

#include "base/Hash.h"
#include "train/Run.h"

#include <cmath>
#include <csignal>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sys/resource.h>

namespace tensmith::train {
namespace {

/// y = w x + b by gradient descent with momentum, in floats.
class Line : public Trainee {
public:
  Score step(const Batch &batch) override {
    if (stopAt && ++done == stopAt)
      *stop = SIGINT;
    const float *x = batch.tensors[0].as<float>(), *y = batch.tensors[1].as<float>();
    float loss = 0, dw = 0, db = 0;
    for (int64_t i = 0; i < batch.rows; ++i) {
      float error = state[0] * x[i] + state[1] - y[i];
      loss += error * error;
      dw += error * x[i], db += error;
    }
    for (int i : {0, 1})
      state[i] -= rate * (state[2 + i] = 0.9f * state[2 + i] + (i ? db : dw) / float(batch.rows));
    return {breakAt && done == breakAt ? NAN : loss / float(batch.rows), 0.5};
  }
  Score evaluate(const Batch &batch) override { return {double(batch.rows), {}}; }
  std::vector<NamedTensor> states() override {
    return {{"parameters", HostTensor(DataType::F32, {4}, state, nullptr)}};
  }
  void restore(const std::vector<NamedTensor> &states, const std::string &) override {
    std::memcpy(state, states.at(0).tensor.data(), sizeof state);
  }

  float state[4] = {}, rate = 1e-3f;
  int64_t stopAt = 0, breakAt = 0, done = 0;
  std::atomic<int> *stop = nullptr;
};

class Silent : public Watcher {
public:
  void progress(const std::string &, double, const std::string &) override {}
  void say(const std::string &line) override { said += line + "\n"; }
  void warn(const std::string &line) override { said += line + "\n"; }
  std::string said;
};

class Training : public testing::Test {
protected:
  Training() {
    settings.model = "line", settings.data = {"data"};
    settings.epochs = 3, settings.batch = 4, settings.checkpointEvery = 3, settings.logEvery = 5;
    HostTensor x(DataType::F32, {50}), y(DataType::F32, {50});
    for (int64_t i = 0; i < 50; ++i)
      x.setDouble(i, double(i) / 25 - 1), y.setDouble(i, std::sin(double(i)));
    data.where = "data", data.rows = 50;
    data.columns = {arrayColumn("x", x), arrayColumn("y", y)};
    std::vector<FeedPort> ports = {{"x", DataType::F32, {}}, {"target", DataType::F32, {}}};
    runData.train = runData.evaluation = bindFeeds(data, ports, "target", "", {});
    runData.rows = split(50, 0.1, 1);
  }

  Outcome run(Line &line, const std::string &name, bool resume = false) {
    stop = 0;
    line.stop = &stop;
    Checkpoints checkpoints(folder / (name + "/checkpoints"), settings.keep);
    std::filesystem::create_directories(folder / name);
    std::optional<Checkpoint> from;
    if (resume)
      from = checkpoints.newest([&](const std::string &line) { watcher.warn(line); });
    return runTraining(settings, folder / name, line, runData, from, {}, watcher, stop);
  }
  /// What was measured, without times.
  std::string metricsOf(const std::string &name) {
    std::ifstream file(folder / (name + "/metrics.jsonl"));
    std::string all;
    for (std::string line; std::getline(file, line);) {
      auto metric = nlohmann::ordered_json::parse(line);
      for (const char *key : {"seconds", "samples_per_second", "waited_for_data"})
        metric.erase(key);
      all += metric.dump() + "\n";
    }
    return all;
  }

  Settings settings;
  Dataset data;
  RunData runData;
  TestFolder folder;
  Silent watcher;
  std::atomic<int> stop = 0;
};

TEST_F(Training, StoppedAnywhereItGoesOnBitForBit) {
  Line whole;
  Outcome outcome = run(whole, "whole");
  EXPECT_EQ(outcome.position.step, 33); // 45 samples, in batches of 4, 3 times
  std::string metrics = metricsOf("whole");
  EXPECT_HAS(metrics, "\"kind\":\"validation\",\"step\":22");
  for (int64_t at = 1; at < 33; ++at) {
    std::string name = "stopped" + std::to_string(at);
    Line first, second;
    first.stopAt = at;
    EXPECT_TRUE(run(first, name).interrupted);
    EXPECT_EQ(run(second, name, true).position.step, 33);
    EXPECT_EQ(std::memcmp(second.state, whole.state, sizeof whole.state), 0) << at;
    EXPECT_EQ(metricsOf(name), metrics) << at;
  }
}

TEST_F(Training, KeepsTheLastCheckpoints) {
  Line line;
  settings.keep = 2;
  run(line, "r");
  EXPECT_EQ(Checkpoints(folder / "r/checkpoints", 2).steps(), (std::vector<int64_t>{33, 30}));
}

/// The newest is damaged: the one before it is gone on from, and the end is the same.
TEST_F(Training, DamagedCheckpointsArePassedOver) {
  Line whole, first, second;
  run(whole, "whole");
  first.stopAt = 17;
  std::string path = run(first, "r").checkpoint;
  std::string bytes = contentsOf(path);
  bytes[bytes.size() - 3] ^= 4;
  std::ofstream(path, std::ios::binary) << bytes;
  run(second, "r", true);
  EXPECT_HAS(watcher.said, "is damaged");
  EXPECT_EQ(std::memcmp(second.state, whole.state, sizeof whole.state), 0);
}

TEST_F(Training, LossThatIsNoNumberEndsTheRun) {
  Line line;
  line.stopAt = 1000, line.breakAt = 8;
  std::string said = refusal([&] { run(line, "r"); });
  EXPECT_HAS(said, "the loss of step 8 is nan");
  EXPECT_HAS(said, "the checkpoint of step 6 stands");
  EXPECT_EQ(Checkpoints(folder / "r/checkpoints", 3).steps()[0], 6);
}

TEST_F(Training, DataThatAreNoNumbersAreBlamed) {
  for (double value : {-std::nan(""), -double(INFINITY), 1e300}) {
    HostTensor x(DataType::F64, {50});
    for (int64_t i = 0; i < 50; ++i)
      x.setDouble(i, i == 31 ? value : 0.5);
    data.columns[0] = arrayColumn("x", x);
    std::vector<FeedPort> ports = {{"x", DataType::F32, {}}, {"target", DataType::F32, {}}};
    runData.train = bindFeeds(data, ports, "target", "", {});
    runData.rows = split(50, 0, 1);
    Line line;
    std::string said = refusal([&] { run(line, fmt::format("r{}", value)); });
    EXPECT_HAS(said, fmt::format("data: sample 31 (counted from 0) has {} in 'x'",
                                 std::isnan(value) ? "nan" : fmt::format("{}", value)));
    EXPECT_EQ(said.find("--learning-rate"), std::string::npos);
    EXPECT_EQ(said.find("-nan"), std::string::npos);
  }
}

/// Parameters may be lost while the loss that was computed before is fine: that is no checkpoint.
TEST_F(Training, StatesThatAreNoNumbersAreNotKept) {
  Line line;
  line.rate = INFINITY;
  settings.checkpointEvery = 1;
  EXPECT_HAS(refusal([&] { run(line, "r"); }), "'parameters' is not finite after step 1");
  EXPECT_TRUE(Checkpoints(folder / "r/checkpoints", 3).steps().empty());
}

TEST_F(Training, NeedsAFullBatch) {
  Line line;
  settings.batch = 46;
  EXPECT_HAS(refusal([&] { run(line, "r"); }), "fewer than a batch of 46; lower --batch");
}

/// A disk that is full in the middle of a checkpoint: a message, no half file, the last one stands.
TEST_F(Training, FullDiskLeavesTheLastCheckpoint) {
  std::signal(SIGXFSZ, SIG_IGN);
  Line line;
  settings.epochs = 1;
  std::string path = run(line, "r").checkpoint;
  std::string before = contentsOf(path);
  rlimit limit;
  ::getrlimit(RLIMIT_FSIZE, &limit);
  rlimit small = {before.size() / 2, limit.rlim_max};
  Checkpoints checkpoints(folder / "r/checkpoints", 3);
  Position next;
  next.step = 99;
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string said = refusal([&] { checkpoints.write(line.states(), next, {}); });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_HAS(said, "can't be written: ");
  EXPECT_EQ(checkpoints.steps()[0], 11);
  EXPECT_EQ(contentsOf(path), before);
  for (const auto &entry : std::filesystem::directory_iterator(folder / "r/checkpoints"))
    EXPECT_TRUE(entry.path().string().ends_with(".safetensors")) << entry.path();
}

class SafetensorsFile : public testing::Test {
protected:
  SafetensorsFile() {
    HostTensor a(DataType::F32, {2, 3}), b(DataType::I64, {}), none(DataType::BF16, {0, 4});
    a.setDouble(5, 2.5), b.setInt(0, -7);
    writeSafetensors(path, {{"a", a}, {"step", b}, {"none", none}}, {{"epoch", "3"}});
  }
  std::string refused(const std::string &bytes) {
    return refusal([&] { readSafetensors(folder.write("bad.safetensors", bytes)); });
  }
  TestFolder folder;
  std::string path = folder / "good.safetensors";
};

TEST_F(SafetensorsFile, ReadsBackWhatWasWritten) {
  Safetensors read = readSafetensors(path);
  ASSERT_EQ(read.tensors.size(), 3u);
  std::map<std::string, HostTensor> byName;
  for (const NamedTensor &named : read.tensors)
    byName[named.name] = named.tensor;
  EXPECT_EQ(byName["a"].getDouble(5), 2.5);
  EXPECT_EQ(byName["step"].getInt(0), -7);
  EXPECT_EQ(byName["none"].shape(), (Shape{0, 4}));
  EXPECT_EQ(read.metadata["epoch"], "3");
}

TEST_F(SafetensorsFile, CutOffAnywhereOrDamagedItIsRefused) {
  std::string bytes = contentsOf(path);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(refused(bytes.substr(0, size)), "") << size;
  EXPECT_NE(refused(bytes + "x"), "");
  std::string damaged = bytes;
  damaged[bytes.size() - 1] ^= 1;
  EXPECT_HAS(refused(damaged), "is damaged");
}

std::string fileOf(const std::string &header, size_t data) {
  uint64_t size = header.size();
  return std::string(reinterpret_cast<const char *>(&size), 8) + header + std::string(data, '\0');
}

TEST_F(SafetensorsFile, HeadersThatLieAreRefused) {
  auto tensor = [](const std::string &shape, const std::string &offsets) {
    return R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_EQ(refused(fileOf(tensor("[2]", "[0,8]"), 8)), "");
  for (const char *offsets : {"[0,4]", "[4,12]", "[8,0]", "[0,9]", "[-1,7]", "[0]", "7", "[0,1e30]",
                              "[18446744073709551608,0]"})
    EXPECT_NE(refused(fileOf(tensor("[2]", offsets), 8)), "") << offsets;
  for (const char *shape : {"[3]", "[-2]", "[4611686018427387904,4]", "\"2\"", "[2.0]"})
    EXPECT_NE(refused(fileOf(tensor(shape, "[0,8]"), 8)), "") << shape;
  EXPECT_NE(refused(fileOf("[]", 0)), "");
  EXPECT_NE(refused(fileOf(R"({"a":5})", 0)), "");
  EXPECT_NE(refused(fileOf(R"({"__metadata__":5,"a":null})", 0)), "");
  EXPECT_NE(refused(std::string(8, '\xff')), "");
}

TEST(Position, IsExactInMetadata) {
  Position at;
  at.step = 123456789012;
  at.ofEpoch = {0.1, 1.0 / 3, 7};
  Position back = Position::fromMetadata(at.toMetadata(), "c");
  EXPECT_EQ(back.step, at.step);
  EXPECT_EQ(back.ofEpoch.correct, at.ofEpoch.correct);
  Metadata bad = at.toMetadata();
  bad["step"] = "-3";
  EXPECT_HAS(refusal([&] { Position::fromMetadata(bad, "c"); }), "c: 'step' in its metadata is no");
}

// Sums that processes make apart differ in their last bit.
TEST(Curves, OfNumbersThatAreAllButEqual) {
  Metric before = {"validation", 1, 1, 0.5}, after = {"validation", 2, 2, std::nextafter(0.5, 1)};
  EXPECT_HAS(curvesPage("page", {before, after}), "<path");
}

} // namespace
} // namespace tensmith::train
