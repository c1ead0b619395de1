// Buckets under the step's ports, and the order of what goes on between its two modules; see
// ParallelTrainee.h.
//
// The loss of each process is weighted by its share of all targets that count, and the sum of the
// shares divides in the end, so that it doesn't matter which process has the samples that don't.
#include "train/ParallelTrainee.h"

#include "files/Failure.h"
#include "files/Words.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <tuple>

namespace tensmith::train {
namespace {

constexpr const char *kGradient = "gradient.", *kAverages = "ema.", *kAverage = "ema";
constexpr const char *kStep = "step";
constexpr const char *kProcess = "process", *kShare = "share", *kScale = "scale";
constexpr const char *kLossScale = "loss_scale";

Tensor borrowed(DataType type, const Shape &shape, std::byte *data) {
  ts_tensor *handle = nullptr;
  detail::check(
      ts_tensor_borrow(ts_type(type), shape.data(), shape.size(), data, nullptr, nullptr, &handle));
  return Tensor(handle);
}

Tensor pieceOf(const Bucket &bucket, const Bucket::Piece &piece, const Bucketed &what,
               const FlatMemory &memory) {
  return borrowed(bucket.type, what.shape, memory.data() + piece.offset * byteSize(bucket.type));
}

Shape shapeOf(const Port &port) {
  Shape shape;
  for (const std::string &dim : port.dims)
    shape.push_back(std::stoll(dim)); // states and their gradients have constant shapes
  return shape;
}

Tensor initialOf(const Module &module, size_t state) {
  ts_tensor *initial = nullptr;
  detail::check(ts_module_state_initial(module.handle(), state, &initial));
  return Tensor(initial);
}

std::string afterPrefix(const std::string &name, const char *prefix) {
  return name.substr(std::strlen(prefix));
}

std::string unitName(size_t bucket) { return fmt::format("bucket.{}", bucket); }

/// What no parameter has of a bucket's memory, which has to be zero for sums over the whole of it.
void clearGaps(const Bucket &bucket, std::byte *data) {
  int64_t size = byteSize(bucket.type), end = 0;
  auto clearUpTo = [&](int64_t begin) {
    std::memset(data + end * size, 0, size_t((begin - end) * size));
  };
  for (const Bucket::Piece &piece : bucket.pieces) {
    clearUpTo(piece.offset);
    end = piece.offset + piece.count;
  }
  clearUpTo(bucket.count);
}

template <typename T> double squares(const std::byte *data, int64_t count) {
  auto *values = reinterpret_cast<const T *>(data);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += double(values[i]) * double(values[i]);
  return sum;
}

} // namespace

Layout layOut(const Module &gradients, const Settings &settings, int processes, bool apart) {
  Layout layout;
  std::vector<Port> outputs = gradients.outputs();
  std::map<std::string, Bucketed> known;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].name.starts_with(kGradient))
      continue;
    std::string name = afterPrefix(outputs[i].name, kGradient);
    DataType type = DataType(outputs[i].type);
    if (type != DataType::F32 && type != DataType::F64)
      fail(settings.model, fmt::format("the gradient of '{}' is {}; several processes sum f32 and "
                                       "f64 alone",
                                       printable(name), tensmith::name(type)));
    layout.parameters.push_back({name, type, shapeOf(outputs[i])});
    layout.outputs.push_back(i);
    known[name] = layout.parameters.back();
  }
  if (layout.parameters.empty() && settings.zero > 0)
    fail(settings.model, "the optimiser " + printable(settings.optimiser) +
                             " updates whole layers, and so shares nothing out; say --zero 0");
  layout.buckets = makeBuckets(layout.parameters, apart ? 0 : settings.bucket.bytes, processes);
  for (const Bucket &bucket : layout.buckets)
    if (bucket.count > INT32_MAX)
      fail(settings.model,
           fmt::format("'{}' is larger than what MPI sums at once",
                       printable(layout.parameters[bucket.pieces.back().parameter].name)));
  if (settings.zero == 0) // in the states' order, which is that of a run of one process
    for (const std::string &name : parameterNames(gradients)) {
      if (auto found = known.find(name); found != known.end())
        layout.updated.push_back({found->second});
    }
  else
    for (size_t i = 0; i < layout.buckets.size(); ++i) {
      const Bucket &bucket = layout.buckets[i];
      int64_t part = bucket.count / processes;
      if (apart)
        layout.updated.push_back(
            {{unitName(i), bucket.type, layout.parameters[bucket.pieces[0].parameter].shape},
             part});
      else
        layout.updated.push_back({{unitName(i), bucket.type, {part}}});
    }
  return layout;
}

