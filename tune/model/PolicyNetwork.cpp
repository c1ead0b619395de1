// The network's two programs; see PolicyNetwork.h.
#include "tune/model/PolicyNetwork.h"

#include "tune/model/TrainedProgram.h"

#include <fmt/format.h>

namespace tensmith::tune {
namespace {

constexpr size_t kHidden = 64;
constexpr float kRefused = -1e9F; // of a move that isn't allowed

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

TrainedProgram::Text textOf(size_t features, size_t moves) {
  return {filled(kStep, features, moves),
          filled(kForward, features, moves),
          {"shared.0", "shared.1", "actor.0", "actor.1", "critic.0", "critic.1"}};
}

class Network : public PolicyNetwork {
public:
  Network(size_t features, size_t moves) : program_(TrainedProgram::of(textOf(features, moves))) {}

  Judgement judge(const Features &state, const std::vector<bool> &allowed) const override {
    put(program_->judged()[0], 0, state);
    putRefused(program_->judged()[1], 0, allowed);
    std::vector<Tensor> results = program_->judge();
    const float *found = results[0].as<float>();
    return {{found, found + allowed.size()}, results[1].as<float>()[0]};
  }

  void learn(std::span<const Step> steps) override {
    std::vector<Tensor> &fed = program_->fed();
    for (size_t row = 0; row < kBatch; ++row) {
      const Step &step = steps[row];
      std::vector<double> taken(step.allowed.size(), 0);
      taken[step.move] = 1;
      put(fed[0], row, step.state);
      put(fed[1], row, taken);
      putRefused(fed[2], row, step.allowed);
      fed[3].as<float>()[row] = float(step.advantage);
      fed[4].as<float>()[row] = float(step.reached);
    }
    program_->learn();
  }

private:
  static void put(const Tensor &into, size_t row, std::span<const double> numbers) {
    std::copy(numbers.begin(), numbers.end(), into.as<float>() + row * numbers.size());
  }
  static void putRefused(const Tensor &into, size_t row, const std::vector<bool> &allowed) {
    for (size_t i = 0; i < allowed.size(); ++i)
      into.as<float>()[row * allowed.size() + i] = allowed[i] ? 0 : kRefused;
  }

  std::unique_ptr<TrainedProgram> program_;
};

} // namespace

std::unique_ptr<PolicyNetwork> PolicyNetwork::of(size_t features, size_t moves) {
  return std::make_unique<Network>(features, moves);
}

} // namespace tensmith::tune
