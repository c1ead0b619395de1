// The steps in their order; see Quantiser.h.
#include "quantize/Quantiser.h"

#include "quantize/Equalisation.h"
#include "quantize/Realise.h"
#include "quantize/Samples.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tensmith::quantize {
namespace {

using Json = nlohmann::ordered_json;

/// What a layer does to the outputs where it alone is quantised.
struct Sensitivity {
  double relativeError = 0, lost = 0;
};

class Quantiser {
public:
  Quantiser(const Settings &settings, const Feed &samples, const Engine &engine)
      : settings_(settings), arrays_(samples), engine_(engine) {}

  Result<Quantised> run(const std::string &bytes) {
    for (auto step : {&Quantiser::annotate, &Quantiser::calibrate, &Quantiser::round,
                      &Quantiser::keepWithinBudget}) {
      Status status = step == &Quantiser::annotate ? parse(bytes) : Status();
      status = status.ok() ? (this->*step)() : status;
      if (!status.ok())
        return status;
    }
    return finish();
  }

private:
  Status parse(const std::string &bytes) {
    auto parsed = ModelGraph::parse(bytes);
    if (!parsed.ok())
      return parsed.status();
    model_.emplace(std::move(*parsed));
    bytesBefore_ = model_->constantBytes();
    for (const onnx::ValueInfoProto &output : model_->graph().output())
      outputs_.push_back(output.name());
    return {};
  }

  Status annotate() {
    prepare(*model_);
    auto layers = findLayers(*model_, settings_);
    if (!layers.ok())
      return layers.status();
    layers_ = std::move(*layers);
    if (settings_.equalises && equalise(*model_, layers_) == 0)
      engine_.warn("no two layers follow one another so that they could be equalised");
    return checkSamples();
  }

  bool needsMoments() const { return settings_.rounding == Rounding::Gptq || settings_.awq; }

  Status checkSamples() const {
    bool quantisesActivations = std::ranges::any_of(layers_, &Layer::quantisesActivations);
    bool needs = quantisesActivations || needsMoments() || settings_.smoothing > 0 ||
                 settings_.correctsBias || settings_.measuresSensitivity || settings_.accuracy ||
                 settings_.size;
    if (!needs || !arrays_.empty())
      return {};
    return invalidArgument(
        quantisesActivations
            ? "samples are missing, on which activations are observed; weights alone are "
              "quantised without, where activations are \"float\""
            : "samples are missing, which these settings ask for");
  }

  Status calibrate() {
    if (arrays_.empty())
      return {};
    if (Status status = observe(); !status.ok())
      return status;
    if (settings_.smoothing <= 0 && !settings_.awq)
      return {};
    if (settings_.smoothing > 0)
      smooth(*model_, layers_, *statistics_, settings_.smoothing);
    else
      scaleForWeights(*model_, layers_, *statistics_, settings_.bestWeightRange);
    return observe();
  }

  /// Runs the model of floats, whose outputs are kept, and looks at the inputs of layers.
  Status observe() {
    statistics_.emplace(layers_, needsMoments());
    std::vector<std::string> keep;
    for (const std::string &tensor : statistics_->tensors())
      if (!model_->isInput(tensor) && std::ranges::find(outputs_, tensor) == outputs_.end())
        keep.push_back(tensor);
    auto executable = engine_.open(model_->bytes(), keep, {});
    if (!executable.ok())
      return executable.status();
    auto samples = Samples::of(arrays_, (*executable)->inputs(), settings_.batch);
    if (!samples.ok())
      return samples.status();
    if (!samples_ && samples->left() > 0)
      engine_.warn(std::to_string(samples->left()) + " samples fill no batch, and are left out");
    samples_.emplace(std::move(*samples));
    right_.clear();
    for (int64_t i = 0; i < samples_->batches(); ++i) {
      engine_.progress("observing", double(i) / double(samples_->batches()));
      Feed inputs = samples_->batch(i);
      auto found = (*executable)->run(inputs);
      if (!found.ok())
        return found.status();
      for (const std::string &tensor : statistics_->tensors())
        if (Status status = statistics_->add(tensor, model_->isInput(tensor) ? inputs.at(tensor)
                                                                             : found->at(tensor));
            !status.ok())
          return status;
      for (const std::string &output : outputs_)
        right_.resize(size_t(i) + 1), right_.back().emplace(output, found->at(output));
    }
    return warnOfNumbers();
  }

