// Compiling, running and comparing; see Check.h.
#include "tests/random/Check.h"

#include "compiler/graph/Evaluate.h"
#include "compiler/kernel/Schedule.h"
#include "compiler/pipeline/Compile.h"
#include "runtime/Session.h"
#include "tests/random/Board.h"
#include "tests/random/BrokenSizes.h"
#include "tests/random/GuardedMemory.h"

#include "llvm/Support/FileSystem.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

constexpr int kNoisySamples = 4;
/// Where values of few bits are on the way: the noises of two operators are often one step each,
/// and cancel in a quarter of the samples.
constexpr int kNarrowSamples = 12;
/// More, for what differs by fewer: among thousands of elements of a graph it happens that the
/// noises of two operators, one step each, cancel in all samples.
constexpr int kDoubtfulSamples = 24;
// The compiled code's roundings are one more sample; so many times the largest deviation of the
// others is not reached by chance.
constexpr double kSpread = 8;

/// What one run of the graph should give: the reference's results, and how far each float may be
/// off (infinite where the noise made or unmade an infinity or NaN).
struct Expectation {
  std::vector<HostTensor> inputs, results;
  std::vector<std::vector<double>> tolerances; // empty for what must be equal
  bool isRefused = false;                      // by the reference
  std::string why;
  Sizes sizes = {};
  uint64_t samples = 0; // of noise that the tolerances know
};

double smallestNormal(DataType type) {
  return type == DataType::F64   ? std::numeric_limits<double>::min()
         : type == DataType::F16 ? 0x1p-14
                                 : 0x1p-126;
}

double deviation(double exact, double noisy) {
  if (std::isnan(exact) || std::isinf(exact))
    return exact == noisy || (std::isnan(exact) && std::isnan(noisy))
               ? 0
               : std::numeric_limits<double>::infinity();
  return std::isfinite(noisy) ? std::abs(noisy - exact) : std::numeric_limits<double>::infinity();
}

/// Takes in one sample. What is exact may differ in nothing but a flushed subnormal; all else may
/// also round another way at the end, and in an operator before whose noise cancels its own.
void widen(std::vector<double> &tolerance, const HostTensor &result, const HostTensor &noisy,
           bool exact) {
  tolerance.resize(size_t(result.size()), smallestNormal(result.type()));
  for (int64_t k = 0; k < result.size(); ++k) {
    double exactly = result.getDouble(k), own = deviation(exactly, noisy.getDouble(k));
    double rounding =
        exact || !std::isfinite(exactly) ? 0 : 4 * epsilonOf(result.type()) * std::abs(exactly);
    // Where noise moves a result by so much, a little more of it moves it by much more (tan next to
    // its pole).
    constexpr double kLinear = 0.005;
    double spread = own > kLinear * std::abs(exactly) ? kSpread * kSpread : kSpread;
    tolerance[size_t(k)] = std::max(tolerance[size_t(k)], spread * own + rounding);
  }
}

/// Widens the tolerances by so many more samples.
Status takeSamples(func::FuncOp function, Expectation &expected, uint64_t count) {
  Operation *end = function.getBody().front().getTerminator();
  for (uint64_t last = expected.samples + count; expected.samples < last;) {
    auto noisy = evaluateGraph(function, expected.inputs, expected.sizes, ++expected.samples);
    if (!noisy.ok())
      return noisy.status();
    for (auto [i, value] : llvm::enumerate(end->getOperands())) {
      const HostTensor &result = expected.results[i], other = noisy->values[value];
      if (isFloat(result.type()) && result.shape() == other.shape())
        widen(expected.tolerances[i], result, other, noisy->exact.contains(value));
    }
  }
  return {};
}

Result<Expectation> expectation(func::FuncOp function, const Sizes &sizes) {
  auto inputs = drawInputs(function, sizes);
  if (!inputs.ok())
    return inputs.status();
  Expectation expected{std::move(*inputs), {}, {}, false, {}};
  auto exact = graph::evaluate(function, {expected.inputs.begin(), expected.inputs.end()});
  if (exact.status().code() == StatusCode::InvalidArgument) {
    expected.isRefused = true;
    expected.why = exact.status().message();
    return expected;
  }
  if (!exact.ok())
    return exact.status();
  for (graph::RuntimeValue &value : *exact)
    expected.results.push_back(value.tensor);
  expected.tolerances.resize(expected.results.size());
  expected.sizes = sizes;
  bool isNarrow = false;
  function.walk([&](Operation *op) {
    isNarrow |= llvm::any_of(op->getResultTypes(), [](Type type) {
      Type element = getElementTypeOrSelf(type);
      return element.isBF16() || element.isF16();
    });
  });
  if (Status status = takeSamples(function, expected, isNarrow ? kNarrowSamples : kNoisySamples);
      !status.ok())
    return status;
  return expected;
}