ParallelTrainee::ParallelTrainee(const Module &gradients, const Module &update,
                                 const Module &forward, const Settings &settings, Layout layout,
                                 Processes &processes, const std::atomic<int> &stop)
    : CompiledTrainee(gradients, forward, settings), layout_(std::move(layout)),
      processes_(processes), stop_(stop), stage_(settings.zero), clipNorm_(settings.clipNorm),
      bucketOf_(gradients.outputs().size(), -1),
      update_(update, {.threads = int(settings.threads), .timeLimit = -1}) {
  *stateOf(kProcess).tensor.as<int64_t>() = processes_.rank();
  placeBuckets();
  placeUpdate(update);
  for (const State &state : states_)
    if (state.name == kLossScale) {
      scalesLoss_ = true;
      if (state.output == TS_NO_OUTPUT)
        lossScale_ = state.tensor;
    }
}

/// A step that failed leaves sums under way in the memory of all this.
ParallelTrainee::~ParallelTrainee() {
  processes_.giveUp(
      std::make_shared<
          std::tuple<std::vector<Sent>, std::vector<Whole>, std::vector<State>, Session, Session>>(
          std::move(sent_), std::move(whole_), std::move(updateStates_), std::move(session_),
          std::move(update_)));
}

void ParallelTrainee::placeBuckets() {
  for (Bucket &bucket : layout_.buckets) {
    Sent sent = {bucket, FlatMemory(bucket.bytes()), FlatMemory(bucket.bytes()),
                 FlatMemory(givesBack() ? bucket.bytes() / processes_.size() : 0)};
    for (const Bucket::Piece &piece : bucket.pieces) {
      const Bucketed &parameter = layout_.parameters[piece.parameter];
      size_t output = layout_.outputs[piece.parameter];
      replace(stateOf(parameter.name), pieceOf(bucket, piece, parameter, sent.parameters));
      outputs_[output] = pieceOf(bucket, piece, parameter, sent.gradients);
      bucketOf_[output] = int(sent_.size());
    }
    sent_.push_back(std::move(sent));
  }
}

std::byte *ParallelTrainee::gradientPart(const Sent &sent) const {
  return givesBack()
             ? sent.part.data()
             : sent.gradients.data() + sent.bucket.bytes() / processes_.size() * processes_.rank();
}

/// What the second module updates, and by what: all of the first one's parameters and gradients, or
/// this process's part of the buckets.
ParallelTrainee::ByName ParallelTrainee::updated() {
  ByName result;
  for (size_t i = 0; i < sent_.size(); ++i) {
    const Sent &sent = sent_[i];
    int64_t bytes = sent.bucket.bytes() / processes_.size();
    Shape shape = {sent.bucket.count / processes_.size()};
    if (stage_ > 0) {
      result.parameters[unitName(i)] =
          borrowed(sent.bucket.type, shape, sent.parameters.data() + bytes * processes_.rank());
      result.gradients[unitName(i)] = borrowed(sent.bucket.type, shape, gradientPart(sent));
      continue;
    }
    for (const Bucket::Piece &piece : sent.bucket.pieces) {
      const std::string &name = layout_.parameters[piece.parameter].name;
      result.parameters[name] = stateOf(name).tensor;
      result.gradients[name] = outputs_[layout_.outputs[piece.parameter]];
    }
  }
  return result;
}

