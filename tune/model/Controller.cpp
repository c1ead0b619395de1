// Programs of as many layers as a space has choices; see Controller.h.
#include "tune/model/Controller.h"

#include "tune/model/TrainedProgram.h"

#include <algorithm>
#include <fmt/format.h>

namespace tensmith::tune {
namespace {

constexpr size_t kHidden = 32;

/// What both programs have in common: the states and logits of all choices. Of `chosenN`, a row of
/// values for each point, all are 0 where the choice is absent.
std::string choicesText(const SearchSpace &space, bool isStep) {
  auto layer = [&](const std::string &name) {
    return isStep ? name : fmt::format("({0}, {0}_bias)", name);
  };
  std::string text;
  for (size_t i = 0; i < space.dimensions().size(); ++i) {
    std::string before =
        i == 0 ? fmt::format("dense(start, {})", layer("first"))
               : fmt::format("dense(chosen{}, {}) + dense(state{}, {})", i - 1,
                             layer(fmt::format("said{}", i - 1)), i - 1, layer("again"));
    text += fmt::format("  let state{0} = tanh({1});\n  let logits{0} = dense(state{0}, {2});\n", i,
                        before, layer(fmt::format("says{}", i)));
  }
  return text;
}

/// Layers, and what each has: rows and columns.
std::vector<std::tuple<std::string, size_t, size_t>> layersOf(const SearchSpace &space) {
  std::vector<std::tuple<std::string, size_t, size_t>> layers = {{"first", 1, kHidden},
                                                                 {"again", kHidden, kHidden}};
  for (size_t i = 0; i < space.dimensions().size(); ++i) {
    size_t values = space.dimensions()[i].values.size();
    layers.emplace_back(fmt::format("says{}", i), kHidden, values);
    if (i + 1 < space.dimensions().size())
      layers.emplace_back(fmt::format("said{}", i), values, kHidden);
  }
  return layers;
}

TrainedProgram::Text textOf(const SearchSpace &space) {
  TrainedProgram::Text text;
  std::string inputs, forwardInputs, sum, results;
  text.step = text.forward = "import \"tensmith/dense.tsm\"\n\n";
  for (const auto &[name, rows, columns] : layersOf(space)) {
    text.step += fmt::format("let {} = dense_weights({}, {})\n", name, rows, columns);
    forwardInputs += fmt::format(", {0}: f32[{1}, {2}], {0}_bias: f32[{2}]", name, rows, columns);
    text.states.push_back(name + ".0");
    text.states.push_back(name + ".1");
  }
  std::string given;
  for (size_t i = 0; i < space.dimensions().size(); ++i) {
    size_t values = space.dimensions()[i].values.size();
    inputs += fmt::format(", chosen{}: f32[{}, {}]", i, Controller::kBatch, values);
    given += fmt::format(", chosen{}: f32[1, {}]", i, values);
    sum += fmt::format(
        "  let likely{0} = log_softmax(logits{0}, axis = 1);\n"
        "  let value{0} = reduce_sum(likely{0} * chosen{0}, axes = [1], keepdims = true);\n"
        "  let certain{0} = reduce_sum(exp(likely{0}) * likely{0}, axes = [1], keepdims = true);\n",
        i);
    results += fmt::format("{}softmax(logits{}, axis = 1)", i ? ", " : "", i);
  }
  std::string chosen, certain;
  for (size_t i = 0; i < space.dimensions().size(); ++i) {
    chosen += fmt::format("{}value{}", i ? " + " : "", i);
    certain += fmt::format("{}certain{}", i ? " + " : "", i);
  }
  text.step +=
      fmt::format("\nfn main(start: f32[{0}, 1], advantage: f32[{0}, 1]{1}) = {{\n{2}{3}"
                  "  let losses = 0.01 * ({4}) - advantage * ({5});\n"
                  "  reduce_sum(losses, axes = [0, 1], keepdims = false) / {0}.0\n}}\n",
                  Controller::kBatch, inputs, choicesText(space, true), sum, certain, chosen);
  text.forward += fmt::format("fn main(start: f32[1, 1]{}{}) = {{\n{}  ({})\n}}\n", given,
                              forwardInputs, choicesText(space, false), results);
  return text;
}

class Recurrent : public Controller {
public:
  explicit Recurrent(const SearchSpace &space)
      : space_(space), program_(TrainedProgram::of(textOf(space))) {}

  Configuration draw(Random &random) override {
    std::vector<Tensor> &given = program_->judged();
    given[0].as<float>()[0] = 1;
    for (size_t i = 1; i < given.size(); ++i)
      clear(given[i]);
    Configuration point(space_.dimensions().size(), kAbsent);
    for (size_t i = 0; i < point.size(); ++i) {
      // Where the choice is absent by what was said, and where it is there but was not said yet.
      if (space_.completed(point)[i] == kAbsent)
        continue;
      std::vector<Tensor> said = program_->judge();
      const float *likely = said[i].as<float>();
      size_t values = space_.dimensions()[i].values.size(), value = 0;
      double left = random.uniform();
      while (value + 1 < values && (left -= likely[value]) >= 0)
        ++value;
      point[i] = int32_t(value);
      if (i + 1 < given.size())
        given[i + 1].as<float>()[value] = 1;
    }
    return point;
  }

  void learn(std::span<const Step> steps) override {
    std::vector<Tensor> &fed = program_->fed();
    for (Tensor &each : fed)
      clear(each);
    for (size_t row = 0; row < kBatch; ++row) {
      fed[0].as<float>()[row] = 1;
      fed[1].as<float>()[row] = float(steps[row].advantage);
      for (size_t i = 0; i < steps[row].point.size(); ++i)
        if (int32_t value = steps[row].point[i]; value != kAbsent)
          fed[2 + i].as<float>()[row * space_.dimensions()[i].values.size() + size_t(value)] = 1;
    }
    program_->learn();
  }

private:
  static void clear(Tensor &tensor) { std::fill_n(tensor.as<float>(), tensor.size(), 0.f); }

  const SearchSpace &space_;
  std::unique_ptr<TrainedProgram> program_;
};

} // namespace

std::unique_ptr<Controller> Controller::of(const SearchSpace &space) {
  return std::make_unique<Recurrent>(space);
}

} // namespace tensmith::tune
