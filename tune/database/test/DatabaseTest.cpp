// The database: what is kept, two writers at once, damaged files, exchange and pruning.
#include "tune/database/Exchange.h"
#include "tune/database/TunedPoints.h"

#include "files/Failure.h"
#include "files/Files.h"

#include <gtest/gtest.h>
#include <latch>
#include <nlohmann/json.hpp>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tensmith;
using namespace tensmith::tune;

namespace {

const KernelName kConv{"znver4 fast", "0c3d21e5a8f74b96", "conv 1x14x14x256:f32"};

Trial trialOf(const std::string &choices, std::vector<double> seconds) {
  return {choices, "timed", "", "random", "0.1.0", 1000, std::move(seconds), {1, 2.5}};
}

class DatabaseFile : public testing::Test {
protected:
  std::string path(const char *name = "tuned.sqlite") const {
    return (folder.path() / name).string();
  }
  static std::string messageOf(const std::function<void()> &work) {
    try {
      work();
    } catch (const Failure &failure) {
      return failure.what();
    }
    return {};
  }
  TemporaryFolder folder;
};

} // namespace

// Breaks if one of two that make the file at the same moment is refused, as one in five was.
TEST_F(DatabaseFile, IsMadeByTwoAtOnce) {
  for (int round = 0; round < 100; ++round) {
    std::string name = path(("new" + std::to_string(round)).c_str()), messages[2];
    std::latch both(2);
    auto make = [&](std::string &message) {
      both.arrive_and_wait();
      message = messageOf([&] { Database made(name, Access::Write); });
    };
    std::thread other(make, std::ref(messages[1]));
    make(messages[0]);
    other.join();
    ASSERT_EQ(messages[0] + messages[1], "") << round;
  }
}

TEST_F(DatabaseFile, KeepsTrialsWithAllRepetitions) {
  Database(path(), Access::Write).add(kConv, trialOf("\"tile_rows\":6", {1e-3, 1.25e-3}));
  Database again(path(), Access::Write);
  again.add(kConv, trialOf("\"tile_rows\":6", {0.5e-3}));
  Trial failed = trialOf("\"tile_rows\":7", {});
  failed.outcome = "crashed";
  failed.why = "signal 11";
  again.add(kConv, failed);
  auto trials = again.trials(kConv.machine, kConv.key);
  ASSERT_EQ(trials.size(), 2u);
  EXPECT_EQ(trials[0].seconds, (std::vector<double>{1e-3, 1.25e-3, 0.5e-3}));
  EXPECT_EQ(trials[0].features, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(trials[1].why, "signal 11");
  EXPECT_TRUE(again.trials("another machine", kConv.key).empty());
}

TEST_F(DatabaseFile, StateChangesWithWinners) {
  Database database(path(), Access::Write);
  std::string before = database.state();
  database.add(kConv, trialOf("\"grain\":2", {1}));
  EXPECT_EQ(database.state(), before);
  database.setWinner(kConv, {"\"grain\":2", 1, 2, 0.99, "0.1.0", 5});
  EXPECT_NE(database.state(), before);
  TunedPoints points(path());
  ASSERT_NE(points.find(kConv.machine, kConv.key), nullptr);
  EXPECT_EQ(*points.find(kConv.machine, kConv.key), "\"grain\":2");
  EXPECT_EQ(points.found(), 1u);
  EXPECT_FALSE(points.isOfOtherMachines());
  TunedPoints others(path());
  EXPECT_EQ(others.find("another machine", kConv.key), nullptr);
  EXPECT_TRUE(others.isOfOtherMachines());
}

// Each of two processes writes as the other does, and nothing of either is lost.
TEST_F(DatabaseFile, TakesTwoWritersAtOnce) {
  {
    Database make(path(), Access::Write);
  }
  constexpr int kEach = 100;
  auto write = [&](const char *choice) {
    Database database(path(), Access::Write);
    for (int i = 0; i < kEach; ++i)
      database.add(kConv, trialOf("\"" + std::string(choice) + "\":" + std::to_string(i), {1e-3}));
  };
  pid_t child = ::fork();
  if (child == 0) {
    int status = 1;
    try {
      write("grain");
      status = 0;
    } catch (const Failure &) {
    }
    ::_exit(status);
  }
  write("tile_rows");
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Database(path(), Access::Read).trials(kConv.machine, kConv.key).size(), 2u * kEach);
}