void ParallelTrainee::placeUpdate(const Module &update) {
  ByName tensors = updated();
  std::vector<Port> inputs = update.inputs();
  updateInputs_.resize(inputs.size());
  updateOutputs_.resize(update.outputs().size());
  scale_ = Tensor(TS_F32, {});
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == kScale)
      updateInputs_[i] = scale_;
    else if (inputs[i].name == kProcess)
      updateInputs_[i] = stateOf(kProcess).tensor;
    else if (inputs[i].name.starts_with(kGradient))
      if (auto found = tensors.gradients.find(afterPrefix(inputs[i].name, kGradient));
          found != tensors.gradients.end())
        updateInputs_[i] = found->second;
  for (size_t i = 0; i < ts_module_state_count(update.handle()); ++i) {
    ts_state state = ts_module_state(update.handle(), i);
    // One that the first module reads alone: the scale of the loss.
    auto read = std::ranges::find_if(states_, [&](const State &of) {
      return of.name == state.name && of.kind == TS_STATE_SLOT && of.output == TS_NO_OUTPUT;
    });
    if (read != states_.end()) {
      updateInputs_[state.input] = updateOutputs_[state.output] = read->tensor;
      continue;
    }
    Tensor tensor =
        state.kind == TS_STATE_PARAMETER ? tensors.parameters.at(state.name) : initialOf(update, i);
    // Averages begin as what they are of.
    if (averages_ && std::string_view(state.name).starts_with(kAverages))
      if (auto of = tensors.parameters.find(afterPrefix(state.name, kAverages));
          of != tensors.parameters.end())
        std::memcpy(tensor.data(), of->second.data(), size_t(view(of->second).bytes()));
    updateInputs_[state.input] = updateOutputs_[state.output] = tensor;
    updateStates_.push_back({state.name, state.kind, state.input, state.output, tensor});
  }
}

void ParallelTrainee::send(Sent &sent) {
  Collective::Kind kind = stage_ > 0 ? Collective::Kind::SumParts : Collective::Kind::Sum;
  bool isLast = std::ranges::all_of(sent_, [](const Sent &of) { return of.left == 0; });
  std::function<void()> then;
  if (givesBack())
    then = [&sent] { sent.gradients.forget(); };
  else if (stage_ > 0)
    then = [&sent] { clearGaps(sent.bucket, sent.gradients.data()); };
  sent.number = processes_.begin(
      {kind, sent.bucket.type, sent.gradients.data(), sent.bucket.count, gradientPart(sent)},
      fmt::format("gradients {}", &sent - sent_.data()), then, isLast);
}

void ParallelTrainee::written(size_t output) {
  int number = bucketOf_[output];
  if (number >= 0 && --sent_[size_t(number)].left == 0)
    send(sent_[size_t(number)]);
}

Score ParallelTrainee::step(const Batch &batch) {
  feed(batch);
  int64_t count = counted(batch);
  double share = shareOf(count, batch);
  *stateOf(kShare).tensor.as<float>() = float(share);
  for (Sent &sent : sent_)
    sent.left = sent.bucket.pieces.size();
  auto before = lossScale_ ? movingStates() : std::vector<std::vector<std::byte>>();
  runAmongOthers(session_, "gradients", inputs_, outputs_, [&](size_t output) { written(output); });
  double sums[] = {view(outputs_[lossAt_]).getDouble(0),
                   count < 0 ? 0 : view(outputs_[size_t(correctAt_)]).getDouble(0),
                   double(std::max<int64_t>(count, 0)), share, double(stop_ != 0)};
  processes_.sum(sums);
  waitForSums();
  double all = sums[3] > 0 ? sums[3] : 1;
  *scale_.as<float>() = float(factor(1 / all));
  runAmongOthers(update_, "update", updateInputs_, updateOutputs_, {});
  if (lossScale_ && !std::isfinite(*scale_.as<float>()))
    takeBack(before);
  else if (stage_ > 0)
    gatherParameters();
  whole_.clear();
  finishTrace(processes_.takeSpans());
  Score score = {sums[0] / all, {}};
  score.stopped = sums[4] > 0;
  if (count >= 0)
    score.accuracy = sums[1] / std::max(1.0, sums[2]);
  return score;
}

/// Of the whole loss. It is what each sample has in one process where that matters, as where
/// gradients are halves: the others find out when they have summed how many targets count.
double ParallelTrainee::shareOf(int64_t counted, const Batch &batch) {
  int64_t targets = counted < 0 ? 1 : batch.tensors[size_t(target_)].size();
  double share = double(counted < 0 ? 1 : counted) / double(targets * processes_.size());
  double all[] = {share};
  if (scalesLoss_ && counted >= 0)
    processes_.sum(all);
  return scalesLoss_ && all[0] > 0 ? share / all[0] : share;
}

/// Sums within a module are those of all, whose failures it knows no reason of.
void ParallelTrainee::runAmongOthers(const Session &session, const char *what,
                                     const std::vector<Tensor> &inputs,
                                     std::vector<Tensor> &outputs,
                                     std::function<void(size_t)> written) {
  try {
    runTraced(session, what, inputs, outputs, std::move(written));
  } catch (...) {
    processes_.check();
    throw;
  }
}