  Status warnOfNumbers() const {
    for (const Layer &layer : layers_) {
      if (!layer.kept.empty())
        continue;
      const Histogram &histogram = statistics_->of(layer).histogram;
      if (histogram.notFinite() > 0)
        engine_.warn("layer '" + layer.name + "' reads " + std::to_string(histogram.notFinite()) +
                     " numbers that are not finite, which no code stands for");
    }
    return {};
  }

  Status round() {
    codes_.resize(layers_.size());
    for (size_t i = 0; i < layers_.size(); ++i) {
      Layer &layer = layers_[i];
      engine_.progress("rounding", double(i) / double(layers_.size()));
      if (!layer.kept.empty())
        continue;
      const Moments *moments = statistics_ ? statistics_->momentsOf(layer) : nullptr;
      if (settings_.rounding == Rounding::Gptq && moments) {
        auto codes =
            roundGptq(layer.weights, layer.weightFormat, settings_.bestWeightRange, *moments);
        if (!codes.ok())
          return codes.status().within("layer '" + layer.name + "'");
        codes_[i].weights = std::move(*codes);
      } else {
        codes_[i].weights =
            roundNearest(layer.weights, layer.weightFormat, settings_.bestWeightRange);
      }
      if (layer.quantisesActivations())
        codes_[i].input =
            statistics_->of(layer).histogram.step(layer.activationFormat, settings_.ranges);
      if (settings_.correctsBias && !settings_.forTraining)
        correctBias(layer, codes_[i].weights);
    }
    return {};
  }

  /// The mean of what rounding the weights adds to each output is taken off its bias (Nagel et al.,
  /// 2019); at the borders of images the means of inputs are a little smaller than that.
  void correctBias(Layer &layer, const Codes &codes) {
    auto bias = biasOf(*model_, layer);
    if (!bias)
      return;
    Matrix rounded = codes.decoded();
    const InputStatistics &inputs = statistics_->of(layer);
    for (int64_t i = 0; i < rounded.rows; ++i) {
      double shift = 0;
      for (int64_t j = 0; j < rounded.columns; ++j)
        shift += (double(rounded.row(i)[size_t(j)]) - double(layer.weights.row(i)[size_t(j)])) *
                 inputs.mean(layer.inputChannel(i, j));
      (*bias)[size_t(i)] -= float(shift);
    }
    storeBias(*model_, layer, *bias);
  }

  // Mixed precision: one module in which each layer is quantised or not by an input of its own.

  Status keepWithinBudget() {
    if (!settings_.measuresSensitivity && !settings_.accuracy && !settings_.size)
      return {};
    auto switchable = ModelGraph::parse(model_->bytes());
    Realisation how;
    how.forTraining = settings_.forTraining;
    how.hasSwitches = true;
    Status status = realise(*switchable, layers_, codes_, how);
    if (!status.ok())
      return status;
    std::vector<std::string> switches;
    for (size_t i : quantised())
      switches.push_back(switchName(i));
    auto executable = engine_.open(switchable->bytes(), {}, switches);
    if (!executable.ok())
      return executable.status();
    if (status = measureSensitivity(**executable); !status.ok())
      return status;
    if (settings_.size)
      status = keepToSize();
    if (status.ok() && settings_.accuracy)
      status = keepToAccuracy(**executable);
    return status;
  }