// What was committed before the process was killed is there afterwards.
TEST_F(DatabaseFile, SurvivesAWriterThatIsKilled) {
  for (int round = 0; round < 5; ++round) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    pid_t child = ::fork();
    if (child == 0) {
      Database database(path(), Access::Write);
      for (int i = 0;; ++i) {
        database.add(kConv, trialOf("\"grain\":" + std::to_string(round * 100000 + i), {1e-3}));
        [[maybe_unused]] ssize_t told = ::write(pipe[1], "x", 1);
      }
    }
    ::close(pipe[1]);
    char word;
    for (int i = 0; i < 10 + 7 * round; ++i)
      ASSERT_EQ(::read(pipe[0], &word, 1), 1);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(pipe[0]);
    Database again(path(), Access::Write);
    EXPECT_GE(again.trials(kConv.machine, kConv.key).size(), size_t(10 + 7 * round));
  }
}

TEST_F(DatabaseFile, DamagedFilesAreErrorsInWords) {
  writeFile(path("words.sqlite"), std::string_view("these are words, and no database at all"));
  for (Access access : {Access::Read, Access::Write})
    EXPECT_NE(messageOf([&] { Database(path("words.sqlite"), access); }).find("is no database"),
              std::string::npos);
  EXPECT_NE(messageOf([&] { Database(path("none.sqlite"), Access::Read); }).find("can't be opened"),
            std::string::npos);
  {
    Database database(path(), Access::Write);
    for (int i = 0; i < 400; ++i)
      database.add(kConv, trialOf("\"grain\":" + std::to_string(i), {1e-3, 2e-3}));
  }
  Bytes bytes = readFile(path());
  for (size_t i = 4096; i < bytes.size(); ++i)
    bytes[i] = std::byte(i * 7);
  writeFile(path("damaged.sqlite"), bytes);
  std::string message = messageOf([&] { Database(path("damaged.sqlite"), Access::Write); });
  EXPECT_NE(message.find("damaged.sqlite"), std::string::npos);
  EXPECT_NE(message.find("is damaged"), std::string::npos) << message;
  {
    Connection other(path("other.sqlite"), Access::Write);
    other.execute("CREATE TABLE apples (weight REAL)");
  }
  EXPECT_NE(messageOf([&] { Database(path("other.sqlite"), Access::Write); }).find("none of tuned"),
            std::string::npos);
}

/// Of each page alone: what compilations and imports still get when its bytes are others.
TEST_F(DatabaseFile, DamageOfAPageHarmsNothingBeyondIt) {
  constexpr int kKernels = 8, kTrials = 10;
  std::string wide = ",\"pattern\":\"" + std::string(700, 'x') + '"';
  auto nameOf = [](int kernel) {
    return KernelName{"machine", "key" + std::to_string(kernel), "matmul"};
  };
  {
    Database database(path(), Access::Write);
    for (int kernel = 0; kernel < kKernels; ++kernel) {
      for (int i = 0; i < kTrials; ++i)
        database.add(nameOf(kernel), trialOf("\"grain\":" + std::to_string(i) + wide, {1e-3}));
      database.setWinner(nameOf(kernel), {"\"grain\":1", 1e-3, 2e-3, 0.97, "0.1.0", 7});
    }
  }
  constexpr size_t kPage = 4096;
  const Bytes whole = readFile(path());
  size_t pages = whole.size() / kPage, withoutWinners = 0;
  ASSERT_GT(pages, 24u);
  std::mt19937 random(3);
  for (size_t page = 0; page < pages; ++page) {
    Bytes bytes = whole;
    for (size_t i = 0; i < kPage; ++i)
      bytes[page * kPage + i] = std::byte(random());
    std::string file = path(("page" + std::to_string(page)).c_str());
    writeFile(file, bytes);
    int found = 0;
    std::string message = messageOf([&] {
      TunedPoints points(file);
      for (int kernel = 0; kernel < kKernels; ++kernel)
        found += points.find("machine", nameOf(kernel).key) != nullptr;
    });
    EXPECT_EQ(message.empty(), found == kKernels) << message;
    withoutWinners += found < kKernels;
    Database into(path(("of" + std::to_string(page)).c_str()), Access::Write);
    std::string refused = messageOf([&] {
      Imported imported = merge(into, file);
      EXPECT_GE(imported.trials + kTrials * imported.unread, kKernels * kTrials);
      EXPECT_EQ(imported.winners, kKernels);
    });
    EXPECT_TRUE(refused.empty() || !message.empty()) << refused;
    for (const std::string &each : {message, refused})
      EXPECT_TRUE(each.empty() || each.find(file) != std::string::npos) << each;
  }
  // The header with the tables' list, kernels with their index, and winners.
  EXPECT_LE(withoutWinners, 8u) << "of " << pages;
}

