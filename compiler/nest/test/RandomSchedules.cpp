// Lines of schedule text drawn at random: most are refused, those that are not must keep the
// meaning.
#include "compiler/nest/test/RandomSchedules.h"

#include "compiler/nest/test/Evaluator.h"

#include <algorithm>
#include <numeric>
#include <regex>
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
    switch (random_() % 19) {
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
    case 15:
      return random_() % 2 ? "bind " + loop() + (random_() % 3 ? " threads" : " lanes")
                           : "double_buffer " + tensor().name;
    case 16:
      return "virtual_threads " + loop() + " " + number(2, 4) + " -> " + fresh() + " " + fresh();
    case 17:
      return "double_buffer " + local();
    case 14:
      return random_() % 4 ? "compute_at " + tensor().name + " " + loop()
                           : "inline " + tensor().name;
    default:
      return "rfactor " + statement() + " " + loop() + " -> " + fresh();
    }
  }

private:
  const Tensor &tensor() { return nest_.tensors[random_() % nest_.tensors.size()]; }
  /// A local tensor if there is one.
  std::string local() {
    std::vector<std::string> names;
    for (const Tensor &each : nest_.tensors)
      if (each.role == Tensor::Role::Local)
        names.push_back(each.name);
    return names.empty() ? "none" : names[random_() % names.size()];
  }
  std::string statement() { return nest_.statements[random_() % nest_.statements.size()].name; }
  std::string cache() {
    const Tensor &source = tensor();
    std::string text = source.name + (random_() % 6 ? " at " + loop() : "");
    std::vector<size_t> order(source.extents.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    if (random_() % 2) {
      text += " order";
      std::string inner; // of blocks, which lie inside
      for (size_t dim : order) {
        std::string block = number(2, 5), name = " " + std::to_string(dim);
        bool isInBlocks = random_() % 3 == 0;
        text += isInBlocks ? name + "/" + block : name;
        inner += isInBlocks ? name + "%" + block : "";
      }
      text += inner;
    }
    if (random_() % 4 == 0)
      text += random_() % 2 ? " in near" : " in far";
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

namespace {

/// What is said of points of statements that there are not yet.
const std::string kOthers = "its points are of statements to come";

struct NamedPoint {
  const Statement *statement = nullptr;
  std::vector<int64_t> values;
};

/// "add[0, 1]"
NamedPoint pointOf(const Nest &nest, const std::string &text) {
  size_t open = text.find('[');
  NamedPoint result{nest.statement(text.substr(0, open)), {}};
  std::istringstream in(text.substr(open + 1));
  for (std::string number; std::getline(in, number, ',');)
    result.values.push_back(std::stoll(number));
  return result;
}

bool touches(const std::vector<Touched> &all, const Touched &like, bool isWrite) {
  return std::any_of(all.begin(), all.end(), [&](const Touched &each) {
    return each.tensor == like.tensor && each.element == like.element && each.isWrite == isWrite;
  });
}

} // namespace

std::string wrongReason(const Nest &nest, const std::string &reason) {
  static const std::regex kForm("the (flow|anti-dependence|output dependence|accumulation) of "
                                "'(\\w+)' .*[:;] (\\w+\\[.*\\]) comes before (\\w+\\[.*\\])");
  std::smatch parts;
  if (!std::regex_search(reason, parts, kForm))
    return "it has another form";
  std::string kind = parts[1], tensor = parts[2];
  NamedPoint first = pointOf(nest, parts[3]), second = pointOf(nest, parts[4]);
  bool isKnown = nest.tensor(tensor) && first.statement && second.statement &&
                 first.values.size() == first.statement->iterators.size() &&
                 second.values.size() == second.statement->iterators.size();
  if (!isKnown)
    return kOthers;
  std::map<std::string, int64_t> sizes; // the points are small numbers
  for (const Parameter &each : nest.parameters)
    sizes[each.name] = 1000;
  bool writesFirst = kind != "anti-dependence", writesSecond = kind != "flow";
  std::vector<Touched> before = touchedAt(nest, *first.statement, first.values, sizes);
  std::vector<Touched> after = touchedAt(nest, *second.statement, second.values, sizes);
  for (const Touched &each : before)
    if (each.tensor == tensor && each.isWrite == writesFirst && touches(after, each, writesSecond))
      return {};
  return "the points have no element of '" + tensor + "' so";
}

TargetUnits drawnTarget() {
  return {.memories = {{"near", 4096}, {"far", int64_t(1) << 50}}, .vectorBytes = 32};
}

RandomSequence applyRandom(Schedule &schedule, std::mt19937_64 &random, int lines) {
  RandomSequence result;
  schedule.setTarget(drawnTarget());
  for (int number = 0; number < lines; ++number) {
    std::string line = Drawing(schedule, random).line();
    Status status = schedule.apply(line);
    if (status.ok()) {
      result.text += line + "\n";
    } else if (status.message().find("would break") != std::string::npos ||
               status.message().find("it carries") != std::string::npos) {
      ++result.refused;
      std::string wrong = wrongReason(schedule.nest(), status.message());
      result.verified += wrong.empty();
      if (!wrong.empty() && wrong != kOthers)
        result.wrong = line + ": " + status.message() + ": " + wrong;
      result.reason = status.message();
      result.line = line;
    }
  }
  return result;
}

} // namespace tensmith::nest::test