  std::vector<size_t> quantised() const {
    std::vector<size_t> numbers;
    for (size_t i = 0; i < layers_.size(); ++i)
      if (layers_[i].kept.empty())
        numbers.push_back(i);
    return numbers;
  }

  Result<Quality> evaluate(Executable &executable, const std::set<size_t> *chosen) {
    Quality quality(outputs_);
    for (int64_t batch = 0; batch < samples_->batches(); ++batch) {
      Feed feed = samples_->batch(batch);
      for (size_t i = 0; chosen && i < layers_.size(); ++i) {
        HostTensor value(DataType::Bool, {});
        value.setInt(0, chosen->contains(i));
        feed.emplace(switchName(i), std::move(value));
      }
      auto found = executable.run(feed);
      if (!found.ok())
        return found.status();
      quality.add(right_[size_t(batch)], *found, samples_->labels(batch));
    }
    return quality;
  }

  Status measureSensitivity(Executable &executable) {
    std::vector<size_t> numbers = quantised();
    for (size_t done = 0; done < numbers.size(); ++done) {
      engine_.progress("measuring layers", double(done) / double(numbers.size()));
      std::set<size_t> alone = {numbers[done]};
      auto quality = evaluate(executable, &alone);
      if (!quality.ok())
        return quality.status();
      sensitivities_[numbers[done]] = {quality->relativeError(), quality->lost()};
    }
    return {};
  }

  double bitsOf(size_t i) const {
    const Layer &layer = layers_[i];
    const Format &format = layer.weightFormat;
    int bits = info(codeType(format, !layer.quantisesActivations())).bits;
    if (format.storage == Storage::NormalFloat4)
      bits = 4;
    return double(bits) * double(layer.weights.values.size()) +
           32.0 * double(codes_[i].weights.steps.size());
  }
  double savedBytes(size_t i) const {
    return 4.0 * double(layers_[i].weights.values.size()) - bitsOf(i) / 8;
  }

  /// Quantises what costs least for each byte that it saves, until the model is small enough.
  Status keepToSize() {
    std::vector<size_t> order = quantised();
    std::ranges::sort(order, {}, [&](size_t i) {
      return sensitivities_[i].relativeError / std::max(savedBytes(i), 1.0);
    });
    auto bytes = double(model_->constantBytes());
    size_t count = 0;
    while (count < order.size() && bytes > double(*settings_.size))
      bytes -= savedBytes(order[count++]);
    if (bytes > double(*settings_.size))
      return invalidArgument("the model has " + std::to_string(int64_t(bytes)) +
                             " bytes of weights where all layers are quantised, more than the "
                             "budget of " +
                             std::to_string(*settings_.size) + "; give weights fewer bits");
    for (size_t i = count; i < order.size(); ++i)
      layers_[order[i]].kept = "the size allows it";
    return {};
  }

  /// Keeps the fewest of the layers that cost the most, so that no more is lost than allowed.
  Status keepToAccuracy(Executable &executable) {
    std::vector<size_t> order = quantised();
    std::ranges::sort(order, std::greater<>(),
                      [&](size_t i) { return sensitivities_[i].relativeError; });
    auto lostWithout = [&](size_t kept) -> Result<double> {
      std::set<size_t> chosen(order.begin() + ptrdiff_t(kept), order.end());
      auto quality = evaluate(executable, &chosen);
      return quality.ok() ? Result<double>(quality->lost()) : quality.status();
    };
    size_t low = 0, high = order.size();
    for (bool isFirst = true; low < high; isFirst = false) {
      engine_.progress("searching", 1 - double(high - low) / double(order.size()));
      size_t middle = isFirst ? 0 : (low + high) / 2; // nothing may have to be kept
      auto lost = lostWithout(middle);
      if (!lost.ok())
        return lost.status();
      if (*lost <= *settings_.accuracy)
        high = middle;
      else
        low = middle + 1;
    }
    if (high > 0 && settings_.size)
      return invalidArgument("no choice of layers is within both budgets: to lose " +
                             Json(*settings_.accuracy).dump() + " percent at most, " +
                             std::to_string(high) +
                             " more layers stay in float than the size "
                             "allows");
    for (size_t i = 0; i < high; ++i)
      layers_[order[i]].kept = "the accuracy asks for it";
    return {};
  }