void ParallelTrainee::waitForSums() {
  for (const Sent &sent : sent_)
    processes_.wait(sent.number);
}

/// Of the sums of all gradients together; not finite where one of them isn't.
double ParallelTrainee::normOfSums() {
  double sum[1] = {0};
  for (const Sent &sent : sent_) {
    auto *add = sent.bucket.type == DataType::F32 ? squares<float> : squares<double>;
    sum[0] += add(gradientPart(sent), sent.bucket.count / processes_.size());
  }
  processes_.sum(sum);
  return std::sqrt(sum[0]);
}

/// What the sums are multiplied by, so that all gradients together are not longer than allowed; not
/// finite where one of them isn't that the loss was scaled for, and the step is to change nothing.
double ParallelTrainee::factor(double scale) {
  constexpr double kLeast = 1e-6; // as the step of one process has it (compiler/training)
  if (lossScale_)
    scale /= *lossScale_->as<float>();
  else if (clipNorm_ <= 0)
    return scale;
  double norm = scale * normOfSums();
  if (lossScale_ && !std::isfinite(norm))
    return norm;
  return clipNorm_ > 0 ? scale * std::min(1.0, clipNorm_ / (norm + kLeast)) : scale;
}

/// What the first module has moved, to take it back where the step turns out to change nothing.
std::vector<std::vector<std::byte>> ParallelTrainee::movingStates() const {
  std::vector<std::vector<std::byte>> kept;
  for (const State &state : states_)
    if (auto *data = static_cast<const std::byte *>(state.tensor.data());
        state.output != TS_NO_OUTPUT)
      kept.emplace_back(data, data + view(state.tensor).bytes());
  return kept;
}

void ParallelTrainee::takeBack(const std::vector<std::vector<std::byte>> &kept) {
  auto next = kept.begin();
  for (const State &state : states_)
    if (state.output != TS_NO_OUTPUT) {
      std::memcpy(state.tensor.data(), next->data(), next->size());
      ++next;
    }
}

void ParallelTrainee::gatherParameters() {
  for (Sent &sent : sent_)
    sent.number = processes_.begin({Collective::Kind::Gather, sent.bucket.type,
                                    sent.parameters.data(), sent.bucket.count, nullptr},
                                   fmt::format("parameters {}", &sent - sent_.data()), {}, true);
  for (const Sent &sent : sent_)
    processes_.wait(sent.number);
}

/// Room for the slots of all processes, in the order of a bucket's slots.
std::vector<ParallelTrainee::Whole> ParallelTrainee::wholeSlots() {
  std::vector<Whole> slots;
  for (size_t i = 0; i < sent_.size(); ++i)
    for (State &state : updateStates_) {
      std::string ending = "." + unitName(i);
      if (state.kind == TS_STATE_SLOT && state.name.ends_with(ending))
        slots.push_back({FlatMemory(sent_[i].bucket.bytes()),
                         state.name.substr(0, state.name.size() - ending.size()), &sent_[i].bucket,
                         &state});
    }
  return slots;
}

/// Of parameters in the states' order, and of each its slots.
std::vector<NamedTensor> ParallelTrainee::viewsOf(const std::vector<Whole> &slots) const {
  std::map<std::string, std::vector<NamedTensor>> byParameter;
  for (const Whole &slot : slots)
    for (const Bucket::Piece &piece : slot.bucket->pieces) {
      const Bucketed &parameter = layout_.parameters[piece.parameter];
      byParameter[parameter.name].push_back(
          {slot.slot + "." + parameter.name,
           view(pieceOf(*slot.bucket, piece, parameter, slot.memory))});
    }
  std::vector<NamedTensor> views;
  for (const State &state : states_)
    if (auto found = byParameter.find(state.name); found != byParameter.end())
      views.insert(views.end(), found->second.begin(), found->second.end());
  return views;
}

/// All but slots that are shared out.
std::vector<NamedTensor> ParallelTrainee::ownStates() {
  std::vector<NamedTensor> views;
  for (const State &state : states_)
    if (state.name != kProcess && state.name != kShare)
      views.push_back({state.name, view(state.tensor)});
  for (const State &state : updateStates_)
    if (state.kind == TS_STATE_SLOT && stage_ == 0)
      views.push_back({state.name, view(state.tensor)});
  return views;
}