/// As many as tell f32's numbers apart.
std::string digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

/// The first element beyond its tolerance, in words; empty where there is none.
std::string firstDifference(const HostTensor &actual, const HostTensor &expected,
                            ArrayRef<double> tolerance, Report &report) {
  if (actual.type() != expected.type() || actual.shape() != expected.shape())
    return "is " + runtime::describe(actual.type(), actual.shape()) + ", not " +
           runtime::describe(expected.type(), expected.shape());
  if (isFloat(actual.type()) && tolerance.size() != size_t(actual.size()))
    return {}; // noise changed the shape: it says nothing of what may differ
  report.elements += actual.size();
  for (int64_t i = 0; i < actual.size(); ++i) {
    bool equal = isFloat(actual.type())
                     ? deviation(expected.getDouble(i), actual.getDouble(i)) <= tolerance[size_t(i)]
                     : actual.getInt(i) == expected.getInt(i);
    // So ill-conditioned that an infinity is one of the roundings (atanh next to 1).
    bool artefact = isFloat(actual.type()) && !std::isfinite(actual.getDouble(i)) &&
                    tolerance[size_t(i)] > 0.1 * std::abs(expected.getDouble(i)) &&
                    tolerance[size_t(i)] > 0.1;
    if (!equal && !artefact)
      return "element " + std::to_string(i) + " of " + toString(actual.shape()) + " is " +
             digits(actual.getDouble(i)) + ", not " + digits(expected.getDouble(i)) +
             (tolerance.empty() ? "" : " within " + digits(tolerance[size_t(i)]));
    report.loose += !tolerance.empty() &&
                    tolerance[size_t(i)] > 0.01 * std::abs(expected.getDouble(i)) &&
                    tolerance[size_t(i)] > 0.01;
  }
  return {};
}

void compare(std::span<const HostTensor> results, const Expectation &expected, Report &report,
             const std::string &where) {
  for (size_t i = 0; i < results.size() && report.verdict == Verdict::Agrees; ++i) {
    std::string difference =
        firstDifference(results[i], expected.results[i], expected.tolerances[i], report);
    if (!difference.empty()) {
      report.verdict = Verdict::Differs;
      report.message = where + ": result " + std::to_string(i) + ": " + difference;
    }
  }
}

/// What the reference refuses. An access outside of an operand is no refusal: it was about to be
/// made. Nor is a size that can't be computed: what it says is no requirement of an operator.
void expectRefusal(const Status &status, const Expectation &expected, Report &report,
                   const std::string &where) {
  bool isAccident = status.code() == StatusCode::Internal ||
                    llvm::StringRef(status.message()).contains("overflows or divides by zero");
  if (!status.ok() && !isAccident)
    return;
  report.verdict = Verdict::NotRefused;
  report.message = where + ": what is refused by the reference: " + expected.why +
                   (status.ok() ? "" : ": " + status.message());
}

Status run(Board &board, const Expectation &expected, Report &report, const std::string &where,
           int threads) {
  auto results = board.run(expected.inputs, expected.results, threads);
  if (results.status().code() == StatusCode::Unsupported)
    return results.status();
  if (expected.isRefused)
    expectRefusal(results.status(), expected, report, where);
  else if (!results.ok())
    return results.status().within(where);
  else
    compare(*results, expected, report, where);
  return {};
}

Status run(runtime::Session &session, const Expectation &expected, Report &report,
           const std::string &where) {
  std::vector<runtime::TensorRef> inputs, outputs(expected.results.size());
  for (const HostTensor &input : expected.inputs) {
    auto tensor = guarded(input);
    if (!tensor.ok())
      return tensor.status();
    inputs.push_back(std::move(*tensor));
  }
  if (expected.isRefused) {
    outputs.resize(size_t(session.module().plan().outputs()->size()));
    expectRefusal(session.run(inputs, outputs), expected, report, where);
    return {};
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const HostTensor &result = expected.results[i];
        result.type() != DataType::String && result.type() != DataType::Undefined) {
      auto tensor = guarded(result.type(), result.shape());
      if (!tensor.ok())
        return tensor.status();
      outputs[i] = std::move(*tensor);
    }
  if (Status status = session.run(inputs, outputs); !status.ok())
    return status.within(where);
  std::vector<HostTensor> results;
  for (const runtime::TensorRef &output : outputs)
    results.push_back(runtime::toHostTensor(output));
  compare(results, expected, report, where);
  return {};
}