  Result<Quantised> finish() {
    Realisation how;
    how.forTraining = settings_.forTraining;
    if (Status status = realise(*model_, layers_, codes_, how); !status.ok())
      return status;
    Quantised result{model_->bytes(), ""};
    std::optional<Quality> quality;
    if (samples_) {
      engine_.progress("comparing", 0);
      auto executable = engine_.open(result.model, {}, {});
      if (!executable.ok())
        return executable.status();
      auto found = evaluate(**executable, nullptr);
      if (!found.ok())
        return found.status();
      quality = std::move(*found);
    }
    // Names need not be UTF-8.
    result.report = report(quality ? &*quality : nullptr)
                        .dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
    return result;
  }

  static Json decibels(double noise, double signal) {
    return noise > 0 && signal > 0 ? Json(10 * std::log10(signal / noise)) : Json();
  }

  Json reportOf(size_t i) const {
    const Layer &layer = layers_[i];
    Json entry = {{"node", layer.name}, {"operator", layer.op}};
    if (!layer.kept.empty()) {
      entry["kept"] = layer.kept;
    } else {
      entry["weights"] = layer.weightFormat.text();
      entry["activations"] = layer.activationFormat.text();
      Matrix rounded = codes_[i].weights.decoded();
      double signal = 0, noise = 0;
      for (size_t j = 0; j < rounded.values.size(); ++j) {
        double weight = layer.weights.values[j], error = weight - double(rounded.values[j]);
        signal += weight * weight;
        noise += error * error;
      }
      entry["weights_db"] = decibels(noise, signal);
    }
    if (auto found = sensitivities_.find(i); found != sensitivities_.end()) {
      entry["error_alone"] = found->second.relativeError;
      entry["lost_alone"] = found->second.lost;
    }
    return entry;
  }

  Json report(const Quality *quality) const {
    Json layers = Json::array(), outputs = Json::array();
    for (size_t i = 0; i < layers_.size(); ++i)
      layers.push_back(reportOf(i));
    Json all = {{"layers", std::move(layers)},
                {"bytes", {{"before", bytesBefore_}, {"after", model_->constantBytes()}}}};
    if (!quality)
      return all;
    for (const auto &[name, output] : quality->byOutput()) {
      Json entry = {{"output", name}, {"db", decibels(output.noise, output.signal)}};
      if (output.answers > 0)
        entry["same_answers"] = output.agreed / output.answers;
      if (output.labelled > 0) {
        entry["accuracy_before"] = output.rightBefore / output.labelled;
        entry["accuracy_after"] = output.rightAfter / output.labelled;
      }
      outputs.push_back(std::move(entry));
    }
    all["outputs"] = std::move(outputs);
    all["lost"] = quality->lost();
    return all;
  }

  const Settings &settings_;
  const Feed &arrays_;
  const Engine &engine_;
  std::optional<ModelGraph> model_;
  std::vector<Layer> layers_;
  std::vector<LayerCodes> codes_;
  std::optional<Statistics> statistics_;
  std::optional<Samples> samples_;
  std::vector<std::string> outputs_;
  std::vector<Feed> right_; // outputs of the model of floats, by batch
  std::map<size_t, Sensitivity> sensitivities_;
  int64_t bytesBefore_ = 0;
};

} // namespace

Result<Quantised> quantise(const std::string &model, const Settings &settings, const Feed &samples,
                           const Engine &engine) {
  return Quantiser(settings, samples, engine).run(model);
}

} // namespace tensmith::quantize