std::vector<NamedTensor> ParallelTrainee::states() {
  std::vector<NamedTensor> views = ownStates();
  if (stage_ == 0)
    return views;
  std::vector<int64_t> numbers;
  bool first = processes_.rank() == 0;
  whole_ = first ? wholeSlots() : std::vector<Whole>();
  size_t next = 0;
  for (size_t i = 0; i < sent_.size(); ++i)
    for (State &state : updateStates_)
      if (state.kind == TS_STATE_SLOT && state.name.ends_with("." + unitName(i)))
        numbers.push_back(
            processes_.begin({Collective::Kind::Collect, sent_[i].bucket.type,
                              first ? whole_[next++].memory.data() : nullptr, sent_[i].bucket.count,
                              static_cast<std::byte *>(state.tensor.data())},
                             "optimiser's state"));
  for (int64_t number : numbers)
    processes_.wait(number);
  std::vector<NamedTensor> slots = viewsOf(whole_);
  views.insert(views.end(), slots.begin(), slots.end());
  return views;
}

void ParallelTrainee::restore(const std::vector<NamedTensor> &states, const std::string &where) {
  std::vector<NamedTensor> views = ownStates();
  std::vector<Whole> slots = stage_ > 0 ? wholeSlots() : std::vector<Whole>();
  std::vector<NamedTensor> of = viewsOf(slots);
  views.insert(views.end(), of.begin(), of.end());
  takeOver(states, views, where);
  for (const Whole &slot : slots) {
    int64_t bytes = slot.bucket->bytes() / processes_.size();
    std::memcpy(slot.part->tensor.data(), slot.memory.data() + bytes * processes_.rank(),
                size_t(bytes));
  }
  for (State &state : updateStates_)
    if (state.name == kStep)
      *state.tensor.as<int64_t>() = *stateOf(kStep).tensor.as<int64_t>();
}

/// Averages are what is evaluated, and each process has a part of them.
std::map<std::string, Tensor> ParallelTrainee::tensors() {
  std::map<std::string, Tensor> result;
  for (const NamedTensor &state : states()) {
    Tensor copy(ts_type(state.tensor.type()), state.tensor.shape());
    if (state.tensor.bytes())
      std::memcpy(copy.data(), state.tensor.data(), size_t(state.tensor.bytes()));
    result.emplace(state.name, std::move(copy));
  }
  return result;
}

void ParallelTrainee::settle() {
  if (!averages_ || stage_ == 0)
    return;
  whole_ = wholeSlots();
  std::erase_if(whole_, [](const Whole &slot) { return slot.slot != kAverage; });
  std::vector<int64_t> numbers;
  for (const Whole &slot : whole_) {
    int64_t bytes = slot.bucket->bytes() / processes_.size();
    std::memcpy(slot.memory.data() + bytes * processes_.rank(), slot.part->tensor.data(),
                size_t(bytes));
    numbers.push_back(processes_.begin({Collective::Kind::Gather, slot.bucket->type,
                                        slot.memory.data(), slot.bucket->count, nullptr},
                                       "averages"));
  }
  for (int64_t number : numbers)
    processes_.wait(number);
}

std::map<std::string, Tensor> ParallelTrainee::parameters() {
  std::map<std::string, Tensor> result;
  for (const State &state : states_)
    if (state.kind == TS_STATE_PARAMETER)
      result[state.name] = state.tensor;
  if (!averages_)
    return result;
  for (const auto *states : {&states_, &updateStates_})
    for (const State &state : *states)
      if (stage_ == 0 && state.name.starts_with(kAverages))
        result[afterPrefix(state.name, kAverages)] = state.tensor;
  for (const Whole &slot : whole_)
    for (const Bucket::Piece &piece : slot.bucket->pieces)
      if (slot.slot == kAverage) {
        const Bucketed &parameter = layout_.parameters[piece.parameter];
        result[parameter.name] = pieceOf(*slot.bucket, piece, parameter, slot.memory);
      }
  return result;
}

int64_t ParallelTrainee::slotBytes() const {
  int64_t bytes = 0;
  for (const auto *states : {&states_, &updateStates_})
    for (const State &state : *states)
      if (state.kind == TS_STATE_SLOT)
        bytes += view(state.tensor).bytes();
  return bytes;
}

} // namespace tensmith::train