/// Of a text, for as long as it lives.
class TemporaryFile {
public:
  explicit TemporaryFile(const std::string &text) {
    int descriptor = -1;
    if (llvm::sys::fs::createTemporaryFile("tensmith-points", "json", descriptor, path_))
      return;
    llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true) << text;
  }
  ~TemporaryFile() { llvm::sys::fs::remove(path_); }
  std::string path() const { return path_.str().str(); }

private:
  llvm::SmallString<128> path_;
};

Report failure(Verdict verdict, const Status &status) { return {verdict, status.message()}; }

/// Whether the sizes break the requirement of the operator that the reference refuses, and its
/// record refuses nothing where they are known.
bool isAccepted(func::FuncOp function, std::span<const HostTensor> inputs, const Sizes &sizes,
                llvm::StringRef broken) {
  Operation *refused = nullptr;
  (void)evaluateGraph(function, inputs, sizes, std::nullopt, &refused);
  return refused && breaksRequirement(refused, broken, sizes) &&
         isRefusedWhereKnown(function, sizes, refused) == false;
}

Report runHere(const std::string &module, ArrayRef<Expectation> expectations) {
  auto loaded = runtime::Module::loadBytes(std::as_bytes(std::span(module)), {});
  if (!loaded.ok())
    return failure(Verdict::NotRun, loaded.status());
  Report report;
  for (int threads : {1, 2}) {
    runtime::Session session(*loaded, threads);
    for (auto [number, expected] : llvm::enumerate(expectations)) {
      std::string where = "run " + std::to_string(number) + " on " + std::to_string(threads) +
                          (threads == 1 ? " thread" : " threads");
      if (Status status = run(session, expected, report, where); !status.ok())
        return failure(Verdict::NotRun, status);
      if (report.verdict != Verdict::Agrees)
        return report;
    }
  }
  return report;
}

/// On one thread or two in turn, as each run starts a program.
Report runThere(const std::string &module, ArrayRef<Expectation> expectations,
                const std::string &runner) {
  Board board(runner, module);
  Report report;
  for (auto [number, expected] : llvm::enumerate(expectations)) {
    std::string where = "run " + std::to_string(number);
    if (Status status = run(board, expected, report, where, 1 + int(number % 2)); !status.ok())
      return failure(status.code() == StatusCode::Internal      ? Verdict::Crashed
                     : status.code() == StatusCode::Unsupported ? Verdict::NotEmulated
                                                                : Verdict::NotRun,
                     status);
    if (report.verdict != Verdict::Agrees)
      return report;
  }
  return report;
}

/// A schedule file's text that asks for a point of each kernel's space. What rewrites decide is
/// left to them: other algorithms round otherwise.
std::string drawPoints(const kernel::Schedules &offered, Random &random) {
  std::string text;
  for (const auto &[key, kernel] : offered.spaces()) {
    if (kernel.by.empty())
      continue;
    auto below = [&](uint64_t most) {
      return std::min(uint64_t(random.real() * double(most)), most - 1);
    };
    // A kernel of open sizes chooses between several, as often as not.
    constexpr uint64_t kLargestSize = 40;
    uint64_t points = kernel.sizes.empty() ? 1 : 1 + below(kernel::kMostSizedPoints);
    for (uint64_t point = 0; point < points; ++point) {
      text += (text.empty() ? "{\"key\":\"" : ",\n{\"key\":\"") + key + "\",\"kernel\":\"" +
              kernel.kernel + "\",";
      for (size_t size = 0; points > 1 && size < kernel.sizes.size(); ++size)
        text += (size ? "," : "\"sizes\":[") + std::to_string(1 + below(kLargestSize));
      text += (points > 1 ? "]," : "") + kernel.space.random(below).text() + "}";
    }
  }
  return text.empty() ? "" : "{\"schedules\":[" + text + "]}";
}

/// The same of what shares a kernel and of the order of channels, which no sum depends on.
std::string drawDecisions(const kernel::Schedules &offered, Random &random) {
  std::string text;
  for (const auto &[key, op] : offered.spaces())
    for (const kernel::Space::Dimension &dimension : op.space.dimensions()) {
      bool keepsSums = dimension.choice == &kernel::choice::fused ||
                       dimension.choice == &kernel::choice::channelsLast;
      if (!keepsSums || random.real() < 0.5)
        continue;
      kernel::Point point;
      point.set(*dimension.choice, random.real() < 0.5 ? 0 : 1);
      text += (text.empty() ? "{\"key\":\"" : ",\n{\"key\":\"") + key + "\"," + point.text() + "}";
    }
  return text.empty() ? "" : "{\"schedules\":[" + text + "]}";
}

} // namespace

