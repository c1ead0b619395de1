// Configurations that are good are taken whole; of others the line and what would do are named.
#include "TestFiles.h"

#include "train/SettingTable.h"

#include <nlohmann/json.hpp>
#include <set>

namespace tensmith::train {
namespace {

class Configuration : public testing::Test {
protected:
  Settings read(const std::string &text) {
    Settings settings;
    readConfiguration(folder.write("run.toml", text), settings);
    return settings;
  }
  std::string refused(const std::string &text) {
    return refusal([&] { read(text); });
  }
  TestFolder folder;
};

TEST_F(Configuration, SetsWhatItNames) {
  Settings settings = read("model = 'net.onnx'\nepochs = 3\n[data]\ntrain = ['x.npy', 'y=/y.npy']\n"
                           "mean = [0.1, 2]\nshuffle = false\n[optimiser]\nname = 'sgd'\n"
                           "learning-rate = 1\nbeta1 = 0.8\n");
  EXPECT_EQ(settings.model, folder / "net.onnx"); // from its own folder
  EXPECT_EQ(settings.data, (std::vector<std::string>{folder / "x.npy", "y=/y.npy"}));
  EXPECT_EQ(settings.epochs, 3);
  EXPECT_EQ(settings.mean, (std::vector<double>{0.1, 2}));
  EXPECT_FALSE(settings.shuffle);
  EXPECT_EQ(settings.learningRate, 1);
  EXPECT_EQ(settings.hyperparameters.at("beta1"), 0.8);
  EXPECT_EQ(settings.origin("epochs"), (folder / "run.toml") + ":2");
}

TEST_F(Configuration, UnknownKeysAreNamedWithTheirLine) {
  std::string said = refused("epochs = 3\n[data]\ntrian = 'x'\n");
  EXPECT_HAS(said, "run.toml:3: there is no setting 'trian' in [data]; did you mean 'train'?");
  EXPECT_HAS(refused("[dta]\ntrain = 'x'\n"), "did you mean 'data'?");
  EXPECT_HAS(refused("learning_rate = 1\n"), "it belongs in [optimiser]");
}

TEST_F(Configuration, WrongValuesAreNamedWithWhatIsExpected) {
  EXPECT_HAS(refused("\nepochs = 'many'\n"),
             "run.toml:2: epochs is \"many\"; a whole number from 1");
  EXPECT_HAS(refused("epochs = 0\n"), "epochs is 0; a whole number from 1 on is expected");
  EXPECT_HAS(refused("epochs = 1.5\n"), "epochs is 1.5");
  EXPECT_HAS(refused("[data]\nvalidation = 2.0\n"), "a number from 0 to 0.9 is expected");
  EXPECT_HAS(refused("[data]\nvalidation = nan\n"), "validation");
  EXPECT_HAS(refused("[data]\nshuffle = 1\n"), "true or false is expected");
  EXPECT_HAS(refused("[schedule]\nname = 'cosin'\n"), "did you mean 'cosine'?");
  EXPECT_HAS(refused("model = ['a']\n"), "text is expected");
}

TEST_F(Configuration, SectionsNumbersAndTimesThatAreNone) {
  EXPECT_HAS(refused("data = 'iris.npz'\n"),
             "run.toml:1: 'data' is a section and no setting; write [data], and below it settings "
             "like train = ...");
  EXPECT_HAS(refused("\n[[data]]\ntrain = 'x'\n"), "run.toml:2: [[data]] is a list of sections");
  EXPECT_HAS(refused("[optimiser]\nbeta1 = 'x'\n"), "run.toml:2: 'beta1' has to be a number");
  EXPECT_HAS(refused("[optimiser]\nbeta1 = nan\n"), "run.toml:2: 'beta1' has to be a number");
  EXPECT_HAS(refused("[optimiser]\nlearning_rate = nan\n"), "learning_rate is nan; a number from");
  EXPECT_HAS(refused("[optimiser]\nlearning_rate = inf\n"), "learning_rate is inf; a number from");
  EXPECT_HAS(refused("epochs = 2026-01-01\n"), "run.toml:1: epochs is a date or a time");
  EXPECT_HAS(refused("[data]\nmean = [1.0, 07:32:00]\n"), "mean is a date or a time");
  EXPECT_HAS(assign(*std::make_unique<Settings>(), *findSetting("optimiser", "hyperparameters"),
                    std::vector<std::string>{"beta1=nan"}),
             "'beta1' has to be a number");
}

TEST_F(Configuration, BrokenFilesAreNamedWithTheirLine) {
  EXPECT_HAS(refused("epochs = 3\nbatch = = 2\n"), "run.toml:2: ");
  EXPECT_HAS(refused("epochs = 3\nepochs = 4\n"), "run.toml:2: ");
  EXPECT_HAS(refused(std::string("a\0b", 3)), "run.toml:1: ");
  EXPECT_HAS(refused(std::string(3 << 20, '#')), "larger than 1 MiB");
}

TEST(Settings, TheCommandLineTakesTheSameValues) {
  Settings settings;
  EXPECT_EQ(assign(settings, *findSetting("", "epochs"), std::vector<std::string>{"12"}), "");
  EXPECT_EQ(settings.epochs, 12);
  EXPECT_HAS(assign(settings, *findSetting("", "epochs"), std::vector<std::string>{"1e9x"}),
             "a whole number");
  EXPECT_EQ(assign(settings, *findSetting("data", "mean"), std::vector<std::string>{"1", "2.5"}),
            "");
  EXPECT_EQ(settings.mean, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(assign(settings, *findSetting("optimiser", "hyperparameters"),
                   std::vector<std::string>{"beta1=0.7"}),
            "");
  EXPECT_EQ(settings.hyperparameters.at("beta1"), 0.7);
  const Setting &memory = *findSetting("", "memory");
  for (auto [word, bytes] :
       {std::pair("2GiB", int64_t(2) << 30), std::pair("1.5 kb", int64_t(1500)),
        std::pair("4096", int64_t(4096))}) {
    EXPECT_EQ(assign(settings, memory, std::vector<std::string>{word}), "");
    EXPECT_EQ(settings.memory.bytes, bytes);
  }
  for (const char *word :
       {"", "GiB", "1e9", "-1", "nan", "1 2", "8388608TiB", "99999999999999999999"})
    EXPECT_HAS(assign(settings, memory, std::vector<std::string>{word}), "a size is expected");
}

/// A run that goes on with another learning rate would not be the one that was begun.
TEST(Settings, ChangesThatAResumedRunMayNotHave) {
  Settings before, after;
  EXPECT_TRUE(changedSince(toJson(before), after).empty());
  after.memory.bytes = 1;
  EXPECT_EQ(changedSince(toJson(before), after), std::vector<std::string>{"--memory was 0"});
  after.memory = before.memory;
  after.learningRate = 0.5;
  after.epochs = 99;
  after.threads = 1;
  EXPECT_EQ(changedSince(toJson(before), after),
            std::vector<std::string>{"--learning-rate was 0.001"});
  before.schedule = after.schedule = "cosine";
  EXPECT_EQ(changedSince(toJson(before), after).size(), 2u);
}

TEST(Settings, NamesAreNotUsedTwice) {
  std::set<std::string> keys, options;
  for (const Setting &setting : settingTable()) {
    EXPECT_TRUE(keys.insert(std::string(setting.section) + "." + setting.key).second)
        << setting.key;
    EXPECT_TRUE(options.insert(setting.option).second) << setting.option;
  }
}

} // namespace
} // namespace tensmith::train
