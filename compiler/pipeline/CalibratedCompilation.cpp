// A policy's bound held on the model, attempt by attempt; see CalibratedCompilation.h.
#include "compiler/pipeline/CalibratedCompilation.h"

#include "compiler/pipeline/Compilation.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <cmath>

using namespace mlir;

namespace tensmith::pipeline {
namespace {

/// What outputs may err by, against the largest element. Of `fast`, and of sums in f32 at all: that
/// of a hundred layers at their bound. Of `bf16`: of four, since errors of roundings that know
/// nothing of one another grow with the root of their number, and few layers come near theirs.
constexpr double kFloatModelBound = 1e-4, kBfloatModelBound = 4 * rewrite::kBfloatBound;

/// And of a model that rounds to codes on its way: a number beside the middle between two of them
/// may become either, however little it errs. Ten steps of the code with the fewest: those of a
/// hundred layers, of each of which the largest element is the next code. 0 without codes.
double codeModelBound(ModuleOp module) {
  double step = 0;
  module.walk([&](graph::QuantizeOp op) {
    bool isNarrow = !op.getTo().isIntOrFloat() || op.getTo().getIntOrFloatBitWidth() <= 8;
    if (!op.getX().getDefiningOp<graph::ConstantOp>())
      step = std::max(step, 1.0 / (isNarrow ? 127 : 32767));
  });
  return 10 * step;
}

class Calibrated {
public:
  Calibrated(ModuleOp module, const CompileOptions &options)
      : module_(module), options_(options), calibration_(*options.calibration, options.run),
        bound_(
            std::max(options.precision == Precision::Bfloat ? kBfloatModelBound : kFloatModelBound,
                     codeModelBound(module))) {}

  Status run(WriteParts write) {
    auto best = attempt(std::numeric_limits<double>::infinity());
    if (!best.ok())
      return best.status();
    double first = best->worst();
    if (first > bound_ && !best->layerErrors.empty()) {
      auto plain = attempt(0);
      if (!plain.ok())
        return plain.status();
      bool mends = plain->worst() <= bound_ || plain->worst() < first / 2;
      // Where some can't fall back, as codes that floats would do no better, others still may.
      for (size_t count = 1; mends && best->worst() > bound_; count *= 2) {
        if (count > best->layerErrors.size()) {
          best = std::move(plain);
          break;
        }
        double layerBound = boundFor(best->layerErrors, count);
        if (layerBound == best->layerBound)
          continue;
        auto next = attempt(layerBound);
        if (!next.ok())
          return next.status();
        best = std::move(next);
      }
    }
    warn(*best);
    auto parts = best->compilation->tell(textOf(*best));
    return parts.ok() ? write(*parts) : parts.status();
  }

private:
  struct Attempt {
    double layerBound;
    OwningOpRef<ModuleOp> module;
    std::unique_ptr<Compilation> compilation;
    std::vector<Calibration::Found> found;
    std::vector<double> layerErrors; // as they are told, the largest first

    double worst() const {
      double worst = 0;
      for (const Calibration::Found &output : found)
        worst = std::max(worst, output.error);
      return worst;
    }
  };

  Result<Attempt> attempt(double layerBound) {
    Attempt made{layerBound, module_.clone(), nullptr, {}, {}};
    made.compilation = std::make_unique<Compilation>(*made.module, options_);
    made.compilation->calibrate(calibration_, layerBound);
    auto parts = made.compilation->run();
    if (!parts.ok())
      return parts.status();
    auto bytes = modules::moduleBytes(*parts);
    auto found = bytes.ok() ? calibration_.check(*bytes)
                            : Result<std::vector<Calibration::Found>>(bytes.status());
    if (!found.ok())
      return found.status().within(options_.model + ": calibration");
    made.found = std::move(*found);
    made.layerErrors = toldErrors(made.compilation->schedules());
    if (!attempts_.empty())
      tellOf(made);
    attempts_.push_back({layerBound, made.worst()});
    return made;
  }

  static std::vector<double> toldErrors(StringRef schedules) {
    std::vector<double> errors;
    auto parsed = llvm::json::parse(schedules);
    if (!parsed) {
      llvm::consumeError(parsed.takeError());
      return errors;
    }
    for (const llvm::json::Value &entry : *parsed->getAsArray())
      if (auto error = entry.getAsObject()->getNumber("error"))
        errors.push_back(*error);
    llvm::sort(errors, std::greater<>());
    return errors;
  }

  /// One by which so many of the layers fall back.
  static double boundFor(ArrayRef<double> errors, size_t count) {
    return std::nextafter(errors[count - 1], 0.0);
  }

  void tellOf(const Attempt &attempt) const {
    if (options_.warn)
      options_.warn(llvm::formatv("{0}: outputs err by {1:e1}, and may by {2:e1}; with layers that "
                                  "may err by {3:e1} it is {4:e1}",
                                  options_.model, attempts_.back().second, bound_,
                                  attempt.layerBound, attempt.worst())
                        .str());
  }

  void warn(const Attempt &last) const {
    for (const Calibration::Found &output : last.found)
      if (!output.hasScale && options_.warn)
        options_.warn(options_.model + ": output '" + output.output +
                      "' has no finite element but zeros on these inputs, so that its error says "
                      "nothing; give others");
      else if (output.error > bound_ && options_.warn)
        options_.warn(
            llvm::formatv("{0}: output '{1}' errs by {2:e1} of its largest element, beyond the "
                          "policy's {3:e1}; what may fall back doesn't mend it, and the model's "
                          "own sums in f32 round by about as much",
                          options_.model, output.output, output.error, bound_)
                .str());
  }

  std::string textOf(const Attempt &last) const {
    auto number = [](double value) {
      return std::isfinite(value) ? llvm::json::Value(value) : llvm::json::Value(nullptr);
    };
    llvm::json::Array outputs, attempts;
    for (const Calibration::Found &output : last.found)
      outputs.push_back(
          llvm::json::Object{{"output", output.output}, {"error", number(output.error)}});
    for (auto [layerBound, error] : attempts_)
      attempts.push_back(
          llvm::json::Object{{"layer_bound", number(layerBound)}, {"error", number(error)}});
    llvm::json::Object all{{"inputs", calibration_.isDrawn() ? "random" : "given"},
                           {"against", calibration_.inDoubles() ? "f64" : "exact"},
                           {"bound", bound_},
                           {"layer_bound", number(last.layerBound)},
                           {"outputs", std::move(outputs)},
                           {"attempts", std::move(attempts)}};
    std::string text;
    llvm::raw_string_ostream(text) << llvm::json::Value(std::move(all));
    return text;
  }

  ModuleOp module_;
  const CompileOptions &options_;
  Calibration calibration_;
  double bound_;
  std::vector<std::pair<double, double>> attempts_; // bounds of layers, and the largest errors
};

} // namespace

Status compileCalibrated(ModuleOp module, const CompileOptions &options, WriteParts write) {
  return Calibrated(module, options).run(write);
}

} // namespace tensmith::pipeline
