// The network's two programs, its step and its states; see PolicyNetwork.h.
#include "tune/model/PolicyNetwork.h"

#include "client/Compiler.h"
#include "files/Files.h"
#include "train/Settings.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

namespace tensmith::tune {
namespace {

constexpr size_t kHidden = 64;
constexpr float kRefused = -1e9F; // of a move that isn't allowed
constexpr const char *kLayers[] = {"shared", "actor", "critic"};

/// 0.01 for the entropy keeps moves from being given up early.
constexpr const char *kStep = R"(import "tensmith/dense.tsm"

let shared = dense_weights({features}, {hidden})
let actor = dense_weights({hidden}, {moves})
let critic = dense_weights({hidden}, 1)

fn main(state: f32[{batch}, {features}], taken: f32[{batch}, {moves}], refused: f32[{batch}, {moves}],
        advantage: f32[{batch}, 1], reached: f32[{batch}, 1]) = {{
  let hidden = relu(dense(state, shared));
  let likely = log_softmax(dense(hidden, actor) + refused, axis = 1);
  let chosen = reduce_sum(likely * taken, axes = [1], keepdims = true);
  let certain = reduce_sum(exp(likely) * likely, axes = [1], keepdims = true);
  let surprise = reached - dense(hidden, critic);
  let losses = 0.5 * surprise * surprise - advantage * chosen + 0.01 * certain;
  reduce_sum(losses, axes = [0, 1], keepdims = false) / {batch}.0
}}
)";

constexpr const char *kForward = R"(import "tensmith/dense.tsm"

fn main(state: f32[1, {features}], refused: f32[1, {moves}], shared: f32[{features}, {hidden}],
        shared_bias: f32[{hidden}], actor: f32[{hidden}, {moves}], actor_bias: f32[{moves}],
        critic: f32[{hidden}, 1], critic_bias: f32[1]) = {{
  let hidden = relu(dense(state, (shared, shared_bias)));
  (softmax(dense(hidden, (actor, actor_bias)) + refused, axis = 1), dense(hidden, (critic, critic_bias)))
}}
)";

std::string filled(const char *text, size_t features, size_t moves) {
  return fmt::format(fmt::runtime(text), fmt::arg("features", features), fmt::arg("moves", moves),
                     fmt::arg("hidden", kHidden), fmt::arg("batch", PolicyNetwork::kBatch));
}

struct Modules {
  Bytes step, forward;
};

Modules compiled(size_t features, size_t moves) {
  client::CompileSettings settings;
  settings.tuned = {"", false}; // the same numbers on every machine of a kind
  settings.warns = false;
  TemporaryFolder folder;
  std::string program = folder.path() / "policy.tsm", module = folder.path() / "policy.so";
  writeFile(program, filled(kStep, features, moves));
  train::Settings training;
  training.loss = "result";
  training.learningRate = 3e-3;
  constexpr int64_t kSteps = 1 << 20; // the rate is constant
  client::compileStep(program, settings, {&training, kSteps, kSteps}, module);
  return {readFile(module), client::compileProgram(filled(kForward, features, moves), "forward.tsm",
                                                   "", {}, settings)};
}

/// Of spaces of one form they are made once.
const Modules &modulesOf(size_t features, size_t moves) {
  static std::mutex mutex;
  static std::map<std::pair<size_t, size_t>, Modules> made;
  std::lock_guard lock(mutex);
  auto found = made.find({features, moves});
  if (found == made.end())
    found = made.emplace(std::pair(features, moves), compiled(features, moves)).first;
  return found->second;
}

SessionOptions oneThread() {
  SessionOptions options;
  options.threads = 1;
  return options;
}

class Network : public PolicyNetwork {
public:
  Network(const Modules &modules, size_t features, size_t moves)
      : step_(Module::load(modules.step.data(), modules.step.size())),
        forward_(Module::load(modules.forward.data(), modules.forward.size())),
        learning_(step_, oneThread()), judging_(forward_, oneThread()) {
    for (auto [rows, inputs] : {std::pair(int64_t(kBatch), &fed_), std::pair(int64_t(1), &judged_)})
      *inputs = {Tensor(TS_F32, {rows, int64_t(features)}), Tensor(TS_F32, {rows, int64_t(moves)})};
    fed_.insert(fed_.begin() + 1, Tensor(TS_F32, {int64_t(kBatch), int64_t(moves)}));
    for (int i = 0; i < 2; ++i)
      fed_.emplace_back(TS_F32, std::vector<int64_t>{int64_t(kBatch), 1});
    placeStates();
  }

  Judgement judge(const Features &state, const std::vector<bool> &allowed) const override {
    put(judged_[0], 0, state);
    putRefused(judged_[1], 0, allowed);
    std::vector<Tensor> results = judging_.run(judged_);
    const float *found = results[0].as<float>();
    Judgement judgement{{found, found + allowed.size()}, results[1].as<float>()[0]};
    return judgement;
  }

  void learn(std::span<const Step> steps) override {
    for (size_t row = 0; row < kBatch; ++row) {
      const Step &step = steps[row];
      std::vector<double> taken(step.allowed.size(), 0);
      taken[step.move] = 1;
      put(fed_[0], row, step.state);
      put(fed_[1], row, taken);
      putRefused(fed_[2], row, step.allowed);
      fed_[3].as<float>()[row] = float(step.advantage);
      fed_[4].as<float>()[row] = float(step.reached);
    }
    learning_.run(inputs_, outputs_);
  }

private:
  static void put(const Tensor &into, size_t row, std::span<const double> numbers) {
    std::copy(numbers.begin(), numbers.end(), into.as<float>() + row * numbers.size());
  }
  static void putRefused(const Tensor &into, size_t row, const std::vector<bool> &allowed) {
    for (size_t i = 0; i < allowed.size(); ++i)
      into.as<float>()[row * allowed.size() + i] = allowed[i] ? 0 : kRefused;
  }

  /// States are updated in place, and what judges reads them where they are.
  void placeStates() {
    std::map<std::string, Tensor> named;
    inputs_.resize(step_.inputs().size());
    outputs_.resize(step_.outputs().size());
    for (size_t i = 0; i < ts_module_state_count(step_.handle()); ++i) {
      ts_state state = ts_module_state(step_.handle(), i);
      ts_tensor *initial = nullptr;
      detail::check(ts_module_state_initial(step_.handle(), i, &initial));
      inputs_[state.input] = named[state.name] = Tensor(initial);
      if (state.output != TS_NO_OUTPUT)
        outputs_[state.output] = inputs_[state.input];
    }
    size_t next = 0;
    for (Tensor &input : inputs_)
      if (!input)
        input = fed_[next++];
    for (const char *layer : kLayers)
      for (const char *part : {".0", ".1"})
        judged_.push_back(named.at(std::string(layer) + part));
  }

  Module step_, forward_;
  Session learning_, judging_;
  std::vector<Tensor> fed_, inputs_, outputs_; // of the step
  std::vector<Tensor> judged_;                 // of what judges
};

} // namespace

std::unique_ptr<PolicyNetwork> PolicyNetwork::of(size_t features, size_t moves) {
  return std::make_unique<Network>(modulesOf(features, moves), features, moves);
}

} // namespace tensmith::tune
