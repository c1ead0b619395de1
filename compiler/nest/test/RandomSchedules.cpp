// Lines of schedule text drawn at random: most are refused, those that are not must keep the
// meaning.
#include "compiler/nest/test/RandomSchedules.h"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace tensmith::nest::test {
namespace {

/// Names of loops, from the outline.
std::vector<std::string> loopsOf(const Schedule &schedule) {
  std::vector<std::string> result;
  std::istringstream in(schedule.outline());
  for (std::string line; std::getline(in, line);)
    if (size_t colon = line.find(':'); colon != std::string::npos) {
      size_t start = line.find_first_not_of(' ');
      result.push_back(line.substr(start, colon - start));
    }
  return result;
}

class Drawing {
public:
  Drawing(const Schedule &schedule, std::mt19937_64 &random)
      : random_(random), loops_(loopsOf(schedule)), nest_(schedule.nest()) {}

  std::string line() {
    switch (random_() % 16) {
    case 0:
    case 1:
    case 2:
      return "split " + loop() + " " + number(2, 7) + " -> " + fresh() + " " + fresh();
    case 3:
    case 4:
      return "reorder " + loop() + " " + loop();
    case 5: {
      std::string a = fresh(), b = fresh(), c = fresh(), d = fresh();
      return "tile " + loop() + " " + loop() + " by " + number(2, 6) + " " + number(2, 6) + " -> " +
             a + " " + b + " " + c + " " + d;
    }
    case 6:
      return "fuse " + loop() + " " + loop() + " -> " + fresh();
    case 7:
      return "skew " + loop() + " by " + number(1, 2) + " " + loop();
    case 8:
      return "parallel " + loop();
    case 9:
    case 10:
      return "vectorize " + loop() + " " + number(2, 8);
    case 11:
      return "unroll " + loop();
    case 12:
    case 13:
      return (random_() % 3 ? "cache_read " : "cache_write ") + cache();
    case 14:
      return random_() % 4 ? "compute_at " + tensor().name + " " + loop()
                           : "inline " + tensor().name;
    default:
      return "rfactor " + statement() + " " + loop() + " -> " + fresh();
    }
  }

private:
  const Tensor &tensor() { return nest_.tensors[random_() % nest_.tensors.size()]; }
  std::string statement() { return nest_.statements[random_() % nest_.statements.size()].name; }
  std::string cache() {
    const Tensor &source = tensor();
    std::string text = source.name + (random_() % 6 ? " at " + loop() : "");
    std::vector<size_t> order(source.extents.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    if (random_() % 2) {
      text += " order";
      for (size_t dim : order)
        text += " " + std::to_string(dim);
    }
    return text + " -> " + fresh();
  }
  std::string loop() { return loops_.empty() ? "none" : loops_[random_() % loops_.size()]; }
  std::string number(int least, int most) {
    return std::to_string(least + int(random_() % uint64_t(most - least + 1)));
  }
  std::string fresh() {
    std::string name;
    do
      name = "l" + std::to_string(random_() % 100000);
    while (std::find(loops_.begin(), loops_.end(), name) != loops_.end());
    return name;
  }

  std::mt19937_64 &random_;
  std::vector<std::string> loops_;
  const Nest &nest_;
};

} // namespace

RandomSequence applyRandom(Schedule &schedule, std::mt19937_64 &random, int lines) {
  RandomSequence result;
  for (int number = 0; number < lines; ++number) {
    std::string line = Drawing(schedule, random).line();
    Status status = schedule.apply(line);
    if (status.ok()) {
      result.text += line + "\n";
    } else if (status.message().find("would break") != std::string::npos ||
               status.message().find("it carries") != std::string::npos) {
      ++result.refused;
      result.reason = status.message();
      result.line = line;
    }
  }
  return result;
}

} // namespace tensmith::nest::test
