// Two modules that share states; see TrainedProgram.h.
#include "tune/model/TrainedProgram.h"

#include "client/Compiler.h"
#include "files/Files.h"
#include "train/Settings.h"

#include <map>
#include <mutex>

namespace tensmith::tune {
namespace {

struct Modules {
  Bytes step, forward;
};

Modules compiled(const TrainedProgram::Text &text) {
  client::CompileSettings settings;
  settings.tuned = {"", false}; // the same numbers on every machine of a kind
  settings.warns = false;
  settings.progress = false;
  TemporaryFolder folder;
  std::string program = folder.path() / "program.tsm", module = folder.path() / "program.so";
  writeFile(program, text.step);
  train::Settings training;
  training.loss = "result";
  training.learningRate = 3e-3;
  constexpr int64_t kSteps = 1 << 20; // the rate is constant
  client::compileStep(program, settings, {&training, kSteps, kSteps}, module);
  return {readFile(module), client::compileProgram(text.forward, "forward.tsm", "", {}, settings)};
}

const Modules &modulesOf(const TrainedProgram::Text &text) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, Modules> made;
  std::lock_guard lock(mutex);
  auto found = made.find({text.step, text.forward});
  if (found == made.end())
    found = made.emplace(std::pair(text.step, text.forward), compiled(text)).first;
  return found->second;
}

SessionOptions oneThread() {
  SessionOptions options;
  options.threads = 1;
  return options;
}

Tensor tensorOf(const Port &port) {
  std::vector<int64_t> shape;
  for (const std::string &dim : port.dims)
    shape.push_back(std::stoll(dim));
  return Tensor(port.type, shape);
}

class Program : public TrainedProgram {
public:
  Program(const Modules &modules, const std::vector<std::string> &states)
      : step_(Module::load(modules.step.data(), modules.step.size())),
        forward_(Module::load(modules.forward.data(), modules.forward.size())),
        learning_(step_, oneThread()), judging_(forward_, oneThread()) {
    std::map<std::string, Tensor> named;
    std::vector<Port> ports = step_.inputs();
    inputs_.resize(ports.size());
    outputs_.resize(step_.outputs().size());
    for (size_t i = 0; i < ts_module_state_count(step_.handle()); ++i) {
      ts_state state = ts_module_state(step_.handle(), i);
      ts_tensor *initial = nullptr;
      detail::check(ts_module_state_initial(step_.handle(), i, &initial));
      inputs_[state.input] = named[state.name] = Tensor(initial);
      if (state.output != TS_NO_OUTPUT)
        outputs_[state.output] = inputs_[state.input];
    }
    for (size_t i = 0; i < ports.size(); ++i)
      if (!inputs_[i])
        fed_.push_back(inputs_[i] = tensorOf(ports[i]));
    std::vector<Port> read = forward_.inputs();
    for (size_t i = 0; i + states.size() < read.size(); ++i)
      judged_.push_back(tensorOf(read[i]));
    for (const std::string &state : states)
      states_.push_back(named.at(state));
  }

  std::vector<Tensor> &fed() override { return fed_; }
  void learn() override { learning_.run(inputs_, outputs_); }
  std::vector<Tensor> &judged() override { return judged_; }
  std::vector<Tensor> judge() override {
    std::vector<Tensor> all = judged_;
    all.insert(all.end(), states_.begin(), states_.end());
    return judging_.run(all);
  }

private:
  Module step_, forward_;
  Session learning_, judging_;
  std::vector<Tensor> inputs_, outputs_; // of the step, states among them
  std::vector<Tensor> fed_, judged_, states_;
};

} // namespace

std::unique_ptr<TrainedProgram> TrainedProgram::of(const Text &text) {
  return std::make_unique<Program>(modulesOf(text), text.states);
}

} // namespace tensmith::tune