// A few bytes anywhere: answers or words, whatever is asked.
TEST_F(DatabaseFile, ChangedBytesAreAnswersOrWords) {
  {
    Database database(path(), Access::Write);
    for (int i = 0; i < 200; ++i)
      database.add(kConv, trialOf("\"grain\":" + std::to_string(i), {1e-3, 2e-3}));
    database.setWinner(kConv, {"\"grain\":1", 1e-3, 2e-3, 0.97, "0.1.0", 7});
  }
  const Bytes whole = readFile(path());
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    Bytes bytes = whole;
    for (uint32_t i = 0, count = 1 + random() % 8; i < count; ++i)
      bytes[random() % (round % 3 ? bytes.size() : 200)] = std::byte(random());
    std::string file = path("changed.sqlite");
    writeFile(file, bytes);
    auto isAnswered = [&](const std::function<void()> &ask) {
      std::string message = messageOf(ask);
      EXPECT_TRUE(message.empty() || message.find(file) != std::string::npos) << message;
    };
    isAnswered([&] { TunedPoints(file).find(kConv.machine, kConv.key); });
    isAnswered([&] {
      (void)exportAll(Database(file, Access::Read))
          .dump(0, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    });
    isAnswered([&] { Database(file, Access::Write).add(kConv, trialOf("\"grain\":-1", {1})); });
    for (const char *beside : {"-wal", "-shm"})
      std::filesystem::remove(file + beside);
  }
}

TEST_F(DatabaseFile, ExportImportAndMergeKeepAll) {
  Database database(path(), Access::Write);
  database.add(kConv, trialOf("\"grain\":1", {1e-3}));
  database.add({"other", "11", "matmul"}, trialOf("\"grain\":2", {2e-3}));
  database.setWinner(kConv, {"\"grain\":1", 1e-3, 2e-3, 0.97, "0.1.0", 7});
  std::string text = exportAll(database).dump();
  Database second(path("second.sqlite"), Access::Write);
  Imported imported = importAll(second, text, "points.json");
  EXPECT_EQ(imported.kernels, 2);
  EXPECT_EQ(imported.trials, 2);
  EXPECT_EQ(imported.winners, 1);
  EXPECT_EQ(exportAll(second).dump(), text);
  EXPECT_EQ(importAll(second, text, "points.json").trials, 0);
  Database third(path("third.sqlite"), Access::Write);
  third.setWinner(kConv, {"\"grain\":3", 1e-3, 2e-3, 0.97, "0.1.0", 8}); // later
  EXPECT_EQ(merge(third, path()).winners, 0);
  EXPECT_EQ(third.winner(kConv.machine, kConv.key)->choices, "\"grain\":3");
  EXPECT_EQ(third.kernels().size(), 2u);
}

TEST_F(DatabaseFile, ImportRefusesWhatIsNone) {
  Database database(path(), Access::Write);
  for (const char *text : {"", "[]", R"({"format": "tensmith-tuned-1"})",
                           R"({"format": "tensmith-tuned-1", "kernels": [{"machine": "m"}]})"})
    EXPECT_THROW(importAll(database, text, "points.json"), Failure) << text;
  nlohmann::ordered_json hostile = {{"format", "tensmith-tuned-1"},
                                    {"kernels",
                                     {{{"machine", "m"},
                                       {"key", "1"},
                                       {"trials",
                                        {{{"choices", "\"a\":1}], \"b\": [{"},
                                          {"outcome", "timed"},
                                          {"compiler", "1"},
                                          {"at", 1},
                                          {"seconds", {1}}}}}}}}};
  EXPECT_THROW(importAll(database, hostile.dump(), "points.json"), Failure);
  EXPECT_TRUE(database.kernels().empty());
}

TEST_F(DatabaseFile, PruningKeepsWinners) {
  Database database(path(), Access::Write);
  for (int i = 1; i <= 10; ++i)
    database.add(kConv, trialOf("\"grain\":" + std::to_string(i), {1e-3 * i}));
  database.add({"other", "11", "matmul"}, trialOf("\"grain\":2", {2e-3}));
  database.setWinner(kConv, {"\"grain\":9", 1e-3, 2e-3, 0.97, "0.1.0", 7});
  EXPECT_EQ(database.prune({"", 0, 3}), 7);
  auto kept = database.trials(kConv.machine, kConv.key);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[2].choices, "\"grain\":3");
  EXPECT_EQ(database.prune({kConv.machine, 0, -1}), 1);
  EXPECT_EQ(database.prune({"", 2000, -1}), 3); // all are from the year 1970
  ASSERT_EQ(database.kernels().size(), 1u);
  EXPECT_TRUE(database.kernels()[0].winner);
}
