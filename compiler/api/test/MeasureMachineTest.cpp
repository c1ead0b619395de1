// That the machine is measured once, and that modules say by which limits they were made.
#include <tensmith/compiler.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class MeasureMachine : public ::testing::Test {
protected:
  MeasureMachine() {
    folder_ = fs::temp_directory_path() / ("tensmith-measure-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    setenv("TENSMITH_CACHE", folder_.c_str(), 1);
  }
  ~MeasureMachine() override {
    unsetenv("TENSMITH_CACHE");
    fs::remove_all(folder_);
  }

  static Json take(ts_status *status, char *text) {
    EXPECT_EQ(status, nullptr) << ts_status_message(status);
    Json json = text ? Json::parse(text) : Json();
    ts_status_free(status);
    ts_string_free(text);
    return json;
  }
  static Json measured(int again = 0) {
    ts_measure_options options{};
    options.size = sizeof options;
    options.again = again;
    char *text = nullptr;
    ts_status *status = ts_measure_machine(&options, &text);
    return take(status, text);
  }
  static Json described() {
    char *text = nullptr;
    ts_status *status = ts_describe_machine(&text);
    return take(status, text);
  }
  /// Of a module compiled now: the limits that it says it was made by.
  static std::string limitsOfModule() {
    std::string model = R"(func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = graph.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %y : tensor<2xf32>
    })";
    void *bytes = nullptr;
    size_t size = 0;
    ts_module *module = nullptr;
    char *text = nullptr;
    EXPECT_EQ(ts_compile_bytes(model.data(), model.size(), "m.mlir", nullptr, &bytes, &size),
              nullptr);
    EXPECT_EQ(ts_module_load_bytes(bytes, size, nullptr, &module), nullptr);
    ts_bytes_free(bytes);
    ts_status *status = ts_module_describe(module, &text);
    Json json = take(status, text);
    ts_module_free(module);
    return json["metadata"]["machine_limits"];
  }

  fs::path folder_;
};

void expectUsable(const Json &rate) {
  for (const char *threads : {"one", "all"})
    EXPECT_GT(double(rate[threads]), 1e6) << rate; // and no more: the machine may be busy
}

TEST_F(MeasureMachine, IsMeasuredOnceAndSaysSo) {
  EXPECT_TRUE(described()["limits"].is_null());
  EXPECT_EQ(limitsOfModule(), "defaults");
  Json limits = measured()["limits"];
  ASSERT_GE(limits["arithmetic"].size(), 2u);
  ASSERT_GE(limits["memory"].size(), 2u);
  for (const Json &limit : limits["arithmetic"])
    expectUsable(limit["operations_per_second"]);
  for (const Json &limit : limits["memory"])
    for (const char *way : {"read", "write", "copy"})
      expectUsable(limit["bytes_per_second"][way]);
  const Json &near = limits["memory"].front(), &far = limits["memory"].back();
  EXPECT_EQ(far["name"], "memory");
  EXPECT_NE(near["name"], "memory");
  EXPECT_GT(double(limits["call_seconds"]), 0);
  EXPECT_GT(double(limits["hand_over_seconds"]), 0);

  // Once: again only when asked.
  EXPECT_EQ(measured()["limits"], limits);
  EXPECT_EQ(described()["limits"], limits);
  EXPECT_EQ(limitsOfModule(), limits["identity"].get<std::string>());
  EXPECT_NE(measured(1)["limits"]["identity"], limits["identity"]);
}

TEST_F(MeasureMachine, MistakesAreNamed) {
  EXPECT_NE(
      std::string(ts_status_message(ts_measure_machine(nullptr, nullptr))).find("null pointer"),
      std::string::npos);
  ts_measure_options options{};
  char *text = nullptr;
  EXPECT_NE(std::string(ts_status_message(ts_measure_machine(&options, &text))).find("size"),
            std::string::npos);
}

} // namespace
