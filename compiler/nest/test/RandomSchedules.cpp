// Lines of schedule text drawn at random: most are refused, those that are not must keep the
// meaning.
#include "compiler/nest/test/RandomSchedules.h"

#include "compiler/nest/ScheduleState.h"
#include "compiler/nest/test/Declarations.h"
#include "compiler/nest/test/Evaluator.h"

#include <algorithm>
#include <numeric>
#include <regex>
#include <set>
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
      : random_(random), loops_(loopsOf(schedule)), nest_(schedule.nest()),
        state_(schedule.state()) {}

  /// Of what finds an order for all statements, or joins them: isl needs minutes for the pieces of
  /// loops that have been split before.
  std::string firstLine() {
    static constexpr const char *kFound[] = {"affine maximal", "affine coincident",
                                             "affine recomputed", "affine minimal", "default 8"};
    if (random_() % 3 == 0)
      return tensorized();
    return random_() % 2 ? kFound[random_() % std::size(kFound)]
                         : "fuse_at " + statement() + " " + loop();
  }

  std::string line() {
    switch (random_() % 20) {
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
    case 18:
      return tensorized();
    case 14:
      return random_() % 4 ? "compute_at " + tensor().name + " " + loop()
                           : "inline " + tensor().name;
    default:
      return "rfactor " + statement() + " " + loop() + " -> " + fresh();
    }
  }

  /// Tiles of an instruction's sizes, of loops around one statement, which become innermost.
  std::string tensorized() {
    const TileIntrinsic &unit = *state_.intrinsics[random_() % state_.intrinsics.size()];
    Node tree = state_.tree;
    std::vector<std::string> around;
    for (const Node *node : pathTo(tree, sum()))
      if (node->isLoop())
        around.push_back(node->name);
      else if (node->kind == Node::Kind::Sequence)
        around.clear(); // what stands outside of a sequence can't change places with it
    std::shuffle(around.begin(), around.end(), random_);
    std::string cuts, order, tiles;
    for (size_t number = 0; number < std::min(unit.sizes.size(), around.size()); ++number) {
      std::string outer = fresh(), tile = fresh();
      cuts += "split " + around[number] + " " + std::to_string(unit.sizes[number]) + " -> " +
              outer + " " + tile + "\n";
      order += " " + outer;
      tiles += " " + tile;
    }
    for (size_t number = unit.sizes.size(); number < around.size(); ++number)
      order += " " + around[number];
    return cuts + "reorder" + order + tiles + "\ntensorize" + tiles + " by " + unit.name +
           (random_() % 3 ? " packing" : "");
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
  /// A statement that accumulates if there is one.
  std::string sum() {
    std::vector<std::string> names;
    for (const Statement &each : nest_.statements)
      if (each.reduction == Reduction::Add)
        names.push_back(each.name);
    return names.empty() ? statement() : names[random_() % names.size()];
  }
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
  const ScheduleState &state_;
};

/// The kind of the dependence that a refusal names.
std::string kindOf(const std::string &reason) {
  for (const char *kind : {"anti-dependence", "output dependence", "accumulation", "flow"})
    if (reason.find(std::string("the ") + kind + " of") != std::string::npos)
      return kind;
  return "none";
}

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

/// Sizes that are large beside the points' numbers, and such as have an end at one of these.
std::vector<std::map<std::string, int64_t>> sizesNear(const Nest &nest, std::vector<int64_t> values,
                                                      const std::vector<int64_t> &others) {
  values.insert(values.end(), others.begin(), others.end());
  std::set<int64_t> sizes{1000};
  for (int64_t each : values)
    sizes.insert({each, each + 1, each + 2});
  std::vector<std::map<std::string, int64_t>> all{{}};
  for (const Parameter &parameter : nest.parameters) {
    std::vector<std::map<std::string, int64_t>> next;
    for (const auto &before : all)
      for (auto size = sizes.rbegin(); size != sizes.rend(); ++size)
        if (*size >= parameter.least) {
          next.push_back(before);
          next.back()[parameter.name] = *size;
        }
    all = std::move(next);
  }
  return all;
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
  bool writesFirst = kind != "anti-dependence", writesSecond = kind != "flow";
  auto dependsAt = [&](const std::map<std::string, int64_t> &sizes) {
    std::vector<Touched> before = touchedAt(nest, *first.statement, first.values, sizes);
    std::vector<Touched> after = touchedAt(nest, *second.statement, second.values, sizes);
    return std::any_of(before.begin(), before.end(), [&](const Touched &each) {
      return each.tensor == tensor && each.isWrite == writesFirst &&
             touches(after, each, writesSecond);
    });
  };
  for (const std::map<std::string, int64_t> &sizes : sizesNear(nest, first.values, second.values))
    if (dependsAt(sizes))
      return {};
  return "the points have no element of '" + tensor + "' so";
}

TargetUnits drawnTarget() {
  using Dims = std::vector<unsigned>;
  TargetUnits units{.memories = {{"near", 4096}, {"far", int64_t(1) << 50}}, .vectorBytes = 32};
  auto add = [&](const char *name, std::vector<int64_t> sizes, Dims left, Dims right, Dims sums) {
    Declaration own;
    own.name = name;
    own.sizes = std::move(sizes);
    own.left = std::move(left), own.right = std::move(right), own.sums = std::move(sums);
    own.leftHasPitch = own.left.size() > 1, own.rightHasPitch = own.right.size() > 1;
    units.intrinsics.push_back(std::make_shared<TileIntrinsic>(std::move(*declared(own))));
  };
  add("lanes", {4}, {0}, {0}, {0});
  add("outer", {2, 4}, {0}, {1}, {0, 1});
  add("dots", {4, 2}, {0, 1}, {0, 1}, {0});
  return units;
}

RandomSequence applyRandom(Schedule &schedule, std::mt19937_64 &random, int lines) {
  RandomSequence result;
  schedule.setTarget(drawnTarget());
  for (int number = 0; number < lines; ++number) {
    Drawing drawing(schedule, random);
    std::string line = number == 0 && random() % 4 == 0 ? drawing.firstLine() : drawing.line();
    Schedule trial = schedule.copy(); // of several lines all or none
    Status status = trial.apply(line);
    // Few loops of few programs are an instruction's.
    constexpr int kTries = 8;
    bool isTile = line.find("tensorize") != std::string::npos;
    for (int tries = 1; isTile && !status.ok() && tries < kTries; ++tries) {
      line = drawing.tensorized();
      trial = schedule.copy();
      status = trial.apply(line);
    }
    if (status.ok()) {
      result.text += line + "\n";
      schedule = std::move(trial);
    } else if (status.message().find("would break") != std::string::npos ||
               status.message().find("it carries") != std::string::npos) {
      ++result.refused[kindOf(status.message())];
      std::string wrong = wrongReason(trial.nest(), status.message());
      result.verified += wrong.empty();
      if (!wrong.empty() && wrong != kOthers)
        result.wrong = line + ": " + status.message() + ": " + wrong;
      result.line = line;
    }
  }
  return result;
}

} // namespace tensmith::nest::test