llvm::StringRef nameOf(Verdict verdict) {
  static const llvm::StringRef kNames[] = {"agrees",      "differs",       "not compiled",
                                           "not run",     "not evaluated", "not emulated",
                                           "not refused", "crashed",       "hung"};
  return kNames[size_t(verdict)];
}

Report check(ModuleOp module, const CheckOptions &options) {
  auto function = module.lookupSymbol<func::FuncOp>("main");
  if (!function)
    return {Verdict::NotEvaluated, "there is no function @main"};
  std::vector<Expectation> expectations;
  std::string accepted; // by the records, at sizes that break what an operator requires
  for (auto [sizes, broken] : llvm::zip_equal(runsOf(function), brokenInRuns(function))) {
    auto expected = expectation(function, sizes);
    if (!broken.empty() && expected.ok() && expected->isRefused &&
        isAccepted(function, expected->inputs, sizes, broken))
      accepted = "what breaks '" + broken +
                 "' is refused by no record where sizes are known, but " +
                 "by the reference: " + expected->why;
    if (expected.ok() && !(expectations.empty() && expected->isRefused))
      expectations.push_back(std::move(*expected));
    else if (expectations.empty())
      return failure(Verdict::NotEvaluated,
                     expected.ok() ? invalidArgument(expected->why) : expected.status());
  }
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
  pipeline::CompileOptions compile;
  compile.threads = 1;
  compile.cacheFolder = options.cacheFolder;
  auto devices = pipeline::parseDevices(options.device);
  if (!devices.ok())
    return failure(Verdict::NotCompiled, devices.status());
  compile.devices = *devices;
  if (devices->size() > 1) // drawn, so that values go from each to each
    compile.deviceOf = [seed = options.seed](uint32_t kernel, uint32_t count) {
      return 1 + uint32_t(Random(seed * 131 + kernel).integer(0, count - 1));
    };
  // What the compiler makes for its own kernels, the runtime can't evaluate.
  bool isForKernels = llvm::any_of(function.getBody().front().without_terminator(), isForKernel);
  compile.fuse = options.fuse || isForKernels;
  compile.precision = options.precision;
  compile.byReference = options.byReference && !isForKernels;
  compile.checkBounds = options.checkBounds;
  compile.dumpFolder = options.dumpFolder;
  compile.target = options.target;
  auto run = [&](const std::string &bytes) {
    auto once = [&] {
      return options.runner.empty() ? runHere(bytes, expectations)
                                    : runThere(bytes, expectations, options.runner);
    };
    Report report = once();
    if (report.verdict != Verdict::Differs)
      return report;
    for (Expectation &expected : expectations)
      if (!expected.isRefused)
        (void)takeSamples(function, expected, kDoubtfulSamples);
    return once();
  };
  Random random(options.seed);
  std::vector<std::string> points;
  if (options.points > 0)
    compile.offered = [&](const kernel::Schedules &offered) {
      for (int point = 0; point < options.points; ++point)
        points.push_back(drawPoints(offered, random));
      points.push_back(drawDecisions(offered, random));
    };
  auto bytes = pipeline::compileToBytes(*copy, compile);
  if (!bytes.ok())
    return failure(Verdict::NotCompiled, bytes.status());
  Report report = run(*bytes);
  if (report.verdict == Verdict::Agrees && !accepted.empty())
    return {Verdict::NotRefused, accepted};
  compile.offered = nullptr;
  for (const std::string &text : points) {
    if (report.verdict != Verdict::Agrees || text.empty())
      break;
    TemporaryFile file(text);
    compile.schedules = file.path();
    OwningOpRef<ModuleOp> again(cast<ModuleOp>(module->clone()));
    // Panels of other widths are packed by other kernels, and by a transposition where one panel
    // holds all; all others are as they were, if nothing was decided otherwise.
    std::string unfit;
    bool isDecided = &text == &points.back();
    compile.warn = [&](const std::string &warning) {
      constexpr llvm::StringLiteral kUnfit = "fits no kernel of the model: ";
      llvm::StringRef kernel = llvm::StringRef(warning).split(kUnfit).second;
      if (!isDecided && !kernel.empty() && !kernel.starts_with("pack ") &&
          !kernel.starts_with("transpose "))
        unfit = warning;
    };
    auto other = pipeline::compileToBytes(*again, compile);
    if (other.ok() && !unfit.empty())
      return {Verdict::Differs, unfit};
    Report own = other.ok() ? run(*other) : failure(Verdict::NotCompiled, other.status());
    own.elements += report.elements;
    own.loose += report.loose;
    report = std::move(own);
    if (report.verdict != Verdict::Agrees)
      report.message += " by " + text;
  }
  return report;
}

} // namespace tensmith::random_graphs
